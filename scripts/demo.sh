#!/bin/sh
# make demo: trains one small net twice on the first 5,000 images of Fashion-MNIST, without and with [itra], from the same
# seed, and compares the two on the 10,000 test images. Logs, metrics, weights and the plot go to build/demo.
# Environment: THREADS (one per core), SEED (1).
set -eu
cd "$(dirname "$0")/.."

threads=${THREADS:-$(nproc)} seed=${SEED:-1}
out=build/demo cfg=cfg/demo.cfg

# train RUN [FLAGS]...: shows the validations as they come; the whole log stays in $out/RUN.log
train() {
    run=$1
    shift
    mkdir -p "$out/$run"
    rm -f "$out/$run.csv"
    sed "s|^backup=.*|backup=$out/$run|" data/fmnist-5000.data >"$out/$run.data"
    {
        ./darknet classifier train "$out/$run.data" $cfg -threads "$threads" -seed "$seed" -metrics "$out/$run.csv" "$@" 2>&1 ||
            echo $? >"$out/failed"
    } | tee "$out/$run.log" | awk '
        /^validation/ {
            gsub(",", "")
            printf "  epoch %2d: test accuracy %5.2f %%, test CE %.3f\n", $3, 100 * $5, $7
            fflush()
        }'
    [ ! -e "$out/failed" ] || { tail -3 "$out/$run.log" >&2; echo "demo: training failed: see $out/$run.log" >&2; exit 1; }
}

# Columns of the metrics: kind,iteration,epoch,...,top1,topk,valid_ce,compactness,same_distance
summary() { # summary RUN NAME: the last validation, and the lowest CE of all
    awk -F, -v name="$2" '
        $1 == "valid" { top1 = $10; ce = $12; compact = $13; same = $14; if (!n++ || ce < best) { best = ce; at = $3 } }
        END { printf "%-12s %9.2f %% %10.4f %10.4f (%2d) %14.4f %16.3f\n", name, 100 * top1, ce, best, at, compact, same }' \
        "$out/$1.csv"
}

scripts/deps.sh demo
mkdir -p "$out"
rm -f "$out/failed" "$out/demo.png"
echo "building"
make -s -j"$(nproc)" darknet

start=$(date +%s)
echo "baseline: $cfg without [itra] (1 of 2)"
train baseline -set itra.lambda=0
echo "ITRA: the same with the matching loss (2 of 2; each step sees a second mini-batch)"
train itra
gnuplot -e "folder='$out'" scripts/plot.gp

echo
echo "Fashion-MNIST, first 5,000 training images, 10,000 test images, seed $seed, $(($(date +%s) - start)) s of training:"
printf '%-12s %11s %10s %15s %14s %16s\n' "" accuracy CE "best CE (epoch)" compactness "same-class dist."
summary baseline baseline
summary itra ITRA
echo "compactness: mean distance of features of the same class over that of all. Plot: $out/demo.png"
