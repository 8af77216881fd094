/* The training loop: mini-batches, updates, validation, checkpoints, metrics. No argv, no printing of its
 * own: what a person should see goes through the hooks, and warnings through the notes of the net. */
#ifndef TRAIN_TRAINER_H
#define TRAIN_TRAINER_H
#include <signal.h>
#include "data/dataset.h"
#include "net/net.h"
#include "train/evaluate.h"
#include "train/metrics.h"
#include "train/setup.h"

/* What a run starts from. */
struct train_start {
    uint64_t iteration;          /* completed already */
    const char *metrics;         /* CSV: the rows of what a resumed run has done before are in it */
    size_t params, train, infer; /* bytes: parameters, gradients, momenta; training programs; validation */
};

struct train_hooks { /* each may be NULL */
    void *ctx;
    void (*start)(void *ctx, const struct train_start *);
    void (*iteration)(void *ctx, const struct train_line *);
    void (*validating)(void *ctx, int done, int all); /* images of rank 0 */
    void (*validation)(void *ctx, const struct valid_line *);
};

struct train_options {
    const char *base;    /* of the files in the backup folder: cfg's name up to the first dot */
    const char *backup;  /* exists (folder_prepare) */
    const char *weights; /* start from these, or NULL */
    int finetune;        /* the weights are of other classes: the last layer starts anew, iterations from 0 */
    const char *resume;  /* a state file, or NULL */
    const char *metrics; /* CSV; NULL: BACKUP/BASE_metrics.csv */
    int clear;           /* count iterations from 0 again */
    int workers;         /* loader threads */
    int top;
    const struct notes
        *notes; /* for what the loader says of images, wherever they are read; NULL: the net's */
    struct step_programs *programs; /* of the net, which stay open; opened where they are not */
    volatile sig_atomic_t *stop; /* set by a signal handler: finish this iteration, save, return; or NULL */
};

/* Where the device of the net is one of a group, every process calls this with the same cfg, data and
 * options; that of rank 0 writes the files and calls the hooks, the others take their share of the
 * mini-batches and of the validations. A failure of one is everybody's.
 *
 * Runs to max_batches, or out of patience. net is open; train and valid are open datasets (valid NULL: no
 * validation). Weights or a state that are at the end already are noted, and it returns OK without training.
 * Only one run at a time may write into a backup folder under one base. */
int trainer_run(struct net *, const struct data_file *, const struct dataset *train,
                const struct dataset *valid, const struct train_options *, const struct train_hooks *,
                struct err *);

#endif
