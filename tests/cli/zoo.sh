#!/bin/bash
# Public classifiers (tests/zoo): as many operations as their authors count, and two iterations of training on small images.
. "$(dirname "$0")/common.inc"
make_data

run() { timeout 200 "$DARKNET" "$@" >out 2>err </dev/null || { cat err; return 1; }; }
prints() { run "${@:2}" && grep -qE "$1" out err; }
zoo() { # zoo NAME OPERATIONS
    local cfg=$here/tests/zoo/$1.cfg small=$1.cfg
    [ -f "$cfg" ] || { cfg=whole.cfg && "$here/tests/zoo/generate.sh" "$1" >$cfg; }
    check "$1: $2 billion operations" prints "Operations: $2 Bn" ops "$cfg"
    sed 's/^filters=1000/filters=3/; s/^batch=.*/batch=8/; s/^subdivisions=.*/subdivisions=1/; s/^max_batches=.*/max_batches=2/
         s/^burn_in=.*/burn_in=0/; s/^learning_rate=.*/learning_rate=.01/; s/^\(height\|width\)=.*/\1=64/' "$cfg" >"$small"
    check "$1: trains for two iterations" prints '^2, [0-9.]+: [0-9.]+, ' classifier train mini.data "$small"
    check "$1: predicts" prints '^ *[0-9.]+%: ' classifier predict mini.data "$small" "backup/$1_final.weights" img/0_ant.ppm
}
zoo efficientnet_b0 0.91
zoo csdarknet53-elastic 7.74
zoo csresnet50-elastic 9.36
zoo res2netlite72 5.18
zoo csresnext50-omega 7.93
zoo csmobilenet-v2 0.76

finish
