#!/bin/sh
# Runs test programs, each in its own process with a time limit and as many at once as there are cores, and closes with
# "N passed, N failed, N skipped". Usage: tests/run.sh PROGRAM...
# A cmocka program counts its tests; a script prints its own "N passed, N failed" line.
export OMP_WAIT_POLICY=passive # threads that wait sleep: several programs share the cores
export DARKNET_ENGINES= # nothing is kept from run to run

# Runs one program; its lines go to stdout in one piece, its counts to DIR/counts.
one() { # one DIR PROGRAM
    log=$(mktemp "$1/log.XXXXXX")
    start=$(date +%s)
    timeout "${TEST_SECONDS:-600}" "$2" >"$log" 2>&1
    rc=$?
    p=$(sed -n 's/^\[  PASSED  \] \([0-9]*\) test.*/\1/p; s/^\([0-9]*\) passed, [0-9]* failed.*/\1/p' "$log" | tail -1)
    f=$(sed -n 's/^ *\([0-9]*\) FAILED TEST.*/\1/p; s/^[0-9]* passed, \([0-9]*\) failed.*/\1/p' "$log" | tail -1)
    s=$(sed -n 's/^\[  SKIPPED \] \([a-z]*: \)\{0,1\}\([0-9]*\) test.*/\2/p; s/^[0-9]* passed, [0-9]* failed, \([0-9]*\) skipped.*/\1/p' "$log" | tail -1)
    p=${p:-0} f=${f:-0} s=${s:-0}
    if [ "$rc" != 0 ] && [ "$f" = 0 ]; then f=1; fi      # crashed, or ran out of time
    if [ "$rc" = 0 ] && [ $((p + s)) = 0 ]; then f=1; fi # ran nothing
    if [ "$f" = 0 ]; then state=ok; else state=FAILED; fi
    {
        printf '%-6s %4ds  %s\n' "$state" $(($(date +%s) - start)) "$2"
        grep -h '^skip' "$log" | uniq # a program's tests are often skipped for one reason
        [ "$f" = 0 ] || { tail -40 "$log"; echo "(exit status $rc)"; }
    } >"$log.said"
    echo "$p $f $s" >>"$1/counts"
    cat "$log.said"
}

if [ "$1" = --one ]; then
    one "$2" "$3"
    exit 0
fi
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
: >"$dir/counts"
printf '%s\0' "$@" | xargs -0 -n 1 -P "$(nproc 2>/dev/null || echo 2)" "$0" --one "$dir"
awk -v want=$# '{ p += $1; f += $2; s += $3 } END {
    if (NR != want) { printf "%d of %d programs told nothing\n", want - NR, want; f += want - NR }
    printf "%d passed, %d failed, %d skipped\n", p, f, s
    exit f != 0 }' "$dir/counts"
