#!/bin/sh
# Installs the Debian packages that a target needs, and nothing else. Usage: scripts/deps.sh SET..., as in `packages` below.
# Asks nothing; needs root or sudo only when something is missing. What a system may lack and the tests do without, they skip:
# `optional`. From Python's registry come onednn3, oneDNN 3 in build/onednn3 for a system whose package is oneDNN 2 (make
# ONEDNN_ROOT=build/onednn3), nccl, NCCL in build/nccl where CUDA (CUDA=/usr/local/cuda) comes without, rivals, today's PyTorch in
# build/torch for make bench, and export, in build/export, what tests/cli/export.sh compares exported nets with: onnxruntime and
# torchvision.
set -eu

cuda=${CUDA:-/usr/local/cuda}
has_nccl() { echo '#include <nccl.h>' | cc -E -isystem "$cuda/include" - >/dev/null 2>&1; }

sets="build, test, demo, bench, data, turbojpeg, opencv, mpi, nccl, figures, onednn3, rivals or export"
case ${1-} in
-h | -help | --help)
    echo "usage: scripts/deps.sh [SET]...    installs what these need, build by default: $sets"
    exit 0
    ;;
esac

packages() {
    case $1 in
    build) echo libdnnl-dev libstb-dev zlib1g-dev ;;
    test) echo libdnnl-dev libstb-dev zlib1g-dev libcmocka-dev darknet dataset-fashion-mnist python3-numpy python3-venv wget pkg-config procps ;;
    data) echo dataset-fashion-mnist ;;
    demo) echo libdnnl-dev libstb-dev zlib1g-dev dataset-fashion-mnist gnuplot-nox ;;
    rivals) echo python3-venv g++ ;;
    bench) echo libdnnl-dev libstb-dev zlib1g-dev darknet python3-torch ;;
    turbojpeg) echo libturbojpeg0-dev pkg-config ;;
    mpi) echo libopenmpi-dev openmpi-bin pkg-config ;;
    nccl) has_nccl || echo python3-venv ;;
    opencv) echo libopencv-imgcodecs-dev libopencv-videoio-dev g++ ;;
    onednn3 | export) echo python3-venv ;;
    figures) echo python3-matplotlib python3-sklearn ;;
    *)
        echo "deps.sh: unknown set '$1': expected $sets" >&2
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
optional=' darknet dataset-fashion-mnist gnuplot-nox python3-torch '
root=
as_root() { # asks for sudo only where there is something to install
    [ "$(id -u)" = 0 ] || root=sudo
    [ -z "$root" ] || command -v sudo >/dev/null || { echo "deps.sh: must be root, or have sudo, to install: $*" >&2; exit 1; }
}
known() { # known PACKAGE...: those that this system's lists have, less the optional ones that they lack
    for p in "$@"; do
        case $optional in
        *" $p "*) apt-cache show "$p" >/dev/null 2>&1 || { echo "deps.sh: no package $p here: what needs it is left out" >&2; continue; } ;;
        esac
        echo "$p"
    done
}
log=$(mktemp)
trap 'rm -f "$log"' EXIT
quietly() { # quietly WHAT COMMAND...
    what=$1
    shift
    "$@" >"$log" 2>&1 || { tail -5 "$log" >&2; echo "deps.sh: could not install: $what" >&2; exit 1; }
}

want=$(missing "$@" | tr '\n' ' ')
if [ -n "$want" ]; then
    as_root $want
    export DEBIAN_FRONTEND=noninteractive
    quietly "$want" $root apt-get update -qq
    want=$(known $want | tr '\n' ' ')
fi
if [ -n "$want" ]; then
    echo "installing: $want"
    quietly "$want" $root apt-get install -y -qq --no-install-recommends $want
fi
# wheels FOLDER PACKAGE...: a virtual environment build/FOLDER with these, whole or not at all
wheels() {
    folder=build/$1
    shift
    [ ! -e "$folder" ] || return 0
    echo "installing: $* into $folder"
    mkdir -p build
    rm -rf "$folder.new"
    quietly "$*" python3 -m venv "$folder.new"
    quietly "$*" "$folder.new/bin/pip" install -q "$@"
    mv "$folder.new" "$folder"
}
nccl() { # the wheel for the CUDA that is here, with its header and library where make looks for them
    release=$("$cuda/bin/nvcc" --version 2>/dev/null | sed -n 's/.*release \([0-9]*\).*/\1/p')
    wheels nccl "nvidia-nccl-cu${release:-12}"
    for file in include/nccl.h lib/libnccl.so.2; do
        ln -sf "$PWD"/build/nccl/lib/python3*/site-packages/nvidia/nccl/$file build/nccl/$file
    done
}
for s in "$@"; do
    case $s in
    nccl) has_nccl || nccl ;;
    onednn3) wheels onednn3 onednn-cpu-gomp==2023.2.0 onednn-devel-cpu-gomp==2023.2.0 ;;
    rivals) wheels torch torch numpy ;;
    export) wheels export numpy onnx onnxruntime safetensors torch torchvision ;;
    esac
done
