#!/bin/sh
# Which lines and branches of the kernels the tests reach, on the host: a table, and exit status 1 where a line is not
# reached, be it in one of the kernels only that a macro makes.   tests/cuda/coverage.sh [TEST...]
cd "$(dirname "$0")/../.." || exit 2
[ $# -gt 0 ] || set -- $(cd tests && printf '%s\n' backends/*.c | sed 's/\.c$//')
root=$PWD B=$PWD/build/float-shim-ref-coverage
report=$(mktemp -d)
trap 'rm -rf "$report"' EXIT

find "$B" -name '*.gcda' -delete 2>/dev/null
for t; do
    make -s GPU=host COVERAGE=1 "build/${B##*/}/tests/$t" && "$B/tests/$t" >"$report/log" 2>&1 || {
        cat "$report/log"
        exit 1
    }
done
cd "$report" && ln -s "$root/src" src || exit 2
find "$B/src/backend/cuda" -name '*.cu.gcda' -exec gcov -br -s "$root" {} + >summary || exit 2
awk -F"[':% ]+" '
    /^File/ { name = $2 }
    /^Lines/ { lines = $3 }
    /^Branches/ { branches = $3 }
    /^Taken/ && name ~ /\.cuh?$/ {
        printf "%-32s lines %6.2f %%   branches %6.2f %%   both ways %6.2f %%\n", name, lines, branches, $5 }' summary
grep '#####' ./*.cu.gcov ./*.cuh.gcov | sort -u >missed
cat missed
[ ! -s missed ]
