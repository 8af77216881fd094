#!/bin/bash
# Training by several processes on GPUs, on the host: kernels there, and NCCL over MPI. The weights are those of one process,
# which tests/cuda/train.sh compares with ref.
DARKNET=${GPU_GROUP:-none}
[ -x "$DARKNET" ] && command -v mpirun >/dev/null || { echo "skipped: no build with GPU=host MPI=1 NCCL=1, or no mpirun"; echo "0 passed, 0 failed, 1 skipped"; exit 0; }
. "$(dirname "$0")/../cli/common.inc"
train=/usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz
[ -e $train ] || { skip "Fashion-MNIST is not installed"; finish; }
. "$here/tests/cli/group.inc"
export SHIM_GPUS=3 SHIM_RECORDS=1
check "version: what connects GPUs" grep -qE '^processes on cuda: NCCL [0-9.]+$' <("$DARKNET" version)

# A net with all that depends on which rows a process has; 13 rows cannot be shared evenly.
net() { # net FILE [LINES OF A SECTION]
    cat >"$1" <<END
[net]
batch=26
subdivisions=2
height=28
width=28
channels=1
max_batches=20
learning_rate=.02
decay=.0005
pad_crop=2
flip=1
label_smooth_eps=.1
sync_bn=1
[convolutional]
filters=6
size=3
stride=2
pad=1
batch_normalize=1
activation=leaky
[dropout]
probability=.4
dropblock=1
dropblock_size_abs=3
[convolutional]
filters=6
size=3
stride=2
pad=1
batch_normalize=1
activation=linear
[dropout]
probability=.2
[connected]
output=12
activation=relu
${2:-}
[connected]
output=10
activation=linear
[softmax]
END
}
run() { # run NAME RANKS CFG FLAG...: into folder NAME; 0 ranks: without mpirun
    local name=$1 ranks=$2 cfg=$3 start=
    shift 3
    rm -rf "$name"
    printf 'classes=10\ntrain=%s\ntrain_limit=300\nholdout=20\nbackup=%s\n' $train "$name" >"$name.data"
    [ "$ranks" = 0 ] || start="mpirun -np $ranks"
    timeout -s KILL 60 $start "$DARKNET" classifier train "$name.data" "$cfg" -threads 1 -workers 1 "$@" \
        >"$name.out" 2>"$name.err" </dev/null
}
apart_at_most() { weights_near "$1"/*_final.weights "$2"/*_final.weights "$3"; }
same() { cmp "$1"/*_final.weights "$2"/*_final.weights; }

section() { # section NAME LINES...
    printf '[%s]\n' "$1"
    shift
    printf '%s\n' "$@"
}
net mode.cfg "$(section center lambda=.2)"
for mode in "" pair=loader "pair=loader match=class gradient=first" pair=split pair=memory \
    "pair=loader every=3 estimate=unbiased root=0" "pair=split conditional=0 bandwidth=pooled"; do
    [ -z "$mode" ] || net mode.cfg "$(section itra lambda=.6 warmup=auto $mode)"
    run one 0 mode.cfg
    run two 2 mode.cfg
    check "${mode:-center loss}: status" test $? = 0
    check "${mode:-center loss}: the weights of one process" apart_at_most one two 1e-6
done
# mode.cfg is that of the last mode
run eager 2 mode.cfg -eager
check "losses read at once: the same bytes" same two eager
run again 2 mode.cfg -gpus 2,0
check "once more, on other GPUs: the same bytes" same two again
check "each process has its GPU" grep -q '^seed 1, device cuda:2 ' again.out
check "validation: all images" grep -q '^validation .* 20 images' again.out
validated() { # validated START...: the lines of classifier valid
    timeout -s KILL 60 "$@" "$DARKNET" classifier valid two.data mode.cfg two/mode_final.weights -v -threads 1 </dev/null | sed 's/, [0-9.]* seconds$//'
}
check "validation by its command, on two GPUs" near 50 2e-6 <(validated env) <(validated mpirun -np 2)
run one_made 0 mode.cfg -set net.exposure=1.5
run two_made 2 mode.cfg -set net.exposure=1.5
check "images that do not stay on the device" apart_at_most one_made two_made 1e-6
run three 3 mode.cfg
check "three processes" apart_at_most one three 1e-6
run rest 3 mode.cfg -resume two/mode_last.state -set net.max_batches=21
check "resumed by another number of processes" grep -q '^21, ' rest.out
run coarse 2 mode.cfg -precision bf16
check "bf16: near" apart_at_most one coarse .05

# Each process for itself: as ref does it.
net own.cfg "$(section itra lambda=2 warmup=0 every=2 sync=0)"
sed -i s/sync_bn=1// own.cfg
run ref 2 own.cfg -device ref
run own 2 own.cfg
check "sync=0, batch norm of own rows: the weights of ref" apart_at_most ref own 1e-4 # ref sums in double
check "sync=0: the losses of ref" near 20 1e-3 <(grep '^[0-9]*, ' ref.out | sed 's/, [0-9.]* seconds//; s/, itra.*//') <(grep '^[0-9]*, ' own.out | sed 's/, [0-9.]* seconds//')

# ---- what cannot be ----
says() { # says WHAT WORDS NAME: it failed, and rank 0 says so in one line
    check "$1: status" test $? != 0
    check "$1: one line" test "$(grep -c '^darknet: ' "$3.err")" = 1
    check "$1: which" grep -qE "^darknet: .*($2)" "$3.err"
}
run wild 2 mode.cfg -set net.learning_rate=1e6
says "a loss that is not finite" "iteration [0-9]*, .*not finite" wild
run one_card 2 mode.cfg -i 1
says "two processes on a GPU" "ranks 0 and 1 have the same GPU: .*-gpus 0,1" one_card
run few 3 mode.cfg -gpus 0,1
says "fewer GPUs than processes" "rank 2: -gpus 0,1: process 2 of this machine, from 0 on, has none" few
run more 4 mode.cfg
says "more processes than GPUs" "rank 3: cuda:3: there are 3 GPUs" more
run alone 0 mode.cfg -gpus 0,1
says "several GPUs for one process" "-gpus 0,1: a process uses one GPU: .*mpirun -np N" alone
finish
