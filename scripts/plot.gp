# Two runs over training: test cross-entropy, test accuracy and same-class distance, from the metrics of `make demo`.
#   gnuplot -e "folder='build/demo'" scripts/plot.gp        reads baseline.csv and itra.csv, writes demo.png

set terminal pngcairo size 1500,470 font "DejaVu Sans,11" linewidth 1.2
set output folder.'/demo.png'
set datafile separator ','

# Rows of the CSV that are validations. Columns: 3 epoch, 10 top-1, 12 CE, 14 mean distance of same-class pairs.
of(run) = "< grep '^valid,' ".folder."/".run.".csv"

set style line 1 linecolor rgb '#8a8a8a' linewidth 2.5 pointtype 7 pointsize .6
set style line 2 linecolor rgb '#c8102e' linewidth 2.5 pointtype 7 pointsize .6
set border 3 linecolor rgb '#444444'
set tics nomirror out scale .6
set grid ytics linetype 1 linecolor rgb '#e4e4e4' linewidth 1
set xlabel 'epochs'
set xrange [0:*] noextend
set key top right samplen 2

set multiplot layout 1,3 title 'Fashion-MNIST, 5,000 training images, 10,000 test images' font ',13' \
    margins .05,.985,.14,.83 spacing .065

set title 'Test cross-entropy'
set ylabel 'nats per image' offset 1.2
plot of('baseline') using 3:12 with linespoints linestyle 1 title 'baseline', \
     of('itra') using 3:12 with linespoints linestyle 2 title 'ITRA'

unset key
set title 'Test accuracy'
set ylabel '% of images'
plot of('baseline') using 3:(100 * $10) with linespoints linestyle 1, \
     of('itra') using 3:(100 * $10) with linespoints linestyle 2

set title 'Same-class distance of features'
set ylabel 'Euclidean distance, mean of pairs'
set yrange [0:*]
plot of('baseline') using 3:14 with linespoints linestyle 1, \
     of('itra') using 3:14 with linespoints linestyle 2

unset multiplot
