#!/bin/bash
# darknet_compat.h: a program for pjreddie's Darknet, compiled against Debian's libdarknet and against ours, says the same.
. "$(dirname "$0")/../cli/common.inc"
build=${BUILD:-build/float}
lib=$here/$build
[ -e "$lib/libdarknet-itra.so" ] || { fail "$build/libdarknet-itra.so is missing: make lib"; finish; }
warn='-Wall -Wextra -Werror -Wno-sign-compare -Wno-unused-result'
compile() { # compile PROGRAM FLAGS...
    local out=$1
    shift
    ${CC:-cc} -std=c11 -D_POSIX_C_SOURCE=200809L $warn -o "$out" "$here/tests/api/classify_stock.c" "$@"
}
check "compiles with ours" compile ours -DHEADER='"darknet_compat.h"' -I"$here/include" -L"$lib" -ldarknet-itra -Wl,-rpath,"$lib"
check "calls within the library stay there" sh -c "! nm -D '$lib/libdarknet-itra.so' | grep -q ' U .*_image'"

make_data
cat >stock.cfg <<'END'
[net]
batch=2
subdivisions=1
width=8
height=10
channels=3
learning_rate=0.01
max_batches=20

[convolutional]
filters=8
size=3
pad=1
batch_normalize=1
activation=leaky

[maxpool]
size=2
stride=2

[convolutional]
filters=6
size=1
activation=leaky

[dropout]
probability=.3

[avgpool]

[connected]
output=3
activation=linear

[softmax]
END
"$DARKNET" classifier train mini.data stock.cfg -nogpu >/dev/null 2>train.err || { cat train.err; fail "training"; }
# Running variances as real images leave them, around 1: beside those of this net, a few thousandths, the epsilons of batch norm
# count, which differ (tests/golden/README.md).
cat >vary.c <<'END'
#include <stdio.h>
#include <string.h>
#include "darknet.h"
int main(int argc, char **argv)
{
    dn_net *net;
    dn_param p;
    float x[8];
    if (argc != 3 || dn_open(&net, argv[1], NULL, NULL) || dn_load(net, argv[2], NULL)) return 1;
    int i = dn_find_param(net, "0.convolutional.variance", NULL);
    if (dn_param_info(net, i, &p, NULL) || p.count != 8) return 1;
    for (int k = 0; k < 8; k++) x[k] = .5f + (float)k / 5;
    return dn_set_param(net, i, x, NULL) || dn_save(net, argv[2], NULL);
}
END
check "a program that sets parameters" ${CC:-cc} -Wall -Wextra -Werror -o vary vary.c -I"$here/include" -L"$lib" -ldarknet-itra -Wl,-rpath,"$lib"
check "sets them" ./vary stock.cfg backup/stock_final.weights
image wide.ppm 17 8 5 200 20 30
image tall.ppm 7 19 6 20 190 40
printf '[net]\nwidth=8\nheight=10\nchannels=1\n[maxpool]\nsize=2\nstride=2\n[softmax]\n' >gray.cfg # without weights
run() { "./$1" stock.cfg backup/stock_final.weights mini.data wide.ppm tall.ppm img/0_ant.ppm -word a -flag -number 3 -gray gray.cfg; }
run ours >ours.out 2>ours.err || fail "ours: $(cat ours.err)"
check "it is quiet" test ! -s ours.err

# ---- what fails says so, and is NULL ----
cat >bad.c <<'END'
#include "darknet_compat.h"
static int lines;
#define none(call) (lines++, (call) ? (printf("%s is there\n", #call), 1) : 0)
int main(int argc, char **argv)
{
    int bad = argc != 3, best[3] = { 5, 5, 5 };
    float x[3] = { 1, 3, 3 };
    bad |= none(load_network("none.cfg", "", 0)) | none(load_network(argv[1], "none.weights", 0));
    bad |= none(parse_network_cfg("names.list")) | none(get_labels("none.list")) | none(read_data_cfg("none.data"));
    bad |= none(get_metadata("none.data").names) | none(load_image_color("names.list", 0, 0).data);
    bad |= none(load_image_color("none.png", 3, 3).data);
    network *net = load_network(argv[1], argv[2], 1);
    image gray = make_image(4, 4, 1), empty = { 0 };
    bad |= none(network_predict_image(net, gray)) | none(network_predict(net, NULL)) | none(resize_image(empty, 3, 3).data);
    bad |= none(letterbox_image(gray, 0, 3).data) | none(make_image(-1, 3, 3).data) | none(network_predict_image(net, empty));
    bad |= none(get_network_boxes(net, 1, 1, .5f, .5f, 0, 0, 0));
    bad |= *net->seen != 0 || net->w != 8;
    set_batch_network(net, 0);
    bad |= none(network_predict(net, x));
    bad |= none(network_predict(NULL, x)) | none(network_predict_image(NULL, gray));
    bad |= none(network_width(NULL)) | none(network_height(NULL));
    load_weights(NULL, argv[2]), save_weights(NULL, argv[2]), set_batch_network(NULL, 1), lines += 3;
    top_predictions(NULL, 3, best);
    bad |= best[0] != -1;
    free_image(gray);
    free_network(net);
    free_network(NULL);
    top_k(x, 2, 3, best);
    bad |= best[0] != 1 || best[1] != 0 || best[2] != -1 || max_index(x, 3) != 1 || max_index(x, 0) != -1;
    printf("%d\n", lines);
    return bad;
}
END
check "a program of failures" ${CC:-cc} -Wall -Wextra -Werror -o bad bad.c -I"$here/include" -L"$lib" -ldarknet-itra -Wl,-rpath,"$lib"
check "each returns NULL" eval './bad stock.cfg backup/stock_final.weights >bad.out 2>bad.err'
check "with a line of its own" test "$(cat bad.out)" = "$(grep -c '^darknet: ' bad.err)" -a "$(wc -l <bad.err)" = "$(cat bad.out)"
check "damaged data files are told from their lists" eval 'sed "s/^classes.*/classes = 4/" mini.data >four.data &&
    ./ours stock.cfg backup/stock_final.weights four.data wide.ppm -gray gray.cfg 2>&1 | grep -q "names.list: has 3 lines, expected 4"'

# ---- Debian's ----
debian=/usr/lib/darknet
[ -e $debian/libdarknet.so ] || { skip "Debian's libdarknet: the package darknet is not installed"; finish; }
check "compiles with Debian's" compile theirs -isystem $debian/include -L$debian -ldarknet -Wl,-rpath,$debian -Wl,--allow-shlib-undefined
run theirs >theirs.all 2>/dev/null || fail "theirs"
# Besides our lines it prints the net, which has no name[i].
grep -E "$(cut -d' ' -f1 ours.out | sed 's/\[.*//' | sort -u | sed 's/[.]/\\./g; s/.*/^&(\\[| )/' | paste -sd'|')" theirs.all >theirs.out
check "as many lines" test "$(wc -l <ours.out)" = "$(wc -l <theirs.out)"
check "the same, to 1e-4" near 100 1e-4 ours.out theirs.out
finish
