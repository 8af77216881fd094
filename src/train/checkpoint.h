/* The files of a run, and what is in the state file. */
#ifndef TRAIN_CHECKPOINT_H
#define TRAIN_CHECKPOINT_H
#include "data/dataset.h"
#include "net/net.h"

enum { HAS_WARNED = 1, HAS_LEARNT = 2, WITH_REPLACEMENT = 4 };

/* Where a run is: all that a resumed run needs besides what the net writes itself. Saved as it stands, so
 * there are no gaps between its members. */
struct progress {
    uint64_t iteration;        /* completed */
    double ce_smooth;          /* < 0: none yet */
    double best_top1, best_ce; /* < 0: none yet */
    uint64_t stuck;            /* iterations no better than guessing: see watch_collapse */
    uint32_t marks;            /* HAS_WARNED, HAS_LEARNT; WITH_REPLACEMENT: how images are drawn */
    uint32_t stale;            /* validations since the best, counted where patience= is */
    uint64_t samples;          /* hash_samples of the training set; loading compares it and keeps it */
    double lambda_peak;
};

/* The files of a run: BACKUP/BASE_last.weights and so on. */
enum { LAST, STATE, BEST, FINAL, METRICS, LOCK, FILES };
struct files {
    char *path[FILES];
};
int files_open(struct files *, const char *backup, const char *base, struct err *);
void files_close(struct files *);
/* Each must be an ordinary file, or not there yet; removes temporary files that killed runs have left beside
 * them. */
int files_check(const struct files *, const char *metrics, struct err *);

/* What else training depends on: labels, and paths where there are any, in their order; the size of packed
 * images; the choice of a holdout. */
uint64_t hash_samples(const struct dataset *);

/* Of a group: an error, in all processes, unless each has what rank 0 has: cfg, seed, device, program,
 * images, weights, how they are packed, and where to go on from. Else the weights would come apart, or the
 * processes wait for one another for ever. valid may be NULL. */
int check_equal(const struct net *, const struct data_file *, const struct dataset *valid,
                const struct progress *, struct err *);

/* The state file: self-contained, so that weights and state of two moments cannot be mixed. `images` is the
 * size of the training set, which the order of samples depends on. */
int state_save(const struct net *, const struct progress *, int images, const char *path, struct err *);
int state_load(struct net *, struct progress *, int images, const char *path, struct err *);

#endif
