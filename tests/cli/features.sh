#!/bin/bash
# classifier features: the arrays, by hand and by an independent way from them to the probabilities; what it refuses.
. "$(dirname "$0")/common.inc"
python=$(command -v python3) || {
    skip "the reader of the arrays: python3 is not installed"
    finish
}
make_data
make_cfg plain.cfg
make_cfg itra.cfg '[itra]' lambda=0.2
for run in plain itra; do
    "$DARKNET" classifier train mini.data $run.cfg -set net.max_batches=40 >/dev/null 2>train.err || fail "training $run"
done
features() { # features RUN OUT [FLAGS]
    local run=$1 out=$2
    shift 2
    "$DARKNET" classifier features mini.data "$run.cfg" "backup/${run}_final.weights" -out "$out.npy" "$@"
}
quietly() { features "$@" >quiet.out 2>&1 || fail "features $*: $(tail -n 1 quiet.out)"; }

# A reader of .npy that knows no NumPy; what it prints and checks is chosen by its first argument.
cat >npy.py <<'END'
import ast, math, struct, sys

def load(path):
    data = open(path, 'rb').read()
    assert data[:8] == b'\x93NUMPY\x01\x00', 'magic'
    size, = struct.unpack('<H', data[8:10])
    head = data[10:10 + size]
    assert (10 + size) % 64 == 0 and head[-1:] == b'\n', 'header'
    d = ast.literal_eval(head.decode('ascii'))
    assert set(d) == {'descr', 'fortran_order', 'shape'} and d['fortran_order'] is False, 'dictionary'
    count, kind = math.prod(d['shape']), {'f4': 'f', 'i4': 'i'}[d['descr'][1:]]
    body = data[10 + size:]
    assert len(body) == 4 * count, 'length'
    return d['shape'], struct.unpack(d['descr'][0] + str(count) + kind, body)

def rows(path):
    (n, d), x = load(path)
    return [x[i * d:(i + 1) * d] for i in range(n)]

what, path, *rest = sys.argv[1:]
if what == 'shape':
    print(*load(path)[0])
elif what == 'values':
    print(*load(path)[1])
elif what == 'near':  # two arrays: relative L2 distance below a bound
    a, b = load(path), load(rest[0])
    assert a[0] == b[0], 'shapes'
    off = sum((p - q) ** 2 for p, q in zip(a[1], b[1])) ** .5
    assert off <= float(rest[1]) * sum(q * q for q in b[1]) ** .5, off
elif what == 'average':  # every channel's mean over its area is the second array
    for big, small in zip(rows(path), rows(rest[0])):
        area = len(big) // len(small)
        for k, mean in enumerate(small):
            assert abs(sum(big[k * area:(k + 1) * area]) / area - mean) < 1e-5 * (1 + abs(mean)), k
elif what == 'softmax':  # the last layer by hand, against what valid -v prints: "path, label, p0, p1, "
    h, labels = rows(path), load(rest[0])[1]
    d, k = len(h[0]), 3
    tail = open(rest[1], 'rb').read()[-4 * k * (d + 1):]
    b, w = struct.unpack('<%df' % k, tail[:4 * k]), struct.unpack('<%df' % (k * d), tail[4 * k:])
    said = [line.split(', ') for line in open(rest[2]) if line.endswith(', \n')]
    assert len(said) == len(h) == len(labels), 'images'
    for x, label, line in zip(h, labels, said):
        z = [math.exp(b[i] + sum(w[i * d + j] * x[j] for j in range(d))) for i in range(k)]
        assert label == int(line[1]), 'label'
        for i in (0, 1):
            assert abs(z[i] / sum(z) - float(line[2 + i])) < 2e-6, (i, z[i] / sum(z), line)
END
npy() { "$python" npy.py "$@"; }

# ---- what is in the arrays ----
for run in plain itra; do
    features $run $run >$run.out 2>$run.err || fail "features $run: $(cat $run.err)"
    check "$run: one row an image" test "$(npy shape $run.npy)" = "6 12"
    check "$run: one label an image" test "$(npy shape $run.labels.npy)" = 6
    check "$run: labels in the order of the data" test "$(npy values $run.labels.npy)" = "0 1 2 0 1 2"
    "$DARKNET" classifier valid mini.data $run.cfg backup/${run}_final.weights -v >$run.valid 2>/dev/null
    check "$run: the classifier by hand gives valid's probabilities" \
        npy softmax $run.npy $run.labels.npy backup/${run}_final.weights $run.valid
    check "$run: one line" test "$(wc -l <$run.out)" = 1
    check "$run: says which layer" grep -qE "^6 images x 12 features \(output of layer 5, connected\): $run.npy, labels $run.labels.npy; top 1: " $run.out
done
check "nothing temporary is left" test -z "$(ls | grep tmp-)"
quietly plain threads1 -threads 1 -workers 1
quietly plain threads2 -threads 2 -workers 3
check "the same bytes from 1 and 2 threads" cmp threads1.npy threads2.npy
check "and the same labels" cmp threads1.labels.npy threads2.labels.npy
quietly plain rows -set net.batch=4 -set net.subdivisions=1
check "another mini-batch, with a short one at the end" npy near rows.npy plain.npy 1e-6
cp threads2.npy old.npy
quietly plain old -layer 3
check "an existing file is replaced" test "$(npy shape old.npy)" = "6 512"

# ---- -layer ----
quietly plain maps -layer 3
quietly plain means -layer 4
check "spatial features are flattened channel by channel" npy average maps.npy means.npy
quietly itra below -layer 5
quietly itra above -layer 6
check "[itra] sits on layer 5" cmp below.npy itra.npy
check "[itra] changes nothing" cmp above.npy itra.npy
for device in ref ${devices/ref/}; do
    for layer in 0 1 2 3 4 5 6 7; do
        features plain $device$layer -device "$device" -layer $layer >/dev/null 2>&1 || fail "layer $layer on $device"
        [ $device = ref ] || check "layer $layer: $device gives what ref gives" npy near $device$layer.npy ref$layer.npy 1e-5
    done
done

# ---- -limit ----
quietly plain few -limit 4
check "-limit: so many" test "$(npy shape few.npy)" = "4 12"
check "-limit: labels of those" test "$(npy shape few.labels.npy)" = 4
npy values plain.npy | xargs -n 12 >all.rows
npy values few.npy | xargs -n 12 >few.rows
check "-limit: rows of the whole, in their order" sh -c "grep -Fxf few.rows all.rows | cmp - few.rows"
quietly plain again -limit 4
check "-limit: the same choice again" cmp few.npy again.npy
chosen() { quietly plain seeded -limit 2 -seed "$1"; npy values seeded.npy; }
check "-limit: another choice for another seed" test "$(for s in 1 2 3 4 5; do chosen $s; done | sort -u | wc -l)" -gt 1
quietly plain most -limit 99
check "-limit: more than there are" cmp most.npy plain.npy

# ---- an unreadable image has no row ----
{ head -n 2 valid.list; echo "$work/img/gone_ant.ppm"; tail -n 4 valid.list; } >gone.list
sed "s|^valid.*|valid = $work/gone.list|" mini.data >gone.data
"$DARKNET" classifier features gone.data plain.cfg backup/plain_final.weights -out gone.npy >gone.out 2>gone.err
check "an unreadable image leaves the others as they are" cmp gone.npy plain.npy
check "and their labels" cmp gone.labels.npy plain.labels.npy
check "and is said to" grep -q ', 1 unreadable without a row;' gone.out

# ---- what is refused ----
refused() { # refused WHAT WORDS COMMAND...
    local what=$1 words=$2
    shift 2
    rm -f new.npy new.labels.npy
    "$@" >bad.out 2>bad.err
    if [ $? -eq 1 ] && [ "$(wc -l <bad.err)" -eq 1 ] && grep -qE "^darknet: .*($words)" bad.err; then
        pass
    else
        fail "$what: $(head -n 3 bad.err)"
    fi
    check "$what: leaves no file" sh -c "! ls | grep -E 'tmp-|^new'"
}
refused "no -out" "name a file to write, as in -out features.npy" \
    "$DARKNET" classifier features mini.data plain.cfg backup/plain_final.weights
refused "another ending" "ends in .npy" "$DARKNET" classifier features mini.data plain.cfg backup/plain_final.weights -out new
refused "an ending alone" "ends in .npy" "$DARKNET" classifier features mini.data plain.cfg backup/plain_final.weights -out .npy
refused "a layer there is not" "-layer 8: expected 0..7 \(0 convolutional, .*, 7 softmax; darknet ops" features plain new -layer 8
refused "a layer that is no number" "-layer -1: expected a whole number" features plain new -layer -1
refused "no images" "-limit 0: expected" features plain new -limit 0
refused "a folder that is not there" "no/new.npy: cannot be written" features plain no/new
mkdir folder.npy
quietly plain kept -layer 7
cp kept.labels.npy labels.before
(trap '' XFSZ && ulimit -f 1 && features plain kept -layer 0 -limit 3 >quiet.out 2>&1)
check "a full disk: status 1" test $? = 1
check "a full disk: the labels stay with the features there are" cmp kept.labels.npy labels.before
refused "a folder" "not an ordinary file" features plain folder
sed '/^valid/d' mini.data >invalid.data
refused "no valid=" "no valid=" "$DARKNET" classifier features invalid.data plain.cfg backup/plain_final.weights -out new.npy
printf '[net]\nwidth=8\nheight=8\nchannels=3\nbatch=2\n[connected]\noutput=3\nactivation=linear\n[softmax]\n' >direct.cfg
refused "a net without features" "choose another with -layer" features direct new
finish
