#!/bin/bash
# What a command writes costs nothing that is there: no file of its own run, no picture, no weights.
. "$(dirname "$0")/common.inc"
make_data
make_cfg mini.cfg
"$DARKNET" classifier train mini.data mini.cfg >out 2>err || fail "the good case trains"
cp backup/mini_final.weights w.weights
run() { timeout 60 "$DARKNET" "$@" >out 2>err </dev/null; }
refuses() { # refuses WORDS ARGUMENT...
    local words=$1
    shift
    run "$@"
    [ $? = 1 ] && [ "$(grep -c '^darknet: ' err)" = 1 ] && grep -qE "^darknet: .*($words)" err || { cat err; return 1; }
}
sums() { cksum backup/* w.weights mini.cfg img/0_ant.ppm img/own.png; }
printf '\211PNG\r\n\032\nsomebody else made it, and it is longer than a head' >img/own.png
sums >before

for name in last.weights best.weights final.weights last.state; do
    for flag in -chart -metrics; do
        check "$flag over $name" refuses 'mini_.*: what is written is (CSV|PNG)' \
            classifier train mini.data mini.cfg $flag "./backup/../backup/mini_$name"
    done
done
check "-chart where numbered weights may be" refuses 'mini_100.weights: what is written is PNG' \
    classifier train mini.data mini.cfg -chart backup/mini_100.weights
check "-chart over the metrics" refuses 'mini_metrics.csv: what is written is PNG' classifier train mini.data mini.cfg -chart backup/mini_metrics.csv
check "-chart over a list" refuses 'train.list' classifier train mini.data mini.cfg -chart train.list
check "-resume and -metrics of one name" refuses 'would be read and written' \
    classifier train mini.data mini.cfg -resume backup/mini_last.state -metrics backup/mini_last.state
for flag in "-chart img/own.png" "-chart img/0_ant.ppm"; do
    check "train $flag" refuses 'exists and is not a picture of this program' classifier train mini.data mini.cfg $flag
done
for flag in "-errors img/0_ant.ppm" "-errors img/own.png" "-confusion img/own.png" "-confusion img/0_ant.ppm" "-errors w.weights"; do
    check "valid $flag" refuses 'exists and is not a|read and written|what is written is CSV' classifier valid mini.data mini.cfg w.weights $flag
done
check "strip over weights" refuses 'w.weights: exists and is not a cfg' strip mini.cfg w.weights
check "partial over a picture" refuses 'img/own.png: exists and is not a .weights' partial mini.cfg w.weights img/own.png 1
check "average over a picture" refuses 'is not a .weights|read and written' average mini.cfg img/0_ant.ppm w.weights w.weights
check "visualize over a picture" refuses 'is not a picture of this program' visualize mini.cfg w.weights img/own.png
check "features over a picture" sh -c "cp img/own.png x.npy; ! '$DARKNET' classifier features mini.data mini.cfg w.weights -out x.npy >out 2>err &&
    grep -q 'x.npy: exists and is not a NumPy array' err && cmp x.npy img/own.png"
sums >after
check "all of it is as it was" cmp before after

# Before anything is there, too: the names that the run will give.
rm -rf backup && mkdir -p backup/other
for flag in -chart -metrics; do
    check "$flag where the lock will be" refuses 'what is written is' classifier train mini.data mini.cfg $flag backup/other/../mini_last.state.lock
done
check "-metrics where they would be without it" run classifier train mini.data mini.cfg -metrics backup/other/../mini_metrics.csv
check "the list is the metrics of the run" sh -c "mkdir -p backup; cp train.list backup/mini_metrics.csv
    sed 's|^train.*|train = backup/mini_metrics.csv|' mini.data >own.data
    ! '$DARKNET' classifier train own.data mini.cfg >out 2>err && grep -q 'is read, and would be overwritten' err"
rm -rf backup

# Where standard output goes: neither that file nor a link to it, such as /dev/stdout, is replaced.
for name in out err; do
    ln -sf $name $name.link
    for to in $name $name.link; do
        run classifier valid mini.data mini.cfg w.weights -errors $to
        check "-errors $to" test $? = 1
        check "-errors $to: said" grep -q "^darknet: $to: is where standard output or standard error goes" err
    done
    check "the link is one" test -L $name.link
done

# What was written before is replaced, and so is an empty file.
: >chart.png && : >e.csv && : >c.csv && : >s.cfg && : >p.weights && : >f.npy
for i in 1 2; do
    check "-chart, time $i" run classifier train mini.data mini.cfg -chart chart.png
    check "-errors and -confusion, time $i" run classifier valid mini.data mini.cfg w.weights -errors e.csv -confusion c.csv
    check "-confusion as a picture, time $i" run classifier valid mini.data mini.cfg w.weights -confusion c.png
    check "features, time $i" run classifier features mini.data mini.cfg w.weights -out f.npy
    check "strip, time $i" run strip mini.cfg s.cfg
    check "partial, time $i" run partial mini.cfg w.weights p.weights 2
    check "visualize, time $i" run visualize mini.cfg w.weights
done
check "-metrics that is the name without it" run classifier train mini.data mini.cfg -metrics backup/mini_metrics.csv
check "a picture of ours is one that is read" run classifier predict mini.data mini.cfg w.weights chart.png
finish
