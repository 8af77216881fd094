/* What a training run is asked for and what it reports. */
#ifndef TRAIN_REPORT_H
#define TRAIN_REPORT_H
#include <signal.h>
#include <stdint.h>
#include <stddef.h>

/* What a run starts from. */
struct train_start {
    uint64_t iteration;          /* completed already */
    size_t params, train, infer; /* bytes: parameters, gradients, momenta; training programs; validation */
};
/* One iteration (one optimiser step). */
struct train_line {
    uint64_t iteration, seen; /* from 1; images of S1 */
    double epoch;             /* seen / images */
    double loaded_seconds, seconds;
    double ce, ce_smooth; /* of this iteration; .9 old + .1 new */
    double match;         /* before lambda; NAN: there was none, as between the iterations of every=k */
    double lambda, center, match_share; /* share: training-only layers / step, 0..1; NAN: not known */
    double rate;
    double images_per_second; /* over a recent window */
    double eta_seconds;       /* < 0: unknown (max_batches 0) */
    int burn_in;              /* of this many iterations; 0: over */
};
struct valid_line {
    uint64_t iteration;
    double epoch, top1, topk, ce, compactness; /* 0..1; compactness < 0: no feature layer or undefined */
    double same_distance;                      /* mean distance of same-class pairs; < 0 as above */
    int images, unreadable, top;               /* ce is the mean over the readable ones */
    int best;                                  /* a new best: *_best.weights was written */
    double seconds;
};
struct train_hooks {
    void *ctx;
    void (*start)(void *ctx, const struct train_start *);
    void (*iteration)(void *ctx, const struct train_line *);
    void (*validation)(void *ctx, const struct valid_line *);
};

struct train_options {
    const char *base;    /* of the files in the backup folder: cfg's name up to the first dot */
    const char *backup;  /* exists (folder_prepare) */
    const char *weights; /* start from these, or NULL */
    const char *resume;  /* a state file, or NULL */
    const char *metrics; /* CSV; NULL: BACKUP/BASE_metrics.csv */
    int clear;           /* count iterations from 0 again */
    int workers;         /* loader threads */
    int top;
    /* Set by a signal handler: finish this iteration, save, return. May be NULL. */
    volatile sig_atomic_t *stop;
};

#endif
