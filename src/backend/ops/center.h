/* Center loss: the formulas are in ref/center.c. */
#ifndef BACKEND_OPS_CENTER_H
#define BACKEND_OPS_CENTER_H
#include "backend/backend.h"

struct center_desc {
    const struct tensor *in;
    int classes, rows_back;
    double lambda, warmup, alpha;
    struct share share; /* of the scored rows of all processes; all zero: these are all */
};
struct center_state { /* backend memory of `real`, classes x features in C,H,W order; count: one a class */
    real *centers, *sum, *count;
};
struct center_ops {
    int (*plan)(struct backend *, const struct center_desc *, struct op_plan *, struct err *);
    /* In the first sub-mini-batch of an iteration (no add in the context) the sums of the step before first
     * move the centers. Then *loss (backend memory) = sum of |h - c|^2 / 2 over the scored rows of
     * all processes, and these enter the sums. reuse_detached: the state stays as it is. */
    int (*forward)(const struct op_plan *, const struct op_context *, const void *x,
                   const struct center_state *, double *loss);
    /* gx: the gradient of the weighted mean over the scored rows; 0 in the others. */
    int (*backward)(const struct op_plan *, const struct op_context *, const void *x,
                    const struct center_state *, void *gx, int add);
};

#endif
