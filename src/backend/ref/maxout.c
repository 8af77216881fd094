#include "backend/ops/maxout.h"
#include "ref.h"

struct maxout {
    struct maxout_desc desc;
    struct shape in, out;
};

static int plan(struct backend *be, const struct maxout_desc *d, struct tensor *out, struct op_plan *p,
                struct err *e)
{
    const struct maxout s = { *d, d->in->shape, out->shape };
    TRY(ref_plan(p, &s, sizeof s, out, e));
    return d->train ? ref_bytes(out->shape, sizeof(int), &p->kept_bytes, e) : OK;
}

static int forward(const struct op_plan *p, const struct op_context *context, const void *x, void *y,
                   void *kept)
{
    const struct maxout *s = p->self;
    ptrdiff_t pixels = (ptrdiff_t)s->in.h * s->in.w, at = 0;
    for (int n = 0; n < s->in.n; n++)
        for (int g = 0; g < s->out.c; g++)
            for (ptrdiff_t i = 0; i < pixels; i++, at++) {
                const real *from = (const real *)x + ref_plane(s->in, n, 0) + i;
                int best = g;
                for (int c = g; c < s->in.c; c += s->out.c)
                    if (from[c * pixels] > from[best * pixels]) best = c;
                ((real *)y)[at] = from[best * pixels];
                if (kept) ((int *)kept)[at] = best;
            }
    return OK;
}

static int backward(const struct op_plan *p, const struct op_context *context, const void *kept,
                    const void *gy, void *gx, int add)
{
    const struct maxout *s = p->self;
    ptrdiff_t pixels = (ptrdiff_t)s->in.h * s->in.w, to = 0;
    for (int n = 0; gx && n < s->desc.rows_back; n++)
        for (int c = 0; c < s->in.c; c++)
            for (ptrdiff_t i = 0; i < pixels; i++, to++) {
                ptrdiff_t from = ref_plane(s->out, n, c % s->out.c) + i;
                int mine = ((const int *)kept)[from] == c;
                ref_put((real *)gx + to, mine ? ((const real *)gy)[from] : 0, add);
            }
    return OK;
}

const struct maxout_ops ref_maxout = { plan, forward, backward };
