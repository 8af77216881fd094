#!/bin/sh
# What `make test` runs once everything is built: which program in which variant, and why there.
#   tests/all.sh [gpu|onednn]   gpu: of the build for GPUs, after make test GPU=1; onednn: after make test ONEDNN_ROOT=DIR
cd "$(dirname "$0")/.." || exit 2
float=build/float double=build/double-ref san=build/float-address,undefined tsan=build/float-thread
shim=build/float-shim-ref-address,undefined cuda=build/float-cuda
turbojpeg=build/float-ref-turbojpeg-address,undefined opencv=build/float-ref-opencv-address,undefined

programs() { # programs VARIANT FOLDER...: the test programs built there
    variant=$1
    shift
    for folder in "$@"; do
        for f in tests/$folder/*.c; do
            [ -x "$variant/${f%.c}" ] && echo "$variant/${f%.c}"
        done
    done
}

orders() { # the operations of cuda, with the threads of a block in several orders
    for f in tests/backends/*.c; do
        f=${f##*/}
        echo "$shim/tests/orders/${f%.c}"
    done
}

export GPU_GROUP=$PWD/build/float-shim-ref-mpi-nccl/darknet
export MPI_DARKNET=$PWD/build/float-mpi/darknet MPI_DOUBLE=$PWD/build/double-ref-mpi/darknet
export DARKNET=$PWD/$float/darknet GPU_HOST=$PWD/$shim/darknet OPENCV_DARKNET=$PWD/$opencv/darknet
# Vectors of 64 bytes lie askew in the stack frames that gcc 13 and 14 make for detect_stack_use_after_return (its bug 110027).
export ASAN_OPTIONS=detect_leaks=1:detect_stack_use_after_return=0 UBSAN_OPTIONS=print_stacktrace=1

# What runs on a GPU is skipped without one; the choice of devices and the plans of cuDNN are not.
if [ "${1:-}" = gpu ]; then
    export DARKNET=$PWD/$cuda/darknet GPU_REAL=$PWD/$cuda/darknet
    unset GPU_HOST OPENCV_DARKNET
    exec tests/run.sh $(programs $cuda backends layers cuda) tests/cuda/kernels.sh tests/cli/device.sh tests/api/library.sh
fi

# Another version of oneDNN: every program and script whose numbers come from it.
if [ "${1:-}" = onednn ]; then
    variant=build/float-onednn
    export DARKNET=$PWD/$variant/darknet BUILD=$variant
    unset GPU_HOST
    exec tests/run.sh $(programs $variant backends layers faults train | grep -vE 'gradient|layers/replay') $variant/tests/torch/replay \
        tests/golden/run.sh tests/cli/train.sh tests/cli/predict.sh tests/cli/reproduce.sh tests/cli/features.sh tests/api/library.sh
fi

# Units, faults and layers run under sanitizers, and so do the GPU's kernels on the host (backends/, layers/parity and, for
# only a GPU records its steps, layers/replay by device/dry.sh); gradients in double, which resolves their differences; the
# lock-free parts of the loader under the thread sanitizer; the rest as users build it.
exec tests/run.sh \
    $(programs $san unit backends ref layers faults train | grep -vE 'gradient|layers/replay|train/cfgs') $san/tests/fuzz/replay \
    $double/tests/layers/gradient $(programs $double ref) $double/tests/unit/match $double/tests/unit/itra_edge \
    $tsan/tests/unit/loader \
    $(for v in $turbojpeg $opencv; do for t in image decoders; do echo $v/tests/unit/$t; done; done) \
    $float/tests/layers/parity $float/tests/train/cfgs \
    tests/device/dry.sh $(programs $shim cuda) $(orders) tests/cuda/train.sh tests/cuda/group.sh tests/cuda/nets.py \
    $double/tests/torch/replay $float/tests/torch/replay \
    tests/golden/run.sh tests/golden/vectors.sh \
    tests/make.sh tests/cli/*.sh tests/api/*.sh tests/python/*.sh
