/* Concatenation along the channels of tensors with equal h, w. */
#ifndef BACKEND_OPS_CONCAT_H
#define BACKEND_OPS_CONCAT_H
#include "backend/backend.h"

struct concat_desc {
    const struct tensor *const *in;
    int nin;
    int train, rows_back;
};
struct concat_ops {
    int (*plan)(struct backend *, const struct concat_desc *, struct tensor *out, struct op_plan *,
                struct err *);
    /* x may hold one tensor more than once; gx then its gradient, which is written in this order. */
    int (*forward)(const struct op_plan *, const struct op_context *, const void *const *x, void *y);
    /* gx[i] may be NULL; add[i] as for gx elsewhere. */
    int (*backward)(const struct op_plan *, const struct op_context *, const void *gy, void *const *gx,
                    const int *add);
};

#endif
