#!/bin/sh
# Training to the end on a GPU, in at most 5 minutes: the five-convolution net of the paper on all of Fashion-MNIST, 50 epochs
# in bf16, without and with [itra]; and a start of ResNet-18 on image files of ImageNet's size. A table last; train.log,
# train.csv, train.md and the metrics of both runs in $OUT (build/device). common.inc lists the environment.
#
#   tests/device/fill.sh          beforehand, where Debian's packages are
#   tests/device/train.sh         on the machine with the GPU
cd "$(dirname "$0")/../.." || exit 2
name=train total=300
programs="darknet tests/bench/step"
. tests/device/common.inc

# In a dry walk: two epochs of a few images, some of the others for validation.
if [ "$dry" ]; then
    cfg=tests/device/tiny.cfg data='train_limit=40\nholdout=20\n'
    changes=
    large=$cfg classes=10 side=32 batches=4 count=20
else
    cfg=cfg/fmnist-conv5.cfg data="valid=${mnist:-}/t10k-images-idx3-ubyte.gz\n"
    changes="-set net.valid_every=2" # 25 validations: each also writes the weights and the state
    large=cfg/imagenet-resnet18.cfg classes=1000 side=256 batches=60 count=20
fi

# Ends in good order when its time is over; what it has come to is reported all the same.
train() { # train CASE SECONDS SECTION.KEY=VALUE...
    case=$1 seconds=$2
    shift 2
    [ -e "$mnist/train-images-idx3-ubyte.gz" ] || die "Fashion-MNIST is missing: fill $CARRY (tests/device/fill.sh)"
    # shellcheck disable=SC2059
    printf "classes=10\ntrain=$mnist/train-images-idx3-ubyte.gz\nnames=data/fmnist.names\nbackup=$work/$case\n$data" >"$work/$case.data"
    rm -f "$OUT/train-$case.csv"
    for change in "$@"; do changes="$changes -set $change"; done
    # shellcheck disable=SC2086
    timeout -k 10 "$seconds" "$built/darknet" classifier train "$work/$case.data" $cfg -device "$DEVICE" -precision bf16 $changes \
        -metrics "$OUT/train-$case.csv" >"$work/$case.said"
    rc=$?
    grep -v -e '^Loaded' -e ' images' "$work/$case.said" | head -n 20
    grep '^validation' "$work/$case.said"
    figures "$case"
    [ $rc -ne 0 ] || [ ! "$dry" ] || expect_training ${1:+-set "$1"}
    return $rc
}

# The real training, as far as it can be counted: its start on idle kernels, then 20,000 iterations and 25 validations at a pace
# that data/results/gpu-model.md would call slow.
expect_training() { # expect_training [-set SECTION.KEY=VALUE]
    images=$((20000 * 300 + 25 * 10000 / 3))
    [ $# -eq 0 ] || images=$((images / 2))
    count_in "$work/counts.$case"
    SHIM_IDLE=1 "$built/darknet" classifier train "$work/$case.data" cfg/fmnist-conv5.cfg -device "$DEVICE" -precision bf16 "$@" \
        -set net.max_batches=2 -set net.valid_every=0 >"$work/idle.said" 2>&1 || { tail -n 3 "$work/idle.said"; return 1; }
    expect "$(price "$work/counts.$case")"
    expect $((images / 60000))
}

# Image files, of noise and not compressed, so that little is decoded: what is seen is the way from the loader to the device.
# Beside it, the pace with images that lie there.
folder() {
    mkdir -p "$work/noise"
    for i in $(seq $classes); do
        file=$work/noise/class$((1000 + i)).ppm
        { printf 'P6 %d %d 255\n' $side $side && head -c $((side * side * 3)) /dev/urandom; } >"$file"
        echo "$file" >>"$work/noise.list"
        echo "class$((1000 + i))" >>"$work/noise.labels"
    done
    printf 'classes=%d\ntrain=%s.list\nlabels=%s.labels\nbackup=%s\n' $classes "$work/noise" "$work/noise" "$work/folder" >"$work/folder.data"
    begin_folder -set net.max_batches=$batches >"$work/folder.said" || { tail -n 3 "$work/folder.said"; return 1; }
    pace folder
    printf '%d\n%d\n' $count $count | "$built/tests/bench/step" -device "$DEVICE" -precision bf16 $large 2 itra.lambda=0 >"$work/resident" || return
    report folder.resident "$(tail -n 1 "$work/resident" | awk '{ printf "%.0f", 1 / $1 }')" images/s
    [ ! "$dry" ] || expect_folder
}
begin_folder() {
    "$built/darknet" classifier train "$work/folder.data" $large -device "$DEVICE" -precision bf16 -set itra.lambda=0 "$@" 2>&1
}
# The start of the real one, counted; its iterations at the pace of a loader with 16 threads that does not decode, and the others.
expect_folder() {
    large=cfg/imagenet-resnet18.cfg
    sed -i 's/^classes=.*/classes=1000/' "$work/folder.data"
    seq -f 'class%04g' 1001 2000 >"$work/noise.labels"
    count_in "$work/counts.folder"
    export SHIM_IDLE=1
    begin_folder -set net.max_batches=2 >"$work/idle.said" || { tail -n 3 "$work/idle.said"; return 1; }
    expect "$(price "$work/counts.folder")"
    expect $((60 * 256 / 3000 + 45 * 256 / 8000 + 10)) # 10: files, and the other program, which knows the engines
}

# Of the last validation.
figures() { # figures CASE
    awk -F, -v case="$1" '
        $1 == "valid" { printf "%s.epoch,%.0f,\n%s.top1,%.2f,%%\n%s.ce,%.4f,\n", case, $3, case, 100 * $10, case, $12 }' \
        "$OUT/train-$1.csv" | tail -n 3 >>"$OUT/$name.csv"
    pace "$1"
}
# Over all iterations, and the share of the time that training waited for images.
pace() { # pace CASE
    awk -v case="$1" '
        /^Loaded: / { waited += $2 }
        / seconds, [0-9]+ images/ && !/^validation/ {
            for (i = 1; i < NF; i++) if ($(i + 1) == "seconds,") worked += $i
            for (i = 2; i <= NF; i++) if ($i ~ /^images/) images = $(i - 1)
        }
        END {
            if (waited + worked <= 0) exit
            printf "%s.images,%.0f,images/s\n%s.waiting,%.2f,%%\n", case, images / (waited + worked), case, 100 * waited / (waited + worked)
        }' "$work/$1.said" >>"$OUT/$name.csv"
}

table() {
    echo
    echo "| Fashion-MNIST, bf16, test set | epochs | top-1, % | the paper's | CE | the paper's | images/s | waiting for images, % |"
    echo "|---|---|---|---|---|---|---|---|"
    for case in "baseline 92.43 .294" "itra 92.57 .224"; do
        set -- $case
        echo "| $1 | $(value "$1.epoch") | $(value "$1.top1") | $2 | $(value "$1.ce") | $3 | $(value "$1.images") | $(value "$1.waiting") |"
    done
    echo
    echo "$(basename $large .cfg), image files of $side x $side: $(value folder.images) images/s, waiting for images $(value folder.waiting) % of the time; images on the device: $(value folder.resident) images/s"
    sed -n 's/^card: //p' "$work/found"
    [ ! "$dry" ] || echo "A dry walk: a small net on the host, a few images, figures without meaning."
}

main "$@"
step "build" 120 build
step "baseline" 115 train baseline 100 itra.lambda=0
step "image files" 45 folder
step "[itra]" 185 train itra "$(least 170 $(($(left) - 10)))"
finish
