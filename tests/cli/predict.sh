#!/bin/bash
# predict, valid, strip, ops, help: what they print; and against Debian's darknet where it is installed.
. "$(dirname "$0")/common.inc"
make_data
make_cfg mini.cfg '# features' '[itra]' lambda=0.2 '# lazily' every=2
"$DARKNET" classifier train mini.data mini.cfg -set net.max_batches=60 >/dev/null 2>train.err || fail "training"
weights=backup/mini_final.weights
predict() { "$DARKNET" classifier predict mini.data mini.cfg $weights "$@"; }

# ---- predict ----
predict img/0_ant.ppm >one.out 2>one.err
check "top=2: two lines" test "$(grep -cE '^ ?[ 0-9]{1,2}[0-9]\.[0-9]{2}%: (ant|bee|cow)$' one.out)" = 2
check "nothing else on stdout" test "$(wc -l <one.out)" = 2
check "the preprocessing is named" grep -q 'preprocessing: letterbox' one.err
check "sorted" sh -c "cut -d% -f1 one.out | sort -nr -c"
check "-t 1" test "$(predict img/0_ant.ppm -t 1 2>/dev/null | wc -l)" = 1
check "-t is clamped" test "$(predict -t 99 img/0_ant.ppm 2>/dev/null | wc -l)" = 3
predict img/0_ant.ppm img/1_bee.ppm -t 1 >two.out 2>/dev/null
check "several images are named" test "$(grep -c '\.ppm:$' two.out)" = 2
check "-list is the same" test "$(head -n 2 all.list >some.list; predict -list some.list -t 1 2>/dev/null | grep -c %)" = 2
check "the square image is the same either way" test "$(predict -center img/0_ant.ppm 2>/dev/null)" = "$(cat one.out)"
image wide.ppm 16 8 5 200 20 30
check "a wide image" test "$(predict wide.ppm 2>/dev/null | wc -l)" = 2
check "with -center" sh -c "'$DARKNET' classifier predict mini.data mini.cfg $weights wide.ppm -center 2>&1 >/dev/null | grep -q central"
check "the same from a long run" test "$(predict img/0_ant.ppm 2>/dev/null)" = "$(cat one.out)"

# ---- valid ----
valid() { "$DARKNET" classifier valid mini.data mini.cfg $weights "$@"; }
valid -set net.letter_box=1 >box.out
check "letter_box=1: valid shows the net whole images" grep -q "^preprocessing: a letterbox of each image" box.out
valid >valid.out 2>/dev/null
check "summary" grep -qE '^6 images: top 1: [01]\.[0-9]{6}, top 2: [01]\.[0-9]{6}, CE: [0-9.]+, compactness: [0-9.]+' valid.out
check "a row per class" test "$(grep -cE '^(ant|bee|cow) +2 ' valid.out)" = 3
for i in $(seq 50); do cat valid.list; done >many.list
sed "s|^valid.*|valid = $work/many.list|" mini.data >many.data
for command in valid valid10; do
    on_terminal $command many.data mini.cfg $weights || continue
    check "$command on a terminal: how long it will take" grep -qE '[0-9]+/300 images, ETA 0:00:[0-9]+' tty.out
    check "$command on a terminal: what it found begins on a new line" grep -qP '\e\[Kclass {20}' tty.out
done
check "in a file: no progress" lacks valid.out ETA
valid -v -confusion confusion.csv >verbose.out 2>/dev/null
check "a line per image" test "$(grep -cE "^$work/img/[0-9]+_(ant|bee|cow).ppm, [012], [01]\.[0-9]{6}, [01]\.[0-9]{6}, $" verbose.out)" = 6
check "and its running score" test "$(grep -cE '^[0-5]: top 1: [01]\.[0-9]{6}, top 2: [01]\.[0-9]{6}$' verbose.out)" = 6
check "confusion matrix: header and rows" test "$(wc -l <confusion.csv)" = 4
check "confusion matrix: it adds up" sh -c "awk -F, 'NR > 1 { for (i = 2; i <= NF; i++) n += \$i } END { exit n != 6 }' confusion.csv"
{ cat valid.list; echo "$work/img/gone_ant.ppm"; } >gone.list
sed "s|^valid.*|valid = $work/gone.list|" mini.data >gone.data
"$DARKNET" classifier valid gone.data mini.cfg $weights >gone.out 2>gone.err
check "an unreadable image counts as wrong" grep -qE '^7 images: .* 1 unreadable' gone.out
check "and is said to" grep -q 'count as wrong' gone.err

# ---- pictures with an EXIF orientation: it is ignored and that is said, once, unless orient= decides ----
for name in 30_ant 31_bee 32_cow; do cp "$here/tests/unit/jpeg/turned.jpg" img/$name.jpg && echo "$work/img/$name.jpg" >>turned.list; done
sed "s,^\(train\|valid\) = .*,\1 = turned.list," mini.data >turned.data
for orient in '' 0 1; do
    { cat turned.data && echo "${orient:+orient = $orient}"; } >orient.data
    "$DARKNET" classifier predict orient.data mini.cfg $weights img/3*.jpg >/dev/null 2>predict.err || fail "predict, orient=$orient"
    "$DARKNET" classifier valid orient.data mini.cfg $weights >/dev/null 2>valid.err || fail "valid, orient=$orient"
    "$DARKNET" classifier valid10 orient.data mini.cfg $weights >/dev/null 2>valid10.err || fail "valid10, orient=$orient"
    "$DARKNET" classifier train orient.data mini.cfg -set net.max_batches=9 -set net.batch=3 >/dev/null 2>train.err ||
        fail "train, orient=$orient"
    for c in predict valid valid10 train; do
        [ "$orient" ] && want=0 || want=1
        [ $c$want = train1 ] && want=2 # of train=, of valid=
        check "$c, orient=$orient: the orientation is spoken of $want times" \
            test "$(grep -c '/3[012]_.*.jpg: has an EXIF orientation, which is ignored: orient=1\|^img/30_ant.jpg: has an EXIF' $c.err)" = $want
    done
done
rm img/3*.jpg

# ---- strip ----
"$DARKNET" strip mini.cfg stripped.cfg
"$DARKNET" strip mini.cfg | cmp - stripped.cfg && pass || fail "strip to stdout"
check "strip: no [itra]" lacks stripped.cfg itra
check "strip: comments before it stay, those in it go" sh -c "grep -q features stripped.cfg && ! grep -q lazily stripped.cfg"
check "strip: the rest stays" test "$(grep -c '^\[' stripped.cfg)" = 9
mini() { "$DARKNET" classifier predict mini.data "$1" $weights img/4_bee.ppm 2>/dev/null; }
check "strip: predicts the same" test "$(mini stripped.cfg)" = "$(mini mini.cfg)"
cat >refer.cfg <<'END'
[net]
width=8
height=8
channels=3
[conv]
filters=2
[itra]
[conv]
filters=2
[center]
lambda=0
# joined
[route]
layers = -1, -4, 0, 2
[shortcut]
from=-3
[shortcut]
from=4
[itra]
[softmax]
END
"$DARKNET" strip refer.cfg >refer.out
check "strip: relative and absolute numbers" grep -qx 'layers=-1,-2,0,1' refer.out
check "strip: relative numbers of a shortcut" grep -qx 'from=-2' refer.out
check "strip: absolute numbers of a shortcut" grep -qx 'from=2' refer.out

# ---- ops, help, version ----
"$DARKNET" ops mini.cfg >ops.out 2>/dev/null
check "ops: a row per layer" test "$(grep -cE '^ +[0-9]+ [a-z]+ ' ops.out)" = 9
check "ops: totals" grep -qE '^trainable parameters: [0-9]+$' ops.out
check "ops: floats in the file" test "$(sed -n 's/^floats in the .weights file: //p' ops.out)" = $((($(wc -c <$weights) - 20) / 4))
check "version" sh -c "'$DARKNET' version | grep -q '^darknet 0.1.0$'"
check "help" sh -c "'$DARKNET' help | grep -q 'classifier train DATA CFG'"
check "help layers" sh -c "'$DARKNET' help layers | grep -q '^\[itra\]'"
check "help SECTION" sh -c "'$DARKNET' help conv | grep -q 'filters'"
"$DARKNET" help data >keys.out
check "help data: the keys of a data file" grep -qE '^  saveweights: [a-z]' keys.out
check "help data: not those that are refused or without effect" lacks keys.out '^  \(tree\|eval\)'
check "help of label: nothing that it refuses" lacks <("$DARKNET" help label) '-csv'
check "help of visualize: nothing without use" lacks <("$DARKNET" help visualize) '-threads\|-deterministic'
check "help net" sh -c "'$DARKNET' help net | grep -q 'learning_rate'"
for command in "classifier train" "classifier valid" "classifier predict" "classifier features" ops partial strip version help; do
    check "$command --help" sh -c "'$DARKNET' $command --help | grep -q 'usage: darknet'"
    check "$command -h" sh -c "'$DARKNET' $command -h | grep -q 'usage: darknet'"
done

# ---- an output that cannot be written; numbers that are none ----
for ((i = 0; i < 400; i++)); do cat all.list; done >many.list
{ "$DARKNET" classifier predict mini.data mini.cfg $weights -list many.list -threads 1 2>pipe.err; echo $? >pipe.status; } |
    head -n 1 >/dev/null
for command in "classifier predict mini.data mini.cfg $weights img/0_ant.ppm" "ops mini.cfg" "strip mini.cfg" version help; do
    "$DARKNET" $command >&- 2>closed.err
    check "${command%% mini*}: a closed standard output: status 1" test $? = 1
    check "${command%% mini*}: a closed standard output: one line" grep -qx 'darknet: standard output: Bad file descriptor' closed.err
done
check "a closed pipe: status 1" test "$(cat pipe.status)" = 1
check "a closed pipe: one line" test "$(cat pipe.err)" = "darknet: standard output: Broken pipe"
if [ -c /dev/full ]; then
    for command in help version "ops mini.cfg" "classifier valid mini.data mini.cfg $weights" "strip mini.cfg"; do
        "$DARKNET" $command >/dev/full 2>full.err
        check "a full output, $command: status 1" test $? = 1
        check "a full output, $command: said why" test "$(tail -n 1 full.err)" = "darknet: standard output: No space left on device"
    done
fi
bytes=$(wc -c <$weights)
huge() { # the last layer's weights, 3 x 12, become as large as floats get: finite, but their sums are not
    head -c $((bytes - 144)) $weights
    for ((i = 0; i < 36; i++)); do printf '\377\377\177\177'; done
}
huge >huge.weights
for command in valid "predict -center"; do
    image=
    [ "$command" = valid ] || image=img/0_ant.ppm
    "$DARKNET" classifier $command mini.data mini.cfg huge.weights $image >nan.out 2>nan.err
    check "$command: not a number: status 1" test $? = 1
    check "$command: not a number: said so" grep -q '^darknet: .*not a number' nan.err
    check "$command: not a number: none is printed" lacks nan.out '[nN][aA][nN]'
done
"$DARKNET" classifier valid mini.data mini.cfg $weights -set net.batch=4000000 -set net.subdivisions=2000000 >rows.out 2>rows.err
check "valid takes the rows of a mini-batch" test $? = 0

# ---- against Debian's darknet ----
other=/usr/bin/darknet
if [ ! -x $other ]; then
    skip "the comparison with $other: not installed (apt install darknet)"
    finish
fi
"$DARKNET" classifier train mini.data stripped.cfg $weights -clear -set net.max_batches=40 >/dev/null 2>&1
weights=backup/stripped_final.weights
near() { awk -F'[%:] *' 'NR == FNR { p[$NF] = $1; next } { d = p[$NF] - $1; if (!($NF in p) || d * d > .01) exit 1; n++ } END { exit n != 3 }' "$1" "$2"; }
for i in 0_ant 1_bee 5_cow; do
    "$DARKNET" classifier predict mini.data stripped.cfg $weights "img/$i.ppm" -t 3 >ours 2>/dev/null
    $other classifier predict mini.data stripped.cfg $weights "img/$i.ppm" -t 3 >theirs 2>/dev/null
    check "$i: the same percentages as Debian's darknet" near ours theirs
done
$other classifier valid mini.data stripped.cfg $weights 2>/dev/null | grep 'top 1:' | tail -n 1 >theirs
"$DARKNET" classifier valid mini.data stripped.cfg $weights -v 2>/dev/null | grep '^5: top 1:' >ours
check "valid: the same score" test -s ours -a "$(cat ours)" = "$(cat theirs)"
finish
