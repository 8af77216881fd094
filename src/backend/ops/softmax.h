/* Softmax and cross-entropy. */
#ifndef BACKEND_OPS_SOFTMAX_H
#define BACKEND_OPS_SOFTMAX_H
#include "backend/backend.h"

struct softmax_desc {
    const struct tensor *in; /* c*h*w values a row, flattened in C,H,W order: */
    int groups;              /* so many groups of equal length */
    double temperature;
    double smooth; /* label smoothing, by AlexeyAB's definition: truth is 1-smooth on the class, smooth/(K-1)
                      elsewhere, K = c*h*w; 0: one-hot */
    int rows_back;
};
struct softmax_ops {
    /* out: the shape of in; gets a dense layout. */
    int (*plan)(struct backend *, const struct softmax_desc *, struct tensor *out, struct op_plan *,
                struct err *);
    /* p = softmax(x / temperature) per group. Where the context has labels, also *loss (backend memory) = sum
     * over the scored rows of -sum_k truth_k log p_k, from the logits (finite for finite x). */
    int (*forward)(const struct op_plan *, const struct op_context *, const void *x, void *p, double *loss);
    /* gx = J^T gy (gy NULL: 0) + for scored rows, where the context has labels, d/dx (1/scored_all * sum of
     * the losses above). */
    int (*backward)(const struct op_plan *, const struct op_context *, const void *p, const void *gy,
                    void *gx, int add);
};

#endif
