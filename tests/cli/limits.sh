#!/bin/bash
# Signals and limits during a run: one line, and where training can go on it does, and saves again when it can.
. "$(dirname "$0")/common.inc"
make_data
make_cfg mini.cfg
make_cfg long.cfg
sed -i 's/max_batches=.*/max_batches=1000000/' long.cfg
under() { # under LIMIT COMMAND...: with the limit of ulimit
    local limit=$1
    shift
    sh -c 'ulimit $0 || exit 2; exec timeout 60 "$@"' "$limit" "$DARKNET" "$@" >out 2>err </dev/null
}
one_line() { [ "$(grep -c '^darknet: ' err)" = 1 ] && grep -qE "^darknet: .*$1" err || { cat err; return 1; }; }
begin() { # a run in the background, as $run
    rm -rf backup out
    "$DARKNET" classifier train mini.data long.cfg >out 2>err </dev/null &
    run=$!
    await grep -q '^20, ' out
}

under "-f 2" classifier train mini.data mini.cfg
check "a file-size limit: status 1" test $? = 1
check "a file-size limit: said" one_line 'cannot be written: File too large'
check "a file-size limit: nothing half-written" test -z "$(ls backup | grep -v -e csv -e lock)"

under "-n 5" classifier train mini.data mini.cfg
check "few descriptors: status 1" test $? = 1
check "few descriptors: they are blamed, no image" one_line 'cannot be (opened|written): Too many open files'

for signal in TERM USR1 USR2 XCPU; do
    begin
    kill -$signal $run
    wait $run
    check "SIG$signal: status" test $? = $((128 + $(kill -l $signal)))
    check "SIG$signal: saved" grep -q '^stopped by a signal and saved: go on with -resume backup/long_last.state' err
    check "SIG$signal: to be resumed" test -s backup/long_last.state
done

begin
rm -rf backup 2>/dev/null
for ((i = 0; i < 5; i++)); do [ -e backup ] || break; rm -rf backup 2>/dev/null; done # it may have saved just then
check "the backup folder is gone: it comes back" await test -s backup/long_last.state
check "the backup folder is gone: its lock, too" await test -e backup/long_last.state.lock
"$DARKNET" classifier train mini.data long.cfg >second.out 2>second.err </dev/null
check "the backup folder is gone: a second run is still kept away" grep -q '^darknet: .*another run' second.err
kill $run
wait $run
check "the backup folder is gone: all is saved at the end" test -s backup/long_last.weights -a -s backup/long_last.state
last() { grep -E '^[0-9]+, ' out | tail -n 1 | cut -d, -f1; }
check "the backup folder is gone: every row of the metrics is there" test "$(grep -c ^train, backup/long_metrics.csv)" = "$(last)"

begin
rm backup/long_metrics.csv
kill $run
wait $run
check "the metrics are gone: every row comes back" test "$(grep -c ^train, backup/long_metrics.csv),$(sort -u backup/long_metrics.csv | grep -c ^train,)" = "$(last),$(last)"
begin
echo other >other && mv other backup/long_metrics.csv
kill $run
wait $run
check "another file in the place of the metrics is spared" grep -qx other backup/long_metrics.csv
check "another file in the place of the metrics: said" grep -q 'long_metrics.csv: exists and is not a metrics file' err
finish
