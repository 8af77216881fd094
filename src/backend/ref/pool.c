/* Maximum over windows, average over the whole map. Both work plane by plane. */
#include "backend/ops/pool.h"
#include "ref.h"

struct pool {
    struct pool_desc desc;
    struct shape in, out;
};

/* Kept: for each output of a maximum, its index in the input plane. */
static int plan(struct backend *be, const struct pool_desc *d, struct tensor *out, struct op_plan *p,
                struct err *e)
{
    const struct pool s = { *d, d->in->shape, out->shape };
    TRY(ref_plan(p, &s, sizeof s, out, e));
    if (d->train && d->kind == POOL_MAX) TRY(ref_bytes(out->shape, sizeof(ptrdiff_t), &p->kept_bytes, e));
    return OK;
}

static ptrdiff_t planes(const struct pool *s, int rows) { return (ptrdiff_t)rows * s->in.c; }
static ptrdiff_t pixels(struct shape s) { return (ptrdiff_t)s.h * s.w; }

/* Index of the first maximum in the window of output (oy, ox). */
static ptrdiff_t window_max(const struct pool *s, const real *x, int oy, int ox)
{
    int y0 = oy * s->desc.stride - s->desc.pad / 2,
        y1 = y0 + s->desc.size < s->in.h ? y0 + s->desc.size : s->in.h;
    int x0 = ox * s->desc.stride - s->desc.pad / 2,
        x1 = x0 + s->desc.size < s->in.w ? x0 + s->desc.size : s->in.w;
    int top = y0 > 0 ? y0 : 0, left = x0 > 0 ? x0 : 0;
    ptrdiff_t row = (ptrdiff_t)top * s->in.w, best = row + left;
    for (int i = top; i < y1; i++, row += s->in.w)
        for (int j = left; j < x1; j++)
            if (x[row + j] > x[best]) best = row + j;
    return best;
}

static void plane_max(const struct pool *s, const real *x, real *y, ptrdiff_t *where)
{
    ptrdiff_t at = 0;
    for (int i = 0; i < s->out.h; i++)
        for (int j = 0; j < s->out.w; j++, at++) {
            ptrdiff_t best = window_max(s, x, i, j);
            y[at] = x[best];
            if (where) where[at] = best;
        }
}

static int forward(const struct op_plan *p, const struct op_context *context, const void *x, void *y,
                   void *kept)
{
    const struct pool *s = p->self;
    for (ptrdiff_t k = 0; k < planes(s, s->in.n); k++) {
        const real *from = (const real *)x + k * pixels(s->in);
        real *to = (real *)y + k * pixels(s->out);
        if (s->desc.kind == POOL_MAX) {
            plane_max(s, from, to, kept ? (ptrdiff_t *)kept + k * pixels(s->out) : NULL);
            continue;
        }
        double sum = 0;
        for (ptrdiff_t i = 0; i < pixels(s->in); i++) sum += from[i];
        *to = (real)(sum / (double)pixels(s->in));
    }
    return OK;
}

static int backward(const struct op_plan *p, const struct op_context *context, const void *kept,
                    const void *gy, void *gx, int add)
{
    const struct pool *s = p->self;
    for (ptrdiff_t k = 0; gx && k < planes(s, s->desc.rows_back); k++) {
        const real *g = (const real *)gy + k * pixels(s->out);
        real *to = (real *)gx + k * pixels(s->in);
        double rest = s->desc.kind == POOL_MAX ? 0 : *g / (double)pixels(s->in);
        for (ptrdiff_t i = 0; i < pixels(s->in); i++) ref_put(&to[i], rest, add);
        if (s->desc.kind != POOL_MAX) continue;
        const ptrdiff_t *where = (const ptrdiff_t *)kept + k * pixels(s->out);
        for (ptrdiff_t i = 0; i < pixels(s->out); i++) ref_put(&to[where[i]], g[i], 1);
    }
    return OK;
}

const struct pool_ops ref_pool = { plan, forward, backward };
