/* Activations, element by element. The maths is in scalar.h. */
#include "backend/ops/act.h"
#include "kernel.h"

struct activation {
    const struct cuda *cu;
    int bf16;
    enum act act;
    size_t n, n_back; /* numbers, forward and backward */
};

template <int bf16, unsigned V> KERNEL(act, enum act a, const void *x, void *y, size_t n)
{
    PHASE GRID_LOOP(i, n / V)
    {
        float f[8];
        load(bf16, V, x, i * V, f);
        for (unsigned k = 0; k < V; k++) f[k] = act_apply(a, f[k]);
        store(bf16, V, y, i * V, f);
    }
}

/* z: the input or the output of the activation, whichever its slope is computed from. */
template <int bf16, unsigned V>
KERNEL(act_back, enum act a, int from_output, const void *z, const void *gy, void *gx, size_t n, int add)
{
    PHASE GRID_LOOP(i, n / V)
    {
        float f[8], g[8];
        load(bf16, V, z, i * V, f);
        load(bf16, V, gy, i * V, g);
        for (unsigned k = 0; k < V; k++) g[k] *= from_output ? act_slope_y(a, f[k]) : act_slope_x(a, f[k]);
        put(bf16, V, gx, i * V, g, add);
    }
}

static int plan(struct backend *be, const struct act_desc *d, struct tensor *out, struct op_plan *p,
                struct err *e)
{
    const struct shape in = d->in->shape;
    TRY(op_plan_init(p, sizeof(struct activation), e));
    *(struct activation *)p->self = (struct activation){ .cu = cuda_of(be),
                                                         .bf16 = cuda_is_bf16(d->in),
                                                         .act = d->act,
                                                         .n = shape_count(in),
                                                         .n_back = shape_row(in) * (size_t)d->rows_back };
    return cuda_tensor(out, cuda_is_bf16(d->in), e);
}

static int forward(const struct op_plan *p, const struct op_context *, const void *x, void *y)
{
    const struct activation *s = (const struct activation *)p->self;
    const unsigned V = cuda_vector(s->bf16, s->n);
    LAUNCH_ITEMS(s->cu, act, s->bf16, V, s->n / V, s->act, x, y, s->n);
    return OK;
}

static int backward(const struct op_plan *p, const struct op_context *, const void *x, const void *y,
                    const void *gy, void *gx, int add)
{
    const struct activation *s = (const struct activation *)p->self;
    const unsigned V = cuda_vector(s->bf16, s->n_back);
    const int from_output = act_from_output(s->act);
    const void *z = from_output ? y : x;
    if (s->act == ACT_LINEAR) z = gy; /* its slope is 1 whatever stands there */
    if (gx)
        LAUNCH_ITEMS(s->cu, act_back, s->bf16, V, s->n_back / V, s->act, from_output, z, gy, gx, s->n_back,
                     add);
    return OK;
}

const struct act_ops cuda_act = { plan, forward, backward };
