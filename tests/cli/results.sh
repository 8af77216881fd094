#!/bin/bash
# What users read results from: the chart, an early end, the confusion matrix, the wrong answers.
. "$(dirname "$0")/common.inc"
make_data
make_cfg mini.cfg
png() { head -c 8 "$1" | cmp -s - <(printf '\211PNG\r\n\032\n') && [ "$(od -An -tu1 -j16 -N8 "$1" | tr -s ' ')" = "$2" ]; }
run() { timeout 60 "$DARKNET" "$@" >out 2>err </dev/null; }
says() { grep -qE -- "$1" err || { cat err; return 1; }; }

# ---- the chart ----
check "-chart" run classifier train mini.data mini.cfg -chart chart.png
check "-chart: a PNG of 960 x 540" png chart.png " 0 0 3 192 0 0 2 28"
check "a chart where no file can be" sh -c "! '$DARKNET' classifier train mini.data mini.cfg -chart none/chart.png >out 2>err"
check "a chart where no file can be: said before training" sh -c "grep -q '^darknet: none/chart.png: cannot be written' err && [ ! -s out ]"
cp chart.png before.png
check "a run that does not begin" sh -c "! '$DARKNET' classifier train mini.data mini.cfg none -chart chart.png >out 2>err"
check "a run that does not begin leaves the chart of an earlier one" cmp before.png chart.png
weights=backup/mini_final.weights
run classifier train mini.data mini.cfg -set net.max_batches=9 -chart half.png
check "a chart of what is resumed" run classifier train mini.data mini.cfg -resume backup/mini_last.state -chart half.png
check "a chart of what is resumed shows all of it" cmp half.png chart.png

# ---- patience ----
check "patience=3" run classifier train mini.data mini.cfg -set net.patience=3 -set net.max_batches=100000 -set net.learning_rate=1e-30
check "patience=3: said" says '^patience=3'
check "patience=3: the best and three more" sh -c "grep '^validation' out | tail -n 4 | head -n 1 | grep -q best"
check "patience=3: the final weights are saved" test -s $weights
check "patience=3: none of the last three is the best" sh -c "! grep '^validation' out | tail -n 3 | grep -q best"
cp $weights stopped.weights
check "patience=3, resumed: at the end" run classifier train mini.data mini.cfg -set net.patience=3 -set net.max_batches=100000 \
    -set net.learning_rate=1e-30 -resume backup/mini_last.state
check "patience=3, resumed: said" says 'raise patience'
check "patience=3, resumed: the same weights" cmp stopped.weights $weights
check "resumed with more patience" run classifier train mini.data mini.cfg -set net.patience=5 -set net.max_batches=100000 \
    -set net.learning_rate=1e-30 -resume backup/mini_last.state
check "resumed with more patience: two more" test "$(grep -c '^validation' out)" = 2

# ---- the confusion matrix and the wrong answers ----
check "valid" run classifier valid mini.data mini.cfg $weights -confusion c.csv -errors e.csv
wrong=$(awk -F, 'NR > 1 { for (i = 2; i <= NF; i++) if (i != NR) n += $i } END { print n + 0 }' c.csv)
check "-errors: as many as the matrix has beside its diagonal" test "$(($(wc -l <e.csv) - 1))" = "$wrong" -a "$wrong" -gt 0
check "-errors: the surest first" sh -c "tail -n +2 e.csv | cut -d, -f4 | sort -c -r -n"
check "-errors: names" grep -qE '^/.*_(ant|bee|cow)\.ppm,(ant|bee|cow),(ant|bee|cow),0\.[0-9]+,0\.[0-9]+$' e.csv
check "-errors: no right answer" sh -c "! awk -F, 'NR > 1 && \$2 == \$3' e.csv | grep -q ."
check "-confusion FILE.png" run classifier valid mini.data mini.cfg $weights -confusion c.png
check "-confusion FILE.png: a PNG" png c.png " 0 0 0 216 0 0 0 216"
for list in train.list valid.list names.list; do
    cp $list kept
    check "-errors $list: refused" sh -c "! '$DARKNET' classifier valid mini.data mini.cfg $weights -errors $list >out 2>err &&
        grep -q 'would be overwritten\|exists and is not a list of wrong answers' err && cmp kept $list"
done

# ---- images that cannot be read count as wrong, and are told ----
echo x >img/30_bee.ppm
{ cat valid.list; echo "$work/img/30_bee.ppm"; } >broken.list
sed 's/^valid.*/valid = broken.list/' mini.data >broken.data
for c in valid valid10; do
    check "$c: one image cannot be read" run classifier $c broken.data mini.cfg $weights -confusion b.csv -errors be.csv
    check "$c: it is named once" test "$(grep -c '30_bee.ppm: ' err),$(grep -c '^warning: 1 of 7 ' err)" = 1,1
    check "$c: the summary counts it" grep -qE '^7 images: .* 1 unreadable' out
    check "$c: the matrix has a column for it" awk -F, 'NR == 1 && $5 != "unreadable" { exit 1 }
        NR > 1 { n += $2 + $3 + $4 + $5; u += $5 } $1 == "bee" && $5 != 1 { exit 1 } END { exit n != 7 || u != 1 }' b.csv
    check "$c: the list of errors ends with it" test "$(tail -n 1 be.csv)" = "$work/img/30_bee.ppm,bee,unreadable,0.000000,0.000000"
done
rm img/30_bee.ppm

# ---- the other ways to validate ----
for c in validcrop valid10; do
    check "$c" run classifier $c mini.data mini.cfg $weights -confusion $c.csv
    check "$c: a summary" grep -qE '^6 images: top 1: 0?[.0-9]+, top 2: [.0-9]+, CE: [.0-9]+' out
done
check "valid10 of small images: said what it is worth" says '^valid10 cuts 8x8 pixels'
for c in validfull validmulti; do
    check "$c: what instead" sh -c "! '$DARKNET' classifier $c mini.data mini.cfg $weights 2>err >out && [ \$(wc -l <err) = 1 ] && grep -q net.width err"
done

# As many images at once as there are, whatever the cfg says of another machine.
check "valid with a batch for another machine" run classifier valid mini.data mini.cfg $weights -set net.batch=16000000 \
    -set net.subdivisions=1
check "valid with a batch for another machine: the same result" sh -c "sed 's/, [0-9.]* seconds//' out | tail -n 4 >large;
    '$DARKNET' classifier valid mini.data mini.cfg $weights 2>/dev/null | sed 's/, [0-9.]* seconds//' | tail -n 4 | cmp - large"

# ---- label, test, csv: Darknet's lines ----
sed '$a test = all.list' mini.data >test.data
check label run classifier label test.data mini.cfg $weights
check "label: a name for each image" test "$(grep -cxE 'ant|bee|cow' out)" = 24 -a "$(wc -l <out)" = 24
check csv run classifier csv test.data mini.cfg $weights
check "csv: numbers of the best two" test "$(grep -cP '^/.*\.ppm\t[0-2]\t[0-2]$' out)" = 24
check "test" run classifier test test.data mini.cfg $weights
check "test: all probabilities" test "$(grep -cP '^/.*\.ppm(\t[0-9.e-]+){3}$' out)" = 24
cut -f1 out | cmp -s - all.list
check "test: in order" test $? = 0
check "label of images that are given" run classifier label mini.data mini.cfg $weights img/0_ant.ppm img/1_bee.ppm
check "label: two names" test "$(wc -l <out)" = 2
check "test without test=" sh -c "! '$DARKNET' classifier test mini.data mini.cfg $weights 2>err >out && grep -q 'no .test=' err"

# The same as Debian's darknet, of images that are not square: three stripes, so that each view shows another thing.
# Its csv crashes with more than one image at once; its test leaves out the last mini-batch and may crash then; and what
# it letterboxes to one row is not a number.
other=/usr/bin/darknet
for ((i = 0; i < 6; i++)); do
    w=$((5 + 3 * i)) h=$((4 + i % 4))
    for k in 0 1 2; do image stripe$k.ppm $w $h $((i + 7 * k)) $((i * 40)) $((k * 70)) $((200 - i * 20 - k * 60)); done
    { printf 'P6\n%d %d\n255\n' $w $((3 * h)); for k in 0 1 2; do tail -c $((3 * w * h)) stripe$k.ppm; done; } >tall$i.ppm
    image wide$i.ppm $((9 + i)) $h "$i" $((i * 40)) $((200 - i * 30)) 90
    printf '%s\n' "$work/tall$i.ppm" "$work/wide$i.ppm" >>odd.list
done
sed '$a test = odd.list' mini.data >odd.data
sed 's/^batch=.*/batch=1/; s/^subdivisions=.*/subdivisions=1/' mini.cfg >single.cfg
stock() { timeout 60 stdbuf -oL $other classifier "$@" 2>/dev/null >theirs || [ -s theirs ]; }
near() { awk 'NR == FNR { for (i = 2; i <= 4; i++) p[$1, i] = $i; next }
    { for (i = 2; i <= 4; i++) { d = p[$1, i] - $i; if (!(($1, i) in p) || d * d > 1e-8) exit 1 } } END { exit NR == FNR }' ours theirs; }
if [ -x $other ]; then
    for c in csv label; do
        check "$c of other shapes, as Debian's darknet" stock $c odd.data single.cfg $weights
        run classifier $c odd.data mini.cfg $weights
        check "$c of other shapes: the same lines" cmp out theirs
    done
    check "test of other shapes, as Debian's darknet" stock test odd.data mini.cfg $weights
    run classifier test odd.data mini.cfg $weights && mv out ours
    check "test of other shapes: the same probabilities" near
    rm -f ours theirs
    for i in 0 1 2 3; do
        for shape in tall wide; do
            $other classifier predict odd.data mini.cfg $weights $shape$i.ppm 2>/dev/null | sort -k 2 >>theirs
            "$DARKNET" classifier predict odd.data mini.cfg $weights $shape$i.ppm 2>/dev/null | sort -k 2 >>ours
        done
    done
    check "predict of other shapes: the same lines" test "$(grep -c % ours)" = 16
    check "predict of other shapes: the same percentages" sh -c "paste ours theirs |
        awk '{ d = \$1 - \$3; if (\$2 != \$4 || d * d > .0002) exit 1 }'"
else
    skip "the comparison with $other: not installed (apt install darknet)"
fi

# ---- names that promise what is not written ----
for flag in "valid -errors e.png" "valid -confusion c.jpg" "train -chart x.JPG" "train -metrics m.png"; do
    set -- $flag
    check "$flag" sh -c "! '$DARKNET' classifier $1 mini.data mini.cfg $weights $2 $3 2>err >out && [ \$(wc -l <err) = 1 ] &&
        grep -qE '^darknet: $3: what is written is (CSV|PNG)' err && [ ! -e $3 ]"
done

# ---- saveweights=, savelast= ----
sed '$a saveweights = 8\nsavelast = 5' mini.data >save.data
rm -rf backup
check "saveweights=8" run classifier train save.data mini.cfg
check "saveweights=8: after every 8 iterations" test "$(cd backup && echo mini_[0-9]*)" = "mini_16.weights mini_8.weights"
run classifier train save.data mini.cfg backup/mini_8.weights
check "saveweights=8: the iteration is in the file" grep -q '^9, ' out
finish
