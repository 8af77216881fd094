/* The matching loss of [itra] on the features of two mini-batches: the formulas are in ref/match.c. */
#ifndef BACKEND_OPS_MATCH_H
#define BACKEND_OPS_MATCH_H
#include "backend/backend.h"

enum bandwidth {
    BANDWIDTH_MEDIAN, /* of each class */
    BANDWIDTH_POOLED, /* one median over all pairs of one class */
    BANDWIDTH_FIXED
};

struct match_options {
    int conditional;   /* 0: one pool, labels ignored */
    int kernels;       /* L */
    double kernel_mul; /* s_i = kernel_mul^i * s */
    enum bandwidth bandwidth;
    double fixed; /* s, for BANDWIDTH_FIXED: a squared distance */
    int root;     /* 1: MMD, smoothed at 0; 0: squared MMD */
    int present;  /* average over the classes present in both halves instead of all */
    int unbiased; /* U-statistic: without the pairs of a row with itself, which may be below 0; root is 0 */
};

struct match_desc {
    const struct tensor *in; /* features: rows of S1, then of S2, if that is not the memory */
    int m1, m2;              /* rows of S1 and S2, of all processes that match them together */
    int classes;
    int rows_back, gradient_first; /* gradient_first: rows of S2 get none */
    struct match_options options;
    double lambda, warmup; /* weight, and its share in force: see warmup_share */
    int every;             /* on every k-th iteration, at k times the weight */
    double full_rate;      /* the learning rate with which the weight fades: see fade_share */
    int unconditional;     /* so many iterations at the beginning are not conditional */
    struct share share;    /* the rows of S1 (and as many of S2) that `in` has, where processes match theirs
                              together. All zero: of these rows alone; with others, the mean of theirs */
};
struct match_memory {    /* backend memory of `real`: S2 is the S1 of the step before */
    real *h, *label, *n; /* m2 rows in C,H,W order; m2; 1: 0 while there is none: the same in each process */
};
#define NO_MATCH (-1e30) /* Match of a step without one: finite, so that it stops nobody */
struct match_ops {
    int (*plan)(struct backend *, const struct match_desc *, struct op_plan *, struct err *);
    /* *match (backend memory): Match before its weight, or NO_MATCH; NaN: a feature was not finite. memory:
     * NULL, or what holds S2 and then S1. With reuse_detached the memory stays; ref also keeps the
     * bandwidths, and S2 where it has no gradient, of the pass before (for finite differences). */
    int (*forward)(const struct op_plan *, const struct op_context *, const void *x,
                   const struct match_memory *, double *match, void *kept);
    /* gx: the gradient of the weighted loss; rows without one get 0. */
    int (*backward)(const struct op_plan *, const struct op_context *, const void *kept, void *gx, int add);
};

#endif
