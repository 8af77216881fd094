/* Pooling of windows, channel by channel, or of the whole map. */
#ifndef BACKEND_OPS_POOL_H
#define BACKEND_OPS_POOL_H
#include "backend/backend.h"

enum pool_kind {
    POOL_MAX,  /* cells outside the map count as -infinity */
    POOL_MEAN, /* of the cells inside */
    POOL_BLUR, /* binomial weights, 1 1 or 1 2 1 along each axis, over their sum; zeros outside: size is 2 or
                  3 */
    POOL_AVERAGE, /* over the whole map: out is n,c,1,1; size, strides and pad unused */
};

struct pool_desc {
    const struct tensor *in;
    enum pool_kind kind;
    int size, stride_y, stride_x, pad; /* Darknet's: pad is the total; a window starts at i*stride - pad/2 (C
                                          division); every window has a cell inside */
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

/* POOL_MEAN and POOL_BLUR: the weight of cell k of a window that starts at `start`, along an axis of n cells.
 * That of a cell is the product of both axes. */
SCALAR real pool_weight(const struct pool_desc *d, int start, int n, int k)
{
    if (d->kind == POOL_BLUR) return (real)(d->size == 2 || k == 1 ? .5 : .25);
    int end = start + d->size < n ? start + d->size : n;
    return 1 / (real)(start > 0 ? end - start : end);
}

#endif
