#!/bin/bash
# scripts/figures: pictures from tables and arrays made here, and what it says about bad ones.
. "$(dirname "$0")/common.inc"
figures=$here/scripts/figures python=/usr/bin/python3

# ---- without the libraries: stand-ins that cannot be imported ----
mkdir empty
for module in matplotlib sklearn numpy; do echo 'raise ImportError' >empty/$module.py; done
for command in "" training lambda tsne; do
    check "$command --help needs no libraries" sh -c "PYTHONPATH=empty $figures $command --help | grep -q '^usage: figures'"
done
for seed in 1 2; do
    awk -v seed=$seed 'BEGIN {
        OFS = ","
        print "kind,iteration,epoch,images,ce,match,lambda,rate,images_per_second,top1,topk,valid_ce,compactness,same_distance"
        for (i = 1; i <= 60; i++) {
            print "train", i, i / 10, i * 100, 2 / i + seed / 50, "", 0, .01, 900, "", "", "", "", ""
            if (i % 10 == 0) print "valid", i, i / 10, i * 100, "", "", "", "", "", .9 - 1 / i, .99, 1 / i + seed / 20, .5 - i / 1000, 3
        }
    }' >base$seed.csv
    sed 's/,0,0.01,900/,0.4,0.01,900/' base$seed.csv >itra$seed.csv
done
PYTHONPATH=empty $figures training base1.csv -o out.png 2>missing.err
check "without matplotlib: status 1" test $? = 1
check "without matplotlib: what to do" grep -qx "figures: matplotlib is not installed for .*: run scripts/deps.sh figures" missing.err

if ! $python -c 'import matplotlib, sklearn' 2>/dev/null; then
    skip "the pictures: matplotlib or scikit-learn is not installed (scripts/deps.sh figures)"
    finish
fi
export OMP_NUM_THREADS=1

# drawn WHAT FILE COMMAND...: a PNG of 1350 pixels' width, below 150 kB, announced in one line.
drawn() {
    local what=$1 file=$2
    shift 2
    if ! "$@" -o "$file" >draw.out 2>draw.err; then
        fail "$what: $(tail -n 1 draw.err)"
        return
    fi
    check "$what: a picture" $python -c "
import struct
data = open('$file', 'rb').read()
assert data[:8] == b'\x89PNG\r\n\x1a\n' and struct.unpack('>I', data[16:20])[0] == 1350
assert 5000 < len(data) < 150000, len(data)"
    check "$what: one line" grep -qE "^$file: 1350 x [0-9]+ pixels, [0-9]+ kB$" draw.out
}
refused() { # refused WHAT WORDS COMMAND...
    local what=$1 words=$2
    shift 2
    "$@" -o bad.png >bad.out 2>bad.err
    if [ $? = 1 ] && [ "$(wc -l <bad.err)" = 1 ] && grep -qE "^figures: .*($words)" bad.err; then
        pass
    else
        fail "$what: $(tail -n 1 bad.err)"
    fi
    check "$what: no picture" test ! -e bad.png
    rm -f bad.png
}
# inside CODE: Python that sees the functions of scripts/figures as f.
inside() {
    $python - <<END
import argparse, importlib.machinery, importlib.util, sys
from pathlib import Path
sys.path.insert(0, "$here/scripts")
loader = importlib.machinery.SourceFileLoader("figures", "$figures")
f = importlib.util.module_from_spec(importlib.util.spec_from_loader("figures", loader))
loader.exec_module(f)
$1
END
}

# ---- training ----
drawn "training" training.png $figures training base1.csv itra1.csv
drawn "several seeds" seeds.png $figures training base?.csv itra?.csv
check "seeds make a difference" differ seeds.png training.png
mkdir -p results/itra-0.4/seed-1
cp itra1.csv results/itra-0.4/seed-1/metrics.csv
check "names: given, from the folder, from the lambda in force" inside '
names = [f.label_of(*f.split_name(a), f.read_run(f.split_name(a)[1])[0])
         for a in ("mine=base1.csv", "results/itra-0.4/seed-1/metrics.csv", "itra2.csv", "base2.csv")]
assert names == ["mine", "itra-0.4", "ITRA", "baseline"], names'
check "what is drawn: percent, and the mean CE of each epoch" inside '
_, c = f.read_run(Path("base1.csv"))
assert list(c["top1"]) == [1, 2, 3, 4, 5, 6] and abs(c["top1"][2] - 85) < 1e-4, c["top1"]
mean = sum(2 / i + .02 for i in range(11, 21)) / 10
assert list(c["ce"])[1] == 1.55 and abs(c["ce"][1.55] - mean) < 1e-5, c["ce"]'
check "mean and standard deviation" inside '
m, s = f.mean_and_spread([1, 2, 4.5])
assert abs(m - 2.5) < 1e-12 and abs(s - 3.25 ** .5) < 1e-12 and f.mean_and_spread([3])[1] == 0'
cut -d, -f1-12 base1.csv | sed 's/$/,,/' | sed '1s/.*/kind,iteration,epoch,images,ce,match,lambda,rate,images_per_second,top1,topk,valid_ce,compactness,same_distance/' >flat.csv
drawn "a net without a feature layer" flat.png $figures training flat.csv
refused "no such file" "gone.csv: No such file" $figures training gone.csv
refused "another table" "has no column kind: expected the metrics" $figures training <(echo a,b)
sed '9s/,0,0.01/,x0,0.01/' base1.csv >bad.csv
refused "a word for a number" "bad.csv:9: lambda is 'x0': expected a number" $figures training bad.csv
sed '9s/,,,,$//' base1.csv >cut.csv
refused "a line cut off" "cut.csv:9: fewer fields" $figures training cut.csv
head -n 40 base1.csv >whole.csv
{ cat whole.csv; sed -n 41p base1.csv | head -c 15; } >torn.csv # as a kill, or a run that goes on, leaves it
drawn "all but a torn last line" torn.png $figures training torn.csv
check "the torn line is told" grep -qx "figures: torn.csv:41: the last line is cut off and left out" draw.err
drawn "the whole lines" whole.png $figures training whole.csv
check "the same picture" cmp torn.png whole.png
head -c 300 base1.csv >early.csv
"$figures" training early.csv -o bad.png 2>bad.err
check "torn before the first validation: status 1" test $? = 1
check "torn before the first validation: said so" grep -q "^figures: early.csv: no validation in it" bad.err
{ printf '\xef\xbb\xbf'; sed 's/$/\r/' whole.csv; } >sheet.csv
drawn "from a spreadsheet" sheet.png $figures training sheet.csv
check "the same picture" cmp sheet.png whole.png
: >nothing.csv
refused "an empty table" "nothing.csv: has no column kind" $figures training nothing.csv
check "a name with a line below is in the legend" inside '
figure, (axis,) = f.panels(1, 3, None)
f.draw_curve(axis, [{"ce": {1: 2}}], "ce", {"color": "k"}, "_x")
assert axis.get_legend_handles_labels()[1] == [" _x"]'
grep -v ^valid base1.csv >blind.csv
refused "no validation" "no validation" $figures training blind.csv
printf '\377\376\0' >binary.csv
refused "no text" "is no CSV" $figures training binary.csv
$figures training base1.csv -o no/out.png 2>bad.err
check "a folder that is not there" grep -qx "figures: no/out.png.*: No such file or directory" bad.err
$figures training base1.csv -o out.pdf 2>bad.err
check "another ending" grep -q "ends in .png" bad.err

# ---- lambda: folders of runs, and what reproduce makes of them ----
$python - <<'END'
import json, pathlib
for seed in (1, 2):
    for strength in ("0", ".2", ".6"):
        for warmup in ("auto", "0"):
            cell = f"itra-{strength}-warmup{warmup}"
            lost = strength == ".6" and warmup == "0" and seed == 1
            folder = pathlib.Path(f"runs/fmnist/small-ours/{cell}/seed-{seed}")
            folder.mkdir(parents=True)
            settings = {"set": [f"itra.lambda={strength}", f"itra.warmup={warmup}"], "cfg": "fmnist-conv5-quarter",
                        "cfg_hash": "x", "data": {}}
            test = {"top1": .1 if lost else .8 + seed / 100, "ce": 2.3026 if lost else .5 - float(strength) / 10 - seed / 100,
                    "compactness": .5, "same_distance": 2}
            result = {"table": "fmnist", "scale": "small", "recipe": "ours", "cell": cell, "seed": seed, "started": "",
                      "iterations": 9, "seconds": 1, "settings": settings, "settings_hash": warmup + strength, "test": test,
                      "holdout": None, "commits": [{"commit": "c", "dirty": False}], "train_ce": .1, "collapsed": lost,
                      "step_seconds": None}
            (folder / "result.json").write_text(json.dumps(result))
END
"$here/scripts/reproduce" report fmnist --results runs --csv >report.csv 2>report.err || fail "report: $(cat report.err)"
drawn "lambda" lambda.png $figures lambda report.csv
drawn "from the folders" folders.png $figures lambda runs/fmnist/small-ours
check "the same picture" cmp lambda.png folders.png
head -n 1 report.csv >many.csv
for i in 0 1 2 3 4 5 6 7 8 9; do sed -n 's/itra.warmup=auto/itra.every='$i'/p' report.csv; done >>many.csv
check "many settings: legend below the panels, each point near its lambda" inside '
seen = []
f.save = lambda figure, out, below: (figure.tight_layout(rect=(0, below, 1, 1)), seen.append(figure))
f.command_lambda(argparse.Namespace(results=Path("many.csv"), title=None, out=Path("many.png")))
figure, = seen
assert all(a.get_tightbbox().y0 >= figure.legends[0].get_window_extent().y1 for a in figure.axes)
assert all(min(abs(x - y) for y in (.2, .6)) < .05 for line in figure.axes[0].lines[1:] for x in line.get_xdata())'
check "other methods are no line" inside '
kind = lambda *words: f.setting_of({"set": " ".join(words)})
assert kind("net.batch=9", "itra.lambda=.2", "itra.root=0", "itra.warmup=auto") == (.2, "root 0, warmup auto")
assert kind("itra.lambda=0") == (0, "") and kind("itra.lambda=0", "center.lambda=0") == (0, "")
assert kind("itra.lambda=0", "center.lambda=.1") is None and kind("itra.lambda=0", "net.label_smooth_eps=.1") is None'
sed 's/,small,/,full,/' report.csv | tail -n +2 | cat report.csv - >mixed.csv
refused "two scales" "fmnist full .*; fmnist small .*: one figure shows one" $figures lambda mixed.csv
head -n 1 report.csv >none.csv
refused "no number for lambda" "itra.lambda=x: expected a number" $figures lambda <(sed 's/itra.lambda=[^ ,]*/itra.lambda=x/' report.csv)
mkdir -p broken/seed-1
echo '[1]' >broken/seed-1/result.json
refused "a damaged result" "broken/seed-1/result.json: is damaged" $figures lambda broken
refused "no run" "no result of an ITRA run" $figures lambda none.csv
refused "metrics for a report" "expected what scripts/reproduce report" $figures lambda base1.csv

# ---- t-SNE ----
$python - <<'END'
import random, struct
def save(name, kind, shape, values):
    head = f"{{'descr': '<{kind}4', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    with open(name, "wb") as out:
        out.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + struct.pack(f"<{len(values)}{kind}", *values))
random.seed(1)
labels = [i % 3 for i in range(60)]
for name, spread in (("base", .6), ("itra", .2)):
    save(name + ".npy", "f", (60, 4), [random.gauss(k == j, spread) for k in labels for j in range(4)])
    save(name + ".labels.npy", "i", (60,), labels)
save("other.npy", "f", (60, 4), [0.] * 240)
save("other.labels.npy", "i", (60,), labels[::-1])
save("short.npy", "f", (5, 2), [0.] * 10)
save("short.labels.npy", "i", (5,), [0] * 5)
save("odd.npy", "f", (59, 4), [0.] * 236)
save("odd.labels.npy", "i", (60,), labels)
save("nan.npy", "f", (60, 4), [float("nan")] * 240)
save("nan.labels.npy", "i", (60,), labels)
save("same.npy", "f", (60, 4), [1.5] * 240)
save("same.labels.npy", "i", (60,), labels)
save("single.npy", "f", (60, 1), [1e30 * random.random() for _ in labels])
save("single.labels.npy", "i", (60,), labels)
save("none.npy", "f", (0, 4), [])
save("none.labels.npy", "i", (0,), [])
save("strange.npy", "f", (60, 4), [0.] * 240)
save("strange.labels.npy", "i", (60,), [2**31 - 1] * 60)
END
printf 'ant\nbee\ncow\n' >three.names
drawn "t-SNE" tsne.png $figures tsne baseline=base.npy ITRA=itra.npy --names three.names --points 40
drawn "t-SNE again" tsne2.png $figures tsne baseline=base.npy ITRA=itra.npy --names three.names --points 40
check "t-SNE: the same bytes" cmp tsne.png tsne2.png
drawn "t-SNE of one array, classes without names" one.png $figures tsne base.npy
head -n 2 three.names >two.names
drawn "t-SNE of one feature, and a large one" single.png $figures tsne single.npy --title 'x$\nosuch$'
refused "a collapsed net" "same.npy: all images have the same features" $figures tsne same.npy
refused "no images" "0 images are too few" $figures tsne none.npy
refused "labels that are no classes" "strange.npy: labels from 2147483647" $figures tsne strange.npy
refused "names that are no text" "binary.csv: is no text in UTF-8" $figures tsne base.npy --names binary.csv
"$figures" tsne base.npy --seed 4294967296 -o bad.png 2>bad.err
check "a seed that is too large: one line, status 1" test "$?:$(wc -l <bad.err)" = 1:1
refused "too few names" "two.names: 2 names, but labels from 0 to 2" $figures tsne base.npy --names two.names
refused "other images" "not the same images" $figures tsne base.npy other.npy
refused "few images" "5 images are too few" $figures tsne short.npy
refused "labels of another run" "59 rows, but 60 labels" $figures tsne odd.npy
refused "not numbers" "expected the features of darknet" $figures tsne nan.npy
refused "labels for features" "expected the features of darknet" $figures tsne base.labels.npy
head -c 500 base.npy >half.npy
cp base.labels.npy half.labels.npy
refused "half an array" "half.npy: is no complete .npy file" $figures tsne half.npy
cp base1.csv text.npy
refused "text" "text.npy: is no complete .npy file" $figures tsne text.npy
cp base.npy alone.npy
refused "no labels" "alone.labels.npy: No such file" $figures tsne alone.npy
finish
