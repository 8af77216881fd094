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
    (void)be;
    struct add s = { *d, d->a->shape, d->b->shape, 1, 1 };
    int fits = add_factors(s.a, s.b, &s.up, &s.down);
    TRY(ref_plan(p, &s, sizeof s, out, e));
    if (!fits)
        return fail(e, E_ARG,
                    "cannot add maps of %dx%d and %dx%d: one size must be a whole multiple of the other",
                    s.a.w, s.a.h, s.b.w, s.b.h);
    p->fused = 1;
    return OK;
}

/* Element of row n of b that meets element i of row n of a, or -1. */
static ptrdiff_t partner(const struct add *s, int n, ptrdiff_t i)
{
    int x = (int)(i % s->a.w), y = (int)(i / s->a.w % s->a.h), c = (int)(i / s->a.w / s->a.h);
    if (c >= s->b.c || y % s->up || x % s->up) return -1;
    return ref_plane(s->b, n, c) + (ptrdiff_t)(y / s->up * s->down) * s->b.w + x / s->up * s->down;
}

static void add_row(const struct add *s, int n, const real *a, const real *b, real *out)
{
    ptrdiff_t first = ref_rows(s->a, n);
    for (ptrdiff_t i = 0; i < ref_rows(s->a, 1); i++) {
        ptrdiff_t k = partner(s, n, i);
        real sum = k < 0 ? a[first + i] : (real)(s->desc.alpha * a[first + i] + s->desc.beta * b[k]);
        out[first + i] = act_apply(s->desc.act, sum);
    }
}

/* All of ga before gb: both may be one tensor. */
static void add_row_back(const struct add *s, int n, const real *out, const real *gy, real *ga, real *gb)
{
    ptrdiff_t first = ref_rows(s->a, n), row = ref_rows(s->a, 1);
    for (ptrdiff_t i = 0; ga && i < row; i++) {
        double g = ref_before(s->desc.act, out, gy, first + i);
        ref_put(&ga[first + i], partner(s, n, i) < 0 ? g : s->desc.alpha * g, s->desc.add_a);
    }
    if (gb && !s->desc.add_b) memset(gb + ref_rows(s->b, n), 0, shape_row(s->b) * sizeof *gb);
    for (ptrdiff_t i = 0; gb && i < row; i++) {
        ptrdiff_t k = partner(s, n, i);
        if (k >= 0) ref_put(&gb[k], s->desc.beta * ref_before(s->desc.act, out, gy, first + i), 1);
    }
}

static int forward(const struct op_plan *p, const struct op_context *context, const void *a, const void *b,
                   void *y)
{
    (void)context;
    const struct add *s = p->self;
    for (int n = 0; n < s->a.n; n++) add_row(s, n, a, b, y);
    return OK;
}

static int backward(const struct op_plan *p, const struct op_context *context, const void *y, const void *gy,
                    void *ga, void *gb)
{
    (void)context;
    const struct add *s = p->self;
    for (int n = 0; n < s->desc.rows_back; n++) add_row_back(s, n, y, gy, ga, gb);
    return OK;
}

const struct add_ops ref_add = { plan, forward, backward };
