#!/bin/sh
# Builds the oracle where Debian's darknet is installed, and prints its path; prints nothing where it is not.
set -u
cd "$(dirname "$0")/../.." || exit 2
darknet=/usr/lib/darknet
oracle=build/golden/oracle
sources="tests/golden/oracle.c tests/golden/tape.h src/core/rng.h"
[ -e $darknet/libdarknet.so ] || exit 0
if [ ! -x $oracle ] || [ -n "$(find $sources -newer $oracle)" ]; then
    mkdir -p build/golden
    ${CC:-cc} -std=c11 -D_POSIX_C_SOURCE=200809L -O2 -Wall -Wextra -Isrc -isystem $darknet/include \
        tests/golden/oracle.c -o $oracle.new -L$darknet -ldarknet -Wl,-rpath,$darknet -lm || exit 2
    mv $oracle.new $oracle
fi
echo $oracle
