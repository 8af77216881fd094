#!/bin/sh
# The classifier cfgs of Debian's darknet package, and ours as `darknet strip` leaves them: written by us with random
# weights, run by libdarknet and by us; what the softmax gets is compared. Takes minutes and up to 2 GB of temporary
# space, so it is not part of `make test`.
#
#   tests/golden/cfgs.sh [BUILD [DEVICE [CFG...]]]      build/float cpu, all
set -u
cd "$(dirname "$0")/../.." || exit 2
build=${1:-build/float}
device=${2:-cpu}
[ $# -ge 1 ] && shift
[ $# -ge 1 ] && shift
[ $# -gt 0 ] || set -- alexnet cifar darknet darknet19 darknet53 densenet201 extraction resnet18 \
    resnet34 resnet50 resnet101 resnet152 resnext50 resnext101-32x4d strided tiny vgg-16 \
    cifar10-vgg13 cifar10-mobilenetv2 fmnist-conv5 fmnist-lenet # not our ResNets, because of README.md's conv-1x1-stride
folder=/usr/share/darknet/cfg
oracle=$(tests/golden/build-oracle.sh) || exit 2
if [ -z "$oracle" ] || [ ! -d $folder ]; then
    echo "skip  the cfgs of Debian's package darknet: it is not installed"
    exit 0
fi
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
failed=0
for name in "$@"; do
    stock=$folder/$name.cfg
    if [ -f "cfg/$name.cfg" ]; then
        stock=$work/stripped.cfg
        $build/darknet strip "cfg/$name.cfg" "$stock" || exit 2
    fi
    sed 's/^batch *=.*/batch=1/; s/^subdivisions *=.*/subdivisions=1/' "$stock" >"$work/$name.cfg"
    if $build/tests/golden/cfgs write "$work/$name.cfg" "$work" >"$work/log" 2>&1 &&
        start=$(date +%s.%N) &&
        $oracle predict "$work/$name.cfg" "$work/weights" "$work/in" "$work/out" >"$work/log" 2>&1 &&
        end=$(date +%s.%N) &&
        said=$($build/tests/golden/cfgs compare "$device" "$work/$name.cfg" "$work" 2>"$work/log"); then
        verdict=ok
    else
        verdict=FAIL failed=$((failed + 1))
        [ -n "${said:-}" ] || said=$(tail -n 1 "$work/log")
    fi
    printf '%-4s %-19s %s  (libdarknet %.1f s)\n' $verdict "$name" "${said:-}" \
        "$(awk "BEGIN { print ${end:-0} - ${start:-0} }")"
    rm -f "$work/weights" "$work/in" "$work/out"
    said= start= end=
done
echo "$(($# - failed)) passed, $failed failed"
[ $failed -eq 0 ]
