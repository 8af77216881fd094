#!/bin/sh
# Debian has this data set as a package, and data/fmnist.data names its files; elsewhere it is downloaded.
set -eu
. "$(dirname -- "$0")/get.inc"
data_set fmnist "Fashion-MNIST: 60,000 + 10,000 grey images of 28x28, 10 kinds of clothes (30 MB). Where apt is and DATA_URL is not
set: the package dataset-fashion-mnist, for data/fmnist.data. Else:" \
    http://fashion-mnist.s3-website.eu-central-1.amazonaws.com "$@"
package=/usr/share/datasets/fashion-mnist
if [ -z "${DATA_URL:-}" ]; then
    [ -s $package/t10k-labels-idx1-ubyte.gz ] || ! command -v apt-get >/dev/null || scripts/deps.sh data || :
    if [ -s $package/t10k-labels-idx1-ubyte.gz ]; then
        say "$package is complete (data/fmnist.data names it)"
        exit 0
    fi
fi
get_files \
    train-images-idx3-ubyte.gz 8d4fb7e6c68d591d4c3dfef9ec88bf0d \
    train-labels-idx1-ubyte.gz 25c81989df183df01b3e8a0aad5dffbe \
    t10k-images-idx3-ubyte.gz bef4ecab320f06d8554ea6380940ec79 \
    t10k-labels-idx1-ubyte.gz bb300cfdad3c16e7a12a480ee83cd310
top=$(sed -n 's|^names=\(.*\)data/.*|\1|p' data/fmnist.data) # empty, but where make install has made paths absolute
sed "s|$package|$top$folder|" data/fmnist.data >"$folder/unpacking"
mv -f "$folder/unpacking" "$folder/fmnist.data"
say "$folder is complete; $folder/fmnist.data names its files in place of data/fmnist.data"
