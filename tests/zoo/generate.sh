#!/bin/bash
# Prints a public cfg that its structure tells in fewer words than its file: generate.sh NAME. The layers are those of
# WongKinYiu/CrossStagePartialNetworks, the training settings only as far as they matter here.
set -eu
net() {
    printf '[net]\nbatch=128\nsubdivisions=2\nheight=%s\nwidth=%s\nchannels=3\n' "$1" "$1"
    printf 'burn_in=1000\nlearning_rate=0.1\nmax_batches=800000\n'
}
conv() { # FILTERS SIZE STRIDE ACTIVATION [GROUPS]
    printf '[convolutional]\nbatch_normalize=1\nfilters=%s\nsize=%s\nstride=%s\npad=1\nactivation=%s\n' "$1" "$2" "$3" "$4"
    [ $# -lt 5 ] || printf 'groups=%s\n' "$5"
}
route() { printf '[route]\nlayers=%s\n' "$1"; }
slice() { printf '[route]\nlayers=%s\ngroup_id=%s\ngroups=4\n' "$1" "$2"; }
shortcut() { printf '[shortcut]\nfrom=%s\nactivation=%s\n' "$1" "$2"; }
maxpool() { printf '[maxpool]\nsize=%s\nstride=2\n' "$1"; }
head_() { printf '[avgpool]\n[convolutional]\nfilters=1000\nsize=1\npad=1\nactivation=linear\n[softmax]\ngroups=1\n'; }

# Each block cuts its channels in four and adds every quarter's convolution to the next quarter.
res2netlite72() {
    local mid=72 blocks wide
    net 224; conv 32 3 2 leaky; maxpool 3
    for blocks in 3 7 3; do
        wide=$((4 * mid))
        conv $mid 1 1 leaky; conv $mid 3 2 leaky 2; conv $wide 1 1 leaky
        for ((; blocks > 0; blocks--)); do
            conv $wide 1 1 leaky; slice -1 0; slice -2 1; conv $mid 3 1 leaky 2
            slice -4 2; shortcut -2 linear; conv $mid 3 1 leaky 2
            slice -7 3; shortcut -2 linear; conv $mid 3 1 leaky 2
            route -9,-7,-4,-1; conv $wide 1 1 leaky; shortcut -13 linear
        done
        mid=$((2 * mid))
    done
    head_
}

# Half of each stage passes its blocks by; grouped convolutions, mish, mixed and smoothed labels.
csresnext50-omega() {
    local wide=128 blocks ends=mish part=64
    net 256; printf 'label_smooth_eps=0.1\nmosaic=1\ncutmix=1\n'; conv 64 7 2 mish; maxpool 2
    for blocks in 3 3 5 2; do
        conv $wide 1 1 $ends; route -2; conv $part 1 1 $ends
        for ((i = 0; i < blocks; i++)); do
            conv $wide 1 1 mish; conv $wide 3 1 mish 32; conv $wide 1 1 linear; shortcut -4 mish
        done
        conv $wide 1 1 mish; route -1,-$((4 * blocks + 4)); conv $((2 * wide)) 1 1 mish
        [ $wide = 1024 ] || conv $((2 * wide)) 3 2 mish 32
        wide=$((2 * wide)) part=$wide
        [ $wide = 1024 ] && ends=mish || ends=linear
    done
    head_
}

# Depthwise convolutions that make two channels of each.
csmobilenet-v2() {
    down() { conv "$1" 1 1 relu; conv "$1" 3 2 relu "$1"; route -2; conv $((2 * $1)) 3 2 relu "$1"; conv "$2" 1 1 linear; }
    block() { conv "$1" 1 1 relu; conv $((2 * $1)) 3 1 relu "$1"; conv "$2" 1 1 linear; }
    sum() { block "$1" "$2"; shortcut -4 linear; }
    net 224; conv 32 3 2 relu; conv 16 3 1 relu 16
    route -2; conv 32 1 1 relu; conv 32 3 1 relu 32; conv 16 1 1 linear; route -1,-5
    down 48 24; sum 72 24; route -1,-8
    down 72 32; sum 96 32; sum 96 32; block 96 64; sum 192 64; sum 192 64; sum 192 64; route -1,-27
    down 192 96; sum 288 96; sum 288 96; route -1,-12
    down 288 160; sum 480 160; sum 480 160; block 480 320; route -1,-15
    conv 640 1 1 relu; head_
}

"$1"
