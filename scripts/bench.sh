#!/bin/sh
# make bench: what training costs here, alone and next to PyTorch and Debian's darknet. One table, and at its end
# lines "bench NAME VALUE UNIT" for programs (also in build/bench/bench.txt).
#
#   scripts/bench.sh [speed|growth|inference|itra|loader|decode|torch|rivals|darknet|ceiling]...      default: all that this machine can run
#
# torch is Debian's PyTorch; rivals the one in build/torch (scripts/deps.sh rivals: gigabytes), in fp32 and bf16, eager and
# compiled.
#
# Environment: THREADS (2); NETS (all four); REPEATS (5), the rounds of a comparison, ten times as many for the small net; CEILING and
# CEILING_LISTS, a program that runs the bare operations of a net in the library, and the folder with a list of them
# for each net, as in resnet18.txt (no default).
#
# Programs that are compared take turns, step by step, so that a change in the machine's speed affects both; a ratio is the
# median, over the rounds, of the ratio within a round.
set -u
cd "$(dirname "$0")/.." || exit 2

threads=${THREADS:-2} repeats=${REPEATS:-5}
work=build/bench bin=build/float/tests/bench
results=$work/bench.txt
python=/usr/bin/python3 darknet=/usr/lib/darknet
parts="speed growth inference loader decode itra torch rivals darknet ceiling"
nets=${NETS:-resnet18 vgg13 mobilenetv2 lenet} few="resnet18 lenet"

die() {
    echo "bench: $*" >&2
    exit 1
}

. scripts/contenders.inc

cfg_of() { # cfg_of NET: or $cfg, where it is set
    [ -z "${cfg:-}" ] || { echo "$cfg"; return; }
    case $1 in
    lenet) echo cfg/fmnist-lenet.cfg ;;
    *) echo "cfg/cifar10-$1.cfg" ;;
    esac
}

rounds_of() { # rounds_of NET: the small net's steps are short, so it takes more of them
    case $1 in
    lenet) echo $((10 * repeats)) ;;
    *) echo "$repeats" ;;
    esac
}

ours() { # ours SLOT NET [SECTION.KEY=VALUE]...
    slot=$1 net=$2
    shift 2
    "start_$slot" "$bin/step" -precision "$precision" -for "$purpose" "$(cfg_of "$net")" "$threads" "$@"
}
precision=fp32 purpose=training
has_bf16() { grep -qE 'avx512_bf16|amx_bf16' /proc/cpuinfo; }

report() { # report NAME VALUE UNIT TEXT
    printf '  %-62s %10s %s\n' "$4" "$2" "$3"
    echo "bench $1 $2 $3" >>"$results"
}
title() { printf '\n%s\n' "$1"; }

# ---- the parts -----------------------------------------------------------------------------------------------------------

part_speed() {
    title "training step, batch 150, without [itra]"
    for net in $nets; do
        ours a "$net" itra.lambda=0
        i=0
        while [ "$i" -lt "$(rounds_of "$net")" ]; do
            turn_a
            echo "$time_a"
            i=$((i + 1))
        done >"$pipes/rounds"
        t=$(median '$1' "$pipes/rounds")
        [ "$net" != resnet18 ] || resnet18_rate=$(calc %.1f "1 / $t")
        report "$net.images" "$(calc %.1f "1 / $t")" images/s "$net"
        report "$net.gflops" "$(calc %.1f "3 * $flops / $t / 1e9")" GFLOP/s "$net: 3 x the FLOPs of a forward pass, over time"
        report "$net.memory" "$(peak_mib "$pa")" MiB "$net: peak resident memory"
        report "$net.planned" "$(calc %.0f "$planned")" MiB "$net: planned (darknet ops)"
        stop_a
    done
}

# One step alone: images per second, and the memory that it takes.
alone() { # alone NAME NET TEXT [SECTION.KEY=VALUE]...
    name=$1 net=$2 text=$3
    shift 3
    ours a "$net" itra.lambda=0 "$@"
    i=0
    while [ "$i" -lt 3 ]; do
        turn_a
        echo "$time_a"
        i=$((i + 1))
    done >"$pipes/rounds"
    report "$name.$net.images" "$(calc %.1f "1 / $(median '$1' "$pipes/rounds")")" images/s "$text"
    report "$name.$net.memory" "$(peak_mib "$pa")" MiB "$text: peak resident memory"
    stop_a
}

# A width is a copy of the cfg whose hidden layers have so many filters.
part_growth() {
    title "growth: resnet18, training step"
    for batch in 16 64 150 256 1024; do
        alone "growth.batch$batch" resnet18 "batch $batch" net.batch=$batch net.subdivisions=1
    done
    for width in 1/4 2; do
        awk -F= -v by="$width" 'BEGIN { split(by, f, "/"); k = f[1] / (f[2] ? f[2] : 1) }
            /^filters *=/ { print "filters=" $2 * k; next } { print }' "$(cfg_of resnet18)" >"$pipes/wide.cfg"
        wide=$(echo "$width" | tr / _)
        cfg=$pipes/wide.cfg alone "growth.width$wide" resnet18 "width $width, batch 150"
    done
    sed -n 's/^bench growth.batch150/bench growth.width1/p' "$results" >>"$results"
    command -v gnuplot >/dev/null && gnuplot scripts/growth.gp && echo "  $work/growth.png"
}

part_itra() {
    for net in $few; do
        title "[itra] against none: $net, batch 150, 10 classes; cost of an iteration"
        ours a "$net" itra.lambda=0
        for mode in "pair=split" "pair=memory" "pair=loader gradient=first" "pair=loader gradient=both" \
            "every=2" "every=8" "every=16"; do
            # shellcheck disable=SC2046,SC2086
            ours b "$net" itra.lambda=.8 itra.warmup=0 $(printf 'itra.%s ' $mode)
            take_turns "$(rounds_of "$net")" >"$pipes/rounds"
            name=itra.$net.$(echo "$mode" | sed 's/pair=loader gradient=//; s/pair=//; s/=//')
            report "$name" "$(calc %.3f "$(median '$2 / $1' "$pipes/rounds")")" x "$mode"
            case $mode in pair=*) report "$name.match" "$(calc %.2f "100 * $(median '$3' "$pipes/rounds")")" % \
                "$mode: share of the matching loss" ;; esac
            stop_b
        done
        stop_a
    done
}

# against NAME NET ROUNDS COMMAND...: another implementation of the same net
against() {
    name=$1 net=$2 rounds=$3
    shift 3
    ours a "$net" itra.lambda=0
    start_b "$@"
    take_turns "$rounds" >"$pipes/rounds"
    report "$name.$net.images" "$(calc %.1f "1 / $(median '$2' "$pipes/rounds")")" images/s "$net: $name"
    report "$name.$net.memory" "$(peak_mib "$pb")" MiB "$net: $name, peak resident memory"
    report "$name.$net.ratio" "$(calc %.2f "$(median '$2 / $1' "$pipes/rounds")")" x "$net: ours is faster by"
    stop_b
    stop_a
}

part_torch() {
    title "PyTorch $($python -c 'import torch; print(torch.__version__)'), channels_last, batch 150"
    for net in $nets; do
        OMP_NUM_THREADS=$threads against torch "$net" "$(rounds_of "$net")" $python tests/bench/torch_step.py "$net" 150 "$threads"
    done
}

compile_darknet() {
    ${CC:-cc} -std=c11 -D_POSIX_C_SOURCE=200809L -O2 -Wall -Wextra -isystem $darknet/include tests/bench/darknet_step.c \
        -o $work/darknet_step -L$darknet -ldarknet -Wl,-rpath,$darknet -lm || die "darknet_step does not compile"
}
for_darknet() { # for_darknet NET: a cfg that it reads, for 8 images at a time
    ./darknet strip "$(cfg_of "$1")" "$pipes/$1.cfg" || exit 1
    sed -i 's/^batch=.*/batch=8/' "$pipes/$1.cfg"
}

part_inference() {
    title "forward pass, batch 150"
    purpose=inference
    for precision in fp32 $(if has_bf16; then echo bf16; fi); do
        for net in $nets; do
            alone "inference.$precision" "$net" "$net, $precision"
            [ ! -e build/torch ] || OMP_NUM_THREADS=$threads against "inference.torch.$precision" "$net" "$(rounds_of "$net")" \
                build/torch/bin/python tests/bench/torch_step.py "$net" 150 "$threads" --precision "$precision" --compile --infer
        done
    done
    precision=fp32
    if [ -e $darknet/libdarknet.so ]; then
        compile_darknet
        for net in $few; do
            for_darknet "$net"
            against inference.darknet "$net" 3 $work/darknet_step "$pipes/$net.cfg" inference
        done
    fi
    purpose=training
}

part_rivals() {
    title "PyTorch $(build/torch/bin/python -c 'import torch; print(torch.__version__)'), channels_last, batch 150"
    for precision in fp32 $(if has_bf16; then echo bf16; fi); do
        for net in $nets; do
            for how in eager compile; do
                OMP_NUM_THREADS=$threads against "torch.$precision.$how" "$net" "$(rounds_of "$net")" build/torch/bin/python \
                    tests/bench/torch_step.py "$net" 150 "$threads" --precision "$precision" --$how
            done
        done
    done
    precision=fp32
}

part_darknet() {
    title "Debian's darknet, batch 8 (time per image; it computes in one thread)"
    compile_darknet
    for net in $few; do
        for_darknet "$net"
        against darknet "$net" 3 $work/darknet_step "$pipes/$net.cfg"
    done
}

# In each round the best of five steps of both, which is what the ceiling program tells.
ceiling() { # ceiling NET
    ours a "$1" itra.lambda=0
    i=0
    while [ "$i" -lt "$repeats" ]; do
        top=$(OMP_NUM_THREADS=$threads "$CEILING" 150 0 0 "$CEILING_LISTS/$1.txt" | sed -n 's/.* \([0-9.]*\) img.*/\1/p')
        [ -n "$top" ] || die "$CEILING 150 0 0 $CEILING_LISTS/$1.txt prints no images per second"
        for _ in 1 2 3 4 5; do
            turn_a
            echo "$time_a"
        done | sort -g | sed -n "1s/^/$top /p"
        i=$((i + 1))
    done >"$pipes/rounds"
    stop_a
    report "ceiling.$1.images" "$(calc %.1f "$(median '$1' "$pipes/rounds")")" images/s "$1: the bare operations"
    report "ceiling.$1.ours" "$(calc %.1f "$(median '1 / $2' "$pipes/rounds")")" images/s "$1: ours"
    report "ceiling.$1.share" "$(calc %.1f "100 * $(median '1 / $2 / $1' "$pipes/rounds")")" % "$1: ours reaches"
}

part_ceiling() {
    title "the library's bare operations, batch 150: $CEILING"
    for net in $nets; do
        [ ! -e "$CEILING_LISTS/$net.txt" ] || ceiling "$net"
    done
}

load() { # load NAME TEXT DATA CFG [SECTION.KEY=VALUE]...
    name=$1 text=$2
    shift 2
    data=$1 cfg=$2
    shift 2
    rate=$($bin/load "$work/data/$data" "$cfg" "$threads" 3 "$@") || exit 1
    report "loader.$name" "$rate" images/s "$text"
    [ -z "${resnet18_rate:-}" ] ||
        report "loader.$name.ratio" "$(calc %.1f "$rate / $resnet18_rate")" x "  over what ResNet-18 consumes"
}

part_loader() {
    title "the loader alone, $threads workers"
    mkdir -p $work/data && $bin/pictures $work/data 2000 || exit 1
    load packed "packed 28x28, no augmentation" packed.data cfg/fmnist-lenet.cfg
    load packed_augmented "packed 28x28 to 3x32x32, pad_crop, flip" packed.data cfg/cifar10-resnet18.cfg
    load cifar "packed 3x32x32, pad_crop, flip, mean and std" cifar.data cfg/cifar10-resnet18.cfg
    load png "PNG 64x64 to 3x32x32, crop, angle, aspect, flip, colours" png.data cfg/cifar10-resnet18.cfg net.pad_crop=0 \
        net.min_crop=32 net.max_crop=48 net.angle=7 net.aspect=.75 net.hue=.1 net.saturation=.75 net.exposure=.75
    rm -rf $work/data
}

part_decode() {
    variant=build/float-turbojpeg-opencv
    make -s TURBOJPEG=1 OPENCV=1 $variant/tests/bench/decode || exit 1
    title "decoding JPEG photographs, one thread: alone, and on to the network's square"
    $variant/tests/bench/decode "$((4 * repeats))" >"$pipes/decode" || exit 1
    while read -r library way size side decoded whole; do
        name=decode.$library.$way.$size.$side
        report "$name" "$decoded" images/s "$size for a side of $side: $library, $way: decoded"
        report "$name.input" "$whole" images/s "  and made ${side}x$side floats"
    done <"$pipes/decode"
}

# ---- what can run here -----------------------------------------------------------------------------------------------------

possible() { # possible PART: or says why not
    case $1 in
    torch) $python -c 'import torch' 2>/dev/null || echo "python3-torch is not installed" ;;
    rivals) [ -e build/torch ] || echo "scripts/deps.sh rivals has not been run" ;;
    darknet) [ -e $darknet/libdarknet.so ] || echo "Debian's darknet is not installed" ;;
    ceiling) [ -n "${CEILING:-}" ] && [ -n "${CEILING_LISTS:-}" ] || echo "CEILING and CEILING_LISTS are not set" ;;
    decode) scripts/deps.sh turbojpeg opencv >/dev/null 2>&1 || echo "libjpeg-turbo and OpenCV are not installed" ;;
    esac
}

for part in "$@"; do
    case " $parts " in
    *" $part "*) ;;
    *) die "no such part: $part: expected some of: $parts" ;;
    esac
done
scripts/deps.sh bench || scripts/deps.sh build || exit 1
make -s darknet $bin/step $bin/load $bin/pictures || exit 1
mkdir -p $work
pipes=$(mktemp -d)
trap cleanup EXIT
trap 'exit 130' INT TERM
trap '' PIPE
: >"$results"

echo "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1), $(nproc) cores, $threads threads, medians of $repeats;" \
    "load at the start: $(cut -d' ' -f1 /proc/loadavg)"
[ $# -gt 0 ] || set -- $parts
for part in "$@"; do
    why=$(possible "$part")
    if [ -n "$why" ]; then
        title "$part: left out: $why"
    else
        "part_$part"
    fi
done
report load "$(cut -d' ' -f1 /proc/loadavg)" processes "load average at the end" >/dev/null
echo
cat "$results"
