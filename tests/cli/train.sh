#!/bin/bash
# classifier train: lines, files, reproducibility, resumption.
. "$(dirname "$0")/common.inc"
make_data
make_cfg plain.cfg
make_cfg itra.cfg '[itra]' lambda=0.5 warmup=0
make_cfg zero.cfg '[itra]' lambda=0
make_cfg memory.cfg '[itra]' lambda=0.5 warmup=0 pair=memory '[center]' lambda=0.1
sed '/^max_batches/s/$/\nadam=1\nlearning_rate=.002\nema_alpha=.8\nmixup=4\nblur=3\nletter_box=1/' plain.cfg >adam.cfg
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
all=$(sed -n 's/.* \([0-9]*\) compute threads.*/\1/p' plain.out)
OMP_PROC_BIND=true "$DARKNET" classifier train mini.data plain.cfg -set net.max_batches=1 >bound.out 2>&1
check "threads bound to cores are as many" grep -q " $all compute threads" bound.out
rm -r backup
if command -v taskset >/dev/null; then
    core=$(taskset -pc $$ | sed 's/.*: *//; s/[,-].*//')
    taskset -c "$core" "$DARKNET" classifier train mini.data plain.cfg -set net.max_batches=1 >one.out 2>&1
    check "one thread a core that may be used" grep -q '1 compute threads, 1 loader threads' one.out
    rm -r backup
else
    skip "cores that may not be used: no taskset here"
fi
check "validation once an epoch and at the end" test "$(grep -c '^validation ' plain.out)" = 7
for f in last.weights best.weights final.weights last.state metrics.csv; do
    check "plain_$f is there" test -s "plain/plain_$f"
done
check "no temporary files are left" test "$(ls plain | wc -l)" = 5
check "metrics: a row per iteration" test "$(grep -c '^train,' plain/plain_metrics.csv)" = 20
check "metrics: a row per validation" test "$(grep -c '^valid,' plain/plain_metrics.csv)" = 7
check "metrics: every row has 14 columns" awk -F, 'NF != 14 { exit 1 }' plain/plain_metrics.csv

run itra itra.cfg
check "itra: three more columns" grep -qE "$line, match [0-9.]+, lambda 0.5, itra [0-9.]+%$" itra.out
check "itra: rows of a pair" grep -q '3 rows against 3, 1.0 against 1.0 per class' itra.out
check "itra: a warning about few rows names the keys" grep -q 'match=class.*average=present' itra.err
check "itra: what estimate=unbiased leaves out is not said of biased" lacks itra.err unbiased
run few itra.cfg -set net.max_batches=1 -set itra.root=0 -set itra.estimate=unbiased -set itra.match=class -set itra.average=present
check "itra: few rows and estimate=unbiased" grep -qE \
    'warning: .*\(1\.00\), and estimate=unbiased leaves out .* subdivisions, or set estimate=biased or conditional=0$' few.err

check "weights go on counting" run again plain.cfg plain/plain_final.weights
check "at the end already: said so" grep -q 'iteration 20 of 20, where training ends: use -clear or raise max_batches' again.err
check "at the end already: nothing is written, and no lock left" test -z "$(ls again)"
check "the last weights are those of the end" cmp plain/plain_last.weights plain/plain_final.weights
run plain plain.cfg -resume plain/plain_last.state
check "a state at the end already: raise max_batches" grep -q 'iteration 20 of 20, where training ends: raise max_batches' plain.err
check "-clear counts from 0" run clear plain.cfg plain/plain_final.weights -clear
check "-clear trains 20 iterations" test "$(grep -cE "$line" clear.out)" = 20
run more plain.cfg plain/plain_final.weights -set net.max_batches=22
check "raised max_batches trains 2 more" test "$(grep -cE "$line" more.out)" = 2
check "they are numbers 21 and 22" grep -qE '^21, 7.000: ' more.out
"$DARKNET" partial plain.cfg plain/plain_final.weights part.weights 3
check "weights of the first layers are accepted" run part plain.cfg part.weights
# Layers 3 and 4 have nothing to load.
check "and it is said which" grep -q 'layers 0..4 loaded, the rest random' part.err
head -c 20 plain/plain_final.weights >header.weights
check "weights without a layer" run header plain.cfg header.weights -set net.max_batches=21
check "weights without a layer: said so" grep -q 'only a header: all layers are random' header.err

# ---- settings that are hardly meant, said where something trains ----
run odd plain.cfg -set net.max_batches=2 -set net.batch=38
check "burn_in to the end is pointed out" grep -q 'burn_in=5 lasts to the end (max_batches=2)' odd.err
check "so is a batch of more images than there are" grep -q 'warning: batch=38, but there are only 18 images' odd.err
sed 's/^max_batches.*/max_batches=2/' plain.cfg >odd.cfg
"$DARKNET" partial odd.cfg plain/plain_final.weights part.weights 3 >partial.out 2>&1
check "partial does not speak of burn_in" lacks partial.out burn_in
run late every.cfg -set net.max_batches=2
check "a matching loss that is never due is pointed out" grep -q 'every.cfg:[0-9]*: warning: \[itra\] every=3 is more than max_batches=2' late.err
run slow itra.cfg -set itra.warmup=8 -set net.max_batches=2
check "a warm-up longer than training is pointed out" grep -q 'itra.cfg:[0-9]*: warning: \[itra\] warmup=8 is more than max_batches=2: lambda ends at 0.125$' slow.err
sed '/^\[connected\]/a stopbackward=1' plain.cfg >frozen.cfg
run frozen frozen.cfg -set net.max_batches=2
check "so is a net of which nothing learns" grep -q 'frozen.cfg: stopbackward= holds every layer that learns' frozen.err
check "nor of batches does a run without such" lacks plain.err 'warning: batch='

# ---- collapse: nothing is learnt at rate 0, so the CE stays at ln 3 ----
run stuck itra.cfg -set net.learning_rate=0 -set net.batch=18 -set net.subdivisions=1 -set net.max_batches=230 \
    -set dropout.probability=0 -set connected.activation=linear -set net.burn_in=0 -set net.valid_every=0
check "a CE that stays at ln K is warned of, once" test "$(grep -c 'warning: .*collapsed' stuck.err)" = 1
# Learnt, then lost to a rate that is far too high for four iterations: warmup=auto has taken lambda back to 0.
run lost itra.cfg -set itra.warmup=auto -set net.policy=steps -set net.steps=60,64 -set net.scales=100,0 -set net.max_batches=290 \
    -set net.valid_every=0 -set dropout.probability=0
check "what was learnt is lost: warned of, also with warmup=auto" test "$(grep -c 'warning: .*collapsed' lost.err)" = 1
check "nothing learnt yet" run unlearnt itra.cfg -set itra.warmup=auto -set net.learning_rate=0 -set net.max_batches=290 -set net.valid_every=0
check "nothing learnt yet, warmup=auto: the match is not to blame" lacks unlearnt.err collapsed
check "something learnt" run unstuck itra.cfg -set net.max_batches=230 -set net.valid_every=0
check "no such warning where something is learnt" lacks unstuck.err collapsed

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
    check "$device: another seed gives other weights" differ p/plain_final.weights s/plain_final.weights
    run v plain.cfg -device "$device" -set net.max_batches=50 -set net.valid_every=0
    check "$device: validation does not disturb training" cmp p/plain_final.weights v/plain_final.weights
done

# ---- bfloat16, where the processor has it ----
case $devices in
*cpu*)
    if run bf16 itra.cfg -device cpu -precision bf16; then
        check "bf16: other bytes than fp32" differ bf16/itra_final.weights itra/itra_final.weights
        run again itra.cfg -device cpu -precision bf16 -workers 3
        check "bf16: the same bytes again" same_final bf16 again itra
        run half itra.cfg -device cpu -precision bf16 -set net.max_batches=9
        run half itra.cfg -device cpu -precision bf16 -resume half/itra_last.state
        check "bf16: resumed = uninterrupted" same_final bf16 half itra
    else
        check "bf16: a processor without it is told" grep -q 'which bf16 needs: try -precision fp32$' bf16.err
    fi
    ;;
esac

# ---- resumption ----
for cfg in plain itra memory every adam; do
    run "whole-$cfg" $cfg.cfg
    run "half-$cfg" $cfg.cfg -set net.max_batches=9
    check "$cfg: resumes" run "half-$cfg" $cfg.cfg -resume "half-$cfg/${cfg}_last.state"
    check "$cfg: resumed = uninterrupted" same_final "whole-$cfg" "half-$cfg" $cfg
    rm "half-$cfg/${cfg}_final.weights"
    run "half-$cfg" $cfg.cfg -resume "half-$cfg/${cfg}_last.state"
    check "$cfg: final weights that are lost come back from the last state" same_final "whole-$cfg" "half-$cfg" $cfg
    check "$cfg: resumed metrics have every iteration once" \
        test "$(grep -c '^train,' "half-$cfg/${cfg}_metrics.csv")" = 20
done

run "half-plain" plain.cfg -resume half-plain/plain_last.state -set net.max_batches=25 -set net.learning_rate=0.02
check "a changed setting is pointed out" grep -q 'cfg has changed' half-plain.err
check "and training goes on with it" grep -qE '^25, .* 0.02 rate' half-plain.out

# ---- what else the bytes depend on ----
run other plain.cfg -threads 2 -set net.max_batches=9
run other plain.cfg -threads 2 -resume other/plain_last.state -set net.max_batches=10
check "as many threads as before: nothing to say" lacks other.err 'threads'
run other plain.cfg -threads 3 -resume other/plain_last.state -set net.max_batches=11
check "another number of threads is pointed out" grep -q 'written with 2 compute threads, this run has 3' other.err
run other plain.cfg -device ref -threads 3 -resume other/plain_last.state -set net.max_batches=12
check "and another device" grep -q 'written on another device' other.err
run other plain.cfg -device ref -threads 1 -resume other/plain_last.state -set net.max_batches=13
check "where threads do not matter, nothing to say" lacks other.err 'threads'
sed -i 's|^backup.*|backup = other|; $a sampling = replacement' mini.data
run other plain.cfg -device ref -resume other/plain_last.state -set net.max_batches=14
check "another way to draw is pointed out" grep -q 'sampling= has changed' other.err
sed -i '$d' mini.data

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
[ "${kills:-0}" -gt 0 ] || skip "killed at random moments: every run had ended before"
check "killed ${kills:-0} times and resumed = uninterrupted" same_final whole killed itra
check "the state is the same too" cmp whole/itra_last.state killed/itra_last.state
check "and the best weights" cmp whole/itra_best.weights killed/itra_best.weights
check "metrics have every iteration once" test "$(grep -c '^train,' killed/itra_metrics.csv)" = 1500
check "in order" sh -c "grep '^train,' killed/itra_metrics.csv | cut -d, -f2 | sort -n -c -u"

# ---- interruption ----
sed "s|^backup.*|backup = stopped|" mini.data >stopped.data
"$DARKNET" classifier train stopped.data plain.cfg -set net.max_batches=0 >stopped.out 2>stopped.err &
await grep -q '^11, ' stopped.out
kill -TERM $!
wait $!
check "SIGTERM: status 143" test $? = 143
check "SIGTERM: weights and state are saved" test -s stopped/plain_last.weights -a -s stopped/plain_last.state
check "SIGTERM: it is said how to go on" grep -q -e '-resume stopped/plain_last.state' stopped.err
at=$(grep -E "$line" stopped.out | tail -n 1 | cut -d, -f1)
run stopped plain.cfg -resume stopped/plain_last.state -set net.max_batches=$((at + 1))
check "and it goes on at the next iteration" grep -qE "^$((at + 1)), " stopped.out

start() { # start FOLDER ARGS...: an endless run in the background; $! is its process
    local to=$1
    shift
    sed "s|^backup.*|backup = $to|" mini.data >"$to.data"
    "$DARKNET" classifier train "$to.data" plain.cfg -threads 1 -set net.max_batches=0 "$@" >"$to.out" 2>"$to.err" &
}

# ---- a terminal that closes; two runs in one folder; what a killed run leaves ----
start hung
await grep -q '^9, ' hung.out
run hung plain.cfg
check "a second run is refused" grep -qE '^darknet: hung/plain_last.state.lock: another run \(process [0-9]+\)' hung.err
kill -HUP $!
wait $!
check "SIGHUP: status 129" test $? = 129
check "SIGHUP: weights and state are saved" test -s hung/plain_last.weights -a -s hung/plain_last.state
check "no lock is left" test ! -e hung/plain_last.state.lock
(exit 0) &
gone=$!
wait $gone
for name in last.weights last.state best.weights final.weights metrics.csv; do
    : >"hung/plain_$name.tmp-$gone-0"
    : >"hung/plain_$name.tmp-$$-0"
done
: >"hung/plain_last.weights.tmp-letter"
run hung plain.cfg
check "temporary files of dead processes go, others stay" test "$(ls hung | grep -c tmp-$gone),$(ls hung | grep -c tmp-)" = 0,6

# ---- metrics of several runs ----
check "metrics of an earlier run are kept" test "$(grep -c '^train,' hung/plain_metrics.csv)" = 20 -a -s hung/plain_metrics.csv.1
check "and it is said where" grep -q 'hung/plain_metrics.csv.1$' hung.err
run hung plain.cfg
check "all of them" test "$(grep -c '^train,' hung/plain_metrics.csv.2)" = 20

# ---- other images than those of the state ----
sed "s|^train.*|train = $work/turned.list|;s|^backup.*|backup = plain|" mini.data >turned.data
tac train.list >turned.list
"$DARKNET" classifier train turned.data plain.cfg -resume plain/plain_last.state -set net.max_batches=21 >/dev/null 2>turned.err
check "other training images are pointed out" grep -q 'training images have changed since this state' turned.err
run plain plain.cfg -resume plain/plain_last.state -set net.max_batches=22
check "the images of the last run are those that count" grep -q 'training images have changed' plain.err
run plain plain.cfg -resume plain/plain_last.state -set net.max_batches=23
check "the same images are not pointed out" lacks plain.err 'training images'

# ---- a holdout ----
held() { # held SEED N COMMAND...: with N images held out by that seed; held.out and held.err
    sed "s|^backup.*|backup = held|;\$a holdout = $2\nholdout_seed = $1" mini.data >held.data
    local command=$3
    shift 3
    "$DARKNET" classifier $command held.data plain.cfg "$@" >held.out 2>held.err
}
check "training with a holdout" held 0 6 train
check "it is said how many are held out" grep -q 'held.data: 6 training images are held out' held.err
check "training has the others" grep -qx 12 held.out
check "validation has these" grep -q '^validation .* 6 images' held.out
check "valid with a holdout" held 0 6 valid held/plain_final.weights
check "it is on the images held out" grep -q '^6 images: ' held.out
check "and said so" grep -q 'held.data: validation is on the 6 images held out of train=.*valid= is not read' held.err
check "the same choice resumes" held 0 6 train -resume held/plain_last.state -set net.max_batches=21
check "nothing is pointed out" lacks held.err 'training images are not'
check "another choice resumes" held 1 6 train -resume held/plain_last.state -set net.max_batches=22
check "it is pointed out" grep -q 'training images have changed since this state' held.err
held 1 5 train -resume held/plain_last.state -set net.max_batches=23
check "another number is an error" grep -q '^darknet: .*training images 12, this run has 13' held.err

# ---- a terminal ----
for i in $(seq 2000); do cat valid.list; done >many.list
sed "s|^backup.*|backup = tty|; s|^valid.*|valid = $work/many.list|" mini.data >tty.data
if on_terminal train tty.data plain.cfg -set net.max_batches=3 -set net.valid_every=1; then
    check "a terminal: progress" grep -qE '1/3, epoch [0-9.]+: CE .*, ETA [0-9:]+' tty.out
    check "a terminal: progress of a validation" grep -qE 'validating: [0-9]+/12000 images' tty.out
    check "a terminal: the validation on a line of its own" grep -qP '\e\[Kvalidation 3, ' tty.out
fi

# ---- an output that cannot be written ----
if [ -c /dev/full ]; then
    sed "s|^backup.*|backup = full|" mini.data >full.data
    "$DARKNET" classifier train full.data plain.cfg >/dev/full 2>full.err
    check "a full output: status 1" test $? = 1
    check "a full output: one line" test "$(grep '^darknet: ' full.err)" = "darknet: standard output: No space left on device"
else
    skip "a full output: no /dev/full"
fi
# A limit on the size of files that the weights keep and the state does not.
limit=$(($(wc -c <plain/plain_last.weights) / 1024 + 1))
(trap '' XFSZ && ulimit -f $limit && run large plain.cfg -set net.max_batches=2 && exit 0)
check "a state that cannot be written: status 1" test $? = 1
check "a state that cannot be written: said why" grep -q '^darknet: large/plain_last.state: cannot be written: File too large' large.err
check "a state that cannot be written: its temporary is gone" test -z "$(ls large | grep tmp-)"
sed "s|^backup.*|backup = pipe|" mini.data >pipe.data
{ "$DARKNET" classifier train pipe.data plain.cfg -set net.max_batches=0 2>pipe.err; echo $? >pipe.status; } | head -n 20 >pipe.out
check "a closed pipe: status 1" test "$(cat pipe.status)" = 1
check "a closed pipe: one line" grep -q '^darknet: standard output: Broken pipe; stopped and saved: go on with -resume pipe/' pipe.err
check "a closed pipe: weights and state are saved" test -s pipe/plain_last.weights -a -s pipe/plain_last.state
sed "s|^backup.*|backup = closed|" mini.data >closed.data
"$DARKNET" classifier train closed.data plain.cfg <&- >&- 2>&-
check "closed streams: status 0" test $? = 0
check "closed streams: files are whole" cmp closed/plain_best.weights hung/plain_best.weights
finish
