#include "backend/ops/mix.h"
#include "ref.h"

struct mix {
    struct mix_desc desc;
    struct shape out;
};

static int plan(struct backend *be, const struct mix_desc *d, struct tensor *out, struct op_plan *p,
                struct err *e)
{
    const struct mix s = { *d, out->shape };
    return ref_plan(p, &s, sizeof s, out, e);
}

static ptrdiff_t pixels(const struct mix *s) { return (ptrdiff_t)s->out.h * s->out.w; }

static int forward(const struct op_plan *p, const struct op_context *context, const void *const *x,
                   const real *w, void *y)
{
    const struct mix *s = p->self;
    const struct mix_desc *m = &s->desc;
    for (int n = 0; n < s->out.n; n++)
        for (int c = 0; c < s->out.c; c++)
            for (ptrdiff_t i = 0; i < pixels(s); i++) {
                double sum = 0;
                for (int k = 0; k < m->nin; k++) {
                    struct shape in = m->in[k]->shape;
                    if (c < in.c)
                        sum += (double)mix_factor(m, w, k, c) * ((const real *)x[k])[ref_plane(in, n, c) + i];
                }
                ((real *)y)[ref_plane(s->out, n, c) + i] = act_apply(m->act, (real)sum);
            }
    return OK;
}

/* The sum of g * x_k over channel c: the gradient of its factor. */
static double channel(const struct mix *s, int k, int c, const real *x, const real *y, const real *gy)
{
    struct shape in = s->desc.in[k]->shape;
    double sum = 0;
    for (int n = 0; n < s->desc.rows_back && c < in.c; n++)
        for (ptrdiff_t i = 0; i < pixels(s); i++)
            sum += ref_before(s->desc.act, y, gy, ref_plane(s->out, n, c) + i) * x[ref_plane(in, n, c) + i];
    return sum;
}

static void gradient_of_weights(const struct mix *s, const void *const *x, const real *w, const void *y,
                                const void *gy, real *gw, int add)
{
    const struct mix_desc *m = &s->desc;
    for (int i = 0; i < m->weights; i++) {
        real g[MIX_MOST];
        for (int k = 0; k < m->nin; k++) {
            double sum = 0;
            for (int c = i; c < s->out.c && (c == i || m->weights == 1); c++)
                sum += channel(s, k, c, x[k], y, gy);
            g[k] = (real)sum;
        }
        for (int k = 0; k < m->nin; k++) ref_put(&gw[k * m->weights + i], mix_slope(m, w, k, i, g), add);
    }
}

static int backward(const struct op_plan *p, const struct op_context *context, const void *const *x,
                    const real *w, const void *y, const void *gy, void *const *gx, real *gw)
{
    const struct mix *s = p->self;
    const struct mix_desc *m = &s->desc;
    if (gw) gradient_of_weights(s, x, w, y, gy, gw, context->add);
    for (int k = 0; k < m->nin; k++) {
        struct shape in = m->in[k]->shape;
        for (int n = 0; n < m->rows_back && gx[k]; n++)
            for (int c = 0; c < in.c; c++)
                for (ptrdiff_t i = 0; i < pixels(s); i++) {
                    double g = 0;
                    if (c < s->out.c)
                        g = (double)mix_factor(m, w, k, c) *
                            ref_before(m->act, y, gy, ref_plane(s->out, n, c) + i);
                    ref_put((real *)gx[k] + ref_plane(in, n, c) + i, g, m->add[k]);
                }
    }
    return OK;
}

const struct mix_ops ref_mix = { plan, forward, backward };
