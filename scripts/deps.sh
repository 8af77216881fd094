#!/bin/sh
# Installs the Debian packages that a target needs, and nothing else. Usage: scripts/deps.sh SET..., as in `packages` below.
# Asks nothing; needs root or sudo only when something is missing.
set -eu

packages() {
    case $1 in
    build) echo libdnnl-dev libstb-dev zlib1g-dev ;;
    test) echo libdnnl-dev libstb-dev zlib1g-dev libcmocka-dev darknet dataset-fashion-mnist python3 ;;
    data) echo dataset-fashion-mnist ;;
    demo) echo libdnnl-dev libstb-dev zlib1g-dev dataset-fashion-mnist gnuplot-nox ;;
    bench) echo libdnnl-dev libstb-dev zlib1g-dev darknet python3-torch ;;
    turbojpeg) echo libturbojpeg0-dev pkg-config ;;
    opencv) echo libopencv-imgcodecs-dev libopencv-videoio-dev g++ ;;
    figures) echo python3-matplotlib python3-sklearn ;;
    *)
        echo "deps.sh: unknown set '$1': expected build, test, demo, bench, data, turbojpeg, opencv or figures" >&2
        exit 1
        ;;
    esac
}

missing() {
    for p in $(for set in "$@"; do packages "$set"; done | tr ' ' '\n' | sort -u); do
        dpkg-query -W -f='${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || echo "$p"
    done
}

[ $# -gt 0 ] || set -- build
for s in "$@"; do packages "$s" >/dev/null; done
if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
    echo "deps.sh: no apt here: install oneDNN, stb, zlib (and for the tests cmocka) by hand; see README.md" >&2
    exit 1
fi
want=$(missing "$@" | tr '\n' ' ')
[ -n "$want" ] || exit 0
root=
if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || { echo "deps.sh: must be root, or have sudo, to install: $want" >&2; exit 1; }
    root=sudo
fi
echo "installing: $want"
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! { $root apt-get update -qq && $root apt-get install -y -qq --no-install-recommends $want; } >"$log" 2>&1; then
    tail -5 "$log" >&2
    echo "deps.sh: apt-get could not install: $want" >&2
    exit 1
fi
