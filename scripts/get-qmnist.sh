#!/bin/sh
set -eu
. "$(dirname -- "$0")/get.inc"
data_set qmnist "QMNIST: the digits of MNIST, 60,000 + 60,000 grey images of 28x28, labels with where each came from (20 MB)." \
    https://raw.githubusercontent.com/facebookresearch/qmnist/master "$@"
get_files \
    qmnist-train-images-idx3-ubyte.gz ed72d4157d28c017586c42bc6afe6370 \
    qmnist-train-labels-idx2-int.gz 0058f8dd561b90ffdd0f734c6a30e5e4 \
    qmnist-test-images-idx3-ubyte.gz 1394631089c404de565df7b7aeaf9412 \
    qmnist-test-labels-idx2-int.gz 5b5b05890a5e13444e108efe57b788aa
say "$folder is complete"
