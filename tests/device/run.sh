#!/bin/sh
# Everything about the cuda backend that only a GPU can tell, in at most 5 minutes: parity with ref, memcheck, speed against
# PyTorch and against what the card can do, what matters most first. A table last; run.log, run.csv and run.md in $OUT
# (build/device).
#
#   tests/device/fill.sh          beforehand, where Debian's packages are
#   tests/device/run.sh           on the machine with the GPU; common.inc lists the environment
#
# Every step has its own time limit, and a step that fails does not keep the others from running. Exit status 1: some have.
# In a dry walk the suites run in full, and what is measured runs idle: its kernels are counted, and do nothing.
cd "$(dirname "$0")/../.." || exit 2
name=run total=300
operations=$(cd tests && printf '%s\n' backends/*.c | sed 's/\.c$//')
programs="darknet $(printf 'plain/%s ' $operations) plain/layers/parity plain/layers/replay tests/bench/step"
[ "${DRY:-}" ] || programs="$programs tests/device/ceilings"
. tests/device/common.inc

# What is trained: in a dry walk, what does not run idle is small.
cfg=cfg/cifar10-resnet18.cfg net=resnet18 rounds=7 row=20 small=cfg/fmnist-conv5.cfg
[ ! "$dry" ] || net=lenet small=tests/device/tiny.cfg
match="itra.lambda=.8 itra.warmup=0"

# ---- parity, memory ----

# A device that cannot be opened is a reason to skip elsewhere, not here. A few at a time: they mostly wait for their start.
suites() { # suites PROGRAM...: all of them
    count_in "$work/counts.suite"
    [ ! "$dry" ] || export SHIM_RECORDS=1
    printf '%s\n' "$@" | xargs -P 4 -I % sh -c '
        "$0/plain/%" >"$1/suite.$$" 2>&1 || echo "%: exit status $?" >>"$1/suite.$$"
        cat "$1/suite.$$"' "$built" "$work" >"$work/suites"
    cat "$work/suites"
    expect "$(calc %.1f "$(price "$work/counts.suite") / 4")"
    ! grep -qE '^skipped: |: exit status ' "$work/suites"
}

find_sanitizer() { # prints its path
    for place in "$(command -v compute-sanitizer)" "$CUDA/bin/compute-sanitizer" "$CUDA/compute-sanitizer/compute-sanitizer" \
        /usr/local/cuda/bin/compute-sanitizer /usr/bin/compute-sanitizer; do
        [ -x "$place" ] && echo "$place" && return
    done
    return 1
}

# Eager, where an error is met by the call that made it, and recorded in bf16, as people train. Engines are not timed: calls that
# CUDA refuses are part of that, and under memcheck it takes long. The host kernels of a dry walk come with their own sanitizer.
memcheck() {
    sanitizer=
    if [ ! "$dry" ]; then
        sanitizer=$(find_sanitizer) || skip "no compute-sanitizer"
        sanitizer="$sanitizer --tool memcheck --report-api-errors no --error-exitcode 9"
    fi
    printf 'classes=10\ntrain=%s/train-images-idx3-ubyte.gz\nnames=data/fmnist.names\ntrain_limit=60\nbackup=%s/memcheck\n' \
        "$mnist" "$work" >"$work/memcheck.data"
    count_in "$work/counts.memcheck"
    for how in "-eager" "-precision bf16"; do
        # shellcheck disable=SC2086
        $sanitizer "$built/darknet" classifier train "$work/memcheck.data" $small -device "$DEVICE" -deterministic $how \
            -set net.batch=16 -set net.max_batches=6 -set itra.warmup=0 >"$work/memcheck.said" 2>&1
        rc=$?
        cat "$work/memcheck.said"
        ! grep -q 'Device not supported' "$work/memcheck.said" || skip "compute-sanitizer does not know this card"
        [ $rc -eq 0 ] || return $rc
    done
    expect "$(price "$work/counts.memcheck")"
    expect 40 # twice: the tool starts, and rewrites the kernels of cuDNN that are used
}

# ---- ceilings ----

ceilings() {
    if [ "$dry" ]; then
        printf 'matrix 1 TFLOP/s\ncopy 1 TB/s\n' # nothing to measure
    else
        "$built/tests/device/ceilings"
    fi >"$work/ceilings" || return
    expect 5
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
    [ ! "$dry" ] || export SHIM_IDLE=1
    count_in "$work/counts.$slot"
    "start_$slot" "$built/tests/bench/step" -device "$DEVICE" -precision "$precision" "$cfg" 2 net.batch="$batch" "$@"
}

# In a dry walk we stand for PyTorch where there is none, and, since it starts slowly, everywhere but once.
theirs() { # theirs BATCH [--compile MODE]
    if [ "$dry" ] && { [ "$torch" = none ] || [ "$*" != 512 ]; }; then
        ours b bf16 "$1" itra.lambda=0
        return
    fi
    [ "$torch" != none ] || skip "no Python with PyTorch: give one as PYTHON="
    batch=$1 device=cuda
    shift
    [ ! "$dry" ] || device=cpu batch=4
    start_b "$torch" tests/bench/torch_step.py $net "$batch" 2 --precision bf16 --device $device "$@"
}

# Rounds of both, and: their images/s, and the ratio of the times, theirs over ours or the other way round.
compare() { # compare NAME RATIO EXPRESSION
    take_turns $rounds >"$pipes/rounds"
    report "$1" "$(calc %.0f "1 / $(median '$2' "$pipes/rounds")")" images/s
    report "$2" "$(calc %.3f "$(median "$3" "$pipes/rounds")")" x
    stop_b
}

# Of a contender that has ended; images/s by data/results/gpu-model.md.
expect_slot() { # expect_slot SLOT PRECISION IMAGES OF A STEP
    case $2 in bf16) rate=60000 ;; tf32) rate=30000 ;; *) rate=12000 ;; esac
    expect "$(price "$work/counts.$1" "$(calc %.5f "$3 / $rate")")"
    rm -f "$work/counts.$1"
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

# Ours alone, then, in turns with it, what else is named.
speed() { # speed PRECISION BATCH [with_match|with_split]...
    trap cleanup EXIT
    mkdir -p "$pipes"
    case=$1-$2
    ours a "$1" "$2" itra.lambda=0
    i=0
    while [ $i -lt $rounds ]; do
        turn_a
        echo "$time_a"
        i=$((i + 1))
    done >"$pipes/alone"
    report "$case.images" "$(calc %.0f "1 / $(median '$1' "$pipes/alone")")" images/s
    report "$case.planned" "$(calc %.0f "$planned")" MiB
    shares "$case" "$1"
    shift 2
    for how; do "$how"; done
    stop_a
    expect_slot a "${case%-*}" "$batch"
}

with_match() {
    # shellcheck disable=SC2086
    ours b bf16 "$batch" $match
    compare "$case.itra" "$case.itra_cost" '$2 / $1'
    expect_slot b bf16 $((2 * batch))
}

# The same rows in two halves: what it costs more is the matching loss itself.
with_split() {
    # shellcheck disable=SC2086
    ours b bf16 "$batch" $match itra.pair=split
    compare "$case.split" "$case.split_cost" '$2 / $1'
    expect_slot b bf16 "$batch"
}

rival() { # rival NAME BATCH SECONDS [--compile MODE]: PyTorch in bf16, which takes about so many seconds
    trap cleanup EXIT
    mkdir -p "$pipes"
    case=bf16-$2.$1 batch=$2
    expect "$3"
    shift 3
    ours a bf16 "$batch" itra.lambda=0
    theirs "$batch" "$@"
    compare "$case" "${case}_ratio" '$2 / $1'
    stop_a
    rm -f "$work/counts.b" # of the stand-in
    expect_slot a bf16 "$batch"
}

table() {
    echo
    echo "| $(basename "$cfg" .cfg), training | images/s | of the matrix rate, % | of the copy rate, % | PyTorch eager | ours is faster by | torch.compile | by | max-autotune | by | with [itra] | cost | MiB |"
    echo "|---|---|---|---|---|---|---|---|---|---|---|---|---|"
    for case in bf16-128 bf16-512 bf16-1024 tf32-512 fp32-512; do
        printf '| %s, batch %s' "${case%-*}" "${case#*-}"
        for field in images matrix_share copy_share eager eager_ratio compile compile_ratio autotune autotune_ratio itra itra_cost planned; do
            printf ' | %s' "$(value "$case.$field")"
        done
        echo ' |'
    done
    echo
    echo "$(sed -n 's/^card: //p' "$work/found"). Ceilings: $(value ceiling.matrix) TFLOP/s in bf16, $(value ceiling.copy) TB/s copied."
    echo "The matching loss itself (pair=split against none, bf16, 512): $(value bf16-512.split_cost) x."
    [ ! "$dry" ] || echo "A dry walk: idle kernels on the host, figures without meaning."
}

main "$@"
step "build" 120 build
step "parity of every operation and layer with ref, and of recorded steps" 90 suites layers/replay layers/parity $operations
step "memcheck" 75 memcheck
step "ceilings" 20 ceilings
step "speed, bf16, batch 512" 60 speed bf16 512 with_match with_split
step "PyTorch eager, bf16, batch 512" 45 rival eager 512 8
step "speed, bf16, batch 128" 45 speed bf16 128 with_match
step "PyTorch eager, bf16, batch 128" 45 rival eager 128 8
attempt "torch.compile, bf16, batch 512" 70 rival compile 512 35 --compile default
step "speed, bf16, batch 1024" 45 speed bf16 1024
step "speed, tf32, batch 512" 30 speed tf32 512
step "speed, fp32, batch 512" 45 speed fp32 512
attempt "torch.compile, max-autotune, bf16, batch 512" 120 rival autotune 512 50 --compile max-autotune
finish
