#!/bin/bash
# export and import: what is in the files, what onnxruntime and PyTorch make of them, and what is refused.
. "$(dirname "$0")/common.inc"
export PYTHONDONTWRITEBYTECODE=1
BUILD=${BUILD:-$here/build/float}
case $BUILD in /*) ;; *) BUILD=$here/$BUILD ;; esac
make_data
make_cfg mini.cfg lambda
sed -i 's/^lambda$/[itra]\nlambda=.5/; s/^channels=3/&\nmean=.5,.4,.3\nstd=.2,.25,.3/' mini.cfg
"$DARKNET" classifier train mini.data mini.cfg -threads 1 >train.log 2>&1 || { cat train.log; fail "training"; finish; }
weights=backup/mini_final.weights

# ---- ONNX: the file ----
look() { python3 "$here/tests/export/structure.py" "$1" >"$1.txt" 2>&1; } # look FILE.onnx: FILE.onnx.txt
has() { # has FILE.onnx LINE...: what look says of it has these lines
    local file=$1 line
    shift
    for line in "$@"; do grep -qxF -- "$line" "$file.txt" || { echo "no line '$line' in"; cat "$file.txt"; return 1; }; done
}
check "export" "$DARKNET" export mini.cfg $weights -out mini.onnx -names names.list
check "an ONNX file" look mini.onnx
check "its version, its input, its output" has mini.onnx "ir 8 opset 17 producer darknet-itra" \
    "input images Nx3x8x8" "output probabilities Nx3"
check "what images must be like, for people" has mini.onnx \
    "doc images: N x 3 x 8 x 8, that is channels (RGB), rows from the top, columns; pixels in [0, 1], of which each channel is normalised, (x - mean) / std, with mean 0.5,0.4,0.3 and std 0.2,0.25,0.3."
check "and for programs" has mini.onnx "metadata classes '3'" "metadata batch_norm 'folded'" "metadata layout 'NCHW'" \
    "metadata channels 'RGB'" "metadata range '0,1'" "metadata names 'ant\nbee\ncow'"
check "folded: convolutions with biases, dropout and [itra] gone" has mini.onnx "nodes 2 Conv" "nodes 1 Add" \
    "nodes 1 GlobalAveragePool" "nodes 2 Gemm" "nodes 2 LeakyRelu" "nodes 1 Softmax" "constant 0.convolutional.bias 8" \
    "constant 0.convolutional.weights 8x3x3x3" "constant 5.connected.weights 12x8"
check "folded: no normalisation" lacks mini.onnx.txt BatchNormalization
check "no second output" lacks mini.onnx.txt "output features"
check "export -fold 0 -features" "$DARKNET" export mini.cfg $weights -out kept.onnx -fold 0 -features
check "an ONNX file" look kept.onnx
check "normalisation apart, the features of [itra]" has kept.onnx "nodes 2 BatchNormalization" "metadata batch_norm 'kept'" \
    "output features Nx12" "constant 0.convolutional.variance 8"
check "no names without -names" lacks kept.onnx.txt "metadata names"
check "export -set" "$DARKNET" export mini.cfg $weights -out relu.onnx -set softmax.temperature=2
sed '/softmax/d' mini.cfg >scores.cfg
check "a net that does not end in [softmax]" "$DARKNET" export scores.cfg $weights -out scores.onnx
check "an ONNX file" look scores.onnx
check "its output is called otherwise" has scores.onnx "output scores Nx3"
"$DARKNET" export mini.cfg $weights -out again.onnx -names names.list 2>/dev/null
check "the same bytes each time" cmp mini.onnx again.onnx
check "it replaces what it wrote" "$DARKNET" export mini.cfg $weights -out again.onnx

# ---- ONNX: every form of every layer is written ----
mkdir forms
if [ -x "$BUILD/tests/export/answer" ]; then
    "$BUILD/tests/export/answer" examples forms
    : >forms.bad
    for cfg in forms/*.cfg; do
        "$BUILD/tests/export/answer" "$cfg" ref 1 . >/dev/null 2>forms.err &&
            "$DARKNET" export "$cfg" net.weights -out form.onnx 2>forms.err && look form.onnx ||
            { cat forms.err form.onnx.txt; echo "$cfg"; } >>forms.bad
    done
    check "every example of every layer" sh -c 'cat forms.bad; ls forms | grep -q . && ! test -s forms.bad'
else
    skip "every example of every layer: $BUILD/tests/export/answer is not built"
fi

# ---- onnxruntime ----
python=$here/build/export/bin/python
if [ ! -x "$python" ]; then
    skip "onnxruntime: build/export is not there (scripts/deps.sh export)"
elif [ -x "$BUILD/tests/export/answer" ]; then
    check "onnxruntime: every example of every layer" "$python" "$here/tests/export/runtime.py" --device ref "$DARKNET" \
        "$BUILD/tests/export/answer" forms/*.cfg
    check "onnxruntime: small cfgs" "$python" "$here/tests/export/runtime.py" "$DARKNET" "$BUILD/tests/export/answer" \
        mini.cfg "$here"/cfg/{demo,qmnist-lenet,fmnist-conv5-quarter}.cfg
    check "torchvision: nets of both kinds of names" "$python" "$here/tests/export/torchvision.py" "$DARKNET" \
        "$BUILD/tests/export/answer" "$here/cfg" resnet18 mobilenet_v2
fi

# ---- .safetensors and back ----
check "export .safetensors" "$DARKNET" export mini.cfg $weights -out mini.safetensors
check "import" "$DARKNET" import mini.safetensors mini.cfg -out back.weights
check "to the bit" cmp $weights back.weights
check "names, shapes, types, the count of images" python3 - <<'END'
import json, struct
raw = open("mini.safetensors", "rb").read()
n = struct.unpack("<Q", raw[:8])[0]
h = json.loads(raw[8:8 + n])
assert n % 8 == 0 and h.pop("__metadata__") == {"format": "darknet-itra", "seen": "120"}, h
shapes = {k: v["shape"] for k, v in h.items()}
vectors = {f"{i}.convolutional.{p}": [8] for i in (0, 2) for p in ("bias", "scale", "mean", "variance")}
assert shapes == {**vectors, "0.convolutional.weights": [8, 3, 3, 3], "2.convolutional.weights": [8, 8, 3, 3],
                  "5.connected.bias": [12], "5.connected.weights": [12, 8],
                  "7.connected.bias": [3], "7.connected.weights": [3, 12]}, shapes
assert all(v["dtype"] == "F32" for v in h.values())
weights, at = open(f"backup/mini_final.weights", "rb").read()[20:], 0
for name, v in h.items():  # the same order
    begin, end = v["data_offsets"]
    assert raw[8 + n + begin:8 + n + end] == weights[at:at + end - begin], name
    at += end - begin
assert at == len(weights)
END
mkdir forged
python3 "$here/tests/export/forge.py" mini.safetensors forged >forged.list || fail "forging"
for type in F16 BF16; do
    check "import of $type" "$DARKNET" import forged/$type.safetensors mini.cfg -out $type.weights
    check "export of it" "$DARKNET" export mini.cfg $type.weights -out $type.safetensors
    check "$type: rounded numbers, as Python has them" python3 - $type <<'END'
import struct, sys
def numbers(path):
    raw = open(path, "rb").read()[20:]
    return struct.unpack(f"<{len(raw) // 4}f", raw)
before, after = numbers("backup/mini_final.weights"), numbers(f"{sys.argv[1]}.weights")
for x, y in zip(before, after):
    want = struct.unpack("<e", struct.pack("<e", x))[0] if sys.argv[1] == "F16" else \
        struct.unpack("<f", b"\0\0" + struct.pack("<f", x)[2:])[0]
    assert y == want, (x, y, want)
END
done

# ---- refusals ----
refused() { # refused WHAT WORDS COMMAND...: one line on stderr, with these words, and status 1
    local what=$1 words=$2
    shift 2
    "$@" >refused.out 2>refused.err
    check "$what: status 1, one line" test $? = 1 -a "$(wc -l <refused.err)" = 1
    check "$what: $words" grep -qF -- "$words" refused.err
}
refused "no -out" "export: -out FILE.onnx or -out FILE.safetensors" "$DARKNET" export mini.cfg $weights
refused "another ending" "-out mini.pb: expected a name that ends in .onnx or .safetensors" "$DARKNET" export mini.cfg $weights -out mini.pb
refused "too few names" "has 2 names, and the net 3 outputs" \
    sh -c 'head -n 2 names.list >two.list; "$0" export mini.cfg '$weights' -out x.onnx -names two.list' "$DARKNET"
printf 'ant\n# a comment\ncaf\351\ncow\n' >latin.list
refused "names that are not UTF-8" "latin.list:3: is not UTF-8" "$DARKNET" export mini.cfg $weights -out x.onnx -names latin.list
printf '[net]\nwidth=2\nheight=2\nchannels=3\n[avgpool]\n[softmax]\n' >bare.cfg
printf '\0\0\0\0\2\0\0\0%012d' 0 | tr 0 '\0' >bare.weights
refused "no weights" "bare.cfg: has no weights to export" "$DARKNET" export bare.cfg bare.weights -out x.safetensors
check "which ONNX does without" "$DARKNET" export bare.cfg bare.weights -out bare.onnx
cp names.list photo.onnx
refused "another file in its place" "photo.onnx: exists and is not an ONNX file" \
    "$DARKNET" export mini.cfg $weights -out photo.onnx
check "which is still there" cmp names.list photo.onnx
while IFS=$'\t' read -r name words; do
    refused "a damaged file, $name" "$words" "$DARKNET" import forged/$name.safetensors mini.cfg -out x.weights
done <forged.list
mkdir pth
python3 "$here/tests/export/pth.py" mini.safetensors pth >pth.list || fail "forging PyTorch's files"
while IFS=$'\t' read -r name words; do
    if [ -n "$words" ]; then
        refused "a damaged file of PyTorch, $name" "$words" "$DARKNET" import pth/$name.pth mini.cfg -out x.weights
    else
        check "a file of PyTorch, $name" "$DARKNET" import pth/$name.pth mini.cfg -out pth.weights
        check "a file of PyTorch, $name: its numbers" cmp -i 20 $weights pth.weights # but for the count of images
        rm -f pth.weights
    fi
done <pth.list
refused "doubles" "of type F64, expected F32, F16 or BF16" "$DARKNET" import forged/F64.safetensors mini.cfg -out x.weights
python3 - <<'END'
import json, math, struct
header, at = {}, 0
for name, shape in ("fc.weight", [3, 12]), ("fc.bias", [3]), ("fc2.weight", [1]), ("fc2.bias", [1]):
    end = at + 4 * math.prod(shape)
    header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, end]}
    at = end
text = json.dumps(header).encode()
open("late.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + bytes(at))
END
printf '[net]\nwidth=2\nheight=2\nchannels=3\n[connected]\noutput=3\nactivation=linear\n[softmax]\n' >head.cfg
refused "a module too many, before any advice" "fc2.bias, 1, is left over" "$DARKNET" import late.safetensors head.cfg -out x.weights
check "no weights of any of them" test ! -e x.weights
refused "import: no -out" "import: -out FILE.weights" "$DARKNET" import mini.safetensors mini.cfg
refused "import: no .safetensors" "mini.onnx: is neither a .safetensors file nor PyTorch's" "$DARKNET" import mini.onnx mini.cfg -out x.weights
refused "export: nothing is computed" "unknown flag -precision" "$DARKNET" export mini.cfg $weights -out x.onnx -precision bf16
refused "import: another ending" "expected a name that ends in .weights" \
    "$DARKNET" import mini.safetensors mini.cfg -out x.safetensors
refused "import into itself" "would be read and written" "$DARKNET" import x.weights mini.cfg -out x.weights
refused "flags of ONNX" "are for FILE.onnx" "$DARKNET" export mini.cfg $weights -out x.safetensors -fold 0
cp names.list photo.safetensors
refused "another file in the place of .safetensors" "photo.safetensors: exists and is not a .safetensors file" \
    "$DARKNET" export mini.cfg $weights -out photo.safetensors
refused "no folder" "no/x.onnx: cannot be written" "$DARKNET" export mini.cfg $weights -out no/x.onnx
check "nothing half-written is left" sh -c '! ls | grep tmp'
finish
