#!/bin/sh
# `darknet strip`: what it writes loads in Debian's darknet and computes the same; .weights of either side load in the
# other. Layer numbers, absolute and relative, reach across the sections that go away, and name them, too.
#
#   tests/cli/strip.sh [BUILD]        build/float
set -u
cd "$(dirname "$0")/../.." || exit 2
build=${1:-build/float}
darknet=$build/darknet
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
failed=0 passed=0 skipped=0

check() { # check NAME COMMAND...
    name=$1
    shift
    if "$@" >"$work/said" 2>&1; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAIL  strip: $name: $(tail -n 1 "$work/said")"
    fi
}

cat >"$work/full.cfg" <<'END'
# A comment, and a key that every Darknet knows
[net]
batch=4
subdivisions=1
width=12
height=12
channels=3
learning_rate=0.01

[convolutional]
filters=6
size=3
stride=1
pad=1
activation=leaky

[convolutional]
batch_normalize=1
filters=6
size=3
stride=1
pad=1
activation=leaky

[itra]
lambda=0.5
root=0

[convolutional]
filters=6
size=3
stride=1
pad=1
activation=linear

# layer 1, across [itra]
[shortcut]
from=-3
activation=leaky

[center]
lambda=0.1

# layer 0, [center] by its number, [itra] from here
[route]
layers=0, 5, -4

[convolutional]
filters=6
size=3
stride=1
pad=1
activation=leaky

[itra]
lambda=0.5
root=0

# layer 4 by its number, across [center] and [itra]
[shortcut]
from=4
activation=linear

# [itra] just before, and layer 0 by its distance
[route]
layers=-2,-10

[avgpool]

[connected]
output=5
activation=linear

[softmax]
END

check "runs" "$darknet" strip "$work/full.cfg" "$work/stripped.cfg"
"$darknet" strip "$work/full.cfg" >"$work/out.cfg" 2>/dev/null
check "file and stdout are the same" cmp "$work/stripped.cfg" "$work/out.cfg"
check "no section is left that others do not know" sh -c "! grep -Ei '^\[(itra|center)\]' '$work/stripped.cfg'"
"$darknet" strip "$work/stripped.cfg" >"$work/twice.cfg" 2>/dev/null
check "a second strip changes nothing" cmp "$work/stripped.cfg" "$work/twice.cfg"
# By hand: layers 0 1 3 4 6 7 9 10 11 12 13 are 0..10 now.
printf '%s\n' 1 0,3,1 3 5,0 >"$work/expected"
awk 'BEGIN { layer = -2 }
     /^\[/ { layer++ }
     /^ *(from|layers) *=/ {
         sub(/^[^=]*=/, ""); n = split($0, at, ","); line = ""
         for (i = 1; i <= n; i++) line = line (i > 1 ? "," : "") (at[i] + 0 < 0 ? layer + at[i] : at[i] + 0)
         print line
     }' "$work/stripped.cfg" >"$work/resolved"
check "layer numbers point to the same layers" diff "$work/expected" "$work/resolved"

oracle=$(tests/golden/build-oracle.sh) || exit 2
if [ -z "$oracle" ]; then
    echo "skip  the comparison with libdarknet: Debian's package darknet is not installed"
    skipped=1
else
    sed 's/^batch *=.*/batch=1/' "$work/stripped.cfg" >"$work/one.cfg"
    cfgs=$build/tests/golden/cfgs
    [ -x "$cfgs" ] || check "the test's own program builds" make -s "$cfgs"
    check "our weights are written" "$cfgs" write "$work/full.cfg" "$work"
    check "Debian's darknet loads both" "$oracle" predict "$work/one.cfg" "$work/weights" "$work/in" "$work/out"
    check "the outputs are the same" "$cfgs" compare cpu "$work/full.cfg" "$work"
    check "Debian's darknet trains it" "$oracle" run "$work/one.cfg" 1 "$work"
    mv "$work/after.weights" "$work/weights"
    check "its weights load in it" "$oracle" predict "$work/one.cfg" "$work/weights" "$work/in" "$work/out"
    check "its weights load in us, for the cfg with [itra]" "$cfgs" compare cpu "$work/full.cfg" "$work"
    check "and for the one without" "$cfgs" compare cpu "$work/stripped.cfg" "$work"
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
