#!/bin/bash
# Commands that turn weights into others, or show them: against Debian's darknet, and by what the nets then answer.
. "$(dirname "$0")/common.inc"
make_data
cat >mini.cfg <<'END'
[net]
batch=6
width=8
height=8
channels=3
learning_rate=0.05
max_batches=20
[convolutional]
batch_normalize=1
filters=4
size=3
activation=leaky
[convolutional]
filters=4
size=1
activation=relu
[connected]
batch_normalize=1
output=6
activation=leaky
[connected]
output=3
activation=linear
[softmax]
END
for seed in 1 2; do
    "$DARKNET" classifier train mini.data mini.cfg -seed $seed >/dev/null 2>err || fail "the nets train: $(cat err)"
    cp backup/mini_final.weights $seed.weights
done
answers() { # answers OUT CFG WEIGHTS
    "$DARKNET" classifier predict mini.data "$2" "$3" -list all.list -csv -t 3 2>/dev/null | sort -t, -k1,1 -k3,3n | cut -d, -f1,3,5 >"$1"
    [ "$(wc -l <"$1")" -gt 70 ]
}
same() { # same FILE FILE: the same probabilities within 1e-5
    paste -d, "$1" "$2" | awk -F, '$1 != "image" { d = $3 - $6; if (d < 0) d = -d; if ($1 != $4 || d > 1e-5) exit 1; n++ } END { exit !n }'
}
# numbers FILE FILE [TOLERANCE]: the same header, the same numbers
numbers() {
    python3 - "$@" <<'END'
import struct, sys
a, b = (open(f, "rb").read() for f in sys.argv[1:3])
least = float(sys.argv[3]) if len(sys.argv) > 3 else 0
x, y = (struct.unpack("<%df" % ((len(d) - 20) // 4), d[20:]) for d in (a, b))
sys.exit(a[:20] != b[:20] or len(x) != len(y) or any(abs(p - q) > least * max(1, abs(p)) for p, q in zip(x, y)))
END
}
check "the net answers" answers answer mini.cfg 1.weights

oracle=/usr/bin/darknet
if [ -x $oracle ]; then
    # Without [connected] that is normalised, whose scales Darknet takes from the first file.
    sed '/connected/,$s/batch_normalize=1//' mini.cfg >conv.cfg
    for n in 1 2; do
        "$DARKNET" classifier train mini.data conv.cfg -seed $n >/dev/null 2>&1
        cp backup/conv_final.weights c$n.weights
    done
    $oracle average conv.cfg o.average.conv c1.weights c2.weights >/dev/null 2>&1 </dev/null
    "$DARKNET" average conv.cfg average.conv c1.weights c2.weights
    for c in denormalize rgbgr; do $oracle $c mini.cfg 1.weights o.$c >/dev/null 2>&1 </dev/null; done
    $oracle partial mini.cfg 1.weights o.partial 2 >/dev/null 2>&1 </dev/null
else
    echo "skipped: no darknet to compare with"
fi
like_oracle() { [ ! -x $oracle ] || numbers "$1" "o.$1" "${2:-0}"; }

check average "$DARKNET" average mini.cfg average 1.weights 2.weights
check "average: Darknet's numbers" like_oracle average.conv 1e-6
check "average of one" "$DARKNET" average mini.cfg one 1.weights
check "average of one: itself" cmp one 1.weights
check partial "$DARKNET" partial mini.cfg 1.weights partial 2
check "partial: Darknet's bytes" like_oracle partial

check denormalize "$DARKNET" denormalize mini.cfg 1.weights denormalize
check "denormalize: Darknet's numbers" like_oracle denormalize 1e-5
sed '/batch_normalize/d' mini.cfg >plain.cfg
check "denormalize: answers without normalisation" answers plain plain.cfg denormalize
check "denormalize: the same ones" same plain answer
check normalize "$DARKNET" normalize plain.cfg denormalize normalize
sed 's/^\(filters\|output\)=/batch_normalize=1\n&/' plain.cfg >full.cfg
check "normalize: answers with normalisation" answers full full.cfg normalize
check "normalize: the same ones" same full answer
check reset "$DARKNET" reset mini.cfg 1.weights reset
check "reset: answers" answers reset.answer mini.cfg reset
check "reset: the same ones" same reset.answer answer
check "reset: other weights" differ reset 1.weights

check rgbgr "$DARKNET" rgbgr mini.cfg 1.weights rgbgr
check "rgbgr: Darknet's bytes" like_oracle rgbgr
check "rgbgr: answers" answers rgbgr.answer mini.cfg rgbgr
check "rgbgr: others" differ rgbgr.answer answer
"$DARKNET" rgbgr mini.cfg rgbgr back 2>/dev/null
check "rgbgr twice: as before" cmp back 1.weights

# mean=0.5, std=0.5 makes images of 0..1 those of -1..1.
sed 's/^channels=3/&\nmean=0.5,0.5,0.5\nstd=0.5,0.5,0.5/' mini.cfg >wide.cfg
check rescale "$DARKNET" rescale mini.cfg 1.weights rescale
check "rescale: answers for -1..1" answers wide wide.cfg 1.weights
check "rescale: answers for 0..1" answers narrow mini.cfg rescale
check "rescale: the same ones" same wide narrow
sed '0,/batch_normalize/{/batch_normalize/d}' mini.cfg >bias.cfg
"$DARKNET" classifier train mini.data bias.cfg >/dev/null 2>&1
check "rescale of a bias" "$DARKNET" rescale bias.cfg backup/bias_final.weights rescale
if [ -x $oracle ]; then
    $oracle rescale bias.cfg backup/bias_final.weights o.rescale >/dev/null 2>&1 </dev/null
    check "rescale of a bias: Darknet's numbers" like_oracle rescale 1e-5
fi

check statistics sh -c "'$DARKNET' statistics mini.cfg 1.weights >out"
check "statistics: every parameter" test "$(grep -c 'MSE: .*, Mean: .*, Variance: ' out)" = 14
check speed sh -c "'$DARKNET' speed mini.cfg 10 >out"
check "speed: Darknet's lines" test "$(sed 's/[0-9.][0-9.]*/N/g' out | tr '\n' '|')" = \
    "|N evals, N Seconds|Floating Point Operations: N Bn|FLOPS: N Bn|Speed: N sec/eval|Speed: N Hz|"
check ops sh -c "'$DARKNET' ops mini.cfg >out"
flops=$(grep -o '^Floating Point Operations: [0-9]*$' out)
check "ops: operations" test -n "$flops"
[ ! -x $oracle ] || check "ops: Darknet's operations" sh -c "$oracle ops mini.cfg 2>/dev/null | grep -qx '$flops'"
png() { head -c 8 "$1" | cmp -s - <(printf '\211PNG\r\n\032\n'); }
check visualize "$DARKNET" visualize mini.cfg 1.weights filters.png
check "visualize: a PNG" png filters.png
check imtest "$DARKNET" imtest img/0_ant.ppm mini.cfg
check "imtest: a PNG" png imtest.png
check "imtest: the same for the same seed" sh -c "'$DARKNET' imtest img/0_ant.ppm mini.cfg -out b.png >/dev/null && cmp b.png imtest.png"
check "imtest: without a cfg" "$DARKNET" imtest img/0_ant.ppm -out c.png

refused() { # refused WORDS ARGS...
    local words=$1
    shift
    "$DARKNET" "$@" >out 2>err
    [ $? = 1 ] && [ "$(wc -l <err)" = 1 ] && grep -qE "^darknet: .*$words" err || { cat err; return 1; }
}
printf '[net]\nwidth=8\nheight=8\nchannels=3\n[connected]\noutput=3\n[softmax]\n' >flat.cfg
"$DARKNET" classifier train mini.data flat.cfg -set net.max_batches=1 >/dev/null 2>&1
check "rgbgr without a convolution" refused 'does not begin with a convolution' rgbgr flat.cfg backup/flat_final.weights x
printf '[net]\nwidth=8\nheight=8\nchannels=3\n[convolutional]\nfilters=3\ngroups=3\nsize=3\n[connected]\noutput=3\n[softmax]\n' >groups.cfg
"$DARKNET" classifier train mini.data groups.cfg -set net.max_batches=1 >/dev/null 2>&1
for c in rgbgr rescale visualize; do
    check "$c of groups" refused 'does not begin with a convolution of the image, without groups' $c groups.cfg backup/groups_final.weights x
done
printf '[net]\nwidth=8\nheight=8\nchannels=3\nbatch=6\n[local]\nfilters=2\nsize=3\npad=1\n[connected]\nbatch_normalize=1\noutput=3\n[softmax]\n' >local.cfg
sed '/normal/d' local.cfg >local.plain.cfg
"$DARKNET" classifier train mini.data local.cfg -set net.max_batches=1 >/dev/null 2>&1
check "rgbgr of [local]" refused 'does not begin with a convolution' rgbgr local.cfg backup/local_final.weights x
check "denormalize with [local]" "$DARKNET" denormalize local.cfg backup/local_final.weights local.weights
check "denormalize with [local]: answers" answers local.answer local.cfg backup/local_final.weights
check "denormalize with [local]: answers without normalisation" answers local.plain local.plain.cfg local.weights
check "denormalize with [local]: the same ones" same local.plain local.answer
check "imtest: -set without a cfg" refused 'imtest has no cfg' imtest img/0_ant.ppm -set net.angle=90
check "more parameters than memory" refused 'make the net or its input smaller' statistics local.cfg x -set local.filters=1048576 -set local.size=4096
cp mini.cfg kept.cfg
check "OUT is the cfg" refused 'mini.cfg would be read and written' denormalize mini.cfg 1.weights ./mini.cfg
check "OUT is WEIGHTS" refused '1.weights would be read and written' partial mini.cfg 1.weights 1.weights 1
check "OUT is one of WEIGHTS" refused '1.weights would be read and written' average mini.cfg 1.weights 2.weights 1.weights
cp 2.weights kept.weights
check "average of one over another: refused" refused '2.weights exists, and would be a copy of 1.weights: name OUT' average mini.cfg 2.weights 1.weights
check "average of one over another: it is as it was" cmp kept.weights 2.weights
# OUT forgotten: 2.weights is taken for it. So it stays, once; what the command writes again has nothing to keep.
"$DARKNET" average mini.cfg 3.weights 1.weights average
for n in 1 2; do "$DARKNET" average mini.cfg 2.weights 1.weights average 2>err$n; done
check "average over the first weights: said" grep -q '^average: what was in 2.weights is now 2.weights.old ' err1
check "average over the first weights: they stay" cmp kept.weights 2.weights.old
check "average over the first weights: it is the mean" cmp 2.weights 3.weights
check "average again: not a word about what stays" lacks err2 '\.old'
check "average over a mean" "$DARKNET" average mini.cfg 2.weights 1.weights average 1.weights
check "average over a mean: the first weights stay" cmp kept.weights 2.weights.old
check "the same average again: keeps nothing" eval '"$DARKNET" average mini.cfg 3.weights 1.weights average && test ! -e 3.weights.old'
ln -s 3.weights link.weights
check "average over a link" "$DARKNET" average mini.cfg link.weights 1.weights kept.weights average
check "average over a link: what it stood for stays" cmp link.weights.old 3.weights
cp kept.weights 2.weights
cp img/0_ant.ppm photo
check "average over a photo" refused 'photo: exists and is not a .weights file' average mini.cfg photo 1.weights average
check "average over a photo: it stays, alone" eval 'cmp photo img/0_ant.ppm && test ! -e photo.old'
check "strip into itself" refused 'mini.cfg would be read and written' strip mini.cfg mini.cfg
check "the cfg is as it was" cmp kept.cfg mini.cfg
check "no weights" refused 'no such file' reset mini.cfg none x
check "no number" refused 'expected a number of evaluations' speed mini.cfg fast
check "a folder that is not there" refused 'none/x' denormalize mini.cfg 1.weights none/x
check "commands of other Darknets" refused 'which is for classifiers' detector test
check "print: what instead" refused 'use darknet statistics' print mini.cfg 1.weights
check "reset_normalize: what instead" refused 'use darknet reset ' reset_normalize mini.cfg 1.weights 2.weights
check "commands of other Darknets: what instead" refused 'use darknet classifier train' cifar train x
finish
