# How a training step of ResNet-18 grows with the mini-batch and with the width, from what `scripts/bench.sh growth` measured.
#   gnuplot scripts/growth.gp        reads build/bench/bench.txt, writes build/bench/growth.png

set terminal pngcairo size 1100,430 font "DejaVu Sans,11" linewidth 1.2
set output 'build/bench/growth.png'

# Lines "bench growth.NAMEnumber.resnet18.images VALUE UNIT"; the full width is the mini-batch of 150 next to it.
of(name, what) = "< sed -n 's/^bench growth\\.".name."\\([0-9_]*\\)\\.resnet18\\.".what." \\([0-9.]*\\) .*/\\1 \\2/p' build/bench/bench.txt | sed 's/^1_4/.25/' | sort -g"

set style line 1 linecolor rgb '#c8102e' linewidth 2.5 pointtype 7 pointsize .9
set style line 2 linecolor rgb '#3b6ea5' linewidth 2.5 pointtype 7 pointsize .9
set border 11 linecolor rgb '#444444'
set tics nomirror out scale .6
set grid ytics linetype 1 linecolor rgb '#e4e4e4' linewidth 1
set logscale x 2
set logscale y2 2
set y2tics
set yrange [0:*]
set y2label 'peak resident memory, MiB' offset -1
set ylabel 'images/s' offset 1.2
set key at graph .4, graph .62 samplen 2

set multiplot layout 1,2 title 'ResNet-18 on 3x32x32, training step, 2 threads' font ',13' margins .07,.92,.14,.84 spacing .16

set title 'Mini-batch (full width)'
set xlabel 'images'
set xtics (16, 64, 150, 256, 1024)
plot of('batch', 'images') using 1:2 with linespoints linestyle 1 title 'images/s', \
     of('batch', 'memory') using 1:2 axes x1y2 with linespoints linestyle 2 title 'MiB'

unset key
set title 'Width (mini-batch of 150)'
set xlabel 'filters of each layer, relative'
set xtics ('1/4' .25, '1' 1, '2' 2)
set logscale y 2
set yrange [16:*]
plot of('width', 'images') using 1:2 with linespoints linestyle 1, \
     of('width', 'memory') using 1:2 axes x1y2 with linespoints linestyle 2
