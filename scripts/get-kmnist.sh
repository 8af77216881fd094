#!/bin/sh
set -eu
. "$(dirname -- "$0")/get.inc"
data_set kmnist "Kuzushiji-MNIST: 60,000 + 10,000 grey images of 28x28, 10 kinds of cursive characters (20 MB)." \
    http://codh.rois.ac.jp/kmnist/dataset/kmnist "$@"
get_files \
    train-images-idx3-ubyte.gz bdb82020997e1d708af4cf47b453dcf7 \
    train-labels-idx1-ubyte.gz e144d726b3acfaa3e44228e80efcd344 \
    t10k-images-idx3-ubyte.gz 5c965bf0a639b31b8f53240b1b52f4d7 \
    t10k-labels-idx1-ubyte.gz 7320c461ea6c1c855c0b718fb2a4b134
say "$folder is complete"
