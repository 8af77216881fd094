/* One iteration: its sub-mini-batches, the update after them, and what is reported. */
#ifndef TRAIN_ITERATE_H
#define TRAIN_ITERATE_H
#include "data/loader.h"
#include "net/net.h"
#include "train/checkpoint.h"
#include "train/lock.h"
#include "train/metrics.h"
#include "train/report.h"

enum { THROUGHPUT_WINDOW = 32 };

/* Time spent in the latest iterations, loading included and validation not. */
struct throughput {
    double clock;                     /* starts at 0 */
    double at[THROUGHPUT_WINDOW + 1]; /* a ring of readings of the clock */
    uint64_t n;                       /* iterations so far */
};

/* An iteration that was submitted and not yet reported. */
struct pending {
    struct program *program;
    uint64_t number; /* of its first sub-mini-batch */
    double loading;  /* seconds spent waiting for the loader */
};
enum { MOST_PENDING = 16 };

struct trainer {
    struct net *net;
    const struct dataset *train, *valid;
    const struct data_file *data;
    const struct train_options *o;
    const struct train_hooks *hooks;
    struct step_programs training;
    struct program *infer;
    struct loader *loader;
    struct files files;
    struct lock lock;
    int saved; /* this run has written files.path[LAST] */
    struct metrics metrics;
    struct progress p;
    struct throughput throughput;
    struct pending pending[MOST_PENDING];
    int npending;
    double began;         /* when the first of them was submitted */
    double valid_seconds; /* of the last validation */
};

double trainer_epoch(const struct trainer *, uint64_t seen);
/* Submits and counts one iteration. After a failure the weights are those of the iteration before. */
int trainer_iterate(struct trainer *, struct err *);
int trainer_full(const struct trainer *); /* no more may be submitted before trainer_drain */
/* Waits for what was submitted and reports it, one iteration after another. After a failure the counters and
 * the weights are those before the iteration that failed. */
int trainer_drain(struct trainer *, struct err *);

#endif
