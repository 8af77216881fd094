/* The training loop: mini-batches, updates, validation, checkpoints, metrics. No argv, no printing of its
 * own: what a person should see goes through the hooks, and warnings through the notes of the net. */
#ifndef TRAIN_TRAINER_H
#define TRAIN_TRAINER_H
#include <signal.h>
#include "data/dataset.h"
#include "data/loader.h"
#include "net/net.h"

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

/* Runs to max_batches. net is open; train and valid are open datasets (valid NULL: no validation). With
 * weights or a state that are there already, it notes so and returns OK without writing weights. One run at a
 * time may write into a backup folder under one base. */
int trainer_run(struct net *, const struct data_file *, const struct dataset *train,
                const struct dataset *valid, const struct train_options *, const struct train_hooks *,
                struct err *);

/* One pass over a dataset with an inference program. Unreadable images count as wrong, and are left out of
 * the mean CE; none readable, or a probability that is not finite, is an error. Also used by `darknet
 * classifier valid`; per_image (may be NULL) sees every image's probabilities in order, or NULL for one that
 * could not be read, and ends the pass by returning an error. Fills all of valid_line but iteration, epoch
 * and best. */
struct eval_options {
    int rows; /* of the program */
    int workers, top;
    int compactness; /* over a fixed seeded sample of 2000 images, from the features the program keeps */
    uint64_t seed;
    const int *only; /* these samples only, in this order; NULL: all */
    int only_n;
    int (*per_image)(void *ctx, int sample, int label, const float *prob, int classes, struct err *);
    /* Sees the features the program keeps of every readable image, in order; may be NULL. */
    int (*per_feature)(void *ctx, int label, const real *features, struct err *);
    void *ctx;
};
int evaluate(struct net *, struct program *, const struct dataset *, const struct eval_options *,
             struct valid_line *, struct err *);

/* How many classes come before `label`; of equal probabilities the first comes first. A probability that is
 * not a number comes last. */
int eval_rank(const float *prob, int classes, int label);

/* E_NUMBER, naming the place, unless all probabilities of an image are finite. */
int eval_check(const float *prob, int classes, const char *place, struct err *);

/* The loader's augmentation as the [net] section asks for it; an error for a net that takes no images. */
int augment_from_net(const struct net *, struct augment *, struct err *);

#endif
