/* One pass over a dataset: top-1, top-k, cross-entropy, compactness. */
#ifndef TRAIN_EVALUATE_H
#define TRAIN_EVALUATE_H
#include "data/dataset.h"
#include "net/net.h"
#include "train/report.h"

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

#endif
