/* Pooling, plane by plane. */
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

/* Those of window i along an axis of n cells that lie inside. */
struct cells {
    int start, first, end;
};

static struct cells cells_of(const struct pool *s, int i, int stride, int n)
{
    int start = i * stride - s->desc.pad / 2, end = start + s->desc.size;
    return (struct cells){ start, start > 0 ? start : 0, end < n ? end : n };
}

/* Index of the first maximum in the window of output (oy, ox). */
static ptrdiff_t window_max(const struct pool *s, const real *x, int oy, int ox)
{
    struct cells y = cells_of(s, oy, s->desc.stride_y, s->in.h),
                 z = cells_of(s, ox, s->desc.stride_x, s->in.w);
    ptrdiff_t row = (ptrdiff_t)y.first * s->in.w, best = row + z.first;
    for (int i = y.first; i < y.end; i++, row += s->in.w)
        for (int j = z.first; j < z.end; j++)
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

/* POOL_MEAN and POOL_BLUR: for each window y = the weighted sum of x, or x += weights * y. */
static void plane_sums(const struct pool *s, real *x, real *y, int back)
{
    for (int oy = 0; oy < s->out.h; oy++)
        for (int ox = 0; ox < s->out.w; ox++, y++) {
            struct cells v = cells_of(s, oy, s->desc.stride_y, s->in.h),
                         h = cells_of(s, ox, s->desc.stride_x, s->in.w);
            double sum = 0;
            for (int i = v.first; i < v.end; i++)
                for (int j = h.first; j < h.end; j++) {
                    real *cell = x + (ptrdiff_t)i * s->in.w + j;
                    double w = (double)pool_weight(&s->desc, v.start, s->in.h, i - v.start) *
                               pool_weight(&s->desc, h.start, s->in.w, j - h.start);
                    sum += w * *cell;
                    if (back) ref_put(cell, w * *y, 1);
                }
            if (!back) *y = (real)sum;
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
        } else if (s->desc.kind != POOL_AVERAGE) {
            plane_sums(s, (real *)from, to, 0);
        } else {
            double sum = 0;
            for (ptrdiff_t i = 0; i < pixels(s->in); i++) sum += from[i];
            *to = (real)(sum / (double)pixels(s->in));
        }
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
        const ptrdiff_t *where =
            s->desc.kind == POOL_MAX ? (const ptrdiff_t *)kept + k * pixels(s->out) : NULL;
        double all = s->desc.kind == POOL_AVERAGE ? *g / (double)pixels(s->in) : 0;
        for (ptrdiff_t i = 0; i < pixels(s->in); i++) ref_put(&to[i], all, add);
        for (ptrdiff_t i = 0; where && i < pixels(s->out); i++) ref_put(&to[where[i]], g[i], 1);
        if (!where && s->desc.kind != POOL_AVERAGE) plane_sums(s, to, (real *)g, 1);
    }
    return OK;
}

const struct pool_ops ref_pool = { plan, forward, backward };
