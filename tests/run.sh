#!/bin/sh
# Runs test programs, each in its own process with a time limit, and closes with "N passed, N failed, N skipped".
# Usage: tests/run.sh PROGRAM... A cmocka program counts its tests; a script prints its own "N passed, N failed" line.
export OMP_WAIT_POLICY=passive # threads that wait sleep: several programs may share the cores
passed=0 failed=0 skipped=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT
for t in "$@"; do
    start=$(date +%s)
    timeout "${TEST_SECONDS:-600}" "$t" >"$log" 2>&1
    rc=$?
    p=$(sed -n 's/^\[  PASSED  \] \([0-9]*\) test.*/\1/p; s/^\([0-9]*\) passed, [0-9]* failed.*/\1/p' "$log" | tail -1)
    f=$(sed -n 's/^ *\([0-9]*\) FAILED TEST.*/\1/p; s/^[0-9]* passed, \([0-9]*\) failed.*/\1/p' "$log" | tail -1)
    s=$(sed -n 's/^\[  SKIPPED \] \([0-9]*\) test.*/\1/p; s/^[0-9]* passed, [0-9]* failed, \([0-9]*\) skipped.*/\1/p' "$log" | tail -1)
    p=${p:-0} f=${f:-0} s=${s:-0}
    if [ "$rc" != 0 ] && [ "$f" = 0 ]; then f=1; fi       # crashed, or ran out of time
    if [ "$rc" = 0 ] && [ $((p + s)) = 0 ]; then f=1; fi  # ran nothing
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
    if [ "$f" = 0 ]; then state=ok; else state=FAILED; fi
    printf '%-6s %4ds  %s\n' "$state" $(($(date +%s) - start)) "$t"
    grep -h '^skip' "$log"
    [ "$f" = 0 ] || { tail -40 "$log"; echo "(exit status $rc)"; }
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
