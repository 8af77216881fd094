#!/bin/sh
# ImageNet is not free to pass on: this takes the user's own copy and writes the lists that data/imagenet.data names.
set -eu

usage() {
    cat <<'END'
usage: scripts/get-imagenet.sh DIR [TRUTH]

DIR    your copy of ILSVRC2012: DIR/train/n01440764/*.JPEG and so on, and DIR/val, in the same folders or all in one
TRUTH  what tells the classes of a val/ that is all in one: a list with a file and its synset on each line
       (ILSVRC2012_val_00000001.JPEG n01751748; LOC_val_solution.csv is one), or the folder of the official development
       kit (ILSVRC2012_devkit_t12; needs python3). Without it, DIR/LOC_val_solution.csv and DIR/ILSVRC2012_devkit_t12
       are tried.

Writes data/imagenet/train.list, valid.list, labels.txt (the synsets) and names.txt: in words where DIR has
LOC_synset_mapping.txt or synset_words.txt (n01440764 tench, Tinca tinca on each line) or TRUTH is the kit, else the synsets.
Images stay where they are; a val/ that is all in one is linked to from data/imagenet/val/n01440764/ and so on.
END
}

script=${0##*/}
say() { printf '%s\n' "$script: $*" >&2; }
die() {
    say "$@"
    exit 1
}
case ${1-} in
-h | -help | --help)
    usage
    exit 0 ;;
'') die "needs the folder of your copy of ImageNet (see --help)" ;;
esac
[ $# -le 2 ] || die "unexpected argument '$3' (see --help)"

absolute() ( # absolute PATH: of a folder or file that is there
    if [ -d "$1" ]; then CDPATH='' cd -- "$1" && pwd; else CDPATH='' cd -- "$(dirname -- "$1")" && printf '%s/%s\n' "$(pwd)" "${1##*/}"; fi
)
[ -d "$1" ] || die "$1: no such folder"
dir=$(absolute "$1")
synset='n[0-9][0-9][0-9][0-9][0-9][0-9][0-9][0-9]'
case $dir in
*$synset*) die "$dir: a synset in the path of all images would make them all of its class: move the folder, or link to it" ;;
*[[:cntrl:]]*) die "the path of the folder has a line break or the like in it, which no list can hold" ;;
esac
for set in train val; do
    [ -d "$dir/$set" ] || die "$dir: expected the folders train and val in it, found no $set"
done
truth=${2-}
for known in "$dir/LOC_val_solution.csv" "$dir/ILSVRC2012_devkit_t12"; do
    [ -n "$truth" ] || [ ! -e "$known" ] || truth=$known
done
[ -z "$truth" ] || [ -f "$truth" ] || [ -d "$truth" ] || die "$truth: no such file or folder"
[ -z "$truth" ] || truth=$(absolute "$truth")

CDPATH='' cd -- "$(dirname -- "$0")/.."
export LC_ALL=C
to=data/imagenet
new=$to/new # all is made here, then moved
mkdir -p $to
trap 'rm -rf $new' EXIT
trap 'exit 1' HUP INT TERM
rm -rf $new
mkdir $new

# images FOLDER: FOLDER/SYNSET/IMAGE, sorted
images() {
    find -L "$1" -mindepth 2 -maxdepth 2 -type f |
        awk -F / -v synset="^$synset\$" 'NF > 2 && $(NF - 1) ~ synset && tolower($NF) ~ /[.](jpeg|jpg|png)$/' | sort
}

# Sets apart what TRUTH says: $new/truth (file synset) and, from the kit, $new/words (synset words).
read_truth() {
    if [ -d "$truth" ]; then
        command -v python3 >/dev/null || die "$truth: python3 is needed to read the development kit"
        python3 scripts/imagenet-devkit.py "$truth" $new/truth $new/words || exit 1
    else
        tr ',\t\r' '   ' <"$truth" >$new/truth
    fi
}

# link_by_class: $new/val-links/SYNSET/IMAGE for the images of a val/ that is all in one. The truth may leave .JPEG out.
link_by_class() {
    find -L "$dir/val" -mindepth 1 -maxdepth 1 -type f -name '*.*' >$new/found
    awk -v synset="^$synset\$" '
        FNR == NR {
            name = $0
            sub(".*/", "", name)
            stem = name
            sub("[.][^.]*$", "", stem)
            file[name] = file[stem] = name
            next
        }
        FNR == 1 && $2 !~ synset { next } # a heading
        $2 !~ synset { print FNR ": found \"" $0 "\""; exit 1 }
        $1 in file { print $2, file[$1] }' $new/found $new/truth >$new/named ||
        die "$truth:$(tail -n 1 $new/named), expected a file and its synset, such as n01751748"
    sort -u $new/named >$new/pairs
    [ -s $new/pairs ] || die "$truth: names no image of $dir/val (expected a file and its synset on each line)"
    say "linking $(wc -l <$new/pairs) images by class"
    last=''
    set --
    while read -r class name; do
        if [ "$class" != "$last" ]; then
            link "$last" "$@"
            set --
            last=$class
        fi
        set -- "$@" "$dir/val/$name"
    done <$new/pairs
    link "$last" "$@"
}
link() { # link SYNSET [IMAGE]...: one ln for each class
    [ $# -gt 1 ] || return 0
    mkdir -p "$new/val-links/$1"
    (cd "$new/val-links/$1" && shift && ln -s "$@" .)
}

# ---- training images, and from them the classes ----
say "reading $dir/train"
images "$dir/train" >$new/train.list
awk -F / '{ print $(NF - 1) }' $new/train.list | sort -u >$new/labels.txt
[ -s $new/labels.txt ] || die "$dir/train: no images in folders like n01440764: are the archives of the classes unpacked?"

# ---- validation images ----
say "reading $dir/val"
images "$dir/val" >$new/valid.list
if [ -s $new/valid.list ]; then
    [ ! -d "$truth" ] || ! command -v python3 >/dev/null || read_truth # for its words
else
    [ -n "$truth" ] || die "$dir/val: no images in folders like n01440764: TRUTH must tell their classes (see --help)"
    read_truth
    link_by_class
    images $new/val-links | TO=$PWD/$to awk -v skip=${#new} '{ print ENVIRON["TO"] substr($0, skip + 1) }' >$new/valid.list
fi
awk -F / 'FNR == NR { known[$0]; next } !($(NF - 1) in known) { print $(NF - 1) }' $new/labels.txt $new/valid.list | sort -u >$new/strange
[ ! -s $new/strange ] || die "$dir/val: has images of $(head -n 1 $new/strange), which $dir/train has not"

# ---- names ----
for words in "$dir/LOC_synset_mapping.txt" "$dir/synset_words.txt" $new/words; do
    [ ! -s "$words" ] || break
    words=''
done
if [ -n "$words" ]; then
    awk '{ sub("\r$", "") }
        FNR == NR { synset = $1; sub("^[^ \t]+[ \t]+", ""); name[synset] = $0; next }
        { print $0 in name ? name[$0] : $0 }' "$words" $new/labels.txt >$new/names.txt
else
    cp $new/labels.txt $new/names.txt
fi

rm -rf $to/val-links
[ ! -d $new/val-links ] || mv $new/val-links $to/
for list in labels.txt names.txt train.list valid.list; do mv -f $new/$list $to/$list; done

# count WHAT FILE EXPECTED
count() {
    n=$(($(wc -l <"$to/$2")))
    say "$n $1"
    [ $n = "$3" ] || say "warning: ILSVRC2012 has $3 $1: is this copy complete?"
}
count classes labels.txt 1000
count 'training images' train.list 1281167
count 'validation images' valid.list 50000
