/* Concatenation along the channels of tensors with equal h, w; or of one part of the channels of each. */
#ifndef BACKEND_OPS_CONCAT_H
#define BACKEND_OPS_CONCAT_H
#include "backend/backend.h"

struct concat_desc {
    const struct tensor *const *in;
    int nin;
    int groups, group; /* of each input part `group` (from 0) of `groups` equal ones; 1, 0: all of it */
    int train, rows_back;
};
struct concat_ops {
    int (*plan)(struct backend *, const struct concat_desc *, struct tensor *out, struct op_plan *,
                struct err *);
    /* x may hold one tensor more than once; gx then its gradient, which is written in this order. */
    int (*forward)(const struct op_plan *, const struct op_context *, const void *const *x, void *y);
    /* gx[i] may be NULL; add[i] as for gx elsewhere. Parts that are not taken have the gradient 0. */
    int (*backward)(const struct op_plan *, const struct op_context *, const void *gy, void *const *gx,
                    const int *add);
};

#endif
