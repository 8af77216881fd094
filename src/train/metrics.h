/* The metrics CSV: one row per iteration and per validation. What a row has no value for is empty; `images`
 * are those trained on so far, `ce` is of the training mini-batches, `valid_ce` of the validation set. */
#ifndef TRAIN_METRICS_H
#define TRAIN_METRICS_H
#include <stdio.h>
#include "core/err.h"
#include "train/report.h"

struct metrics {
    FILE *f;
    char *path;
};
/* Opens the CSV for appending. metrics_resume cuts off the rows after iteration `keep`, which will be
 * repeated; metrics_open starts a new file, and a file with rows gets the first free name of PATH.1, PATH.2
 * ... */
int metrics_open(struct metrics *, const char *path, const struct notes *, struct err *);
int metrics_resume(struct metrics *, const char *path, uint64_t keep, struct err *);
void metrics_train(struct metrics *, const struct train_line *);
void metrics_valid(struct metrics *, const struct valid_line *, uint64_t seen);
int metrics_flush(struct metrics *, struct err *);
void metrics_close(struct metrics *);

#endif
