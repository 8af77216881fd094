/* Addition of tensors whose shapes may differ. */
#include "backend/ops/add.h"
#include <string.h>
#include "ref.h"

struct add {
    struct add_desc desc;
    struct shape a, b;
    int up, down; /* b is scattered by up and strided by down; at least one of them is 1 */
};

static int plan(struct backend *be, const struct add_desc *d, struct tensor *out, struct op_plan *p,
                struct err *e)
{
    struct add s = { .desc = *d, .a = d->a->shape, .b = d->b->shape };
    add_factors(s.a, s.b, &s.up, &s.down);
    TRY(ref_plan(p, &s, sizeof s, out, e));
    p->fused = 1;
    return OK;
}

/* The element of b that meets element i of a, or -1. */
static ptrdiff_t partner(const struct add *s, ptrdiff_t i)
{
    int x = (int)(i % s->a.w), y = (int)(i / s->a.w % s->a.h);
    ptrdiff_t plane = i / s->a.w / s->a.h;
    int c = (int)(plane % s->a.c), n = (int)(plane / s->a.c);
    if (c >= s->b.c || y % s->up || x % s->up) return -1;
    return ref_plane(s->b, n, c) + (ptrdiff_t)(y / s->up * s->down) * s->b.w + x / s->up * s->down;
}

static int forward(const struct op_plan *p, const struct op_context *context, const void *xa, const void *xb,
                   void *y)
{
    const struct add *s = p->self;
    const real *a = xa, *b = xb;
    real *out = y;
    for (ptrdiff_t i = 0; i < ref_rows(s->a, s->a.n); i++) {
        ptrdiff_t k = partner(s, i);
        real sum = k < 0 ? a[i] : (real)(s->desc.alpha * a[i] + s->desc.beta * b[k]);
        out[i] = act_apply(s->desc.act, sum);
    }
    return OK;
}

/* All of ga before gb: both may be one tensor. */
static int backward(const struct op_plan *p, const struct op_context *context, const void *y, const void *gy,
                    void *ga, void *gb)
{
    const struct add *s = p->self;
    ptrdiff_t n = ref_rows(s->a, s->desc.rows_back);
    real *a = ga, *b = gb;
    for (ptrdiff_t i = 0; a && i < n; i++) {
        double g = ref_before(s->desc.act, y, gy, i);
        ref_put(&a[i], partner(s, i) < 0 ? g : s->desc.alpha * g, s->desc.add_a);
    }
    if (b && !s->desc.add_b) memset(b, 0, (size_t)ref_rows(s->b, s->desc.rows_back) * sizeof *b);
    for (ptrdiff_t i = 0; b && i < n; i++) {
        ptrdiff_t k = partner(s, i);
        if (k >= 0) ref_put(&b[k], s->desc.beta * ref_before(s->desc.act, y, gy, i), 1);
    }
    return OK;
}

const struct add_ops ref_add = { plan, forward, backward };
