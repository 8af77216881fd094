#include "backend/ops/mul.h"
#include <string.h>
#include "ref.h"

struct mul {
    struct mul_desc desc;
    struct shape a, b;
};

static int plan(struct backend *be, const struct mul_desc *d, struct tensor *out, struct op_plan *p,
                struct err *e)
{
    const struct mul s = { *d, d->a->shape, d->b->shape };
    return ref_plan(p, &s, sizeof s, out, e);
}

/* The element of b that is the factor of element i of a. */
static ptrdiff_t factor(const struct mul *s, ptrdiff_t i)
{
    ptrdiff_t pixels = (ptrdiff_t)s->a.h * s->a.w, plane = i / pixels, n = plane / s->a.c;
    ptrdiff_t c = s->b.c > 1 ? plane % s->a.c : 0;
    return s->b.h * s->b.w > 1 ? (n * s->b.c + c) * pixels + i % pixels : n * s->b.c + c;
}

static int forward(const struct op_plan *p, const struct op_context *context, const void *a, const void *b,
                   void *y)
{
    const struct mul *s = p->self;
    for (ptrdiff_t i = 0; i < ref_rows(s->a, s->a.n); i++)
        ((real *)y)[i] = act_apply(s->desc.act, ((const real *)a)[i] * ((const real *)b)[factor(s, i)]);
    return OK;
}

/* All of ga before gb: both may be one tensor. A sum is carried in double as long as its elements follow one
 * another. */
static int backward(const struct op_plan *p, const struct op_context *context, const void *a, const void *b,
                    const void *y, const void *gy, void *ga, void *gb)
{
    const struct mul *s = p->self;
    ptrdiff_t n = ref_rows(s->a, s->desc.rows_back);
    for (ptrdiff_t i = 0; ga && i < n; i++)
        ref_put((real *)ga + i, ref_before(s->desc.act, y, gy, i) * (double)((const real *)b)[factor(s, i)],
                s->desc.add_a);
    if (gb && !s->desc.add_b) memset(gb, 0, (size_t)ref_rows(s->b, s->desc.rows_back) * sizeof(real));
    double sum = 0;
    for (ptrdiff_t i = 0; gb && i < n; i++) {
        sum += ref_before(s->desc.act, y, gy, i) * (double)((const real *)a)[i];
        if (i + 1 < n && factor(s, i + 1) == factor(s, i)) continue;
        ref_put((real *)gb + factor(s, i), sum, 1);
        sum = 0;
    }
    return OK;
}

const struct mul_ops ref_mul = { plan, forward, backward };
