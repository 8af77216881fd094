#!/bin/bash
# `darknet classifier prepare`: what it prints and writes trains at once; bad folders are one clear line.
. "$(dirname "$0")/common.inc"

# photos FOLDER CLASS...: six images of each class, in a colour of its own
photos() {
    local folder=$1 i colour=("200 20 30" "20 190 40" "30 40 180") k=0
    shift
    for class in "$@"; do
        mkdir -p "$folder/$class"
        for ((i = 0; i < 6; i++)); do image "$folder/$class/$i.ppm" 8 8 $((i + 10 * k)) ${colour[k]}; done
        k=$((k + 1))
    done
}
prepare() { "$DARKNET" classifier prepare "$@" >out 2>err; }
row() { grep -qE "^$1 +$2 +$3\$" out; } # row CLASS TRAIN VALID: as in the table

# ---- what it is for; names that shells, lists and the label rule could trip over ----
photos "my pets" cat tomcat "it's a #dog"
echo note >"my pets/cat/read me.txt"
mkdir "my pets/.cache"
check "it prepares" prepare "my pets/"
cp out first.out
check "counts of a class" row "it's a #dog" 5 1
check "counts of all" row all 15 3
check "what is left out" grep -qF "left out: hidden (1), not named like images (1), first '$work/my pets/cat/read me.txt'" out
check "no remark" test ! -s err
check "no temporary files" test "$(ls | grep -c 'my pets\.')" = 5
check "lists are absolute" test "$(grep -c "^$work/my pets/" 'my pets.train.list')" = 15
check "no image is in both" test -z "$(sort 'my pets.train.list' 'my pets.valid.list' | uniq -d)"
check "labels are whole folders" test "$(tr '\n' , <'my pets.labels.txt')" = "/cat/,/it's a #dog/,/tomcat/,"
check "pictures are turned upright" grep -q '^orient = 1$' 'my pets.data'
check "names are plain" test "$(tr '\n' , <'my pets.names.txt')" = "cat,it's a #dog,tomcat,"

make_cfg tiny.cfg
next=$(sed -n "s,^next: .*darknet classifier train \(.*\) cfg.*,\1,p" out)
check "the next command names the data for a shell" test "$next" = "'my pets'.data"
check "the next command names the program as it was called" grep -qF "next: $DARKNET classifier" out
check "the next command names a cfg that is there" test -f "$here/$(sed -n 's/^next: .* \(cfg[^ ]*\) -set.*/\1/p' out)"
check "the next command suits a few images" grep -q \
    '^next: .* -set net.batch=16 -set net.learning_rate=.02 -set net.max_batches=47$' out # 50 epochs of 15
mkdir elsewhere
check "training takes it from any folder, for any blank" sh -c "cd elsewhere &&
    '$DARKNET' classifier train ../$next ../tiny.cfg -threads 1 -set net.max_batches=2 >../train.out 2>../train.err"
check "it trained" grep -q '^2, ' train.out
check "the labels were never in doubt" lacks train.err 'several\|without'

# ---- images of other kinds ----
photos foreign cat dog
touch foreign/dog/a.webp foreign/dog/b.TIFF
check "images that other builds read" prepare foreign
if ! "$DARKNET" version | grep -q '^images opencv'; then
    check "images that other builds read are told so" grep -qx "left out: WebP and TIFF images for builds with OPENCV=1 (2)" out
    rm foreign/dog/*.ppm
    check "a class of none but them" sh -c "! '$DARKNET' classifier prepare foreign -force 2>err"
    check "a class of none but them: why" grep -q "class folder dog has no images (.*WebP and TIFF need a build with OPENCV=1)" err
fi

# ---- the choice is the seed's; files are replaced only if asked ----
check "files that exist are kept" sh -c "! '$DARKNET' classifier prepare 'my pets' 2>err"
check "and it is said which" grep -q "^darknet: $work/my pets.train.list: exists: .*-out.*-force" err
cp 'my pets.valid.list' one.list
check "-force replaces them" prepare "my pets" -force -seed 1
check "the same seed, the same list" cmp 'my pets.valid.list' one.list
check "the same output" cmp out first.out
check "another seed" prepare "my pets" -seed 2 -out other
check "another choice" differ other.valid.list one.list
check "a name like a flag" prepare "my pets" -out -clear
next=$(sed -n "s,^next: .*darknet \(classifier train .*\) cfg.*,\1,p" out)
check "the next command does not take it for one" sh -c "'$DARKNET' $next tiny.cfg -threads 1 -set net.max_batches=1"
check "half" prepare "my pets" -valid .5 -out new/half
check "of each class" row cat 3 3
photos accents cat ñé
check "names of more bytes than characters" prepare accents
check "their counts are in their columns" grep -qx "$(sed -n 's/^cat /ñé  /p' out)" out

# ---- labels that cannot be mistaken: the plainest form that tells the classes ----
labels() { # labels LABELS DIR CLASS...
    local want=$1 dir=$2
    shift
    photos "$@"
    check "labels $want" prepare "$dir" -out told -force
    check "labels $want: written" test "$(tr '\n' , <told.labels.txt)" = "$want"
    check "labels $want: as the product reads them" sh -c "
        '$DARKNET' classifier train told.data tiny.cfg -threads 1 -set net.max_batches=1 -set connected.output=2 >/dev/null 2>told.err"
    check "labels $want: none in doubt" lacks told.err 'several\|without'
}
labels ant,bee, plain ant bee
labels /ant/,/antelope/, whole ant antelope
labels /0/,/1/, digits 0 1
labels /photos/ant/,/photos/bee/, bee/photos ant bee
labels "/ ant/,/xant/," blanks " ant" xant

# ---- shares of each class, the same wherever the folder lies ----
photos shares a b
mkdir moved shares/c && cp shares/a/0.ppm shares/c
check "shares" prepare shares -valid .5
check "shares of six" row a 3 3
check "shares of one" row c 1 0
check "a class of one image is pointed out" grep -qx "warning: class 'c' has one image, to train on, and none to validate on" err
cp -r shares moved/elsewhere
check "moved" prepare moved/elsewhere -valid .5
check "the choice goes by paths below" sh -c "sed 's/moved.elsewhere/shares/' elsewhere.valid.list | cmp - shares.valid.list"

# ---- sets that came apart ----
photos split/train ant bee
photos split/test bee
photos split/more bee
ln -s . split/self
check "a split folder" prepare split
check "its training images" row ant 6 0
check "its validation images" row bee 6 6
check "a class without validation images is pointed out" grep -q "^warning: .*split/test has no image of class 'ant'" err
check "so is what is left out" grep -q "split/more is left out" err
check "a link to the folder is counted" grep -q "links to a folder that holds them (1)" out

# A split is known by its content, whatever its names and case.
names() { # names TRAIN VALID [OTHER]: sets of these names are found, the other one is left out
    rm -rf sets && for s in "$@"; do photos "sets/$s" ant bee; done
    rm -f sets/*/ant/5.ppm sets/"$1"/bee/5.ppm
    check "sets $*" prepare sets -force
    check "sets $*: training" row bee 5 6
}
for pair in "train val" "Train Valid" "TRAIN VAL" "training_set test_set" "Training Testing" "train dev" \
    "train Validation" "train2017 val2017" "images-train valid test"; do names $pair; done
check "test is left out where there is validation" grep -q "sets/test is left out" err
photos railway/train coupe sleeper
photos railway tram bus train
check "classes that are called like sets" prepare railway
check "classes that are called like sets: count" row train 16 2
photos pets cat dog test
check "images to test on, without classes" prepare pets
check "images to test on, without classes: are no class" row all 10 2
check "images to test on, without classes: are named" grep -q "pets/test is left out: it is named like a set" err
photos study control test
check "a class called test" prepare study
check "a class called test: count" row test 5 1
photos untidy/train cat dog
photos untidy/val cat dog
photos untidy train other
check "a split with images that lie loose" prepare untidy
check "a split with images that lie loose: count" row all 12 12

# ---- as data sets are distributed ----
around() { # around WHAT DIR INNER TRAIN VALID: the classes cat and dog are found in DIR/INNER
    check "$1" prepare "$2" -force
    check "$1: count" row all "$4" "$5"
    check "$1: where the classes are" grep -qx "the class folders are in $work/$2/$3" err
    check "$1: the files are called after the folder" test -f "$2.data"
}
photos kaggle/train cat dog
mkdir kaggle/test kaggle/notes
cp kaggle/train/cat/*.ppm kaggle/test
cp tiny.cfg kaggle/train.csv
around "loose images to test on" kaggle train 10 2
check "loose images to test on: are named" grep -q "kaggle/test is left out: its images are not in class folders; some of train" err
check "loose images to test on: are counted" grep -qF "left out: images outside class folders (6)" out
mkdir kaggle/test/test && mv kaggle/test/*.ppm kaggle/test/test
around "images to test on in a folder" kaggle train 10 2
photos kaggle/val cat dog
check "loose images to test on beside a split" prepare kaggle -force
check "loose images to test on beside a split: count" row all 12 12
photos intel/seg_train/seg_train cat dog
photos intel/seg_test/seg_test cat dog
mkdir -p intel/seg_pred/seg_pred && cp kaggle/train/cat/*.ppm intel/seg_pred/seg_pred
check "sets in folders of their names" prepare intel
check "sets in folders of their names: count" row all 12 12
photos onion/a/b/c cat dog
around "folders around the classes" onion a/b/c 10 2
photos alone/train cat dog
around "a train folder alone" alone train 10 2
photos pairs/images cat dog
mkdir pairs/annotations && cp kaggle/train/cat/*.ppm pairs/annotations
check "folders that hold the classes beside others" prepare pairs
check "folders that hold the classes beside others: pointed out" grep -q \
    "^warning: class folder images .* folders of them (cat, dog): if those are the classes, prepare $work/pairs/images$" err

# ---- litter of systems and archives ----
photos dirty cat dog
mkdir -p dirty/__MACOSX/cat dirty/none dirty/cat/@eaDir dirty/.git
for f in __MACOSX/cat/._0.ppm __MACOSX/a.jpg .DS_Store cat/.DS_Store cat/Thumbs.db dog/desktop.ini dog/._1.ppm; do
    cp dirty/cat/0.ppm dirty/$f
done
mkfifo dirty/cat/pipe.png
check "litter is ignored" prepare dirty
check "litter is no class" row all 10 2
check "litter is counted, and folders with nothing in them" grep -q "^left out: hidden ([0-9]*), empty folders (2), pipes, sockets or devices (1)\$" out

# ---- a disk that is full, here for files of more than 1 KiB: the list of the many validation images ----
photos many cat dog
for ((i = 6; i < 20; i++)); do ln -s 0.ppm many/cat/$i.ppm && ln -s 0.ppm many/dog/$i.ppm; done
prepare_short() { (trap '' XFSZ && ulimit -f 1 && prepare many -valid .99 "$@"); }
prepare_short
check "a full disk: status 1" test $? = 1
check "a full disk: said so" grep -qE "^darknet: .*many.valid.list: cannot be written" err
check "a full disk: nothing is left" test -z "$(ls -A | grep '^many.')"
check "the same with room" prepare many
cat many.[dlntv]* >before
prepare_short -force
check "a full disk: what was there stays" sh -c 'cat many.[dlntv]* | cmp - before'

# ---- refusals: status 1, one line ----
bad() { # bad WHAT WORDS ARGS...
    local what=$1 words=$2 status
    shift 2
    prepare "$@" -out bad
    status=$?
    check "$what: status" test $status = 1
    check "$what: one line" test "$(wc -l <err)" = 1
    check "$what: $(cat err)" grep -qE "^darknet: .*($words)" err
    check "$what: nothing is written" test -z "$(ls | grep '^bad')"
}
mkdir -p empty one/cat holes/cat holes/dog
cp split/train/ant/0.ppm one/cat/1.ppm
cp one/cat/1.ppm holes/cat
echo note >holes/dog/note.txt
bad "no such folder" "nowhere: the folder cannot be read: No such file" nowhere
bad "a file" "tiny.cfg: is a file, expected a folder" tiny.cfg
bad "an empty folder" "no folders of images \(0 files.*DIR/cat/1.jpg" empty
bad "images without folders" "no folders of images \(6 files" split/train/ant
bad "one class" "one class folder only \(cat\)" one
bad "a class without images" "holes: class folder dog has no images" holes
bad "a share of all" "-valid 1: expected a number between 0 and 1" "my pets" -valid 1
bad "a share that is no number" "-valid 1e-2: expected" "my pets" -valid 1e-2
rm -r split/more split/self
photos split/test ant
bad "a share of what came apart" "has folders train and test already" split -valid .2
prepare "my pets" -out ..
check "a folder for a prefix: status 1" test $? = 1
check "a folder for a prefix: one line" grep -q "^darknet: \.\.: is a folder: -out needs a name" err
rm -r sets railway/b* railway/tram railway/train/*.ppm
for s in north south; do photos sets/$s ant bee; done
bad "sets whose names do not tell" "sets: north, south are sets, not classes, by the folders that they share: rename one to train" sets
photos mixed cat dog
photos mixed/val cat dog
bad "a set among the classes" "mixed: its folder val is named like a set, but lies beside the classes" mixed
photos partly/train cat dog
photos partly/control cat bird
bad "train and a folder with partly other classes" "control, train are sets, not classes, by the name of one" partly
photos fox/train ant bee
photos fox/Valid ant fox
bad "a class that only validation has" "there is no class 'fox' in train" fox
photos lines cat $'new\nline'
bad "a line break in a name" 'lines/new\?line/0.ppm: has a line break in its path' lines
photos blank cat "  "
bad "a blank name" "the name of its class folder is blank" blank
photos twice ant/twice/bee bee
bad "labels that cannot be told apart" "is of class 'ant', but 'bee'" twice
mkdir ones && for c in ant bee; do mkdir ones/$c && cp one/cat/1.ppm ones/$c; done
bad "single images" "no class has two images" ones
if [ "$(id -u)" != 0 ]; then
    chmod 0 holes/cat
    bad "an unreadable folder" "holes/cat: the folder cannot be read: Permission denied" holes
    chmod 700 holes/cat
else
    skip "an unreadable folder: root reads them all"
fi
finish
