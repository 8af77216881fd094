#!/bin/sh
# Everything about the cuda backend that only a GPU can tell, in at most 6 minutes: parity with ref, memcheck, speed against
# PyTorch and against what the card can do. A table last; run.log, run.csv and run.md in $OUT (build/device).
#
#   tests/device/fill.sh          beforehand, where Debian's packages are
#   tests/device/run.sh           on the machine with the GPU; common.inc lists the environment
#
# Every step has its own time limit, and a step that fails does not keep the others from running. Exit status 1: some have.
cd "$(dirname "$0")/../.." || exit 2
name=run total=350
operations=$(cd tests && printf '%s\n' backends/*.c | sed 's/\.c$//')
[ ! "${DRY:-}" ] || operations=backends/optim
programs="darknet $(printf 'plain/%s ' $operations) plain/layers/parity tests/bench/step"
[ "${DRY:-}" ] || programs="$programs tests/device/ceilings"
. tests/device/common.inc

# What is trained: in a dry walk as little as possible.
if [ "$dry" ]; then
    net=lenet cfg=tests/device/tiny.cfg rounds=1 row=2 shrink=128 small=tests/device/tiny.cfg
else
    net=resnet18 cfg=cfg/cifar10-resnet18.cfg rounds=7 row=20 shrink=1 small=cfg/fmnist-conv5.cfg
fi
match="itra.lambda=.8 itra.warmup=0"

# ---- parity, memory ----

# A device that cannot be opened is a reason to skip elsewhere, not here.
suite() { # suite PROGRAM...: all of them
    for program; do
        "$built/plain/$program" 2>&1 || echo "$program: exit status $?"
    done | tee "$work/suite"
    ! grep -qE '^skipped: |: exit status ' "$work/suite"
}

layers() { # in a dry walk one test of the suite
    [ ! "$dry" ] || export ONLY=bf16
    suite layers/parity
}

# Eager, where an error is met by the call that made it, and recorded, as people train. The host kernels of a dry walk
# come with their own sanitizer.
memcheck() {
    sanitizer=
    if [ ! "$dry" ]; then
        sanitizer=$(command -v compute-sanitizer || ls "$CUDA/bin/compute-sanitizer" "$CUDA"/compute-sanitizer/compute-sanitizer 2>/dev/null) ||
            skip "no compute-sanitizer"
        sanitizer="$(echo "$sanitizer" | head -n 1) --tool memcheck --error-exitcode 9"
    fi
    printf 'classes=10\ntrain=%s/train-images-idx3-ubyte.gz\nnames=data/fmnist.names\ntrain_limit=60\nbackup=%s/memcheck\n' \
        "$mnist" "$work" >"$work/memcheck.data"
    for how in "-eager" ""; do
        # shellcheck disable=SC2086
        $sanitizer "$built/darknet" classifier train "$work/memcheck.data" $small -device "$DEVICE" $how \
            -set net.batch=16 -set net.max_batches=6 -set itra.warmup=0 || return
    done
}

# ---- ceilings ----

ceilings() {
    if [ "$dry" ]; then
        printf 'matrix 1 TFLOP/s\ncopy 1 TB/s\n' # nothing to measure
    else
        "$built/tests/device/ceilings"
    fi >"$work/ceilings" || return
    report ceiling.matrix "$(sed -n 's/^matrix \([^ ]*\).*/\1/p' "$work/ceilings")" TFLOP/s
    report ceiling.copy "$(sed -n 's/^copy \([^ ]*\).*/\1/p' "$work/ceilings")" TB/s
}

# ---- speed: contenders take turns, in rows of $row iterations ----

pipes=$work/pipes
iterations=$row
. scripts/contenders.inc

ours() { # ours SLOT PRECISION BATCH SECTION.KEY=VALUE...
    slot=$1 precision=$2 batch=$3
    shift 3
    "start_$slot" "$built/tests/bench/step" -device "$DEVICE" -precision "$precision" "$cfg" 2 net.batch="$batch" "$@"
}

# In a dry walk we stand for PyTorch where there is none, and, since it starts slowly, everywhere but once.
theirs() { # theirs PRECISION BATCH [--compile]
    if [ "$dry" ] && { [ "$torch" = none ] || [ "$2${3:-}" != "$(size_of 512)" ]; }; then
        ours b "$1" "$2" itra.lambda=0
        return
    fi
    [ "$torch" != none ] || skip "no Python with PyTorch: give one as PYTHON="
    start_b "$torch" tests/bench/torch_step.py $net "$2" 2 --precision "$1" --device "$([ "$dry" ] && echo cpu || echo cuda)" ${3:-}
}

# Rounds of both, and: their images/s, and the ratio of the times, theirs over ours or the other way round.
compare() { # compare NAME RATIO EXPRESSION
    take_turns $rounds >"$pipes/rounds"
    report "$1" "$(calc %.0f "1 / $(median '$2' "$pipes/rounds")")" images/s
    report "$2" "$(calc %.3f "$(median "$3" "$pipes/rounds")")" x
    stop_b
}

size_of() { # size_of BATCH: tiny in a dry walk
    echo $((($1 + shrink - 1) / shrink))
}

# Bytes an image costs in a step at least: each convolution reads two and writes one of its tensors in each of three
# directions; batch norm and its activation read and write 3 tensors forward, 5 backward; an addition one more each way.
traffic() { # traffic PRECISION
    "$built/darknet" ops "$cfg" -device ref -set net.batch=1 -set itra.lambda=0 | awk -v bytes="$([ "$1" = bf16 ] && echo 2 || echo 4)" '
        $4 == "x" && $6 == "x" {
            out = $3 * $5 * $7
            if ($2 == "convolutional") n += 3 * (before + out) + 8 * out
            if ($2 == "shortcut") n += 2 * out
            before = out
        }
        END { print n * bytes }'
}

shares() { # shares CASE PRECISION: of the two ceilings
    rate=$(value "$1.images")
    matrix=$(value ceiling.matrix) copy=$(value ceiling.copy)
    [ "$matrix" != - ] && [ "$copy" != - ] || return 0
    [ "$2" != bf16 ] || report "$1.matrix_share" "$(calc %.1f "100 * 3 * $flops * $rate / ($matrix * 1e12)")" %
    report "$1.copy_share" "$(calc %.1f "100 * $(traffic "$2") * $rate / ($copy * 1e12)")" %
}

# Ours alone, then ours with the match; slot a stays the same.
speed() { # speed PRECISION BATCH
    trap cleanup EXIT
    mkdir -p "$pipes"
    case=$1-$2
    ours a "$1" "$(size_of "$2")" itra.lambda=0
    i=0
    while [ $i -lt $rounds ]; do
        turn_a
        echo "$time_a"
        i=$((i + 1))
    done >"$pipes/alone"
    report "$case.images" "$(calc %.0f "1 / $(median '$1' "$pipes/alone")")" images/s
    report "$case.planned" "$(calc %.0f "$planned")" MiB
    shares "$case" "$1"
    # shellcheck disable=SC2086
    ours b "$1" "$(size_of "$2")" $match
    compare "$case.itra" "$case.itra_cost" '$2 / $1'
    [ "$case" = bf16-512 ] || { stop_a; return; }
    # The same rows in two halves: what it costs more is the matching loss itself.
    # shellcheck disable=SC2086
    ours b "$1" "$(size_of "$2")" $match itra.pair=split
    compare "$case.split" "$case.split_cost" '$2 / $1'
    stop_a
}

rival() { # rival NAME BATCH [--compile]: PyTorch in bf16
    trap cleanup EXIT
    mkdir -p "$pipes"
    ours a bf16 "$(size_of "$2")" itra.lambda=0
    theirs bf16 "$(size_of "$2")" ${3:-}
    compare "bf16-$2.$1" "bf16-$2.$1_ratio" '$2 / $1'
    stop_a
}

table() {
    echo
    echo "| $(basename "$cfg" .cfg), training | images/s | of the matrix rate, % | of the copy rate, % | PyTorch eager | ours is faster by | torch.compile | by | with [itra] | cost | MiB |"
    echo "|---|---|---|---|---|---|---|---|---|---|---|"
    for case in bf16-128 bf16-512 bf16-1024 tf32-512 fp32-512; do
        printf '| %s, batch %s' "${case%-*}" "${case#*-}"
        for field in images matrix_share copy_share eager eager_ratio compile compile_ratio itra itra_cost planned; do
            printf ' | %s' "$(value "$case.$field")"
        done
        echo ' |'
    done
    echo
    echo "$(sed -n 's/^card: //p' "$work/found"). Ceilings: $(value ceiling.matrix) TFLOP/s in bf16, $(value ceiling.copy) TB/s copied."
    echo "The matching loss itself (pair=split against none, bf16, 512): $(value bf16-512.split_cost) x."
    [ ! "$dry" ] || echo "A dry walk: tiny nets on the host, figures without meaning."
}

main "$@"
step "build" 150 build
step "parity of every operation with ref" 75 suite $operations
step "parity of every layer with ref" 75 layers
step "ceilings" 30 ceilings
step "speed, bf16, batch 512" 60 speed bf16 512
step "PyTorch eager, bf16, batch 512" 60 rival eager 512
step "speed, bf16, batch 128" 45 speed bf16 128
step "PyTorch eager, bf16, batch 128" 45 rival eager 128
step "speed, bf16, batch 1024" 60 speed bf16 1024
step "PyTorch eager, bf16, batch 1024" 45 rival eager 1024
step "speed, tf32, batch 512" 45 speed tf32 512
step "speed, fp32, batch 512" 60 speed fp32 512
step "memcheck" 75 memcheck
step "torch.compile, bf16, batch 512" 120 rival compile 512 --compile
finish
