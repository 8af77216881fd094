#!/bin/bash
# scripts/reproduce: runs of a second on data made here; whatever is killed ends with the same table when it is started
# again. $DARKNET is the program under test.
. "$(dirname "$0")/common.inc"

# 40 images to train on and 10 to hold out, 20 to test on, 28x28 in 10 classes: a bright row of pixels for each class, and noise.
python3 - <<'END'
import random, struct
random.seed(1)
for name, count in (("train", 50), ("t10k", 20)):
    with open(f"{name}-images-idx3-ubyte", "wb") as images, open(f"{name}-labels-idx1-ubyte", "wb") as labels:
        images.write(struct.pack(">4I", 0x803, count, 28, 28))
        labels.write(struct.pack(">2I", 0x801, count))
        for i in range(count):
            labels.write(bytes([i % 10]))
            images.write(bytes(random.randrange(60) + 150 * (y // 2 == i % 10) for y in range(28) for _ in range(28)))
END

# The trainer, but one that says which process it is.
printf '#!/bin/sh\necho $$ >>%s/pids\nexec %s "$@"\n' "$work" "$DARKNET" >darknet
chmod +x darknet
export DARKNET=$work/darknet

reproduce() { "$here/scripts/reproduce" "$@"; }
# An extra cell of fmnist, two seeds of it: a narrow net, 80 iterations of 10 images, a state every 8.
cell=(run fmnist --name a --seeds 2 --threads 1 --set net.batch=10 --set net.max_batches=80 --set itra.lambda=0
    --set convolutional.filters=2 --set net.valid_every=2 --set data.train_limit=40 --set data.holdout=10
    --set data.train="$work/train-images-idx3-ubyte" --set data.valid="$work/t10k-images-idx3-ubyte" --results)
table() { reproduce report fmnist --results "$1" | grep -v '^Commit:'; }
has() { grep -q -- "$1" "$2"; }
is_over() { ! grep -q '^State:[[:space:]]*[^ZX[:space:]]' "/proc/$1/status"; } # is_over PID: at most a zombie is left
# signalled PID: a signal waits for that stopped process, or has ended it
signalled() { is_over "$1" || grep -Eq '^(Sig|Shd)Pnd:.*[1-9a-f]' "/proc/$1/status"; }

# ---- what there is to run ----
for c in list run report; do
    check "$c --help" reproduce "$c" --help
done
reproduce list >list.out
for t in fmnist kmnist lenet cifar10 stl10 cifar100 lambda recipe scarce resnet101 imagenet time; do
    check "list: $t" grep -q "^$t: " list.out
done
reproduce run fmnist --dry-run --seeds 2 --results none >dry.out
check "40 cells, two seeds" test "$(grep -c 'classifier train' dry.out)" = 80
check "seed after seed" test "$(grep -n 'seed 2:' dry.out | head -n 1 | cut -d: -f1)" = 42
check "label smoothing by the paper's rule" grep -q '^smooth-0.1 .*net.label_smooth_eps=0.09 ' dry.out
reproduce run fmnist --dry-run --seeds 1 --results none --only 'itra*root0*auto' >only.out
check "--only: one root, one warmup, five lambdas" test "$(grep -c 'classifier train' only.out)" = 5
reproduce run fmnist --dry-run --results none --recipe paper --only itra-0.6 --seeds 1 >paper.out
check "recipe paper: no warm-up" grep -q 'itra.warmup=0 ' paper.out
check "recipe paper: its rate, and drop after 20 epochs" grep -q 'learning_rate=.01 .*net.steps=667 ' paper.out
reproduce run resnet101 --scale full --dry-run --results none --only '*batch100' --seeds 1 >batch.out
check "half the batch, twice the steps" grep -q 'batch=100 .*steps=25000,50000 .*max_batches=75000' batch.out
reproduce run scarce --dry-run --results none --only n500-baseline --seeds 1 >scarce.out
check "few images: 90 epochs of 500" grep -q 'net.steps=120,240 .*max_batches=300' scarce.out
says() { # says TEXT COMMAND...: fails with that in its one line on stderr
    local text=$1
    shift
    ! "$@" >/dev/null 2>said && [ "$(wc -l <said)" = 1 ] && grep -q -- "$text" said
}
check "a table without a small scale says so" says 'full scale only' reproduce run cifar10 --dry-run
check "a pattern that fits nothing" says 'fits no cell' reproduce run fmnist --only nothing --dry-run
check "no data: the script that gets them" says 'get-kmnist.sh' reproduce run kmnist --name x \
    --set data.train=missing --results no
check "no data: nothing is made" test ! -e no

check "a count that is none" says 'max_batches=1e3: expected a whole number' reproduce run fmnist --name x \
    --set net.max_batches=1e3 --results no
check "a run without an end" says 'max_batches=0: expected a whole number, from 1 on' reproduce run fmnist --name x \
    --set net.max_batches=0 --results no
check "nothing to test on is told before training" says 'no valid=, which names the test set' reproduce run fmnist --name x \
    --set data.train="$work/train-images-idx3-ubyte" --set data.valid= --results no
check "a bad flag: one line, too" says "argument --seeds: invalid positive value: '0'" reproduce run fmnist --seeds 0
check "a folder that no .data file can name" says 'a # after a blank' reproduce run fmnist --results 'no #1'
check "a folder as the program" says 'is not there: run make' env DARKNET="$work" "$here/scripts/reproduce" run fmnist \
    --name x --set itra.lambda=0 --results no

# ---- a run ----
check "two runs" reproduce "${cell[@]}" whole --jobs 2
run=whole/fmnist/small-ours/a/seed-2
for f in net.cfg train.data test.data command run.json log metrics.csv result.json backup/net_final.weights; do
    check "$f is there" test -s "$run/$f"
done
check "the command has the seed" has '-seed 2' "$run/command"
check "the result has the commit" has '"commit"' "$run/result.json"
table whole >whole.md
check "a row under other settings" grep -qE '^\| a \| 2 \| [0-9.]+ \+- [0-9.]+ \|.*`net.batch=10`' whole.md
check "the paper's numbers" has '^| baseline | 0 | - | - | 92.43, 0.294 |' whole.md
check "the last validation of training, on the images held out" grep -q "\"ce\": $(tail -n 1 "$run/metrics.csv" |
    cut -d, -f12)" "$run/result.json"
check "training validates on 10 images" grep -q '^validation .* 10 images' "$run/log"
check "the test set, not the training set" has '"images": 20,' "$run/result.json"
check "csv: a line a run" test "$(reproduce report --csv --results whole | wc -l)" = 3
bytes=$'folder of \xff'
check "a path that is no UTF-8" sh -c 'PYTHONIOENCODING=utf-8:strict "$@"' - "$here/scripts/reproduce" "${cell[@]}" "$bytes" --seeds 1
reproduce "${cell[@]}" whole >again.out
check "finished runs stay" grep -q '2 runs, 2 finished' again.out
reproduce "${cell[@]}" whole --seeds 1 --set net.decay=.1 >other.out
check "another setting under the same name is noticed" grep -q 'finished with other settings' other.out

# ---- what does not belong together ----
cp -r whole mixed
reproduce "${cell[@]}" mixed --seeds 3 --set net.decay=.1 >mixed.out
reproduce "${cell[@]}" mixed --seeds 1 --recipe paper >>mixed.out
reproduce report fmnist --results mixed >mixed.md
check "other settings: a row of their own, which names them" test "$(grep -c '^| a .*| 1 |.*net.decay=.1`' mixed.md)" = 1
check "the others stay as they were" test "$(sed -n 's/^| a (settings [^)]*) | 2 |//p' mixed.md)" = "$(sed -n 's/^| a | 2 |//p' whole.md)"
check "another recipe: a table of its own" test "$(grep -c '^## fmnist, scale small, recipe \(ours\|paper\):' mixed.md)" = 2
check "with its one run" sh -c "sed '1,/recipe paper:/d' mixed.md | grep -q '^| a | 1 |'"

# ---- damaged files ----
for text in '' '[1]' '{"settings": {}}'; do
    rm -rf damaged
    cp -r whole damaged
    echo "$text" >damaged/fmnist/small-ours/a/seed-1/result.json
    reproduce report fmnist --results damaged >damaged.md 2>&1
    check "damaged result '$text': the report says so" has 'Not finished: a seed 1 (result.json is damaged)' damaged.md
    reproduce "${cell[@]}" damaged >damaged.out 2>&1
    table damaged >damaged.md 2>&1
    check "damaged result '$text': made again" cmp whole.md damaged.md
done
rm -rf damaged
cp -r whole damaged
rm damaged/fmnist/small-ours/a/seed-1/result.json
echo '[1]' >damaged/fmnist/small-ours/a/seed-1/run.json
echo 'kind,1' >damaged/fmnist/small-ours/a/seed-2/metrics.csv
rm damaged/fmnist/small-ours/a/seed-2/result.json damaged/fmnist/small-ours/a/seed-2/backup/net_last.state
reproduce "${cell[@]}" damaged >damaged.out 2>&1
table damaged >damaged.md 2>&1
check "damaged run.json and metrics: made again" cmp whole.md damaged.md
rm damaged/fmnist/small-ours/a/seed-2/result.json
sed -i '2s/,.*/,x/' damaged/fmnist/small-ours/a/seed-2/metrics.csv
reproduce "${cell[@]}" damaged >damaged.out 2>&1
what_to_do='(if it comes again: remove .*damaged/fmnist/small-ours/a/seed-[12] to run it from the start)'
check "metrics damaged after the end: what to do" has "FAILED: metrics.csv is damaged .*$what_to_do" damaged.out
# fresh: both runs whole, the first one to be finished again from its last state
one=damaged/fmnist/small-ours/a/seed-1
fresh() { rm -rf damaged && cp -r whole damaged && rm $one/result.json; }
finished_again() { # finished_again WHAT: with the same table
    reproduce "${cell[@]}" damaged >damaged.out 2>&1
    table damaged >damaged.md
    check "$1" cmp whole.md damaged.md
}
told() { # told WHAT TEXT: it fails, with that and what to do; done, the same table comes
    reproduce "${cell[@]}" damaged >damaged.out 2>&1
    check "$1: status 1" test $? = 1
    check "$1: what to do" has "a seed 1: FAILED: .*$2.*$what_to_do" damaged.out
    rm -r $one
    finished_again "$1: done"
}
fresh
echo garbage >$one/net.cfg
finished_again "a damaged net.cfg is written again"
fresh
truncate -s 1000 $one/backup/net_last.state
told "a damaged state" "the file is damaged"
fresh
: >$one/backup/net_last.state
told "an empty state" "0 bytes are too few"
fresh
truncate -s 100 $one/backup/net_final.weights
told "cut weights" "the file ends inside"
fresh
rm $one/metrics.csv
told "lost metrics" "metrics.csv: No such file"
fresh
sed -i '$d' $one/metrics.csv
told "the last validation is lost" "no validation after iteration 80"
fresh
sed -i '/^train,80,/d' $one/metrics.csv
told "the last iteration is lost" "not each of the iterations 1 to 80"
fresh
rm -r damaged/fmnist/small-ours/a/seed-2
cp -r whole/fmnist/small-ours/a/seed-1 damaged/fmnist/small-ours/a/seed-2
reproduce report fmnist --results damaged >damaged.md
check "a copied run is no second seed" has 'Not finished: a seed 1; a seed-2 (result.json is a copy of that of another run)' damaged.md
for what in set ce; do
    fresh
    mkdir damaged/fmnist/small-ours/b
    mv damaged/fmnist/small-ours/a/seed-2 damaged/fmnist/small-ours/b/
    python3 - $what <<'END'
import json, sys
path = "damaged/fmnist/small-ours/b/seed-2/result.json"
result = {**json.load(open(path)), "cell": "b"}
if sys.argv[1] == "set":
    result["settings"]["set"] = [1]
else:
    result["test"]["ce"] = 10**400
json.dump(result, open(path, "w"))
END
    check "what no run writes ($what): CSV" reproduce report fmnist --csv --results damaged
    reproduce report fmnist --results damaged >damaged.md
    check "what no run writes ($what): said so" has 'b seed 2 (result.json is damaged)' damaged.md
done

# ---- failures ----
reproduce "${cell[@]}" failing --set itra.lamda=1 >failing.out 2>&1
check "a failing run gives status 1" test $? = 1
check "it is reported with its reason" has 'a seed 1: FAILED: exit status 1: .*lamda' failing.out
check "the others are tried too" has '\[2/2\] a seed 2: FAILED' failing.out
(ulimit -f 0 && reproduce "${cell[@]}" full 2>&1) | cat >full.out
check "a full disk: the file is named" has 'a seed 1: FAILED: .*full/fmnist/small-ours/a/seed-1/net.cfg: File too large' full.out
check "a full disk: nothing temporary" test -z "$(find full -name '*.tmp')"
reproduce report fmnist --results failing >failing.md
check "the report says so" has 'Not finished: a seed 1 (failed: exit status 1' failing.md

# ---- killed ----
seed1=cut/fmnist/small-ours/a/seed-1
killed() { # killed WHOM SIGNAL: in the middle of the first run; late=1 when it may have been past its last signal check
    rm -rf cut pids
    "$here/scripts/reproduce" "${cell[@]}" cut >cut.out 2>&1 & # no function: $! must be the script itself
    local script=$! trainer
    await test -s $seed1/backup/net_last.state
    trainer=$(head -n 1 pids)
    kill -STOP "$trainer" 2>/dev/null
    late=0
    grep -q '^validation 72' $seed1/log && late=1 # of 80 iterations; the log is written line by line
    case $1 in
    script) kill "-$2" "$script" ;;
    trainer) kill "-$2" "$trainer" ;;
    both) kill "-$2" "$script" "$trainer" ;;
    esac
    await signalled "$trainer" # a script that is slow to pass the signal on must not find its trainer done
    kill -CONT "$trainer" 2>/dev/null
    wait "$script" 2>/dev/null
    status=$?
    await is_over "$trainer"
}
same_table() { # the rest of the work, and the table of uninterrupted work
    reproduce "${cell[@]}" cut >rest.out && table cut >cut.md && cmp whole.md cut.md
}
midway() { # midway WHAT COMMAND...: where it cannot be told, the first run having ended too early, skipped
    if [ "$late" = 1 ]; then skip "$1: the run ended before it could be killed"; else check "$@"; fi
}
for whom in script trainer both; do
    check "$whom killed: no trainer is left" killed $whom KILL
    [ $whom = script ] && midway "script killed: its trainer saves and ends" grep -q 'stopped by a signal' $seed1/stderr
    [ $whom = trainer ] && midway "trainer killed: said so" grep -q 'a seed 1: FAILED: killed by SIGKILL' cut.out
    check "$whom killed: the same table" same_table
    [ $whom = trainer ] || midway "$whom killed: went on from the state" grep -q 'a seed 1: goes on' rest.out
done
check "interrupted: no trainer is left" killed script TERM # a shell has its background jobs ignore SIGINT
check "interrupted: status 143" test "$status" = 143
check "interrupted: says how to go on" grep -q 'the same command goes on' cut.out
midway "interrupted: its trainer saves and ends" grep -q 'stopped by a signal' $seed1/stderr
check "interrupted: the same table" same_table

# ---- two at once ----
reproduce "${cell[@]}" twice >one.out 2>&1 &
first=$!
reproduce "${cell[@]}" twice >two.out 2>&1
check "two at once: the second ends well" test $? = 0
check "two at once: the first too" wait "$first"
check "two at once: each run is made once" test "$(cat one.out two.out | grep -c ': starts')" = 2
table twice >twice.md
check "two at once: the same table" cmp whole.md twice.md

finish
