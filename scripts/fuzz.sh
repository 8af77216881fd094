#!/bin/sh
# Builds and runs the fuzzers of tests/fuzz with clang: scripts/fuzz.sh [SECONDS [TARGET...]]. New inputs that crash are
# left in build/fuzz; add them to tests/fuzz/corpus, which `make test` replays without a fuzzer.
set -eu
cd "$(dirname "$0")/.."
seconds=${1:-60}
case $seconds in '' | *[!0-9]*) echo "usage: scripts/fuzz.sh [SECONDS [TARGET...]]" >&2; exit 1 ;; esac
[ $# -gt 0 ] && shift
[ $# -gt 0 ] || set -- cfg weights data image packed state_dict
command -v clang >/dev/null || { echo "fuzz.sh: needs clang and its runtime (libclang-rt-dev)" >&2; exit 1; }
b=build/float-ref-debug-fuzzer-no-link,address,undefined/tests/fuzz
for target in "$@"; do
    make -s -j"$(nproc)" CC=clang ONEDNN=0 DEBUG=1 SAN=fuzzer-no-link,address,undefined "$b/$target"
    mkdir -p build/fuzz/found/"$target"
    "$b/$target" -max_total_time="$seconds" -artifact_prefix=build/fuzz/ build/fuzz/found/"$target" \
        tests/fuzz/corpus/"$target"
done
