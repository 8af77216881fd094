#!/bin/bash
# What users of other Darknets reported, as command lines: what they get here. Each case is named after its subject.
. "$(dirname "$0")/common.inc"
make_data
make_cfg good.cfg
head='[net]\nbatch=4\nwidth=8\nheight=8\nchannels=3\nlearning_rate=0.01\nmax_batches=5\n'
tail='[convolutional]\nfilters=3\nsize=1\nactivation=linear\n[avgpool]\n[softmax]\n'
conv='[convolutional]\nbatch_normalize=1\nfilters=16\nsize=3\npad=1\nactivation=leaky\n'
printf "$head$tail" >mini.cfg
printf "$head$conv$conv$tail" >big.cfg
run() { timeout 60 "$DARKNET" "$@" >out 2>err </dev/null; }
refuses() { # refuses WORDS COMMAND...: one line with these words
    local words=$1
    shift
    run "$@"
    [ $? = 1 ] && [ "$(grep -c '^darknet: ' err)" = 1 ] && grep -qE "^darknet: .*($words)" err || { cat err; return 1; }
}
says() { grep -qE -- "$1" err || { cat err; return 1; }; }
run classifier train mini.data big.cfg || fail "the case that is right trains"
weights=backup/big_final.weights

# ---- a key that would make another net ----
other() { # other WORDS CFG-TEXT
    printf "$head$2" >x.cfg
    check "another net: $1" refuses "x.cfg:[0-9]+: .*$1" ops x.cfg
}
other xnor "${conv}xnor=1\n$tail"
other binary "${conv}binary=1\n$tail"
other tree "$tail""tree=x.tree\n"
other assisted_excitation "${conv}assisted_excitation=1\n$tail"
other 'lstm' "[lstm]\noutput=3\n$tail"
printf "$head[convolutionnal]\nfilters=2\n$tail" >x.cfg
check "a misspelt section" refuses 'unknown section \[convolutionnal\]; did you mean' ops x.cfg

printf "$head[convolutional]\nfilters=4\nsize=1\nactivation=leaky\n[route]\nlayers=-1\ngroups=2\ngroup_id=1\n$tail" >x.cfg
run ops x.cfg
check "[route] groups= is half of the channels" grep -qE '1 route +8 x 8 x 2 ' out

# Weights of the same size load into each of these: only the answer tells.
differs() { ! cmp -s "$1" "$2"; }
run classifier predict mini.data big.cfg $weights img/0_ant.ppm
cp out plain
for key in dilation=2 'stride_x=2' 'stride=2\nantialiasing=1'; do
    printf "$head$conv$key\n$conv$tail" >x.cfg
    run classifier predict mini.data x.cfg $weights img/0_ant.ppm
    check "$key is another net" differs out plain
done

# ---- [shortcut] round layers that do nothing at inference ----
for between in '[dropout]\nprobability=.5' '[activation]\nactivation=linear' '[route]\nlayers=-1' '[itra]\nlambda=0'; do
    printf "$head[convolutional]\nfilters=2\nsize=1\nactivation=leaky\n$between\n" >x.cfg
    printf "[shortcut]\nfrom=-2\nactivation=linear\n$tail" >>x.cfg
    check "[shortcut] round ${between%%\\n*}" run classifier train mini.data x.cfg
done

# ---- adam=1, as in cfgs for MNIST ----
sed 's/^max_batches.*/&\nadam=1\nB1=.9\nB2=.999\neps=.0000001/' mini.cfg >adam.cfg
check "adam=1 trains" run classifier train mini.data adam.cfg
check "nothing in it is unused" test "$(grep -c unused err)" = 0
run classifier train mini.data mini.cfg
check "to other weights than without" differ backup/adam_final.weights backup/mini_final.weights

# ---- the last layer of another number of classes ----
sed 's/^filters=3$/filters=5/' big.cfg >five.cfg
printf '%s\n' ant bee cow dog elk >five.names
sed "s/classes = 3/classes = 5/; s,^\(labels\|names\) = .*,\1 = five.names," mini.data >five.data
check "five classes train" run classifier train five.data five.cfg
check "more outputs in the file: refused, with a way out" \
    refuses 'has 5 outputs, not 3, train -finetune' classifier train mini.data big.cfg backup/five_final.weights
check "fewer outputs in the file: the same" \
    refuses 'has 3 outputs, not 5, train -finetune' classifier train five.data five.cfg $weights
check "predict says so, too" \
    refuses '5 outputs, not 3' classifier predict mini.data big.cfg backup/five_final.weights img/0_ant.ppm
for flag in -finetune -partial; do
    check "train $flag" run classifier train mini.data big.cfg backup/five_final.weights $flag
    check "train $flag: says what starts anew" says 'the last layer has 5 outputs in the file, 3 here: it starts anew'
    check "train $flag: from iteration 1" grep -q '^1, ' out
done
check "-finetune to as many classes" run classifier train mini.data big.cfg $weights -finetune -set net.max_batches=1 -set net.learning_rate=0
check "-finetune to as many classes: says what starts anew" says 'the last layer starts anew, although it has 3 outputs in the file, too'
check "-finetune to as many classes: the rest is loaded" says 'layers 0\.\.[0-9]* loaded, the rest random'
check "-finetune where the only layer with weights is the last" run classifier train mini.data mini.cfg backup/mini_final.weights -finetune
check "-finetune where the only layer with weights is the last: says so" says 'no layer is loaded: all layers are random'
check "-finetune without weights" refuses 'name the weights' classifier train mini.data big.cfg -finetune
check "partial cuts what is whole" run partial big.cfg backup/five_final.weights backbone.weights 2
run partial five.cfg backup/five_final.weights backbone2.weights 2
check "partial: the same as with the cfg of the file" cmp backbone.weights backbone2.weights
check "the backbone loads" run classifier train mini.data big.cfg backbone.weights
check "the backbone: says what is random" says 'layers 0..1 loaded, the rest random'

# ---- flags that have no effect here ----
check "-dont_show -topk -map" run classifier train mini.data mini.cfg -dont_show -topk -map -mjpeg_port 8090
check "-dont_show 1" run classifier train mini.data mini.cfg -dont_show 1 -map -clear 1
check "-dont_show -topk -map" run classifier train mini.data mini.cfg -dont_show -topk -map -mjpeg_port 8090
check "one line says so" test "$(grep -c 'without effect here: -dont_show, -topk, -map, -mjpeg_port' err)" = 1
check "-clear 1" run classifier train mini.data mini.cfg -clear 1
check "-clear 1 behind weights" run classifier train mini.data big.cfg $weights -clear 1
check "-clear 1: from iteration 1" grep -q '^1, ' out
run classifier train mini.data big.cfg $weights -clear 0
check "-clear 0: where the weights are" says 'at iteration 5 of 5'
check "flags before the command" run -dont_show classifier predict mini.data big.cfg $weights -thresh .1 img/0_ant.ppm -ext_output
check "-topk of predict: the answer is on stdout alone" grep -qE '^ *[0-9.]+%: (ant|bee|cow)$' out

# ---- images from a folder, a list, standard input; answers as CSV ----
check "a folder" run classifier predict mini.data big.cfg $weights img -t 1
check "a folder: all images, by name" test "$(grep -c ':$' out)" = 24 -a "$(head -n 1 out)" = img/0_ant.ppm:
cp out folder.out
check "standard input" sh -c "ls img/* | '$DARKNET' classifier predict mini.data big.cfg $weights -t 1 >out 2>err"
check "standard input: the same answers" cmp out folder.out
long=$(printf './%.0s' {1..2041})img/0_ant.ppm # 4095 bytes: the longest path there can be
check "standard input: a long path" sh -c "echo $long | '$DARKNET' classifier predict mini.data big.cfg $weights -t 1 >out 2>err && grep -q % out"
check "standard input: a line that is longer" sh -c "! { echo img/0_ant.ppm; echo x$long; } | '$DARKNET' classifier predict \
    mini.data big.cfg $weights >out 2>err && [ \$(grep -c ^darknet: err) = 1 ] && grep -q 'standard input: line 2 is longer than any path' err"
check "-list -" \
    sh -c "ls img/* | '$DARKNET' classifier predict mini.data big.cfg $weights -t 1 -list - >out 2>err && cmp out folder.out"
check "no image at all" refuses 'no image given' classifier predict mini.data big.cfg $weights
check "a folder without images" refuses 'is a folder without images' classifier predict mini.data big.cfg $weights backup
cp img/0_ant.ppm 'img/a, "b".ppm'
check "-csv" run classifier predict mini.data big.cfg $weights -csv -t 2 'img/a, "b".ppm' img/1_bee.ppm
check "-csv: a header, two rows for each image" test "$(wc -l <out)" = 5 -a "$(head -n 1 out)" = image,rank,class,name,probability
check "-csv: quotes" grep -qE '^"img/a, ""b"".ppm",1,[0-2],(ant|bee|cow),0\.[0-9]{6}$' out
rm 'img/a, "b".ppm'
mkdir -p cfg
cp mini.data cfg/imagenet1k.data
check "classify" run classify big.cfg $weights img/0_ant.ppm
check "classify: the most probable classes" test "$(grep -c '%: ' out)" = 3

rm cfg/imagenet1k.data
check "classify without it: what instead" refuses 'darknet classifier predict FILE.data ... does the same' classify big.cfg $weights img/0_ant.ppm

mkdir -p data && cp mini.data data/imagenet.data
check "classify without it: the data file that is there" refuses 'predict data/imagenet.data' classify big.cfg $weights img/0_ant.ppm
rm data/imagenet.data

# ---- the tutorials ----
{ cat names.list && seq -f 'n%08g' 20; } >long.list
sed 's,^labels = .*,labels = long.list,' mini.data >long.data
check "more labels than classes, as in imagenet1k.data" run classifier train long.data mini.cfg
check "classes alike" says ': 18 images, 3 classes of 6$'
sed 's/_cow/_n00000003/' train.list >x.list
sed 's,^train = .*,train = x.list,' long.data >x.data
check "an image of a label left over" refuses "6 of label 4 or later, but classes=3.*'n00000003'" classifier train x.data mini.cfg
check "BASE.backup" refuses 'big.backup: no such file, but there is backup/big_last.weights' \
    classifier train mini.data big.cfg backup/big.backup
check "BASE.weights" refuses 'but there is backup/big_final.weights' classifier valid mini.data big.cfg backup/big.weights
check "a flag where a value should be" refuses '-chart needs a value after it .FILE.png., found -clear' \
    classifier train mini.data mini.cfg -chart -clear
check "no file is called after the flag" test ! -e ./-clear
sed 's,^backup = .*,backup = backup//,' mini.data >x.data
run classifier train x.data big.cfg
check "backup = backup/, as in the tutorials" says 'earlier run are now in backup/big_metrics.csv'
run classifier train mini.data big.cfg -set net.batch=1
check "batch=1 of a cfg for predictions" says '^warning: batch=1 is for predictions'
sed '/^labels/d' mini.data >x.data
check "names= alone" refuses 'no `labels=`.*names= are what is printed' classifier train x.data big.cfg
check "a key as a flag" refuses 'write -set net.batch=VALUE' classifier train mini.data big.cfg --batch=32
check "imagenet" refuses 'classifier train, valid or predict' imagenet valid big.cfg $weights
check "demo without its group" refuses 'did you mean classifier demo' demo mini.data big.cfg $weights
check "a command without its group" refuses 'did you mean classifier train' train mini.data big.cfg
for words in 'help train' 'help classifier train' 'classifier train -h'; do
    check "$words" run $words
    check "$words: the flags" grep -q '^  -clear ' out
done
for words in help 'classifier -h' '--help' 'help classifier'; do
    check "$words" run $words
    check "$words: the commands" grep -q '^  darknet classifier train DATA' out
done
check "help of neither" refuses 'no command and no section' help trane

# ---- lists in other dialects: said at the start ----
dialect() { # dialect WHAT WORDS SED
    sed "$3" train.list >x.list
    sed 's,^train = .*,train = x.list,' mini.data >x.data
    check "a list of $1" refuses "x.list: .*$2" classifier train x.data mini.cfg
    check "a list of $1: before training" lacks out '^1, '
}
dialect labels "ends in a number: write one path a line" 's/$/ 0/'
dialect "labels before" "begins with a number: write one path a line" 's/^/1 /'
dialect semicolons "is a line of CSV" 's/$/;1/'
dialect CSV "is a line of CSV" 's/$/,1/'
dialect quotes "is in quotes" 's/.*/"&"/'
dialect backslashes 'has backslashes: write the paths with /' 's,/,\\,g'
dialect addresses "is an address" 's,^,file://,'
dialect "a folder that is not here" "none of its first 18 images is there" 's,img,pictures,'
# Labels, too.
spelt() { # spelt WHAT WORDS SED
    sed "$3" names.list >other.names
    sed 's/^labels.*/labels = other.names/' mini.data >other.data
    check "labels: $1" refuses "$2" classifier train other.data mini.cfg
}
spelt numbers "the label '1 ant' has a number before it" 's/^/1 /'
spelt "WordNet's numbers" "has a number before it" 's/^/n02085620 /'
spelt quotes "in quotes: write the labels without them" 's/.*/"&"/'
spelt capitals "the label 'ANT' differs in capitals" 's/.*/\U&/'
spelt "one twice" "other.names: label 'ant' stands on lines 1 and 2" 's/bee/ant/'

# ---- numbers that are none ----
check "a rate that is too high is blamed" refuses 'lower learning_rate or raise burn_in' classifier train mini.data big.cfg \
    -set net.learning_rate=1e3 -set net.max_batches=100
check "no image is" lacks err '\.ppm'
finish
