/* Activations, element by element. The maths is in scalar.h. */
#include "backend/ops/act.h"
#include "ref.h"

static int plan(struct backend *be, const struct act_desc *d, struct tensor *out, struct op_plan *p,
                struct err *e)
{
    return ref_plan(p, d, sizeof *d, out, e);
}

static int forward(const struct op_plan *p, const struct op_context *context, const void *x, void *y)
{
    const struct act_desc *s = p->self;
    const real *from = x;
    real *to = y;
    for (ptrdiff_t i = 0; i < ref_rows(s->in->shape, s->in->shape.n); i++) to[i] = act_apply(s->act, from[i]);
    return OK;
}

static int backward(const struct op_plan *p, const struct op_context *context, const void *x, const void *y,
                    const void *gy, void *gx, int add)
{
    const struct act_desc *s = p->self;
    const real *in = x, *out = y, *g = gy;
    real *to = gx;
    int from_output = act_from_output(s->act);
    for (ptrdiff_t i = 0; gx && i < ref_rows(s->in->shape, s->rows_back); i++) {
        double slope = from_output ? act_slope_y(s->act, out[i]) : act_slope_x(s->act, in[i]);
        ref_put(&to[i], g[i] * slope, add);
    }
    return OK;
}

const struct act_ops ref_act = { plan, forward, backward };
