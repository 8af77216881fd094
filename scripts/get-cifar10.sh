#!/bin/sh
set -eu
. "$(dirname -- "$0")/get.inc"
data_set cifar10 "CIFAR-10, binary version: 50,000 + 10,000 colour images of 32x32 in 10 classes (170 MB)." \
    https://www.cs.toronto.edu/~kriz "$@"
get_archive cifar-10-binary.tar.gz c32a1d4ab5d03f1284b67883e8d87530 cifar-10-batches-bin \
    data_batch_1.bin=30730000 data_batch_2.bin=30730000 data_batch_3.bin=30730000 data_batch_4.bin=30730000 \
    data_batch_5.bin=30730000 test_batch.bin=30730000 batches.meta.txt
