#!/bin/bash
# The library as its users have it: installed, found by pkg-config, linked shared and static; what it exports; and the
# programs of this folder, whose numbers are those of the command line.
. "$(dirname "$0")/../cli/common.inc"
make_data
make_cfg plain.cfg
make_cfg itra.cfg '[itra]' lambda=0.2 warmup=0 every=2

prefix=$work/installed
MAKEFLAGS=$(printf %s "${MAKEFLAGS:-}" | sed 's/ *--jobserver[^ ]*//g; s/ -j[0-9]*//g') \
    make -s -C "$here" install PREFIX="$prefix" >make.log 2>&1 || { cat make.log; fail "make install"; finish; }
lib=$prefix/lib include=$prefix/include/darknet-itra
export PKG_CONFIG_PATH=$lib/pkgconfig

# ---- what is exported ----
# Names that the public headers declare: a word before a parenthesis at the end of a declaration.
declared() { sed -n 's/^[a-z][A-Za-z0-9_ ]*[ *]\**\([a-z][a-z0-9_]*\)(.*/\1/p' "$include"/*.h | sort -u; }
exported() { nm "$@" | awk 'NF == 3 && $2 ~ /[A-Z]/ && $3 !~ /^(__bss_start|_edata|_end)$/ { print $3 }' | sort -u; } # those are the linker's
check "the headers declare functions" test "$(declared | grep -c '^dn_')" -gt 20
check "the shared library exports them all, and nothing else" diff <(declared) <(exported -D --defined-only "$lib/libdarknet-itra.so")
check "so does the static one" diff <(declared) <(exported -g --defined-only "$lib/libdarknet-itra.a")
version=$("$DARKNET" version | sed -n '1s/.* //p')
check "one soname a major version" test "$(readlink "$lib/libdarknet-itra.so")" = "$(basename "$lib"/libdarknet-itra.so.*.*.*)"

# ---- programs ----
command -v pkg-config >/dev/null || { skip "building against it: pkg-config is not installed"; finish; }
# compile HOW PROGRAM: with all that pkg-config says, for one kind of library.
compile() {
    local warn='-Wall -Wextra -Werror' flags
    if [ "$1" = static ]; then
        flags="$(pkg-config --cflags darknet-itra) $lib/libdarknet-itra.a $(pkg-config --static --libs darknet-itra | sed 's/-ldarknet-itra//')"
    else
        flags="$(pkg-config --cflags --libs darknet-itra) -Wl,-rpath,$lib"
    fi
    ${CC:-cc} -std=c11 -D_POSIX_C_SOURCE=200809L $warn -o "$2.$1" "$here/tests/api/$2.c" $flags -pthread
}
for how in shared static; do
    for program in predict step train threads; do check "$program, $how" compile $how $program; done
done
check "the static one needs no library of ours" sh -c '! ldd ./predict.static | grep -q darknet'
check "the shared one does" sh -c 'ldd ./predict.shared | grep -q libdarknet-itra.so.'
cat >own.c <<'END'
#include <darknet.h>
int make_image(int, int); /* a name of darknet_compat.h, which this program does not use */
int make_image(int a, int b) { return a + b; }
int main(void) { return make_image(1, -1) + (dn_version()[0] == 0); }
END
check "names of darknet_compat.h are free for programs without it" sh -c "${CC:-cc} -o own own.c $(pkg-config --cflags darknet-itra) \
    $lib/libdarknet-itra.a $(pkg-config --static --libs darknet-itra | sed 's/-ldarknet-itra//') && ./own"
if command -v "${CXX:-c++}" >/dev/null; then
    echo '#include <darknet.h>
#include <darknet_compat.h>
int main() { return dn_version()[0] == 0; }' >a.cpp
    check "from C++" sh -c "${CXX:-c++} -Wall -Wextra -Werror a.cpp $(pkg-config --cflags --libs darknet-itra) -Wl,-rpath,$lib -o a && ./a"
else
    skip "from C++: there is no compiler"
fi

# ---- numbers ----
case $devices in *cuda*) skip "numbers: they are compared in the build for CPUs"; finish ;; esac
"$DARKNET" classifier train mini.data plain.cfg -nogpu >/dev/null 2>cli.err || fail "training by the program"
image wide.ppm 16 8 5 200 20 30
image tall.ppm 7 19 6 20 190 40
for how in shared static; do
    check "steps, $how" ./step.$how plain.cfg step.weights
    check "steps with [itra], $how" ./step.$how itra.cfg step.weights
    check "threads, $how" ./threads.$how itra.cfg
    check "training from a data file, $how" ./train.$how plain.cfg mini.data $how 0
    check "it is that of the program, to the byte" cmp $how/plain_final.weights backup/plain_final.weights
    ./predict.$how plain.cfg backup/plain_final.weights $how.features wide.ppm tall.ppm img/*.ppm >$how.csv || fail "predict, $how"
done
"$DARKNET" classifier predict mini.data plain.cfg backup/plain_final.weights wide.ppm tall.ppm img/*.ppm -csv -t 3 2>/dev/null |
    sed '1d; s/,[^,]*,\([^,]*\)$/,\1/' >cli.csv
# Mini-batches differ, and with them the last digits.
check "predictions are those of the program" near 26 2e-6 cli.csv shared.csv
check "static or shared" diff shared.csv static.csv
./predict.shared plain.cfg backup/plain_final.weights valid.features $(cat valid.list) >/dev/null || fail "features"
"$DARKNET" classifier features mini.data plain.cfg backup/plain_final.weights -out cli.npy >/dev/null 2>&1 || fail "features by the program"
tail -c "$(stat -c %s valid.features)" cli.npy >cli.features
numbers() { od -An -v -t f4 -w4 "$1"; }
check "features are those of the program" near 1 1e-5 <(numbers valid.features) <(numbers cli.features)
check "training stops when it is told to" grep "^3 iterations" <(./train.shared plain.cfg mini.data stopped 3 2>&1)
check "and goes on" "$DARKNET" classifier train mini.data plain.cfg -nogpu -resume stopped/plain_last.state
check "to where it would have come" cmp backup/plain_final.weights shared/plain_final.weights
finish
