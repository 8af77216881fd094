#!/bin/bash
# The Makefile, over a tree of a few lines: what a change of flags or sources rebuilds; and what `make install` puts where.
set -u
cd "$(dirname "$0")/.." || exit 2
here=$PWD DARKNET=${DARKNET:-$PWD/darknet}
unset CC CFLAGS CXXFLAGS LDFLAGS WERROR OPT GPU SAN MAKEFLAGS MAKELEVEL MFLAGS
export LC_ALL=C OMP_WAIT_POLICY=passive
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
. tests/check.inc

tree=$work/tree
mkdir -p "$tree/src/core" "$tree/src/cli" "$tree/src/compat"
cp -r Makefile LICENSE README.md include cfg data scripts "$tree/"
cd "$tree" || exit 2
# The program prints what it was compiled with.
cat >src/main.c <<'END'
#include <stdio.h>
#include "core/a.h"
#ifndef TEXT
#define TEXT "plain"
#endif
int main(void)
{
    printf("%s %d\n", TEXT, a());
    return 0;
}
END
echo 'int a(void);' >src/core/a.h
printf '#include "core/a.h"\nint a(void) { return 1; }\n' >src/core/a.c
echo 'int c(void); int c(void) { return 1; }' >src/compat/c.c

build() { make ONEDNN=0 V=1 "$@"; }
does() { # does NUMBER WORDS [ARGUMENT]...: so many commands of the build have the words
    local number=$1 words=$2
    shift 2
    build "$@" >log 2>&1 || { cat log; return 1; }
    [ "$(grep -c -- "$words" log)" -eq "$number" ] || { cat log; return 1; }
}
prints() { [ "$(./darknet)" = "$1" ] || { ./darknet; return 1; }; }

check "the first build compiles everything" does 2 ' -c '
check "the second nothing" does 0 'cc '
check "other CFLAGS compile everything" does 2 ' -c ' "CFLAGS=-DTEXT='\"it is\"'"
check "and reach the program" prints 'it is 1'
check "the same CFLAGS nothing" does 0 'cc ' "CFLAGS=-DTEXT='\"it is\"'"
check "without them, everything once" does 2 ' -c '
check "the program is the first again" prints 'plain 1'
check "and then nothing" does 0 'cc '
check "WERROR=1 compiles everything" does 2 ' -Werror .* -c ' WERROR=1
check "another compiler too" does 2 '^gcc .* -c ' CC=gcc WERROR=1
check "other LDFLAGS compile nothing" does 0 ' -c ' CC=gcc WERROR=1 LDFLAGS=-Wl,-O1
check "they link" does 1 '^gcc -o .*-Wl,-O2' CC=gcc WERROR=1 LDFLAGS=-Wl,-O2
check "nvcc's warnings are errors, too" grep -q -- '-Werror all-warnings' <(build -n GPU=1 WERROR=1)
check "but nobody's who does not ask for it" grep -qv -- '-Werror' <(build -n GPU=1 | grep -- ' -lineinfo ')
check "variants have their own" does 2 ' -c ' DEBUG=1
check "plain again" does 2 ' -c '
check "without V=1, a line for each file" eval 'rm -r build && make ONEDNN=0 >log && [ "$(grep -cE "^(cc  |link) build/" log)" = "$(wc -l <log)" ]'
for flags in CC=/none CFLAGS=-fnone; do
    check "$flags: the compiler does not run" grep -qx 'make: the compiler does not run: see CC and CFLAGS' <(build "$flags" 2>&1)
    check "$flags: no library is blamed" eval '! build "$flags" 2>&1 | grep "is missing"'
done

sed 's/a(void)/b(void)/; s/1/2/' src/core/a.c >src/core/b.c
sed -i 's/$/ int b(void);/' src/core/a.h
check "a new source and a changed header" does 3 ' -c '
check "the new source is in the program" grep -q '^b$' <(nm -g darknet | awk '$2 == "T" && $3 == "b" { print $3 }')
rm src/core/b.c
check "a removed source compiles nothing" does 0 ' -c '
check "it leaves the program" test -z "$(nm -g darknet | awk '$3 == "b"')"
sed -i 's/a(void)/a(void), b(void)/; s/ int b(void);//' src/core/a.h
sed -i 's/a())/b())/' src/main.c
check "what still needs it no longer links" grep -q "undefined reference to .b'" <(build 2>&1)
sed -i 's/b())/a())/' src/main.c
check "until it does not need it" does 1 ' -c '
mkdir src/layers
echo 'int layer_scratch(void); int layer_scratch(void) { return 0; }' >src/layers/scratch.c
check "a layer enters the registry" eval 'does 1 " -c " && grep -qx "LAYER(scratch)" build/float-ref/layers.inc'
rm src/layers/scratch.c
check "and leaves it" eval 'does 0 " -c " && ! grep -q scratch build/float-ref/layers.inc'

# ---- installation ----

root="$work/a package" prefix=$work/prefix
installed=$root$prefix share=$root$prefix/share/darknet-itra
touch cfg/mine.cfg data/mine.data data/mine.names
check "make install into a DESTDIR" build -s install PREFIX="$prefix" DESTDIR="$root"
check "the program" test -x "$installed/bin/darknet"
version=$(sed -n 's/^#define DN_VERSION "\(.*\)"/\1/p' include/darknet.h)
for file in include/darknet-itra/darknet.h include/darknet-itra/darknet_compat.h lib/libdarknet-itra.a "lib/libdarknet-itra.so.$version" lib/libdarknet-itra.so; do
    check "$file" test -s "$installed/$file"
done
check "the soname" grep -q "soname: \[libdarknet-itra.so.${version%%.*}\]" <(readelf -d "$installed/lib/libdarknet-itra.so.${version%%.*}")
check "pkg-config's file has the PREFIX and the version" eval \
    'grep -qx "prefix=$prefix" "$installed/lib/pkgconfig/darknet-itra.pc" && grep -qx "Version: $version" "$installed/lib/pkgconfig/darknet-itra.pc"'
for options in "" MPI=1 GPU=host "GPU=host MPI=1 DOUBLE=1"; do
    check "NCCL=1 ${options:-alone}: refused" grep -q 'NCCL=1: expected GPU=1 and MPI=1 beside it' <(make NCCL=1 $options 2>&1)
done
check "a build for tests is refused" grep -q 'GPU=host is a build for tests' <(make install GPU=host PREFIX="$work/none" 2>&1)
for file in cfg/demo.cfg data/fmnist.data data/fmnist.names scripts/get-cifar10.sh scripts/get.inc; do
    check "$file" test -s "$share/$file"
done
check "no cfg, data file or names of the user's own" test -z "$(find "$share" -name 'mine.*')"
if git -C "$here" ls-files >/dev/null 2>&1; then
    check "every cfg, data file and list of names that is shipped" diff <(git -C "$here" ls-files 'cfg/*.cfg' 'data/*.data' 'data/*.names') \
        <(cd "$share" && find cfg data -type f | sort)
fi
check "the licence" cmp LICENSE "$installed/share/doc/darknet-itra/LICENSE"
check "nothing outside the DESTDIR" test ! -e "$prefix"
check "paths in .data files are those of the PREFIX" \
    grep -qx "names=$prefix/share/darknet-itra/data/fmnist.names" "$share/data/fmnist.data"
check "the tree's own stay" cmp data/fmnist.data "$here/data/fmnist.data"
touch "$share/data/mine"
check "make uninstall" build -s uninstall PREFIX="$prefix" DESTDIR="$root"
check "what others put there is left, and nothing else" test "$(find "$root" -type f)" = "$share/data/mine"
rm "$share/data/mine"
check "uninstalling twice is no error" build -s uninstall PREFIX="$prefix" DESTDIR="$root"
check "nothing is left" test -z "$(find "$root" -name '*darknet*')"

# An installed program, cfg and data set, from another folder.
check "make install into a PREFIX" build -s install PREFIX="$work/local"
install "$DARKNET" "$work/local/bin/darknet"
mkdir "$work/else" && cd "$work/else" || exit 2
share=$work/local/share/darknet-itra
check "shipped data and cfg train from anywhere" "$work/local/bin/darknet" classifier train \
    "$share/data/fmnist-5000.data" "$share/cfg/demo.cfg" -nogpu -set net.max_batches=2 -set net.batch=8
check "what it learns lies here" test -s backup/demo_final.weights
cd "$here" && finish
