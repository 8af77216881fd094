/* Dropout: plans. */
#include "backend/ops/dropout.h"
#include "cuda.h"

struct dropout {
    const struct cuda *cu;
    int bf16;
    size_t n, n_back, c, hw; /* numbers, forward and backward; channels and pixels */
    double probability;
    uint64_t key;
};

static int plan(struct backend *be, const struct dropout_desc *d, struct tensor *out, struct op_plan *p,
                struct err *e)
{
    const size_t row = shape_row(d->in->shape), c = (size_t)d->in->shape.c;
    TRY(op_plan_init(p, sizeof(struct dropout), e));
    *(struct dropout *)p->self = (struct dropout){ .cu = cuda_of(be),
                                                   .bf16 = cuda_is_bf16(d->in),
                                                   .n = shape_count(d->in->shape),
                                                   .n_back = row * (size_t)d->rows_back,
                                                   .c = c,
                                                   .hw = row / c,
                                                   .probability = d->probability,
                                                   .key = d->key };
    return cuda_tensor(out, cuda_is_bf16(d->in), e);
}

static int thin_out(const struct dropout *s, const struct step_state *state, const void *x, void *y, size_t n,
                    int add)
{
    return kernel_dropout(s->cu, s->bf16, s->key, state, s->probability, x, y, n, s->c, s->hw, add);
}

static int forward(const struct op_plan *p, const struct op_context *context, const void *x, void *y)
{
    const struct dropout *s = p->self;
    return thin_out(s, context->state, x, y, s->n, 0);
}

static int backward(const struct op_plan *p, const struct op_context *context, const void *gy, void *gx,
                    int add)
{
    const struct dropout *s = p->self;
    return gx ? thin_out(s, context->state, gy, gx, s->n_back, add) : OK;
}

const struct dropout_ops cuda_dropout = { plan, forward, backward };
