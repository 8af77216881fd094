#!/bin/sh
# itra-golden FILE...: the matching loss against golden vectors, in float and in double. Installed as
# tests/bin/itra-golden; `make` and `make DOUBLE=1` build the two programs it runs.
root=$(cd "$(dirname "$0")/../.." && pwd) || exit 2
status=0
for program in "$root/build/float/tests/golden/itra" "$root/build/double-ref/tests/golden/itra"; do
    if [ ! -x "$program" ]; then
        echo "itra-golden: $program is not built; run: make tests/bin/itra-golden" >&2
        exit 2
    fi
    "$program" "$@"
    rc=$?
    [ $rc -le $status ] || status=$rc
done
exit $status
