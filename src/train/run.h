/* What the files of the training loop share, and nobody else sees. */
#ifndef TRAIN_RUN_H
#define TRAIN_RUN_H
#include <stdio.h>
#include "core/clock.h"
#include "train/trainer.h"

/* ---- checkpoints ---- */

enum { HAS_WARNED = 1, HAS_LEARNT = 2 };

/* Where a run is: all that a resumed run needs besides what the net writes itself. Saved as it stands, so
 * every member has 8 bytes. */
struct progress {
    uint64_t iteration;        /* completed */
    double ce_smooth;          /* < 0: none yet */
    double best_top1, best_ce; /* < 0: none yet */
    uint64_t stuck, marks;     /* see watch_collapse */
    uint64_t samples;          /* hash_samples of the training set; loading compares it and keeps it */
    double lambda_peak;
};

struct files {
    char *last, *state, *best, *final, *metrics, *lock;
};
int files_open(struct files *, const char *backup, const char *base, struct err *);
void files_close(struct files *);
/* None of them may be anything but an ordinary file; what killed runs left beside them goes. */
int files_check(const struct files *, const char *metrics, struct err *);

/* Labels, and paths where there are any, in their order, the size of packed images and the choice of a
 * holdout: what else training depends on. */
uint64_t hash_samples(const struct dataset *);

/* Keeps other runs, which would overwrite the same files, away until lock_close or the end of the process. */
struct lock {
    int fd; /* 0: none */
    const char *path;
};
int lock_open(struct lock *, const char *path, const struct notes *, struct err *);
void lock_close(struct lock *);

/* The state file: self-contained, so that weights and state of two moments cannot be mixed. `images` is the
 * size of the training set, which the order of samples depends on. */
int state_save(const struct net *, const struct progress *, int images, const char *path, struct err *);
int state_load(struct net *, struct progress *, int images, const char *path, struct err *);

/* ---- metrics ---- */

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

/* ---- compactness ---- */

/* A fixed random subset of rows, chosen on the way through `total` candidates. */
struct sample {
    real *x; /* capacity x size */
    int *label;
    int n, capacity; /* rows kept; wanted */
    size_t size;     /* numbers a row */
    uint64_t key;
    int asked, chosen, total;
};
int sample_open(struct sample *, int total, size_t size, uint64_t seed, struct err *);
void sample_close(struct sample *);
int sample_wants(struct sample *); /* the next candidate? */
void sample_add(struct sample *, int label, const real *row);
/* Mean distance of the pairs of one class (-1: there is none) and of all pairs. */
int sample_distances(const struct sample *, int threads, double *same, double *all, struct err *);

/* ---- the run ---- */

enum { PACE_WINDOW = 32 };

/* Time spent in the latest iterations, loading included and validation not. */
struct throughput {
    double clock, at[PACE_WINDOW + 1]; /* a ring of readings of the clock, which starts at 0 */
    uint64_t n;                        /* iterations so far */
};

/* An iteration that was submitted and not yet reported. */
struct pending {
    struct program *program;
    uint64_t iteration, number; /* number: of its first sub-mini-batch */
    double rate, loading;       /* seconds spent waiting for the loader */
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
    int saved; /* this run has written files.last */
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
/* Waits for what was submitted and reports it, an iteration after the other. After a failure the counters and
 * the weights are those before the iteration that failed. */
int trainer_drain(struct trainer *, struct err *);

#endif
