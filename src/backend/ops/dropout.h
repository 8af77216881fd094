/* Dropout: element e = (row * c + channel) * h*w + pixel (logical order, whatever the layout) is kept when
 * rng_uniform(key of the step, e) >= probability, and then scaled by 1 / (1 - probability). Nothing is
 * stored. */
#ifndef BACKEND_OPS_DROPOUT_H
#define BACKEND_OPS_DROPOUT_H
#include "backend/backend.h"

struct dropout_desc {
    const struct tensor *in;
    int rows_back;
    double probability;
    uint64_t key;       /* of this layer; that of a step is rng_key(key, RNG_DROPOUT, step) */
    struct share share; /* of S1: rows are numbered as in the whole mini-batch */
};
struct dropout_ops {
    int (*plan)(struct backend *, const struct dropout_desc *, struct tensor *out, struct op_plan *,
                struct err *);
    int (*forward)(const struct op_plan *, const struct op_context *, const void *x, void *y);
    int (*backward)(const struct op_plan *, const struct op_context *, const void *gy, void *gx, int add);
};

#endif
