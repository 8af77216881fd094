#!/bin/sh
# The golden vectors of the matching loss through tests/bin/itra-golden, in float and double.
set -u
cd "$(dirname "$0")/../.." || exit 2
tests/bin/itra-golden tests/golden/itra/*.txt | awk '
    { print }
    /^ok/ { passed++ }
    /^FAIL/ { failed++ }
    END {
        expected = '"$(ls tests/golden/itra/*.txt | wc -l)"' * 2 # a file that could not be read prints no line
        failed += expected - passed - failed
        printf "%d passed, %d failed, 0 skipped\n", passed, failed
        exit failed > 0
    }'
