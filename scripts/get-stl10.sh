#!/bin/sh
set -eu
. "$(dirname -- "$0")/get.inc"
data_set stl10 "STL-10, binary version: 5,000 + 8,000 colour images of 96x96 in 10 classes (2.6 GB, most of it unlabelled images,
which stay in the archive)." \
    http://ai.stanford.edu/~acoates/stl10 "$@"
leave_out='*unlabeled*'
get_archive stl10_binary.tar.gz 91f7769df0f17e558f3565bffb0c7dfb stl10_binary \
    train_X.bin=138240000 train_y.bin=5000 test_X.bin=221184000 test_y.bin=8000 class_names.txt
