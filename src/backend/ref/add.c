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
    struct shape a = d->a->shape, b = d->b->shape;
    int up = a.w > b.w ? a.w / b.w : 1, down = b.w > a.w ? b.w / a.w : 1;
    const struct add s = { *d, a, b, up, down };
    TRY(ref_plan(p, &s, sizeof s, out, e));
    if (a.w * down != b.w * up || (ptrdiff_t)a.h * down != (ptrdiff_t)b.h * up)
        return fail(e, E_ARG,
                    "addition of maps of %d x %d and %d x %d: one size must be a whole multiple of the other",
                    a.w, a.h, b.w, b.h);
    p->fused = 1;
    return OK;
}

/* Element of b that meets element (n, c, y, x) of a, or -1. */
static ptrdiff_t partner(const struct add *s, int n, int c, int y, int x)
{
    if (c >= s->b.c || y % s->up || x % s->up) return -1;
    return ref_plane(s->b, n, c) + (ptrdiff_t)(y / s->up * s->down) * s->b.w + x / s->up * s->down;
}

static void add_row(const struct add *s, int n, const real *a, const real *b, real *out)
{
    ptrdiff_t i = ref_plane(s->a, n, 0);
    for (int c = 0; c < s->a.c; c++)
        for (int y = 0; y < s->a.h; y++)
            for (int x = 0; x < s->a.w; x++, i++) {
                ptrdiff_t k = partner(s, n, c, y, x);
                out[i] =
                    act_apply(s->desc.act, k < 0 ? a[i] : (real)(s->desc.alpha * a[i] + s->desc.beta * b[k]));
            }
}

/* ga, then gb: both may be one tensor, when a layer is added to itself. */
static void add_row_back(const struct add *s, int n, const real *out, const real *gy, real *ga, real *gb)
{
    ptrdiff_t first = ref_plane(s->a, n, 0), i = first;
    for (int c = 0; ga && c < s->a.c; c++)
        for (int y = 0; y < s->a.h; y++)
            for (int x = 0; x < s->a.w; x++, i++)
                ref_put(&ga[i],
                        (partner(s, n, c, y, x) < 0 ? 1 : s->desc.alpha) *
                            ref_before(s->desc.act, out, gy, i),
                        s->desc.add_a);
    if (!gb) return;
    if (!s->desc.add_b) memset(gb + ref_plane(s->b, n, 0), 0, shape_row(s->b) * sizeof *gb);
    i = first;
    for (int c = 0; c < s->a.c; c++)
        for (int y = 0; y < s->a.h; y++)
            for (int x = 0; x < s->a.w; x++, i++) {
                ptrdiff_t k = partner(s, n, c, y, x);
                if (k >= 0) ref_put(&gb[k], s->desc.beta * ref_before(s->desc.act, out, gy, i), 1);
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
