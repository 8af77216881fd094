#!/bin/sh
# Builds and runs the fuzzers of tests/fuzz with clang: scripts/fuzz.sh [SECONDS [TARGET...]]. New inputs that crash are
# left in build/fuzz; add them to tests/fuzz/corpus, which `make test` replays without a fuzzer.
set -eu
cd "$(dirname "$0")/.."
seconds=${1:-60}
[ $# -gt 0 ] && shift
[ $# -gt 0 ] || set -- cfg weights data image packed
command -v clang >/dev/null || { echo "fuzz.sh: needs clang and its runtime (libclang-rt-dev)" >&2; exit 1; }
inc=build/fuzz/inc
mkdir -p $inc
for f in src/layers/*.c; do echo "LAYER($(basename "$f" .c))"; done >$inc/layers.inc
echo 'BACKEND(ref)' >$inc/backends.inc
echo 'DECODER(stb)' >$inc/decoders.inc
for target in "$@"; do
    clang -std=c11 -D_POSIX_C_SOURCE=200809L -O1 -g -fsanitize=fuzzer,address,undefined -Wno-unknown-pragmas \
        -I$inc -Isrc -Iinclude -Itests src/core/*.c src/net/*.c src/layers/*.c src/data/*.c src/data/decoders/stb.c src/train/*.c \
        src/backend/backend.c src/backend/ref/*.c tests/fuzz/"$target".c -o build/fuzz/"$target" -lz -lm -pthread
    mkdir -p build/fuzz/found/"$target"
    build/fuzz/"$target" -max_total_time="$seconds" -artifact_prefix=build/fuzz/ build/fuzz/found/"$target" \
        tests/fuzz/corpus/"$target"
done
