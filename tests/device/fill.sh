#!/bin/sh
# Fills a folder with what must travel to a machine that has a GPU, nvcc and cuDNN but no package registry and none of
# Debian's packages: headers of stb and zlib, zlib's library, the Fashion-MNIST files. About 31 MB; not in the repository.
#
#   tests/device/fill.sh [FOLDER]         carry
#
# Run it where `scripts/deps.sh build data` has run, then copy the whole tree with the folder in it. run.sh and train.sh
# find it there.
set -eu
cd "$(dirname "$0")/../.." || exit 2
folder=${1:-carry}
cc=${CC:-cc}
most=40 # MB

die() {
    echo "fill.sh: $*" >&2
    exit 1
}
case $folder in -*) die "usage: tests/device/fill.sh [FOLDER]" ;; esac

# The file that the compiler takes for a header, and those beside it that it draws in from the same package.
header() { # header NAME FOLDER PATTERN
    files=$(echo "#include <$1>" | $cc -x c -M - 2>/dev/null) || die "$1 is missing: run scripts/deps.sh build"
    mkdir -p "$2"
    # shellcheck disable=SC2086
    cp $(printf '%s\n' $files | grep -E "$3") "$2/"
}

mnist=
for place in /usr/share/datasets/fashion-mnist data/fmnist; do
    [ -z "$mnist" ] && [ -e "$place/train-images-idx3-ubyte.gz" ] && mnist=$place
done
[ "$mnist" ] || die "Fashion-MNIST is missing: run scripts/deps.sh data, or scripts/get-fmnist.sh"
rm -rf "$folder/lib" "$folder/include" "$folder/fmnist"
mkdir -p "$folder/lib" "$folder/fmnist"
header stb/stb_image.h "$folder/include/stb" '/stb_image\.h$'
header zlib.h "$folder/include" '/(zlib|zconf)\.h$'
library=$($cc -print-file-name=libz.a)
[ -e "$library" ] || die "libz.a is missing: run scripts/deps.sh build"
cp "$library" "$folder/lib/"
for part in train-images-idx3 train-labels-idx1 t10k-images-idx3 t10k-labels-idx1; do
    cp "$mnist/$part-ubyte.gz" "$folder/fmnist/"
done
size=$(du -sm "$folder" | cut -f1)
[ "$size" -le $most ] || die "$folder has $size MB: expected at most $most"
echo "$folder: $size MB"
