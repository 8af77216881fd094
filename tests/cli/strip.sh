#!/bin/bash
# `darknet strip`: what it writes loads in Debian's darknet and computes the same; .weights of either side load in the
# other. Layer numbers, absolute and relative, reach across the sections that go away, and name them, too.
. "$(dirname "$0")/common.inc"

cat >full.cfg <<'END'
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

check "runs" "$DARKNET" strip full.cfg stripped.cfg
"$DARKNET" strip full.cfg >out.cfg 2>/dev/null
check "file and stdout are the same" cmp stripped.cfg out.cfg
check "no section is left that others do not know" lacks stripped.cfg '^\[\(itra\|center\)\]'
"$DARKNET" strip stripped.cfg >twice.cfg 2>/dev/null
check "a second strip changes nothing" cmp stripped.cfg twice.cfg
cp full.cfg kept.cfg
check "CFG and OUT the wrong way round: refused" eval '! "$DARKNET" strip stripped.cfg full.cfg 2>err &&
    grep -q "^darknet: full.cfg:[0-9]*: exists and has \[itra\], which strip takes out" err'
check "CFG and OUT the wrong way round: nothing is lost" cmp full.cfg kept.cfg
# By hand: layers 0 1 3 4 6 7 9 10 11 12 13 are 0..10 now.
printf '%s\n' 1 0,3,1 3 5,0 >expected
awk 'BEGIN { layer = -2 }
     /^\[/ { layer++ }
     /^ *(from|layers) *=/ {
         sub(/^[^=]*=/, ""); n = split($0, at, ","); line = ""
         for (i = 1; i <= n; i++) line = line (i > 1 ? "," : "") (at[i] + 0 < 0 ? layer + at[i] : at[i] + 0)
         print line
     }' stripped.cfg >resolved
check "layer numbers point to the same layers" diff expected resolved

oracle=$("$here/tests/golden/build-oracle.sh") || exit 2
if [ -z "$oracle" ]; then
    skip "the comparison with libdarknet: Debian's package darknet is not installed"
    finish
fi
oracle=$here/$oracle
cfgs=$(dirname "$(readlink -f "$DARKNET")")/tests/golden/cfgs
[ -x "$cfgs" ] || check "the test's own program builds" make -s -C "$here" "${cfgs#"$here/"}"
sed 's/^batch *=.*/batch=1/' stripped.cfg >one.cfg
check "our weights are written" "$cfgs" write full.cfg .
check "Debian's darknet loads both" "$oracle" predict one.cfg weights in out
check "the outputs are the same" "$cfgs" compare cpu full.cfg .
check "Debian's darknet trains it" "$oracle" run one.cfg 1 .
mv after.weights weights
check "its weights load in it" "$oracle" predict one.cfg weights in out
check "its weights load in us, for the cfg with [itra]" "$cfgs" compare cpu full.cfg .
check "and for the one without" "$cfgs" compare cpu stripped.cfg .
finish
