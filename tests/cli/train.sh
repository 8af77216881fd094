#!/bin/bash
# classifier train: lines, files, reproducibility, resumption.
. "$(dirname "$0")/common.inc"
make_data
make_cfg plain.cfg
make_cfg itra.cfg '[itra]' lambda=0.5 warmup=0
make_cfg zero.cfg '[itra]' lambda=0
make_cfg memory.cfg '[itra]' lambda=0.5 warmup=0 pair=memory '[center]' lambda=0.1
make_cfg every.cfg '[itra]' lambda=0.5 every=3

train() { "$DARKNET" classifier train mini.data "$@"; }

# run FOLDER ARGS...: trains with its own backup folder, which the data file names.
run() {
    local to=$1
    shift
    sed "s|^backup.*|backup = $to|" mini.data >"$to.data"
    "$DARKNET" classifier train "$to.data" "$@" >"$to.out" 2>"$to.err"
}
same_final() { cmp "$1/$3_final.weights" "$2/$3_final.weights"; }

# ---- lines and files ----
check "training exits with 0" run plain plain.cfg
line='^[0-9]+, [0-9]+\.[0-9]{3}: [0-9]+\.[0-9]{6}, [0-9]+\.[0-9]{6} avg, [0-9.e+-]+ rate, [0-9]+\.[0-9]{6} seconds, [0-9]+ images'
check "the first line is the name of the cfg" test "$(head -n 1 plain.out)" = plain
check "rate, momentum and decay" grep -qx 'Learning Rate: 0.01, Momentum: 0.9, Decay: 0.0005' plain.out
check "the number of images" grep -qx 18 plain.out
check "20 iterations" test "$(grep -cE "$line" plain.out)" = 20
check "20 lines of loading time" test "$(grep -cE '^Loaded: [0-9]+\.[0-9]{6} seconds$' plain.out)" = 20
check "burn-in is named" grep -qE '^4, .* images \(burn-in 4/5\)$' plain.out
check "no burn-in after it" grep -qE '^5, .* images$' plain.out
check "images are counted" grep -qE '^20, 6.667: .*, 120 images$' plain.out
check "batch arithmetic" grep -q 'mini-batch = 3 images, update every 6' plain.out
check "the seed is printed" grep -q 'seed 1' plain.out
check "validation once an epoch and at the end" test "$(grep -c '^validation ' plain.out)" = 7
for f in last.weights best.weights final.weights last.state metrics.csv; do
    check "plain_$f is there" test -s "plain/plain_$f"
done
check "no temporary files are left" test -z "$(ls plain | grep -v '^plain_')"
check "metrics: a row per iteration" test "$(grep -c '^train,' plain/plain_metrics.csv)" = 20
check "metrics: a row per validation" test "$(grep -c '^valid,' plain/plain_metrics.csv)" = 7
check "metrics: every row has 14 columns" awk -F, 'NF != 14 { exit 1 }' plain/plain_metrics.csv

run itra itra.cfg
check "itra: three more columns" grep -qE "$line, match [0-9.]+, lambda 0.5, itra [0-9.]+%$" itra.out
check "itra: rows of a pair" grep -q '3 rows against 3, 1.0 against 1.0 per class' itra.out
check "itra: a warning about few rows names the keys" grep -q 'match=class.*average=present' itra.err

check "weights go on counting" run again plain.cfg plain/plain_final.weights
check "at the end already: said so" grep -q 'iteration 20 of 20; use -clear or raise max_batches' again.err
check "at the end already: nothing is written" test ! -e again/plain_final.weights
check "-clear counts from 0" run clear plain.cfg plain/plain_final.weights -clear
check "-clear trains 20 iterations" test "$(grep -cE "$line" clear.out)" = 20
run more plain.cfg plain/plain_final.weights -set net.max_batches=22
check "raised max_batches trains 2 more" test "$(grep -cE "$line" more.out)" = 2
check "they are numbers 21 and 22" grep -qE '^21, 7.000: ' more.out
"$DARKNET" partial plain.cfg plain/plain_final.weights part.weights 3
check "weights of the first layers are accepted" run part plain.cfg part.weights
# Layers 3 and 4 have nothing to load.
check "and it is said which" grep -q 'layers 0..4 loaded, the rest random' part.err

# ---- collapse: nothing is learnt at rate 0, so the CE stays at ln 3 ----
run stuck itra.cfg -set net.learning_rate=0 -set net.batch=18 -set net.subdivisions=1 -set net.max_batches=230 \
    -set dropout.probability=0 -set connected.activation=linear -set net.burn_in=0 -set net.valid_every=0
check "a CE that stays at ln K is warned of, once" test "$(grep -c 'warning: .*collapsed' stuck.err)" = 1
run unstuck itra.cfg -set net.max_batches=230 -set net.valid_every=0
check "no such warning where something is learnt" sh -c "! grep -q collapsed unstuck.err"

# ---- the same bytes ----
for device in $devices; do
    run "ref-$device" itra.cfg -device "$device" -workers 1 -threads 2 -set net.max_batches=50
    for workers in 2 5; do
        run "w$workers" itra.cfg -device "$device" -workers "$workers" -threads 2 -set net.max_batches=50
        check "$device: 1 and $workers workers give the same weights" same_final "ref-$device" "w$workers" itra
    done
    run p plain.cfg -device "$device" -set net.max_batches=50
    run z zero.cfg -device "$device" -set net.max_batches=50
    check "$device: lambda=0 trains as without [itra]" cmp p/plain_final.weights z/zero_final.weights
    run s plain.cfg -device "$device" -set net.max_batches=50 -seed 2
    check "$device: another seed gives other weights" test "$(cmp p/plain_final.weights s/plain_final.weights 2>&1)"
    run v plain.cfg -device "$device" -set net.max_batches=50 -set net.valid_every=0
    check "$device: validation does not disturb training" cmp p/plain_final.weights v/plain_final.weights
done

# ---- resumption ----
for cfg in plain itra memory every; do
    run "whole-$cfg" $cfg.cfg
    run "half-$cfg" $cfg.cfg -set net.max_batches=11
    check "$cfg: resumes" run "half-$cfg" $cfg.cfg -resume "half-$cfg/${cfg}_last.state"
    check "$cfg: resumed = uninterrupted" same_final "whole-$cfg" "half-$cfg" $cfg
    check "$cfg: resumed metrics have every iteration once" \
        test "$(grep -c '^train,' "half-$cfg/${cfg}_metrics.csv")" = 20
done

run "half-plain" plain.cfg -resume half-plain/plain_last.state -set net.max_batches=25 -set net.learning_rate=0.02
check "a changed setting is pointed out" grep -q 'cfg has changed' half-plain.err
check "and training goes on with it" grep -qE '^25, .* 0.02 rate' half-plain.out

# Killed at random moments: a chunk of bytes of the runs must not depend on when.
long="-set net.max_batches=1500 -set net.valid_every=15"
run whole itra.cfg $long
sed "s|^backup.*|backup = killed|" mini.data >killed.data
for ((i = 0; i < 10; i++)); do
    resume=
    [ -e killed/itra_last.state ] && resume="-resume killed/itra_last.state"
    "$DARKNET" classifier train killed.data itra.cfg $long $resume >killed.out 2>killed.err &
    sleep 0.$((RANDOM % 9 + 1))
    kill -KILL $! 2>/dev/null && kills=$((${kills:-0} + 1))
    wait $! 2>/dev/null
done
resume=
[ -e killed/itra_last.state ] && resume="-resume killed/itra_last.state"
"$DARKNET" classifier train killed.data itra.cfg $long $resume >killed.out 2>killed.err
check "killed ${kills:-0} times and resumed = uninterrupted" same_final whole killed itra
check "the state is the same too" cmp whole/itra_last.state killed/itra_last.state
check "and the best weights" cmp whole/itra_best.weights killed/itra_best.weights
check "metrics have every iteration once" test "$(grep -c '^train,' killed/itra_metrics.csv)" = 1500
check "in order" sh -c "grep '^train,' killed/itra_metrics.csv | cut -d, -f2 | sort -n -c -u"

# ---- interruption ----
sed "s|^backup.*|backup = stopped|" mini.data >stopped.data
"$DARKNET" classifier train stopped.data plain.cfg -set net.max_batches=0 >stopped.out 2>stopped.err &
for ((i = 0; i < 100; i++)); do
    [ "$(grep -cE "$line" stopped.out 2>/dev/null)" -gt 10 ] && break
    sleep 0.1
done
kill -TERM $!
wait $!
check "SIGTERM: status 143" test $? = 143
check "SIGTERM: weights and state are saved" test -s stopped/plain_last.weights -a -s stopped/plain_last.state
check "SIGTERM: it is said how to go on" grep -q -e '-resume stopped/plain_last.state' stopped.err
at=$(grep -E "$line" stopped.out | tail -n 1 | cut -d, -f1)
run stopped plain.cfg -resume stopped/plain_last.state -set net.max_batches=$((at + 1))
check "and it goes on at the next iteration" grep -qE "^$((at + 1)), " stopped.out
finish
