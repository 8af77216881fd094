#!/bin/bash
# Bad input: exit status 1, one line that says what is wrong, and nothing else on stderr.
. "$(dirname "$0")/common.inc"
make_data
make_cfg good.cfg
make_cfg itra.cfg '[itra]' lambda=0.5 warmup=0
"$DARKNET" classifier train mini.data good.cfg >/dev/null 2>train.err || fail "the good case trains"
weights=backup/good_final.weights
cp "$weights" good.weights
size=$(wc -c <good.weights)

# bad WHAT WORDS COMMAND...: WORDS is a regular expression for the line. Remarks without "darknet:" may come before it.
bad() {
    local what=$1 words=$2 status
    shift 2
    timeout 60 "$DARKNET" "$@" >bad.out 2>bad.err </dev/null
    status=$?
    if [ $status -ne 1 ]; then
        fail "$what: exit status $status"
    elif [ "$(grep -c '^darknet: ' bad.err)" -ne 1 ] || [ "$(tail -n 1 bad.err | cut -c1-9)" != 'darknet: ' ]; then
        fail "$what: not one line: $(head -n 3 bad.err)"
    elif ! grep -qE "^darknet: .*($words)" bad.err; then
        fail "$what: $(grep '^darknet: ' bad.err)"
    else
        pass
    fi
}
# The same, and no remark either.
bad_alone() {
    bad "$@"
    [ "$(wc -l <bad.err)" -eq 1 ] || fail "$1: more than one line: $(head -n 2 bad.err)"
}
train() { # train WHAT WORDS CFG ARGS...
    local what=$1 words=$2
    shift 2
    bad "$what" "$words" classifier train mini.data "$@"
}
# edit OUT SED: a copy of the good cfg.
edit() { sed "$2" good.cfg >"$1"; }
data() { sed "$2" mini.data >"$1"; }

# ---- the command line ----
bad_alone "no command" "no command"
bad_alone "unknown command" "unknown command.*did you mean version" versoin
bad_alone "unknown sub-command" "did you mean train" classifier trian
bad_alone "classifier alone" "classifier: expected one of train, valid, .*predict" classifier
bad_alone "too few arguments" "usage: darknet classifier train" classifier train mini.data
bad_alone "too many arguments" "unexpected argument" ops good.cfg more
bad_alone "unknown flag" "unknown flag.*did you mean -clear" classifier train mini.data good.cfg -claer
bad_alone "flag of another command" "unknown flag" classifier valid mini.data good.cfg good.weights -clear
bad_alone "flag without its value" "needs a value" classifier train mini.data good.cfg -seed
bad_alone "seed that is no number" "expected a whole number" classifier train mini.data good.cfg -seed abc
bad_alone "no workers" "expected 1..1024" classifier train mini.data good.cfg -workers 0
bad_alone "no end of workers" "-workers 99999: expected 1..1024" classifier train mini.data good.cfg -workers 99999
bad_alone "no end of threads" "-threads 100000: expected 1..[0-9]+" classifier train mini.data good.cfg -threads 100000
bad_alone "more threads than make sense" "-threads 1025: expected 1.." ops good.cfg -threads 1025
bad_alone "threads after a blank" "-threads  1: expected" ops good.cfg -threads ' 1'
bad_alone "a seed that does not fit" "0..18446744073709551615" classifier train mini.data good.cfg -seed 18446744073709551616
bad_alone "a negative seed" "-seed -1: expected" classifier train mini.data good.cfg -seed -1
bad_alone "a seed after a blank" "expected a whole number" classifier train mini.data good.cfg -seed ' 5'
for flag in "-seed 3 -seed 4" "-threads 1 -threads 2" "-chart a.png -chart b.png" "-resume a -resume b"; do
    bad_alone "${flag% -*} twice" "contradicts ${flag% -*}, given before" classifier train mini.data good.cfg $flag
done
bad_alone "a joined flag" "write -seed 5" classifier train mini.data good.cfg -seed=5
bad_alone "an empty argument" "argument 2 is empty" classifier train mini.data ''
bad_alone "an empty value" "-metrics: the value after it is empty" classifier train mini.data good.cfg -metrics ''
bad_alone "unknown device" "not one of those built in" classifier train mini.data good.cfg -device tpu
bad_alone "-set without a value" "expected section.key=value" classifier train mini.data good.cfg -set net.batch
bad_alone "-set of no section" "did you mean \[net\]" classifier train mini.data good.cfg -set nett.batch=3
bad_alone "-set of an unknown key in [itra]" "did you mean lambda" classifier train mini.data itra.cfg -set itra.lamda=1
bad_alone "-resume and weights" "one of them" classifier train mini.data good.cfg good.weights -resume x.state
bad_alone "help about nothing" "did you mean convolutional" help convolutoinal
bad_alone "predict without an image" "no image" classifier predict mini.data good.cfg good.weights
bad_alone "-csv of another form" "label has lines of its own" classifier label mini.data good.cfg good.weights x.ppm -csv
bad_alone "predict both ways" "one of them" classifier predict mini.data good.cfg good.weights x.ppm -center -letterbox

for f in confusion errors; do
    bad_alone "-$f over the weights" "good.weights would be read and written" classifier valid mini.data good.cfg good.weights -$f good.weights
    bad_alone "-$f where no file can be" "none/x: cannot be written" classifier valid mini.data good.cfg good.weights -$f none/x
done
bad_alone "one file for two tables" "x would be.*written twice" classifier valid mini.data good.cfg good.weights -confusion x -errors x
bad_alone "-chart over the cfg" "good.cfg would be read and written" classifier train mini.data good.cfg -chart good.cfg

cp good.cfg adam.cfg
"$DARKNET" classifier train mini.data adam.cfg -set net.adam=1 >/dev/null 2>&1
train "a state of Adam" "written with adam=1, this run is without: resume with the same" adam.cfg -resume backup/adam_last.state

# ---- files that are not there ----
bad_alone "missing cfg" "no.cfg" classifier train mini.data no.cfg
bad_alone "missing data" "no.data" classifier train no.data good.cfg
bad_alone "missing weights" "no.weights" classifier valid mini.data good.cfg no.weights
train "missing weights in train" "no.weights" good.cfg no.weights
data list.data 's|^train.*|train = no.list|'
bad "missing list" "no.list" classifier train list.data good.cfg
data nolist.data '/^train/d'
bad "no train=" "nolist.data: no `train=`" classifier train nolist.data good.cfg
data names.data 's|^names.*|names = no.names|'
bad "missing names" "no.names: no such file" classifier predict names.data good.cfg good.weights img/0_ant.ppm
bad "missing image" "no.ppm" classifier predict mini.data good.cfg good.weights no.ppm
bad "missing state" "no.state" classifier train mini.data good.cfg -resume no.state
bad_alone "cfg for data" "good.cfg:1: .*the .cfg in place of the .data file" classifier train good.cfg good.cfg
bad "data for cfg" "mini.data:1" classifier train mini.data mini.data

# ---- weights ----
head -c $((size - 6)) good.weights >cut.weights
{ cat good.weights; printf 'abcd'; } >long.weights
head -c 10 good.weights >tiny.weights
for command in valid predict; do
    image=
    [ $command = predict ] && image=img/0_ant.ppm
    bad_alone "$command: weights cut inside a layer" "cut.weights: the file ends inside" classifier $command mini.data good.cfg cut.weights $image
    bad_alone "$command: over-long weights" "long.weights: 4 bytes are left" classifier $command mini.data good.cfg long.weights $image
    bad_alone "$command: no header" "tiny.weights: the file is too short" classifier $command mini.data good.cfg tiny.weights $image
done
train "weights cut inside a layer" "cut.weights: the file ends inside" good.cfg cut.weights
train "over-long weights" "long.weights: 4 bytes are left" good.cfg long.weights
"$DARKNET" partial good.cfg good.weights part.weights 2
bad_alone "valid: weights of some layers only" "part.weights: the file ends before" classifier valid mini.data good.cfg part.weights
"$DARKNET" partial good.cfg good.weights out.weights 99 2>many.err
check "partial: more layers than there are: all" sh -c "cmp -i 20 out.weights good.weights && grep -q '^partial: N is 99' many.err"
rm out.weights
bad_alone "partial: no layer" "in \[1, 8\]" partial good.cfg good.weights out.weights 0
bad_alone "partial: no number" "in \[1, 8\]" partial good.cfg good.weights out.weights many

# ---- cfg ----
sed 's/^lambda/lamda/' itra.cfg >lamda.cfg
bad_alone "misspelt key in [itra]" "lamda.*did you mean lambda" classifier train mini.data lamda.cfg
edit neg.cfg '0,/filters=8/s//filters=-5/'
bad_alone "filters=-5" "neg.cfg:[0-9]+: .*filters=-5" classifier train mini.data neg.cfg
edit abc.cfg '0,/filters=8/s//filters=abc/'
bad_alone "filters=abc" "abc.cfg:[0-9]+: .*filters=abc" classifier train mini.data abc.cfg
edit window.cfg '0,/size=3/s//size=30/;0,/pad=1/s//pad=0/'
bad_alone "a window larger than the map" "window.cfg:[0-9]+" classifier train mini.data window.cfg
edit section.cfg 's/^\[avgpool\]/[avgpol]/'
bad_alone "unknown section" "section.cfg:[0-9]+.*did you mean \[avgpool\]" classifier train mini.data section.cfg
sed -n '1,/^$/p' good.cfg | cat good.cfg - >twice.cfg
bad_alone "[net] again" "twice.cfg:[0-9]+: \[net\] again: a cfg has one, in line 1" classifier train mini.data twice.cfg
edit later.cfg 's/^from=-3/from=6/'
bad_alone "shortcut from a later layer" "later.cfg:[0-9]+: .*expected one before this layer" classifier train mini.data later.cfg
edit route0.cfg 's/^\[shortcut\]/[route]/;/^from/d;/^activation=leaky/d'
bad_alone "route without layers" "route0.cfg:[0-9]+.*layers" classifier train mini.data route0.cfg
edit route1.cfg 's/^\[shortcut\]/[route]/;s/^from=-3/layers=-1,6/;/^activation=leaky/d'
bad_alone "route to a later layer" "route1.cfg:[0-9]+: .*expected one before this layer" classifier train mini.data route1.cfg
edit route2.cfg 's/^\[shortcut\]/[maxpool]\nsize=2\nstride=2\n\n[route]/;s/^from=-3/layers=-1,0/;/^activation=leaky/d'
bad_alone "route of unequal sizes" "route2.cfg:[0-9]+: .*differ in size" classifier train mini.data route2.cfg
edit first.cfg '1,/^$/d'
bad_alone "no [net]" "first.cfg:1: the first section must be \[net\]" classifier train mini.data first.cfg
edit empty.cfg 'd'
bad_alone "empty cfg" "empty.cfg: the file has no sections" classifier train mini.data empty.cfg
edit activation.cfg 's/=leaky/=leeky/'
bad_alone "unknown activation" "leeky.*did you mean leaky" classifier train mini.data activation.cfg
edit crop.cfg 's/^burn_in.*/min_crop=20\nmax_crop=10/'
bad_alone "min_crop above max_crop" "crop.cfg:[0-9]+: .*min_crop" classifier train mini.data crop.cfg
check "before anything is said" test ! -s bad.out
edit gray.cfg 's/^channels=3/channels=2/'
bad_alone "two channels" "gray.cfg:6: .*channels=2" classifier train mini.data gray.cfg
check "two channels: before anything is said" test ! -s bad.out
edit flat.cfg 's/^width.*/inputs=192/;/^height/d;/^channels/d;/^\[conv/,/^\[connected/{/^\[connected/!d}'
bad_alone "a net of numbers for images" "flat.cfg:4: .*inputs=192 without height=, width= and channels=" classifier train mini.data flat.cfg
sed 's/^subdivisions.*/subdivisions=6/;s/^lambda=.*/lambda=.5\npair=split/' itra.cfg >split.cfg
train "pair=split of one image" "pair=split" split.cfg
for command in "ops split.cfg" "speed split.cfg 3" "classifier valid mini.data split.cfg good.weights" \
    "classifier predict mini.data split.cfg good.weights img/0_ant.ppm"; do
    check "pair=split of one image does not matter to ${command%% split*}" "$DARKNET" $command
done
edit noloss.cfg 's/^\[softmax\]/&\nnoloss=1/'
train "nothing to train on" "noloss.cfg:[0-9]+: \[softmax\] noloss=1: there is no loss" noloss.cfg
{ cat noloss.cfg; printf '[cost]\ntype=sse\n'; } >cost.cfg
train "nor before [cost]" "cost.cfg:[0-9]+: \[softmax\] noloss=1: there is no loss" cost.cfg
for cfg in noloss cost good; do "$DARKNET" classifier valid mini.data $cfg.cfg good.weights 2>&1 | sed -n 's/.*\(CE: [0-9.]*\).*/\1/p'; done >ce.out
check "valid computes the CE all the same" test "$(uniq ce.out | wc -l),$(wc -l <ce.out)" = 1,3
edit huge.cfg '0,/filters=8/s//filters=1000000/;0,/size=3/s//size=99/;s/^width=8/width=9999/;s/^height=8/height=9999/'
bad_alone "sizes that exceed the memory there is" "bytes|too large|memory" classifier train mini.data huge.cfg
edit huge2.cfg 's/^batch=6/batch=16000000/;s/^subdivisions.*//;s/^width=8/width=999/;s/^height=8/height=999/'
bad "a batch that exceeds the memory there is" "needs [0-9]+ MiB .* are free" classifier train mini.data huge2.cfg

# ---- data ----
edit outputs.cfg 's/^output=3/output=4/'
edit pixels.cfg '/^\[connected\]/,/^$/d;/^\[avgpool\]/d;s/^\[softmax\]/[convolutional]\nfilters=3\nactivation=linear\n\n&/'
bad "a map of classes" "pixels.cfg ends in 3 outputs for each of 8 x 8 pixels: put \[avgpool\]" classifier train mini.data pixels.cfg
bad "outputs against classes" "classes=3.*4 outputs.*output=" classifier train mini.data outputs.cfg
bad "outputs against classes: valid" "classes=3.*4 outputs" classifier valid mini.data outputs.cfg good.weights
bad "outputs against classes: predict" "classes=3.*4 outputs" classifier predict mini.data outputs.cfg good.weights x.ppm
data five.data 's/^classes.*/classes = 5/'
bad "more classes than names" "names.list.*classes=5" classifier train five.data good.cfg
: >none.list
data none.data "s|^train.*|train = $work/none.list|"
bad "an empty list" "none.list: has no lines" classifier train none.data good.cfg
{ cat train.list; cp img/0_ant.ppm img/bee_or_cow.ppm; echo "$work/img/bee_or_cow.ppm"; } >two.list
data two.data "s|^train.*|train = $work/two.list|"
bad "a path that fits two classes" "1 with several, first .*bee_or_cow.ppm.*'bee', 'cow'" classifier train two.data good.cfg
cp img/0_ant.ppm img/nothing.ppm
{ cat train.list; echo "$work/img/nothing.ppm"; } >no_label.list
data no_label.data "s|^train.*|train = $work/no_label.list|"
bad "a path without a class" "1 without a label, first .*nothing.ppm" classifier train no_label.data good.cfg
data file.data 's|^backup.*|backup = good.cfg|'
bad "backup is a file" "good.cfg: is not a folder" classifier train file.data good.cfg
data proc.data 's|^backup.*|backup = /proc/backup|'
bad "unwritable backup" "/proc/backup: the folder cannot be created" classifier train proc.data good.cfg
data tree.data '$a tree = x.tree'
bad "tree=" "tree.data:8: .*not supported" classifier train tree.data good.cfg
: >img/broken_ant.ppm
bad "an unreadable image" "broken_ant" classifier predict mini.data good.cfg good.weights img/broken_ant.ppm
bad "one of several unreadable" "1 of 2 images" classifier predict mini.data good.cfg good.weights img/0_ant.ppm img/broken_ant.ppm
{ for ((i = 0; i < 18; i++)); do echo "$work/img/broken_ant.ppm"; done; } >broken.list
data broken.data "s|^train.*|train = $work/broken.list|"
data unseen.data "s|^valid.*|valid = $work/broken.list|"
bad "nothing readable to validate on" "none of 18 images" classifier valid unseen.data good.cfg good.weights
rm -rf unseen
data unseen.data "s|^valid.*|valid = $work/broken.list|;s|^backup.*|backup = unseen|"
bad "nothing readable to validate on while training" "none of 18 images" classifier train unseen.data good.cfg
check "it is not the best" test ! -e unseen/good_best.weights
bad "nothing but unreadable images" "no readable image; the last: .*broken_ant" classifier train broken.data good.cfg
mkdir metrics.d
train "metrics file that is a folder" "metrics.d" good.cfg -metrics metrics.d
cp names.list other.list
train "metrics file of another kind" "not a metrics file" good.cfg -metrics other.list
for name in last.weights best.weights final.weights last.state metrics.csv; do
    rm -rf backup.d
    mkdir -p "backup.d/good_$name"
    data folder.data 's|^backup.*|backup = backup.d|'
    bad "good_$name is a folder" "good_$name: is a folder" classifier train folder.data good.cfg
done
mkfifo fifo
train "metrics file that is a pipe" "fifo: " good.cfg -metrics fifo
check "names.list is left alone" test "$(wc -l <names.list)" = 3

# ---- packed images, holdout, resize ----
mkdir c10 s10 pets
packed() { # packed WHAT WORDS TRAIN [SED]: training on that path
    data packed.data "s|^train.*|train = $3|;${4:-}"
    bad "$1" "$2" classifier train packed.data good.cfg
}
head -c 30729 /dev/zero >c10/test_batch.bin
packed "CIFAR-10 of a wrong size" "test_batch.bin: has 30729 bytes, expected a multiple of 3073" c10/test_batch.bin
packed "CIFAR-10 without its first batch" "c10: has no data_batch_1.bin of CIFAR-10" c10
for i in 1 2 3 4 5; do head -c 6146 /dev/zero | tr '\0' '\3' >c10/data_batch_$i.bin; done
packed "CIFAR-10, a label too large" "data_batch_1.bin: image 0 is of class 3, expected 0..2" c10
gzip -9 <c10/data_batch_1.bin | head -c -5 >c10/data_batch_3.bin.gz
rm c10/data_batch_3.bin
packed "CIFAR-10, truncated gz" "data_batch_3.bin.gz: is truncated" c10
: >train.bin
: >x.bin
packed "CIFAR-100 and 3 classes" "CIFAR-100 has 100 classes, or 20" train.bin
: >train_X.bin
packed "STL-10 without labels" "train_X.bin: its labels file is missing" train_X.bin
printf '\1' >train_y.bin
packed "an empty STL-10" "train_X.bin: has 0 bytes, expected" train_X.bin
packed "an unknown .bin" "x.bin: no .bin file of this name" x.bin
printf '\0\0\11\1\0\0\0\1' >t-images-idx3-ubyte
: >t-labels-idx1-ubyte
packed "IDX of a wrong magic" "t-images-idx3-ubyte: starts with 00 00 09 01" t-images-idx3-ubyte
printf '\1\0\10\3\0\0\0\1' >t-images-idx3-ubyte
packed "IDX of another magic" "t-images-idx3-ubyte: starts with 01 00 08 03" t-images-idx3-ubyte '/^labels/d'
mkfifo pipe.list
ln -s loop loop
packed "a pipe for images" "pipe.list: is not a regular file" pipe.list '/^labels/d'
packed "a link to itself" "loop: cannot be opened: Too many levels" loop
packed "a folder per class" "pets: is a folder .*darknet classifier prepare pets" pets
packed "no such folder" "data/gone: no such file or folder" data/gone
data resize.data '$a resize = 32'
bad "a list resized" "resize=32x32 is for packed images" classifier train resize.data good.cfg
data resize.data '$a resize = 32by32'
bad "a size that is none" "resize=32by32: expected" classifier train resize.data good.cfg
data holdout.data '$a holdout = 18'
bad "all held out" "train.list: has 18 images: holdout=18 leaves none" classifier train holdout.data good.cfg
bad "all held out: valid" "holdout=18 leaves none" classifier valid holdout.data good.cfg good.weights

# ---- states ----
state=backup/good_last.state
run_more="-set net.max_batches=30"
bad "another seed" "with seed 1, this run has 2" classifier train mini.data good.cfg -resume $state -seed 2 $run_more
bad "another batch" "with mini-batch 3, this run has 4" classifier train mini.data good.cfg -resume $state -set net.batch=8 $run_more
edit wide.cfg '0,/filters=8/s//filters=9/'
bad "another net" "belongs to another cfg: wide.cfg:13" classifier train mini.data wide.cfg -resume $state $run_more
head -c 300 $state >cut.state
bad "a cut state" "cut.state: .*damaged" classifier train mini.data good.cfg -resume cut.state $run_more
{ head -c 200 $state; printf X; tail -c +202 $state; } >flip.state
bad "a damaged state" "its checksum does not fit" classifier train mini.data good.cfg -resume flip.state $run_more
bad "weights for a state" "not a state" classifier train mini.data good.cfg -resume good.weights $run_more

# ---- numbers ----
{
    sed '/^\[softmax\]/,$d' good.cfg
    for ((i = 0; i < 8; i++)); do printf '[shortcut]\nfrom=-2\nalpha=1e6\n'; done
    echo '[softmax]'
} >grow.cfg
bad "probabilities that are no numbers: valid" "grow.cfg: a probability is not a number: the weights" classifier valid mini.data grow.cfg good.weights
bad "probabilities that are no numbers: predict" "good.weights: a probability is not a number: the weights" classifier predict mini.data grow.cfg good.weights img/0_ant.ppm
rm -rf backup
train "a loss that is not finite" "iteration [0-9]+, rate .*layer.*learning_rate" good.cfg -set net.learning_rate=1e6 \
    -set net.burn_in=0 -set net.max_batches=300 -set convolutional.batch_normalize=0
grep -q 'saved' bad.err || fail "it is said where the weights are"
check "the last good weights are kept" test "$(wc -c <backup/good_last.weights 2>/dev/null)" -gt 20
printf '[%s]\n' "net]
batch=4
height=8
width=8
channels=3
learning_rate=1e6
momentum=0
decay=1
max_batches=7
[connected]
output=8
activation=logistic
[connected]
output=3
activation=linear
[softmax" >grow.cfg
train "weights that overflow in the last update" "iteration 8, rate .*a weight is not finite.*learning_rate" grow.cfg
check "are not kept as the final ones" test ! -e backup/grow_final.weights
finish
