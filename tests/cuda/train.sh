#!/bin/bash
# Whole trainings on the kernels of the GPU, run on the host, against ref: losses that are read late, images that stay on
# the device, [itra] and [center] there, stops, resuming.
DARKNET=${GPU_HOST:-}
[ -n "$DARKNET" ] || { echo "0 passed, 0 failed, 1 skipped"; echo "skipped: no build with GPU=host"; exit 0; }
. "$(dirname "$0")/../cli/common.inc"
export SHIM_RECORDS=1
train=/usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz
[ -e $train ] || { skip "Fashion-MNIST is not installed"; finish; }

cat >net.cfg <<'END'
[net]
batch=12
subdivisions=2
height=28
width=28
channels=1
max_batches=25
policy=steps
steps=8,16
scales=.5,.5
learning_rate=.05
decay=.0005
pad_crop=2
flip=1
[convolutional]
filters=8
size=3
stride=2
pad=1
batch_normalize=1
activation=relu
[convolutional]
filters=8
size=3
stride=1
pad=1
groups=2
batch_normalize=1
activation=linear
[shortcut]
from=-2
activation=leaky
[dropout]
probability=.2
[connected]
output=24
activation=relu
[itra]
lambda=.4
every=2
warmup=auto
[center]
lambda=.05
warmup=auto
[connected]
output=10
activation=linear
[softmax]
END

run() { # run NAME FLAG...: into folder NAME
    local name=$1
    shift
    printf 'classes=10\ntrain=%s\ntrain_limit=600\nbackup=%s\n' $train "$name" >"$name.data"
    "$DARKNET" classifier train "$name.data" net.cfg "$@" >"$name.out" 2>"$name.err"
}
near() { # near REF NAME TOLERANCE (the warm-up makes small differences of the CE larger): every number of every row is that of REF, relatively; the same places are empty
    paste -d' ' <(cut -d, -f2-8 "$1/net_metrics.csv") <(cut -d, -f2-8 "$2/net_metrics.csv") | awk -v most="$3" '
        NR > 1 {
            n = split($1, a, ","); if (split($2, b, ",") != n) exit 1
            for (i = 1; i <= n; i++) {
                d = a[i] - b[i]; d = d < 0 ? -d : d; s = a[i] < 0 ? -a[i] : a[i]
                if ((a[i] == "") != (b[i] == "") || d > most * s) { print NR, i, a[i], b[i]; exit 1 }
            }
        }
        END { if (NR != 26) exit 1 }'
}
same() { cmp "$1/net_final.weights" "$2/net_final.weights"; } # same A B

run ref -device ref
check "ref trains" test -s ref/net_final.weights
run late -device cuda
check "so does the device" test -s late/net_final.weights
check "every iteration is told, with the numbers of ref" near ref late 2e-5
run eager -device cuda -eager
check "read at once: the same weights" same late eager
run again -device cuda -workers 3
check "and again" same late again
for late in 0 2 3; do
    SHIM_LATE=$late run soon$late -device cuda # the other runs: 1
    check "however late the device works: the same weights ($late)" same late soon$late
done
run part -device cuda -set net.max_batches=12
run part -device cuda -resume part/net_last.state
check "stopped and resumed: the same weights" same late part
for device in cuda ref; do run adam_$device -device $device -set net.adam=1 -set net.learning_rate=.001 -set net.ema_alpha=.9 -set net.mixup=4 -set net.label_smooth_eps=.1; done
check "Adam, averages of the weights, mixed and smoothed labels" near adam_ref adam_cuda 1e-4
# Images that the loader makes: augmented; decoded from files.
run made_ref -device ref -set net.exposure=1.5
run made -device cuda -set net.exposure=1.5
check "images that do not stay on the device: the numbers of ref" near made_ref made 5e-5
run made_eager -device cuda -eager -set net.exposure=1.5
check "read at once: the same weights" same made made_eager
mkdir images told_ref told_cuda
zcat $train | tail -c +17 | head -c $((784 * 90)) | split -b 784 -d -a 2 - images/
zcat "${train/images-idx3/labels-idx1}" | tail -c +9 | head -c 90 | od -A n -v -t u1 -w1 | awk '{ printf "%02d class%d\n", NR - 1, $1 }' |
    while read -r image class; do printf 'P5 28 28 255 ' | cat - "images/$image" >"images/${image}_$class.pgm"; done
printf 'class%d\n' 0 1 2 3 4 5 6 7 8 9 >labels
printf '%s\n' images/*.pgm >images.list
for way in ref cuda; do
    printf 'classes=10\nlabels=labels\ntrain=images.list\nvalid=images.list\nbackup=files_%s\n' $way >files.data
    "$DARKNET" classifier train files.data net.cfg -device $way -set net.pad_crop=0 -set net.max_crop=36 -set net.angle=5 \
        -set net.valid_every=2 >files_$way.out 2>&1
    grep -v ^valid files_$way/net_metrics.csv >told_$way/net_metrics.csv
done
check "image files: the numbers of ref" near told_ref told_cuda 5e-5
check "they are validated" test "$(grep -c ^valid files_ref/net_metrics.csv)" = 2
check "as right" diff <(grep ^valid files_ref/net_metrics.csv | cut -d, -f1-4,10,11) <(grep ^valid files_cuda/net_metrics.csv | cut -d, -f1-4,10,11)

run pairs -device cuda -set itra.every=1 -set itra.pair=memory
run pairs_ref -device ref -set itra.every=1 -set itra.pair=memory
check "pair=memory" near pairs_ref pairs 2e-5
run coarse -device cuda -precision bf16
check "bf16: losses near those of ref" awk -F, 'NR == FNR { a[FNR] = $5; next }
    FNR > 1 { s += $5; t += a[FNR] } END { exit !(FNR == 26 && s / t > .97 && s / t < 1.03) }' \
    ref/net_metrics.csv coarse/net_metrics.csv

echo "my notes" >notes
DARKNET_ENGINES=notes "$DARKNET" ops net.cfg -device cuda >notes.out 2>&1
check "a file that is none of chosen engines is told, and goes on" grep -q 'notes is damaged, or no file of chosen engines' notes.out
check "and left alone" grep -qx "my notes" notes

# ---- what is not finite ----
run wild -device cuda -set net.learning_rate=1e6
check "a loss that is not finite ends the run" test $? = 1
check "with the iteration and what to do" grep -q 'iteration 3, .*: the loss is not finite.*lower learning_rate' wild.err
check "metrics end before it" test "$(tail -n 1 wild/net_metrics.csv | cut -d, -f2)" = 2
finite() { [ -s "$1" ] && ! od -A n -v -t f4 -j 20 "$1" | grep -qi -e nan -e inf; }
check "the weights before it are saved" finite wild/net_last.weights
run wild_eager -device cuda -eager -set net.learning_rate=1e6
check "-eager names the layer" grep -q '\[connected\] (layer 7): the output is not finite' wild_eager.err
finish
