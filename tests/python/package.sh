#!/bin/bash
# The Python package: its answers are those of the program, a stock script runs on both libraries, the wheel installs.
. "$(dirname "$0")/../cli/common.inc"
BUILD=${BUILD:-build/float}
case $BUILD in /*) ;; *) BUILD=$here/$BUILD ;; esac
for python in python3 /usr/bin/python3 none; do
    "$python" -c 'import numpy' 2>/dev/null && break
done
[ $python != none ] || { skip "the Python package: python3-numpy is not installed"; finish; }
export DARKNET DARKNET_ITRA_LIBRARY=$BUILD/libdarknet-itra.so PYTHONPATH=$here/src/python PYTHONDONTWRITEBYTECODE=1
[ -e "$DARKNET_ITRA_LIBRARY" ] || { fail "$DARKNET_ITRA_LIBRARY is missing: make lib"; finish; }
make_data
make_cfg mini.cfg
make_cfg itra.cfg '[itra]' lambda=0.2 warmup=0
image wide.ppm 17 8 5 200 20 30
image tall.ppm 7 19 6 20 190 40
"$DARKNET" classifier train mini.data mini.cfg >train.log 2>&1 || { cat train.log; fail "training"; finish; }
cp backup/mini_final.weights mini.weights

check "structures in C" sh -c "'$python' '$here/tests/python/net.py' layout >layout.inc &&
    ${CC:-cc} -Wall -Wextra -Werror -I. -I'$here/include' -o layout '$here/tests/python/layout.c' && ./layout >layout.txt"
"$python" "$here/tests/python/net.py" >net.log 2>&1
count=$(sed -n 's/^\([0-9]*\) passed, \([0-9]*\) failed, \([0-9]*\) skipped$/\1 \2 \3/p' net.log)
read -r p f s <<<"${count:-0 1 0}"
passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
[ "$f" = 0 ] || cat net.log

# ---- scripts for Debian's libdarknet ----
# Running variances as real images leave them: tests/api/stock.sh says why.
cat >stock.cfg <<'END'
[net]
batch=2
width=8
height=10
channels=3
[convolutional]
filters=8
size=3
pad=1
batch_normalize=1
activation=leaky
[maxpool]
size=2
stride=2
[avgpool]
[connected]
output=3
activation=linear
[softmax]
END
"$python" - <<'END' || fail "making a net"
import numpy as np
from darknet_itra import Net
with Net("stock.cfg") as net:
    net.weights["0.convolutional.variance"] = .5 + np.arange(8) / 5
    net.weights["0.convolutional.mean"] = np.arange(8) / 10
    net.weights["3.connected.weights"] = np.sin(np.arange(24)).reshape(3, 8)
    net.save("stock.weights")
END
stock() { # stock LIBRARY: what the script prints, without what the library prints, which is on the same file
    "$python" "$here/tests/python/stock.py" "$1" stock.cfg stock.weights mini.data wide.ppm tall.ppm img/0_ant.ppm | grep '^script: '
}
stock "$DARKNET_ITRA_LIBRARY" >ours.out 2>ours.err || fail "a stock script: $(cat ours.err)"
check "it is quiet" test ! -s ours.err
stock compat >compat.out
check "darknet_itra.compat says the same" cmp ours.out compat.out
cat >fails.py <<'END'
import darknet_itra.compat as dn
im, net = dn.load_image("wide.ppm", 0, 0), dn.load_net("stock.cfg", "stock.weights", 0)
for call in (lambda: dn.load_net("none.cfg", None, 0), lambda: dn.load_net(b"stock.cfg", b"none.weights", 0),
             lambda: dn.load_meta("none.data"), lambda: dn.load_image("none.png", 0, 0), lambda: dn.predict(net, None),
             lambda: dn.predict_image(None, im), lambda: dn.predict_image(net, dn.IMAGE()), lambda: dn.letterbox_image(im, 0, 0)):
    try:
        call()
    except RuntimeError as error:
        print(error)
END
"$python" fails.py >fails.out 2>fails.err
check "what fails there is an exception" test "$(grep -c '^[a-z_]* failed: standard error says why$' fails.out)" = 8
check "and says why" test "$(grep -c '^darknet: ' fails.err) $(wc -l <fails.err)" = "8 8"

debian=/usr/lib/darknet/libdarknet.so documents=/usr/share/doc/darknet/examples/python/darknet.py.gz
if [ -e $debian ]; then
    stock $debian >theirs.out 2>theirs.err || fail "Debian's: $(cat theirs.err)"
    check "a stock script, Debian's library and ours: the same, to 1e-4" near 35 1e-4 ours.out theirs.out
else
    skip "Debian's libdarknet: the package darknet is not installed"
fi
# Its own darknet.py, of which only the name of the library changes, and print, which is of Python 2.
cat >classify.py <<'END'
import darknet as dn
net = dn.load_net(b"stock.cfg", b"stock.weights", 0)
meta = dn.load_meta(b"mini.data")
for path in [line.strip().encode() for line in open("all.list")]:
    for name, p in dn.classify(net, meta, dn.load_image(path, 0, 0)):
        print("script:", name.decode(), p)
END
if [ -e $debian ] && [ -e $documents ]; then
    for library in $debian "$DARKNET_ITRA_LIBRARY"; do
        zcat $documents | sed "s|^lib = .*|lib = CDLL('$library', RTLD_GLOBAL)|; s/^\( *\)print r$/\1print(r)/" >darknet.py
        PYTHONPATH=. "$python" classify.py 2>script.err | grep '^script: ' >"script.$(basename "$library")" || cat script.err
    done
    check "darknet.py: the same, to 1e-4" near 35 1e-4 script.libdarknet.so script.libdarknet-itra.so
else
    skip "darknet.py: Debian's package darknet, or its documentation, is not installed"
fi

# ---- the wheel ----
unset DARKNET_ITRA_LIBRARY PYTHONPATH
export PIP_DISABLE_PIP_VERSION_CHECK=1
export MAKEFLAGS=$(printf %s "${MAKEFLAGS:-}" | sed 's/ *--jobserver[^ ]*//g; s/ -j[0-9]*//g')
"$python" -m venv --system-site-packages venv >/dev/null 2>&1 || { skip "the wheel: python3-venv is not installed"; finish; }
tree() { (cd "$here" && find . -path ./build -prune -o -path ./.git -prune -o -print | sort); }
tree >before
check "pip install" venv/bin/pip install --no-index "$here"
tree >after
check "it leaves nothing in the tree" diff before after
cat >use.py <<'END'
import sys
from darknet_itra import Net, __file__, _library

with Net("mini.cfg", "mini.weights") as net:
    for row in net.predict(sys.argv[1:]):
        print(*net.top(row, 1, names="names.list")[0])
assert "venv" in __file__ and "venv" in _library.lib._name
END
check "it classifies" venv/bin/python use.py img/3_ant.ppm img/4_bee.ppm
check "its version is that of the library" sh -c "venv/bin/pip show darknet-itra | grep -qx \
    'Version: $(sed -n 's/^#define DN_VERSION "\(.*\)"/\1/p' "$here/include/darknet.h")'"
check "its types come with it" ls venv/lib/python3*/site-packages/darknet_itra/py.typed
ONEDNN=2 venv/bin/pip install --no-index --force-reinstall --no-deps "$here" >refused.log 2>&1
check "options reach make, whose message is passed on" grep -q 'ONEDNN=2: expected 0 or 1' refused.log
check "in a line" grep -q 'make lib. failed' refused.log
check "without a traceback" lacks refused.log Traceback
finish
