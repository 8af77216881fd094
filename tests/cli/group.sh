#!/bin/bash
# Training by several processes: the weights of one process, in each mode of [itra]; what one rank suffers, all learn.
. "$(dirname "$0")/common.inc"
alone=${MPI_DARKNET:-none} double=${MPI_DOUBLE:-none}
check "data/results/scaling.md is what scripts/scaling writes" cmp "$here/data/results/scaling.md" <("$here/scripts/scaling")
OMPI_COMM_WORLD_SIZE=2 "$DARKNET" classifier train no.data no.cfg >out 2>err
check "built without MPI: said" grep -q '^darknet: started as one of several processes, but built without MPI: make MPI=1' err
if [ ! -x "$alone" ] || ! command -v mpirun >/dev/null; then
    skip "no build with MPI=1 (MPI_DARKNET), or no mpirun"
    finish
fi
. "$here/tests/cli/group.inc"
make_data
check "version: what connects processes" grep -qE '^processes: .*MPI' <("$alone" version)
PMI_SIZE=4 "$alone" classifier train mini.data no.cfg >out 2>err
check "started by another MPI's mpirun: said" grep -q '^darknet: started as one of 4 processes, but MPI finds none of the others' err
# A net with all that depends on which rows a process has: batch norm in two halves, dropout, blocks of it, crops.
net() { # net FILE [ITRA LINES]
    make_cfg "$@"
    sed -i 's/^batch=6/batch=12/; s/max_batches=20/max_batches=50\nsync_bn=1\nvalid_every=0\nmin_crop=8\nmax_crop=11\nangle=9\nlabel_smooth_eps=.1/' "$1"
    sed -i '0,/^\[avgpool\]/s//[dropout]\nprobability=.4\ndropblock=1\ndropblock_size_abs=2\n\n[avgpool]/' "$1"
}
train() { # train RANKS PROGRAM ARGUMENTS...: 0 ranks: without mpirun
    local ranks=$1 program=$2
    shift 2
    rm -rf backup
    if [ "$ranks" = 0 ]; then
        timeout 120 "$program" classifier train mini.data "$@" >out 2>err </dev/null
    else
        timeout 120 mpirun -np "$ranks" "$program" classifier train mini.data "$@" >out 2>err </dev/null
    fi
}

for mode in "" "pair=loader" "pair=loader match=class gradient=first" "pair=split" "pair=memory" "pair=loader every=3 estimate=unbiased root=0"; do
    section=
    [ -z "$mode" ] || section=$(printf '[itra]\nlambda=.6\nwarmup=0\n%s' "$(tr ' ' '\n' <<<"$mode")")
    [ -n "$mode" ] || section=$(printf '[center]\nlambda=.2')
    net mode.cfg "$section"
    train 0 "$double" mode.cfg
    cp backup/mode_final.weights one.weights
    for ranks in 2 3; do
        train $ranks "$double" mode.cfg
        check "${mode:-center loss}, $ranks processes: status" test $? = 0
        check "${mode:-center loss}, $ranks processes: the weights of one" weights_near one.weights backup/mode_final.weights 1e-6
    done
done
# Each process for itself is another loss.
net apart.cfg "$(printf '[itra]\nlambda=2\nwarmup=0\nsync=0')"
train 0 "$double" apart.cfg
cp backup/apart_final.weights one.weights
train 2 "$double" apart.cfg
check "sync=0: trains" test -s backup/apart_final.weights
check "sync=0: is not the loss of all" eval '! weights_near one.weights backup/apart_final.weights 1e-4'
net alone.cfg "$(printf '[itra]\nlambda=2\nsync=0\npair=memory')"
train 2 "$double" alone.cfg
check "sync=0 with a memory: refused" grep -q '^darknet: alone.cfg:[0-9]*: \[itra\].* sync=0 needs pair=loader or split' err
check "a refusal: one line" test "$(grep -c '^darknet: ' err)" = 1

# As users build it: few iterations, since float drifts as it does from one number of threads to another.
net few.cfg "$(printf '[itra]\nlambda=.6\nwarmup=0')"
train 0 "$alone" few.cfg -set net.max_batches=4 -threads 1
cp backup/few_final.weights one.weights
train 2 "$alone" few.cfg -set net.max_batches=4 -threads 1
check "float: the weights of one" weights_near one.weights backup/few_final.weights 1e-4
check "what is each process's own is told" test "$(grep -c '^\(seed\|memory\).* in each of 2 processes$' out)" = 2
check "one line an iteration" test "$(grep -c '^[0-9]*, ' out)" = 4
check "one row an iteration" test "$(grep -c ^train, backup/few_metrics.csv)" = 4
train 0 "$alone" few.cfg -threads 1
grep ^validation out | sed 's/, [0-9.]* seconds.*//' >one.out

# Batch norm by each process's own rows, validation shared out; the same bytes each time.
make_cfg own.cfg "$(printf '[itra]\nlambda=.6\nwarmup=0')"
sed -i 's/^batch=6/batch=12/' own.cfg
train 2 "$alone" own.cfg -threads 1 -workers 1
cp backup/own_last.weights a.weights
cp backup/own_last.state a.state
cp out a.out
train 2 "$alone" own.cfg -threads 1 -workers 3
check "as many processes: the same weights" cmp backup/own_last.weights a.weights
check "as many processes: the same state" cmp backup/own_last.state a.state
check "batch norm of few rows each: said" grep -q '^warning: batch norm over shares of 3 is noisy: .* sync_bn=1' err
check "validation: all images" grep -q '^validation .* 6 images' out
"$alone" classifier valid mini.data own.cfg backup/own_last.weights >valid.out 2>err
check "validation: that of one process" test "$(sed -n 's/^validation 20, .*CE \([0-9.]*\),.*/\1/p' out)" = "$(sed -n 's/.*CE[ =:]*\([0-9.]*\).*/\1/p' valid.out | tail -n 1)"

# classifier valid by several processes: the lines and files of one, also of images that cannot be read.
printf 'P6\n8 8\n255\n' >img/cut_bee.ppm
{ cat all.list; echo "$work/img/cut_bee.ppm"; } >more.list
sed "s,$work/valid.list,$work/more.list," mini.data >more.data
# Open MPI 5.0.7 now and then forwards the one stream as the other.
echo 'exec "$@" >"out.$OMPI_COMM_WORLD_RANK" 2>"err.$OMPI_COMM_WORLD_RANK"' >each.sh
validated() { grep -v '^[0-9]* images' out; sed -n 's/, [0-9.]* seconds.*//p' out; cat right.csv wrong.csv; sort err; }
for command in valid valid10; do
    "$alone" classifier $command more.data own.cfg backup/own_last.weights -v -confusion right.csv -errors wrong.csv >out 2>err
    check "$command by one process: the cut one" grep -q ', 1 unreadable' out
    validated >one.valid
    for ranks in 2 3 30; do
        timeout 120 mpirun -np $ranks sh each.sh "$alone" classifier $command more.data own.cfg backup/own_last.weights -v \
            -threads 1 -confusion right.csv -errors wrong.csv </dev/null
        check "$command by $ranks processes: status" test $? = 0
        cat out.* >out && cat err.* >err && rm out.* err.*
        check "$command by $ranks processes: what one says" near 30 2e-6 one.valid <(validated)
    done
done
cp backup/own_last.weights backup/own_first.weights
printf x | dd of=backup/own_first.weights bs=1 seek=100 conv=notrunc status=none
differing valid mini.data own.cfg backup/own_last.weights -- valid mini.data own.cfg backup/own_first.weights
check "valid, other weights elsewhere: refused" grep -q '^darknet: rank 1: the weights are not those of rank 0' err
differing valid mini.data own.cfg backup/own_last.weights -- valid10 mini.data own.cfg backup/own_last.weights
check "another command elsewhere: refused" grep -qx 'darknet: valid: another process does valid10' err
timeout 120 mpirun -np 2 "$alone" classifier valid mini.data own.cfg backup/none.weights >out 2>err </dev/null
check "valid, no weights: status" test $? != 0
check "valid, no weights: one line" test "$(grep -c '^darknet: .*none.weights' err)" = 1

# Stopped in between, where nothing was due, and resumed: as if nothing had happened.
train 2 "$alone" own.cfg -threads 1 -set net.valid_every=0
cp backup/own_final.weights a.weights
train 2 "$alone" own.cfg -threads 1 -set net.valid_every=0 -set net.max_batches=13
timeout 120 mpirun -np 2 "$alone" classifier train mini.data own.cfg -threads 1 -resume backup/own_last.state >out 2>err </dev/null
check "stopped and resumed: the same weights" cmp backup/own_final.weights a.weights

# Resumed by any number of processes.
for ranks in 0 1 2 3; do
    rm -rf backup
    mkdir backup
    cp a.state backup/own_last.state
    run=
    [ $ranks = 0 ] || run="mpirun -np $ranks"
    timeout 120 $run "$alone" classifier train mini.data own.cfg -resume backup/own_last.state -set net.max_batches=24 >out 2>err </dev/null
    check "resumed by $ranks processes" test $? = 0 -a -s backup/own_final.weights
    check "resumed by $ranks processes: whether it were as many" \
        test $ranks = 2 -o "$(grep -c 'was written with 2 processes, this run has .*(mpirun -np 2: as if' err)" = 1
    [ $ranks = 1 ] || # alone on the terminal that mpirun makes
        check "resumed by $ranks processes: from where it was" test "$(grep -c '^[0-9]*, ' out)" = 4
done

# ---- what one rank suffers ----

net long.cfg "$(printf '[itra]\nlambda=.6')"
sed -i 's/max_batches=.*/max_batches=1000000/' long.cfg
printf 'savelast = 10\n' | cat mini.data - >often.data
begin() { # begin RANKS [ARGUMENTS...]: in the background, as $run; the processes are $ranks
    local n=$1
    shift
    rm -rf backup out
    timeout 120 mpirun -np "$n" "$alone" classifier train often.data long.cfg -threads 1 "$@" >out 2>err </dev/null &
    run=$!
    await grep -q '^40, ' out
    ranks=($(pgrep -f "^$alone classifier train often.data"))
}
for who in 0 1; do
    begin 3
    start=$SECONDS
    kill -9 "${ranks[who]}"
    wait $run
    check "a killed process: status" test $? != 0
    check "a killed process: the others end within 10 s" test $((SECONDS - start)) -le 10
    check "a killed process: nobody is left" eval '! pgrep -f "^$alone classifier train often.data"'
    for n in 1 2 3; do
        cp -r backup kept
        timeout 120 mpirun -np $n "$alone" classifier train often.data long.cfg -resume backup/long_last.state -threads 1 \
            -set net.max_batches=$(($(grep -E '^[0-9]+, ' out | tail -n 1 | cut -d, -f1) + 5)) >more.out 2>err </dev/null
        check "a killed process: resumed by $n" test $? = 0 -a -s backup/long_final.weights
        rm -rf backup
        mv kept backup
    done
done
begin 2
kill -TERM "${ranks[1]}"
wait $run
check "a signal to one: status" test $? = 143
check "a signal to one: all stop, and it is saved" grep -q '^stopped by a signal and saved' err
check "a signal to one: said once" test "$(grep -c '^stopped by' err)" = 1
check "a signal to one: to be resumed" test -s backup/long_last.state

begin 2
kill -STOP "${ranks[1]}"
sleep 2
kill -CONT "${ranks[1]}"
now=$(grep -E '^[0-9]+, ' out | tail -n 1 | cut -d, -f1)
check "a slow process: the others wait" await grep -q "^$((now + 20)), " out
kill -TERM "${ranks[0]}"
wait $run

begin 2 -set net.valid_every=1
prlimit --pid "${ranks[0]}" --fsize=1000:
check "a full disk: said" await grep -q '^warning: not saved: .*; training goes on' err
now=$(grep -E '^[0-9]+, ' out | tail -n 1 | cut -d, -f1)
check "a full disk: training goes on" await grep -q "^$((now + 20)), " out
prlimit --pid "${ranks[0]}" --fsize=unlimited:
kill -TERM "${ranks[1]}"
wait $run
check "a full disk, emptied: saved at the end" test $? = 143 -a -s backup/long_last.state

# rank 0 may write no file, or none that large: training goes on
cat >limited.sh <<END
[ "\$OMPI_COMM_WORLD_RANK" != 0 ] || ulimit -f 1
exec "\$@"
END
rm -rf backup
timeout 120 mpirun -np 2 sh limited.sh "$alone" classifier train mini.data own.cfg -threads 1 >out 2>err </dev/null
check "no room for rank 0: one line" test "$(grep -c '^darknet: .*cannot be written' err)" = 1

# one that only rank 1 sees, in validation
printf 'P6 not' >bad_cow.ppm
{ head -n 5 valid.list; echo "$work/bad_cow.ppm"; } >flawed.list
sed "s,^valid.*,valid = flawed.list," mini.data >flawed.data
rm -rf backup
timeout 120 mpirun -np 2 "$alone" classifier train flawed.data own.cfg -set net.max_batches=1 >out 2>err </dev/null
check "an image that only rank 1 validates: named" grep -q 'bad_cow.ppm: .*counts as wrong' err

# 5 of 400 images, of which no process meets more than 4 in the first epoch
for i in $(seq 22); do cat train.list; done | head -n 395 >poor.list
for i in 1 2 3 4 5; do echo "$work/lost_${i}_cow.ppm"; done >>poor.list
sed "s,^train.*,train = poor.list," mini.data >poor.data
timeout 120 mpirun -np 2 "$alone" classifier train poor.data own.cfg -set net.max_batches=40 >out 2>err </dev/null
check "unreadable images: those of all count" grep -q '^darknet: 5 of 400 images were unreadable so far' err
check "unreadable images: one line" test "$(grep -c '^darknet: ' err)" = 1

# images that only rank 1 cannot read
sed 's/valid.list/nothing.list/' mini.data >other.data
differing train mini.data own.cfg -- train other.data own.cfg
check "a failure of rank 1: status" test $? != 0
check "a failure of rank 1: rank 0 says so" grep -q '^darknet: rank 1: .*nothing.list' err
check "a failure of rank 1: one line" test "$(grep -c '^darknet: ' err)" = 1
train 2 "$alone" own.cfg
(cd backup && md5sum *) >before
differing train mini.data own.cfg -- train mini.data own.cfg -seed 2
check "another seed: refused" grep -q '^darknet: rank 1: the cfg, the seed, .* not that of rank 0' err
check "refused: what an earlier run wrote is as it was" cmp before <(cd backup && md5sum *)
# What would let one wait for the other for ever, if it were not found at the start.
odd() { # odd NAME MESSAGE ARGUMENTS OF RANK 0 -- THOSE OF RANK 1
    differing "${@:3}"
    check "$1: refused" grep -q "^darknet: rank 1: $2" err
}
sed /^valid/d mini.data >blind.data
odd "no validation" 'the validation images are not those of rank 0' train mini.data own.cfg -- train blind.data own.cfg
train 0 "$alone" own.cfg
cp backup/own_last.state end.state
cp backup/own_last.weights end.weights
odd "one is at the end already" 'the weights are not those of rank 0' train mini.data own.cfg -resume end.state -- train mini.data own.cfg
odd "one counts from 0" 'the iteration to go on from' train mini.data own.cfg end.weights -- train mini.data own.cfg end.weights -clear
# rank 1 runs out of memory when it alone needs some
cat >scarce.c <<'END'
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>
pid_t gettid(void);
void *aligned_alloc(size_t alignment, size_t n)
{
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    void *p;
    if (rank && !strcmp(rank, "1") && gettid() == getpid() && !access("scarce", F_OK)) return NULL;
    return posix_memalign(&p, alignment, n) ? NULL : p;
}
END
if cc -D_GNU_SOURCE -shared -fPIC -o scarce.so scarce.c; then
    export LD_PRELOAD=$work/scarce.so
    begin 3 -set net.valid_every=0
    start=$SECONDS
    touch scarce
    wait $run
    unset LD_PRELOAD
    check "no memory in one: the others end within 10 s" test $((SECONDS - start)) -le 10
    check "no memory in one: it says so" grep -q '^darknet: .*not enough memory' err
else
    skip "no memory in one: no cc"
fi
# or as soon as it is connected: those that wait for it must not wait for ever
cat >early.c <<'END'
#include <stdlib.h>
#include <string.h>
int MPI_Initialized(int *) __attribute__((weak));
void *aligned_alloc(size_t alignment, size_t n)
{
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    int connected = 0;
    void *p;
    if (rank && !strcmp(rank, "1") && MPI_Initialized) MPI_Initialized(&connected);
    return connected || posix_memalign(&p, alignment, n) ? NULL : p;
}
END
if cc -shared -fPIC -o early.so early.c; then
    LD_PRELOAD=$work/early.so timeout -s KILL 30 mpirun -np 2 "$alone" classifier train mini.data own.cfg >out 2>err </dev/null
    check "no memory to connect: they end" test $? = 1
    check "no memory to connect: it says so" grep -q '^darknet: not enough memory to connect' err
fi
train 3 "$alone" own.cfg -set net.batch=4
check "more processes than rows: refused" grep -q '^darknet: .*mini-batches of 2 images for 3 processes' err
check "a cfg that is not there: one line" eval 'train 2 "$alone" no.cfg; test "$(grep -c "^darknet: " err)" = 1'
finish
