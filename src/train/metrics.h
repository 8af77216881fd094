/* The metrics CSV: one row per iteration and per validation. A column for which a row has no value is empty;
 * `images` counts those trained on so far, `ce` is of the training mini-batches, `valid_ce` of the validation
 * set. */
#ifndef TRAIN_METRICS_H
#define TRAIN_METRICS_H
#include <stdint.h>
#include <stdio.h>
#include "core/err.h"

/* One iteration (one optimiser step). */
struct train_line {
    uint64_t iteration, seen; /* from 1; images of S1 */
    double epoch;             /* seen / images */
    double loaded_seconds, seconds;
    double ce, ce_smooth;     /* of this iteration; .9 old + .1 new */
    double match;             /* before lambda; NAN: there was none, as between the iterations of every=k */
    double lambda;            /* in force */
    double match_share;       /* of training-only layers in the step, 0..1; NAN: not known */
    double rate;              /* learning rate */
    double images_per_second; /* over a recent window */
    double eta_seconds;       /* < 0: unknown (max_batches 0) */
    int burn_in;              /* of this many iterations; 0: over */
};
struct valid_line;

struct metrics {
    FILE *f;
    const char *path; /* not copied */
};
/* Opens the CSV for appending. A run that is resumed keeps the rows up to iteration `keep`; the later ones
 * will be repeated. With keep = 0 a new file begins, and one with rows gets the first free name of PATH.1,
 * PATH.2 ... */
int metrics_open(struct metrics *, const char *path, uint64_t keep, const struct notes *, struct err *);
/* Reads the rows back: `row` gets, of each iteration, its number and CE, of each validation, its iteration
 * and top-1. */
int metrics_read(const char *path, void (*row)(void *ctx, int validation, double iteration, double value),
                 void *ctx, struct err *);
void metrics_train(struct metrics *, const struct train_line *);
void metrics_valid(struct metrics *, const struct valid_line *, uint64_t seen);
/* Also brings back a file that somebody has removed. */
int metrics_flush(struct metrics *, struct err *);
void metrics_close(struct metrics *);

#endif
