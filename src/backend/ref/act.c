/* Element by element: activations and dropout. The maths is in scalar.h. */
#include "ref.h"
#include "core/mem.h"

struct each {
    struct shape shape;
    int rows_back;
    enum act act;       /* activations */
    double probability; /* dropout */
    uint64_t key;
};

static int plan_each(struct each s, struct tensor *out, void **self, struct err *e)
{
    TRY(ref_tensor(out, e));
    TRY(ref_self(self, sizeof s, e));
    *(struct each *)*self = s;
    return OK;
}

static int act_plan(struct backend *be, const struct act_desc *d, struct tensor *out, struct act_plan *p,
                    struct err *e)
{
    (void)be;
    *p = (struct act_plan){ 0 };
    return plan_each((struct each){ d->in->shape, d->rows_back, d->act, 0, 0 }, out, &p->self, e);
}

static int act_forward(const struct act_plan *p, const void *x, void *y, void *scratch)
{
    (void)scratch;
    const struct each *s = p->self;
    const real *from = x;
    real *to = y;
    for (ptrdiff_t i = 0; i < ref_rows(s->shape, s->shape.n); i++) to[i] = act_apply(s->act, from[i]);
    return OK;
}

static int act_backward(const struct act_plan *p, const void *x, const void *y, const void *gy, void *gx,
                        int add, void *scratch)
{
    (void)scratch;
    const struct each *s = p->self;
    const real *in = x, *out = y, *g = gy;
    real *to = gx;
    int from_output = act_from_output(s->act);
    for (ptrdiff_t i = 0; gx && i < ref_rows(s->shape, s->rows_back); i++) {
        double slope = from_output ? act_slope_y(s->act, out[i]) : act_slope_x(s->act, in[i]);
        ref_put(&to[i], g[i] * slope, add);
    }
    return OK;
}

static void act_destroy(struct act_plan *p)
{
    mem_free(p->self);
    p->self = NULL;
}

static int dropout_plan(struct backend *be, const struct dropout_desc *d, struct tensor *out,
                        struct dropout_plan *p, struct err *e)
{
    (void)be;
    *p = (struct dropout_plan){ 0 };
    return plan_each((struct each){ d->in->shape, d->rows_back, ACT_LINEAR, d->probability, d->key }, out,
                     &p->self, e);
}

/* Forward and backward are the same map. The index of an element is its logical one, as memory is dense. */
static void thin_out(const struct each *s, const struct step_state *now, int rows, const real *from, real *to,
                     int add)
{
    uint64_t key = rng_key(s->key, RNG_DROPOUT, now->step);
    double scale = 1 / (1 - s->probability);
    for (ptrdiff_t i = 0; i < ref_rows(s->shape, rows); i++)
        ref_put(&to[i], dropout_keep(key, (uint64_t)i, s->probability) ? from[i] * scale : 0, add);
}

static int drop_forward(const struct dropout_plan *p, const struct step_state *now, const void *x, void *y,
                        void *scratch)
{
    (void)scratch;
    const struct each *s = p->self;
    thin_out(s, now, s->shape.n, x, y, 0);
    return OK;
}

static int drop_backward(const struct dropout_plan *p, const struct step_state *now, const void *gy, void *gx,
                         int add, void *scratch)
{
    (void)scratch;
    const struct each *s = p->self;
    if (gx) thin_out(s, now, s->rows_back, gy, gx, add);
    return OK;
}

static void drop_drop(struct dropout_plan *p)
{
    mem_free(p->self);
    p->self = NULL;
}

const struct act_ops ref_act = { act_plan, act_forward, act_backward, act_destroy };
const struct dropout_ops ref_dropout = { dropout_plan, drop_forward, drop_backward, drop_drop };
