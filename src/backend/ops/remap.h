/* Between a small map of w x h pixels and a large one of as many blocks of stride x stride: an index map.
 *
 * Both are counted through in C,H,W order as maps of `c` and of `large_c` channels. In a small element's
 * block of the large map lie c / large_c small channels, pixel after pixel ([reorg]: c = stride^2 * large_c),
 * or, where the channels are as many, the whole block is that one element ([upsample]: c = large_c). The
 * tensors may have other shapes of as many elements: Darknet's [reorg] takes its input for the large map, of
 * other proportions. */
#ifndef BACKEND_OPS_REMAP_H
#define BACKEND_OPS_REMAP_H
#include "backend/backend.h"

struct remap_desc {
    const struct tensor *in;
    int w, h, c, large_c, stride;
    int gather;   /* in is the large map, else the small one */
    double scale; /* each large element is scale times its small one; gather: the sum of a block, times it */
    int rows_back;
};
struct remap_ops {
    int (*plan)(struct backend *, const struct remap_desc *, struct tensor *out, struct op_plan *,
                struct err *);
    int (*forward)(const struct op_plan *, const struct op_context *, const void *x, void *y);
    int (*backward)(const struct op_plan *, const struct op_context *, const void *gy, void *gx, int add);
};

/* Large elements that belong to a small one. */
SCALAR int remap_copies(const struct remap_desc *m) { return m->c == m->large_c ? m->stride * m->stride : 1; }

/* Copy number `copy` of small element i. In 32 bits, which every row fits into: a GPU divides those faster.
 */
SCALAR uint32_t remap_large(const struct remap_desc *m, uint32_t i, int copy)
{
    const uint32_t w = (uint32_t)m->w, h = (uint32_t)m->h, s = (uint32_t)m->stride, c = (uint32_t)m->large_c,
                   k = i / (w * h), at = k / c + (uint32_t)copy;
    return i % w * s + at % s + w * s * (i / w % h * s + at / s + h * s * (k % c));
}

/* The small element that large element i belongs to. */
SCALAR uint32_t remap_small(const struct remap_desc *m, uint32_t i)
{
    const uint32_t s = (uint32_t)m->stride, w = (uint32_t)m->w * s, h = (uint32_t)m->h * s, x = i % w,
                   y = i / w % h, at = m->c == m->large_c ? 0 : y % s * s + x % s;
    return x / s + w / s * (y / s + h / s * (at * (uint32_t)m->large_c + i / w / h));
}

#endif
