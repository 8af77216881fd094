/* One pass over a dataset: top-1, top-k, cross-entropy, compactness. */
#ifndef TRAIN_EVALUATE_H
#define TRAIN_EVALUATE_H
#include "data/dataset.h"
#include "net/net.h"

struct valid_line {
    uint64_t iteration;
    double epoch, top1, topk, ce, compactness; /* 0..1; compactness < 0: no feature layer or undefined */
    double same_distance;                      /* mean distance of same-class pairs; < 0 as above */
    int images, unreadable, top;               /* ce is the mean over the readable ones */
    int best;                                  /* a new best: *_best.weights was written */
    double seconds;
};

/* One pass over a dataset with an inference program, so many rows at once as it has. If that keeps features
 * and per_feature is NULL, compactness is measured over a fixed, seeded sample of 2000 images. Unreadable
 * images count as wrong, and are left out of the mean CE; none readable, or a probability that is not finite,
 * is an error. per_image (may be NULL) sees the probabilities of every image in order, or NULL for one that
 * could not be read, and ends the pass by returning an error, or, without one, with this mini-batch by
 * returning a positive number. Fills all of valid_line but iteration, epoch and best. */
struct eval_options {
    int workers, top;
    enum view view; /* VIEW_CENTER: VIEW_LETTERBOX where the cfg has letter_box=1 */
    uint64_t seed;
    const int *only; /* these samples only, in this order; NULL: all */
    int only_n;
    const struct notes *notes; /* for what the loader says of images; NULL: the net's */
    struct group *group; /* whose processes each take a share of them, and all get the results, or the error
                            of one; or NULL */
    int (*per_image)(void *ctx, int sample, int label, const float *prob, int classes, struct err *);
    /* Sees the features the program keeps of every readable image, in order; may be NULL. */
    int (*per_feature)(void *ctx, int label, const real *features, struct err *);
    /* Sees how many images of this process are done, after each mini-batch; may be NULL. */
    void (*progress)(void *ctx, int done, int all);
    void *ctx;
};
int evaluate(struct net *, struct program *, const struct dataset *, const struct eval_options *,
             struct valid_line *, struct err *);

/* The k most probable classes, the most probable first; equal ones and those that are not
 * numbers as in eval_rank. */
void eval_top(const float *prob, int classes, int k, int *index);
/* How many classes rank above `label`; of equal probabilities, that of the first class ranks higher. A
 * probability that is not a number ranks last. */
int eval_rank(const float *prob, int classes, int label);

/* E_NUMBER unless all probabilities of an image are finite. `blamed`: the file to name, weights or cfg, since
 * images are never to blame. */
int eval_check(const float *prob, int classes, const char *blamed, struct err *);

#endif
