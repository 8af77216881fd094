#!/bin/bash
# run.sh and train.sh, walked without a GPU: every step, the tables and the figures, with what fill.sh collects; that a
# step that fails is told and leaves the others alone; and that data/results/gpu-model.md is of this program.
set -u
cd "$(dirname "$0")/../.." || exit 2
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
export DRY=1 OUT=$work/out CARRY=$work/carry
. tests/check.inc
rows() { # rows FILE NUMBER PATTERN: so many lines of a table fit
    [ "$(grep -cE "$3" "$1")" -eq "$2" ] || { cat "$1"; return 1; }
}

check "what must travel is collected" tests/device/fill.sh "$CARRY"
for file in include/stb/stb_image.h include/zlib.h include/zconf.h lib/libz.a fmnist/t10k-labels-idx1-ubyte.gz; do
    check "$file travels" test -s "$CARRY/$file"
done
check "it is small" test "$(du -sm "$CARRY" | cut -f1)" -le 40

check "run.sh walks" tests/device/run.sh
check "run: the device is told" grep -q '^card: ' "$OUT/run.log"
number='[0-9.]+'
within() { # within SECONDS LOG: what all steps take on a device, by what they asked for
    awk -v most="$1" '/^all steps: about / { n++; late = $4 > most } END { exit n != 1 || late }' "$2"
}
check "run: at most 5 minutes on a device" within 300 "$OUT/run.log"
check "run: a row for each case" rows "$OUT/run.md" 5 "^\| (bf16|tf32|fp32), batch [0-9]+ \| $number \| ($number|-) \| $number \|"
check "run: bf16 stands beside PyTorch" rows "$OUT/run.md" 2 "^\| bf16, batch [0-9]+ (\| $number ){5}\|"
check "run: and once beside torch.compile" rows "$OUT/run.md" 1 "^\| bf16, batch 512 (\| $number ){12}\|$"
check "run: figures for programs" grep -qE "^bf16-512.itra_cost,$number,x$" "$OUT/run.csv"

check "train.sh walks" tests/device/train.sh
check "train: at most 5 minutes on a device" within 300 "$OUT/train.log"
check "train: both are in the table" rows "$OUT/train.md" 2 "^\| (baseline|itra) \| 2 \| $number \| $number \| $number \|"
check "train: image files have a pace, beside images on the device" rows "$OUT/train.csv" 3 "^folder\.(images|waiting|resident),$number,"
check "train: their metrics are kept" test -s "$OUT/train-itra.csv" -a -s "$OUT/train-baseline.csv"
check "few files to carry home" test "$(find "$OUT" -type f | wc -l)" -le 8

check "the model of a step launches what the program launches" tests/device/model.py --check

fused() { # fused CFG OVERRIDE...: its maps add biases in 10 steps, and no activation is launched by itself, nor its gradient
    rm -f "$work/launches"
    echo 10 | SHIM_IDLE=1 SHIM_COUNTS=$work/launches DARKNET_ENGINES='' build/float-shim-ref-address,undefined/tests/bench/step \
        -device cuda -precision bf16 "$1" 1 net.batch=128 itra.lambda=0 "${@:2}" >"$work/step" || { cat "$work/step"; return 1; }
    grep -q ' OF_FOUR(finish,' "$work/launches" && ! grep ' OF_FOUR(act' "$work/launches"
}
for cfg in fmnist-lenet fmnist-conv5 "cifar10-vgg13 convolutional.batch_normalize=0"; do
    # shellcheck disable=SC2086
    set -- $cfg
    check "$cfg: bias and activation are one launch" fused "cfg/$1.cfg" "${@:2}"
done

if DEVICE=abacus tests/device/train.sh >"$work/bad" 2>&1; then
    check "steps that fail make the status 1" false
else
    check "steps that fail are counted" grep -q '^3 failed, ' "$work/bad"
fi
check "and say why" grep -q "device 'abacus' is not one" "$work/bad"
finish
