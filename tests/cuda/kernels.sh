#!/bin/bash
# What nvcc makes of the kernels, where that matters and no host can tell. CUDA: nvcc's folder; CUDA_ARCH: sm_90.
cd "$(dirname "$0")/../.." || exit 2
nvcc=${CUDA:-/usr/local/cuda}/bin/nvcc arch=${CUDA_ARCH:-sm_90}
[ -x "$nvcc" ] || { echo "skipped: no nvcc"; echo "0 passed, 0 failed, 1 skipped"; exit 0; }
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
. tests/check.inc
# ops.inc is made by the build.
compile() { "$nvcc" -std=c++17 "-arch=$arch" -Isrc -Iinclude -Ibuild/float-cuda "$@"; }

# A block of THREADS (256) shares the multiprocessor's 65536 registers with three others.
few_registers() { # few_registers FILE PATTERN: its kernels of that name take 64 at most, and there are some
    compile -cubin -Xptxas -v -o "$work/out" "src/backend/cuda/$1.cu" >"$work/ptxas" 2>&1 || { cat "$work/ptxas"; return 1; }
    awk -v want="$2" '
        /Compiling entry function/ { name = $0 ~ want ? $0 : "" }
        name && match($0, /Used [0-9]+/) { n++; if (substr($0, RSTART + 5, RLENGTH - 5) > 64) { print name, $0; bad = 1 } }
        END { exit bad || !n }' "$work/ptxas"
}
check "norm: the blocks of a launch fit on the device together" few_registers norm '[0-9](measure|apply|sums|back)ILi'

bound() { # bound FILE PATTERN: whatever compiler it is gives its kernels of that name no more than 1024 threads have, and there are some
    compile -ptx -o "$work/ptx" "src/backend/cuda/$1.cu" || return 1
    awk -v want="$2" '
        /\.entry/ { n += on = $0 ~ want }
        on && /\.maxntid 1024/ { bounds++ }
        END { exit !n || bounds != n }' "$work/ptx"
}
check "norm: a block of 1024 threads can be launched" bound norm 'finish|own_sums'
check "softmax: a block of 1024 threads can be launched" bound softmax classify

wide() { # wide FILE PATTERN: its kernels of that name read and write bfloat16 16 bytes at a time, and there are some
    compile -ptx -o "$work/ptx" "src/backend/cuda/$1.cu" || return 1
    awk -v want="$2" '
        /\.entry/ { on = $0 ~ want }
        on && /ld\.global[.a-z]*\.v4/ { reads++ }
        on && /st\.global[.a-z]*\.v4/ { writes++ }
        on && /(ld|st)\.global[.a-z]*\.[ub]16/ { bad = 1 }
        END { exit bad || !reads || !writes }' "$work/ptx"
}
check "linear: bias and activation" wide linear 'finishILi1ELj8E'
check "linear: their gradients" wide linear 'sumILi1ELj8E'

# The host computes the same to the bit: the running CE that a resumed run begins with, and images.
no_fused() { # no_fused FILE
    compile -ptx -o "$work/ptx" "src/backend/cuda/$1.cu" || return 1
    ! grep 'fma\.' "$work/ptx"
}
check "loss_ring: products are rounded by themselves" no_fused loss_ring
check "images: so are theirs" no_fused images
finish
