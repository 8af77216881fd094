/* Addition and concatenation. */
#include "ref.h"
#include <string.h>
#include "core/mem.h"

struct join {
    struct shape out;
    int rows_back;
    /* addition */
    struct shape b;
    int up, down; /* b is scattered by up and strided by down; at least one of them is 1 */
    double alpha, beta;
    enum act act;
    int add[2];
    /* concatenation: numbers in a row of each input; nin = 0 for addition */
    int nin;
    ptrdiff_t row[];
};

static int plan_add(struct backend *be, const struct add_desc *d, struct tensor *out, struct join_plan *p,
                    struct err *e)
{
    (void)be;
    *p = (struct join_plan){ 0 };
    struct shape a = d->a->shape, b = d->b->shape;
    int up = a.w > b.w ? a.w / b.w : 1, down = b.w > a.w ? b.w / a.w : 1;
    if (a.w * down != b.w * up || (ptrdiff_t)a.h * down != (ptrdiff_t)b.h * up)
        return fail(e, E_ARG,
                    "addition of maps of %d x %d and %d x %d: one size must be a whole multiple of the other",
                    a.w, a.h, b.w, b.h);
    TRY(ref_tensor(out, e));
    TRY(ref_self(&p->self, sizeof(struct join), e));
    *(struct join *)p->self = (struct join){
        .out = a,
        .rows_back = d->rows_back,
        .b = b,
        .up = up,
        .down = down,
        .alpha = d->alpha,
        .beta = d->beta,
        .act = d->act,
        .add = { d->add_a, d->add_b },
    };
    p->fused = 1;
    return OK;
}

static int plan_concat(struct backend *be, const struct concat_desc *d, struct tensor *out,
                       struct join_plan *p, struct err *e)
{
    (void)be;
    *p = (struct join_plan){ 0 };
    TRY(ref_tensor(out, e));
    TRY(ref_self(&p->self, sizeof(struct join) + (size_t)d->nin * sizeof(ptrdiff_t), e));
    struct join *s = p->self;
    s->out = out->shape;
    s->rows_back = d->rows_back;
    s->nin = d->nin;
    for (int i = 0; i < d->nin; i++) s->row[i] = (ptrdiff_t)shape_row(d->in[i]->shape);
    return OK;
}

/* Element of b that meets element (n, c, y, x) of a, or -1. */
static ptrdiff_t partner(const struct join *s, int n, int c, int y, int x)
{
    if (c >= s->b.c || y % s->up || x % s->up) return -1;
    return ref_plane(s->b, n, c) + (ptrdiff_t)(y / s->up * s->down) * s->b.w + x / s->up * s->down;
}

static void add_row(const struct join *s, int n, const real *a, const real *b, real *out)
{
    ptrdiff_t i = ref_plane(s->out, n, 0);
    for (int c = 0; c < s->out.c; c++)
        for (int y = 0; y < s->out.h; y++)
            for (int x = 0; x < s->out.w; x++, i++) {
                ptrdiff_t k = partner(s, n, c, y, x);
                out[i] = act_apply(s->act, k < 0 ? a[i] : (real)(s->alpha * a[i] + s->beta * b[k]));
            }
}

/* ga, then gb: both may be one tensor, when a layer is added to itself. */
static void add_row_back(const struct join *s, int n, const real *out, const real *gy, real *ga, real *gb)
{
    ptrdiff_t first = ref_plane(s->out, n, 0), i = first;
    for (int c = 0; ga && c < s->out.c; c++)
        for (int y = 0; y < s->out.h; y++)
            for (int x = 0; x < s->out.w; x++, i++)
                ref_put(&ga[i], (partner(s, n, c, y, x) < 0 ? 1 : s->alpha) * ref_before(s->act, out, gy, i),
                        s->add[0]);
    if (!gb) return;
    if (!s->add[1]) memset(gb + ref_plane(s->b, n, 0), 0, shape_row(s->b) * sizeof *gb);
    i = first;
    for (int c = 0; c < s->out.c; c++)
        for (int y = 0; y < s->out.h; y++)
            for (int x = 0; x < s->out.w; x++, i++) {
                ptrdiff_t k = partner(s, n, c, y, x);
                if (k >= 0) ref_put(&gb[k], s->beta * ref_before(s->act, out, gy, i), 1);
            }
}

static int forward(const struct join_plan *p, const void *const *x, void *y, void *scratch)
{
    (void)scratch;
    const struct join *s = p->self;
    real *to = y;
    for (int n = 0; n < s->out.n; n++) {
        if (!s->nin) add_row(s, n, x[0], x[1], y);
        for (int i = 0; i < s->nin; to += s->row[i++])
            memcpy(to, (const real *)x[i] + n * s->row[i], (size_t)s->row[i] * sizeof *to);
    }
    return OK;
}

static int backward(const struct join_plan *p, const void *y, const void *gy, void *const *gx, const int *add,
                    void *scratch)
{
    (void)scratch;
    const struct join *s = p->self;
    const real *g = gy;
    for (int n = 0; n < s->rows_back; n++) {
        if (!s->nin) add_row_back(s, n, y, gy, gx[0], gx[1]);
        for (int i = 0; i < s->nin; g += s->row[i++])
            for (ptrdiff_t k = 0; gx[i] && k < s->row[i]; k++)
                ref_put((real *)gx[i] + n * s->row[i] + k, g[k], add[i]);
    }
    return OK;
}

static void destroy(struct join_plan *p)
{
    mem_free(p->self);
    p->self = NULL;
}

const struct join_ops ref_join = { plan_add, plan_concat, forward, backward, destroy };
