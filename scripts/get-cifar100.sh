#!/bin/sh
set -eu
. "$(dirname -- "$0")/get.inc"
data_set cifar100 "CIFAR-100, binary version: 50,000 + 10,000 colour images of 32x32 in 100 classes (170 MB)." \
    https://www.cs.toronto.edu/~kriz "$@"
get_archive cifar-100-binary.tar.gz 03b5dce01913d631647c71ecec9e9cb8 cifar-100-binary \
    train.bin=153700000 test.bin=30740000 fine_label_names.txt coarse_label_names.txt
