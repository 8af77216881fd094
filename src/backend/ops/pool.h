/* Pooling: the maximum over windows, or the average over the whole map. */
#ifndef BACKEND_OPS_POOL_H
#define BACKEND_OPS_POOL_H
#include "backend/backend.h"

/* The average is over the whole map: out is n,c,1,1; size, stride, pad unused. */
enum pool_kind { POOL_MAX, POOL_AVERAGE };

struct pool_desc {
    const struct tensor *in;
    enum pool_kind kind;
    int size, stride, pad; /* Darknet's: pad is the total; a window starts at i*stride - pad/2 (C division);
                              cells outside count as -infinity; every window has a cell inside */
    int train, rows_back;
};
struct pool_ops {
    /* kept: where the maxima were. */
    int (*plan)(struct backend *, const struct pool_desc *, struct tensor *out, struct op_plan *,
                struct err *);
    /* Of equal maxima the first in row order wins. */
    int (*forward)(const struct op_plan *, const struct op_context *, const void *x, void *y, void *kept);
    int (*backward)(const struct op_plan *, const struct op_context *, const void *kept, const void *gy,
                    void *gx, int add);
};

#endif
