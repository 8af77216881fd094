/* Dropout, element by element. What is kept is decided by scalar.h. */
#include "backend/ops/dropout.h"
#include "kernel.h"

struct dropout {
    const struct cuda *cu;
    struct dropout_desc desc;
    int bf16;
    size_t n, n_back, c, hw; /* numbers, forward and backward; channels and pixels */
};

/* The draw for element i goes by its place in N,C,H,W order, in the whole mini-batch. */
DEVICE size_t number_of(const struct dropout *d, size_t i)
{
    const int row = (int)(i / (d->c * d->hw));
    return dense_at(i, d->c, d->hw) + (size_t)(share_row(d->desc.share, row) - row) * (d->c * d->hw);
}

KERNEL(drop, struct dropout d, const struct step_state *state, const void *x, void *y, size_t n, int add)
{
    PHASE
    {
        const uint64_t step_key = rng_key(d.desc.key, RNG_DROPOUT, state->step);
        const float scale = (float)(1 / (1 - d.desc.probability));
        GRID_LOOP(i, n)
        {
            float f;
            load(d.bf16, 1, x, i, &f);
            f = dropout_keep(step_key, number_of(&d, i), d.desc.probability) ? f * scale : 0;
            put(d.bf16, 1, y, i, &f, add);
        }
    }
}

static int plan(struct backend *be, const struct dropout_desc *d, struct tensor *out, struct op_plan *p,
                struct err *e)
{
    const size_t row = shape_row(d->in->shape), c = d->in->shape.c;
    TRY(op_plan_init(p, sizeof(struct dropout), e));
    *(struct dropout *)p->self = (struct dropout){ .cu = cuda_of(be),
                                                   .desc = *d,
                                                   .bf16 = cuda_is_bf16(d->in),
                                                   .n = shape_count(d->in->shape),
                                                   .n_back = row * d->rows_back,
                                                   .c = c,
                                                   .hw = row / c };
    return cuda_tensor(out, cuda_is_bf16(d->in), e);
}

static int forward(const struct op_plan *p, const struct op_context *context, const void *x, void *y)
{
    const struct dropout *s = (const struct dropout *)p->self;
    LAUNCH(s->cu, drop, blocks_for(s->cu, s->n), 1, THREADS, *s, context->state, x, y, s->n, 0);
    return OK;
}

static int backward(const struct op_plan *p, const struct op_context *context, const void *gy, void *gx,
                    int add)
{
    const struct dropout *s = (const struct dropout *)p->self;
    if (gx)
        LAUNCH(s->cu, drop, blocks_for(s->cu, s->n_back), 1, THREADS, *s, context->state, gy, gx, s->n_back,
               add);
    return OK;
}

const struct dropout_ops cuda_dropout = { plan, forward, backward };
