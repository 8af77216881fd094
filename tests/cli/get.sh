#!/bin/bash
# The get-*.sh scripts, in a tree of their own, against a server here: downloads go on, checksums count, nothing half-written
# gets its final name. The real files are too large for a test: the shared code is run on small ones.
. "$(dirname "$0")/common.inc"
command -v python3 >/dev/null && command -v tar >/dev/null || { skip "no python3 or tar"; finish; }
tree="$work/a tree & more"
mkdir -p "$tree/data" served/set-bin
cp -r "$here/scripts" "$tree/"
cp "$here/data/fmnist.data" "$tree/data/"

# ---- what is served: an archive and a file; /cut/ ends in the middle, /plain/ knows no ranges ----
head -c 300000 /dev/urandom >served/set-bin/train.bin
echo words >served/set-bin/names.txt
echo huge >served/set-bin/unlabeled.bin
(cd served && tar -czf set.tar.gz set-bin && gzip -c set-bin/names.txt >one.gz)
sum=$(md5sum <served/set.tar.gz | cut -c 1-32)
one=$(md5sum <served/one.gz | cut -c 1-32)
cat >server.py <<'END'
import http.server, os, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        way, name = self.path.strip("/").split("/")
        if not os.path.exists("served/" + name):
            return self.send_error(404)
        data, start = open("served/" + name, "rb").read(), 0
        span = self.headers.get("Range") if way != "plain" else None
        if span:
            start = int(span[6:].rstrip("-"))
            if start >= len(data):
                return self.send_error(416)
        self.send_response(206 if span else 200)
        if span:
            self.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        self.send_header("Content-Length", str(len(data) - start))
        self.end_headers()
        self.wfile.write(data[start:start + 100000 if way == "cut" else None])
    def log_message(self, *words):
        print(self.path, self.headers.get("Range"), file=log, flush=True)
log = open("requests", "a")
server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, file=open("port.new", "w"), flush=True)
os.rename("port.new", "port")
server.serve_forever()
END
python3 server.py 2>/dev/null &
await test -s port
export no_proxy=127.0.0.1
url=http://127.0.0.1:$(cat port)

# set SCRIPT-LINES: a script like the others, for the small files
set_script() {
    printf '%s\n' '#!/bin/sh' 'set -eu' '. "$(dirname -- "$0")/get.inc"' \
        'data_set small "A small set." http://127.0.0.1:9/default "$@"' "$@" >"$tree/scripts/get-small.sh"
}
archive="get_archive set.tar.gz $sum set-bin train.bin=300000 names.txt"
set_script 'leave_out="*unlabeled*"' "$archive"
at="$tree/data/small"
whole() { cmp "$at/set-bin/train.bin" served/set-bin/train.bin && test -s "$at/set-bin/names.txt" && ! ls "$at" | grep -q part; }
fresh() { rm -rf "$at" && : >requests; }

for tool in curl wget; do
    if ! command -v $tool >/dev/null; then
        skip "$tool is not installed"
        continue
    fi
    mkdir -p only
    rm -f only/*
    for t in sh cat mkdir rm mv cut dirname flock md5sum tail tar gzip wc sed sleep ls $tool; do ln -s "$(command -v $t)" only/; done
    get() { PATH=$work/only DATA_URL=$url/$1 sh "$tree/scripts/get-small.sh" >out 2>err; }
    fresh
    check "$tool: an archive" get whole
    check "$tool: is unpacked" whole
    check "$tool: but for what is left out" test ! -e "$at/set-bin/unlabeled.bin"
    : >"$at/set-bin/mine"
    rm "$at/set.tar.gz"
    check "$tool: again" get none
    check "$tool: does nothing" test "$(cat err)" = "get-small.sh: data/small/set-bin is complete"
    truncate -s 1000 "$at/set-bin/train.bin"
    check "$tool: a damaged file" get whole
    check "$tool: is put right" whole
    check "$tool: other files stay" test -e "$at/set-bin/mine"
    fresh
    check "$tool: a server that cuts" get cut
    check "$tool: is asked to go on" whole
    fresh
    mkdir -p "$at"
    head -c 50000 served/set.tar.gz >"$at/set.tar.gz.part"
    check "$tool: a part that is there" get whole
    check "$tool: is gone on with" grep -q 'bytes=50000-' requests
    fresh
    mkdir -p "$at"
    head -c 50000 served/set.tar.gz >"$at/set.tar.gz.part"
    check "$tool: a server without ranges" get plain
    check "$tool: is asked for all" whole
    fresh
    mkdir -p "$at"
    head -c 50000 /dev/zero >"$at/set.tar.gz.part"
    check "$tool: a part of something else" get whole
    check "$tool: is replaced" whole
    fresh
    check "$tool: no such file: status 1" sh -c '! "$@"' - env PATH="$work/only" DATA_URL="$url/whole/no" sh "$tree/scripts/get-small.sh"
    check "$tool: no network: status 1" sh -c '! "$@" 2>err' - env PATH="$work/only" sh "$tree/scripts/get-small.sh"
    check "$tool: what to do is said" grep -qF "fetch set.tar.gz from http://127.0.0.1:9/default/ with a browser, put it into $at/ and run" err
    check "$tool: in three lines" test "$(wc -l <err)" = 3
    check "$tool: nothing is left" test "$(ls "$at")" = ""
    fresh
    full() { (trap '' XFSZ && ulimit -f 100 && ! get whole); } # KiB
    check "$tool: a full disk: status 1" full
    check "$tool: a full disk: said so" test "$(tail -n 1 err)" = "get-small.sh: data/small/set.tar.gz.part cannot be written: is the disk full?"
    check "$tool: with room again" get whole
    check "$tool: it goes on" whole
done
get() { DATA_URL=$url/$1 sh "$tree/scripts/get-small.sh" >out 2>err; }
fresh
mkdir -p "$at"
cp served/set.tar.gz "$at/"
check "a file from a browser" get none
check "is taken" whole
check "and nothing is asked for" test ! -s requests

# ---- what is wrong ----
bad() { # bad WHAT WORDS WAY
    check "$1: status 1" sh -c '! "$@" 2>err' - env DATA_URL="$url/$3" sh "$tree/scripts/get-small.sh"
    check "$1: said so" grep -q "^get-small.sh: .*$2" err
}
fresh
set_script "get_archive set.tar.gz ${sum%?}g set-bin train.bin=300000"
bad "another file" "md5 $sum, expected ${sum%?}g" whole
check "it gets no name" test "$(ls "$at")" = ""
cp served/set.tar.gz "$at/"
bad "another file from a browser" "data/small/set.tar.gz has md5 $sum, .*remove it" whole
check "it is not removed" test -s "$at/set.tar.gz"
fresh
set_script "get_archive set.tar.gz $sum set-bin train.bin=300001"
bad "an archive of something else" "does not hold set-bin" whole
check "nothing of it stays" test "$(ls "$at")" = set.tar.gz
fresh
set_script "get_files one.gz $one set.tar.gz $sum no.gz $one"
bad "one of several files" "fetch no.gz from" whole
check "the others are there" cmp "$at/one.gz" served/one.gz
set_script "get_files one.gz $one set.tar.gz $sum"
: >requests
check "several files" get whole
check "those that are right are kept" test ! -s requests
if command -v flock >/dev/null; then
    exec 8>"$at/.lock"
    flock 8
    bad "two runs at once" "another run is at work" whole
    exec 8>&-
fi

fresh
mkdir -p "$at/one.gz"
bad "a folder in place of a file" "data/small/one.gz is a folder" whole

# ---- the scripts themselves ----
for f in "$tree"/scripts/get-*.sh; do
    name=${f##*/}
    check "$name: syntax" sh -n "$f"
    check "$name --help" sh -c "cd / && sh '$f' --help | grep -q '^usage: scripts/$name'"
    [ $name = get-imagenet.sh ] || check "$name: arguments" sh -c "sh '$f' more 2>&1 | grep -q '^$name: unexpected argument .more.'"
done
check "deps.sh --help installs nothing" sh -c "sh '$tree/scripts/deps.sh' --help | grep -q '^usage: scripts/deps.sh'"
mkdir -p else/scripts
cp "$here"/scripts/bench.sh "$here"/scripts/contenders.inc "$here"/scripts/fuzz.sh else/scripts
printf '#!/bin/sh\necho installed\nexit 1\n' >else/scripts/deps.sh
chmod +x else/scripts/deps.sh
for use in "bench.sh --help" "bench.sh speed none" "fuzz.sh --help"; do
    check "$use: says what there is, and does nothing" sh -c "! sh else/scripts/$use >out 2>&1 &&
        grep -q 'usage: \|no such part: .* expected' out && [ \$(wc -l <out) = 1 ]"
done
! command -v shellcheck >/dev/null || check shellcheck shellcheck -x -P "$tree/scripts" "$tree"/scripts/get-*.sh
for name in cifar10 cifar100 stl10 kmnist qmnist fmnist; do
    check "$name: without its host: status 1" sh -c "! DATA_URL=$url/none sh '$tree/scripts/get-$name.sh' 2>err"
    check "$name: says which files, and where" grep -qE "fetch [a-z].*gz from $url/none/ .*/data/$name/" err
done

# ---- ImageNet ----
get() { sh "$tree/scripts/get-imagenet.sh" "$@" >out 2>err; }
to="$tree/data/imagenet"
copy="$work/my [copy] | of & it"
for k in 1 2 3; do
    mkdir -p "$copy/train/n0000000$k"
    for i in 1 2; do : >"$copy/train/n0000000$k/n0000000${k}_$i.JPEG"; done
done
mkdir -p "$copy/val/n00000002" "$copy/train/others"
: >"$copy/val/n00000002/ILSVRC2012_val_00000001.JPEG"
: >"$copy/train/n00000001/notes.txt"
printf 'n00000002 second, II\r\nn00000001 first\r\n' >"$copy/LOC_synset_mapping.txt"
check "imagenet: folders" get "$copy"
check "imagenet: labels" test "$(tr '\n' , <"$to/labels.txt")" = n00000001,n00000002,n00000003,
check "imagenet: names" test "$(tr '\n' ';' <"$to/names.txt")" = "first;second, II;n00000003;"
check "imagenet: training images" test "$(head -n 1 "$to/train.list"),$(wc -l <"$to/train.list")" = "$copy/train/n00000001/n00000001_1.JPEG,6"
check "imagenet: validation images" test "$(cat "$to/valid.list")" = "$copy/val/n00000002/ILSVRC2012_val_00000001.JPEG"
check "imagenet: counts are doubted" grep -q 'warning: ILSVRC2012 has 1000 classes' err
rm -r "$copy/val"
mkdir "$copy/val"
for i in 1 2 3; do : >"$copy/val/ILSVRC2012_val_0000000$i.JPEG"; done
check "imagenet: one folder, no truth: status 1" sh -c "! sh '$tree/scripts/get-imagenet.sh' '$copy' 2>err"
check "imagenet: it is asked for" grep -q 'TRUTH must tell' err
check "imagenet: the lists stay as they were" test "$(wc -l <"$to/valid.list")" = 1
linked() { # linked SYNSET NUMBER...: the lines of valid.list; each link leads to an image
    local i=0 name
    while read -r name; do
        i=$((i + 1))
        [ "$name" = "$to/val-links/$1/ILSVRC2012_val_0000000$2.JPEG" ] && [ -f "$name" ] || return 1
        shift 2
    done <"$to/valid.list"
    [ $# = 0 ]
}
printf 'ILSVRC2012_val_00000001.JPEG n00000003\nILSVRC2012_val_00000002.JPEG n00000001\nILSVRC2012_val_00000003.JPEG n00000003\n' >truth
check "imagenet: a list" get "$copy" truth
check "imagenet: links by class" linked n00000001 2 n00000003 1 n00000003 3
printf 'ImageId,PredictionString\nILSVRC2012_val_00000002,n00000002 1 2 3 4 \nILSVRC2012_val_00000009,n00000001 \n' >"$copy/LOC_val_solution.csv"
check "imagenet: a CSV that lies there" get "$copy"
check "imagenet: other links" linked n00000002 2
# The kit: meta.mat was written by SciPy (savemat, compressed): 1 n00000003, 2 n00000001, 3 n00000002, 4 a class of classes.
mkdir -p "$copy/ILSVRC2012_devkit_t12/data"
cp "$here/tests/cli/meta.mat" "$copy/ILSVRC2012_devkit_t12/data/"
printf '%s\n' 2 1 3 >"$copy/ILSVRC2012_devkit_t12/data/ILSVRC2012_validation_ground_truth.txt"
rm "$copy/LOC_synset_mapping.txt"
check "imagenet: the kit" get "$copy" "$copy/ILSVRC2012_devkit_t12"
check "imagenet: its classes" linked n00000001 1 n00000002 3 n00000003 2
check "imagenet: its words" test "$(tr '\n' ';' <"$to/names.txt")" = "first;second;third, of three;"
check "imagenet: nothing temporary" test "$(ls "$to" | tr '\n' ' ')" = "labels.txt names.txt train.list val-links valid.list "
cp "$copy/LOC_val_solution.csv" solution
bad_copy() { # bad_copy WHAT WORDS ARGS...
    local what=$1 words=$2
    shift 2
    check "imagenet: $what: status 1" sh -c '! "$@" 2>err' - sh "$tree/scripts/get-imagenet.sh" "$@"
    check "imagenet: $what: said so" grep -q "^get-imagenet.sh: .*$words" err
}
bad_copy "no folder" "needs the folder"
bad_copy "a missing folder" "nowhere: no such folder" nowhere
bad_copy "a folder of something else" "found no train" served
echo 'ILSVRC2012_val_00000001.JPEG' >>truth
echo 4 >>"$copy/ILSVRC2012_devkit_t12/data/ILSVRC2012_validation_ground_truth.txt"
check "imagenet: a kit with classes of classes" sh -c "! sh '$tree/scripts/get-imagenet.sh' '$copy' '$copy/ILSVRC2012_devkit_t12' 2>err"
check "imagenet: is said to be none" grep -q 'ground_truth.txt: cannot be read' err
bad_copy "a line without a synset" 'truth:4: found "ILSVRC2012_val_00000001.JPEG", expected' "$copy" truth
echo 'a.JPEG n00000001' >truth
bad_copy "a truth of something else" "names no image" "$copy" truth
echo 'ILSVRC2012_val_00000001.JPEG n00000009' >truth
bad_copy "a class without training images" "has images of n00000009, which" "$copy" truth
mv "$copy" n00000001
bad_copy "a synset above" "a synset in the path" n00000001
finish
