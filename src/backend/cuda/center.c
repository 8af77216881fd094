/* Center loss: plans. */
#include "backend/ops/center.h"
#include "cuda.h"

struct center {
    const struct cuda *cu;
    struct center_job job;
};

static int plan(struct backend *be, const struct center_desc *d, struct op_plan *p, struct err *e)
{
    TRY(op_plan_init(p, sizeof(struct center), e));
    struct center *s = p->self;
    const size_t row = shape_row(d->in->shape), parts = (row + CENTER_FEATURES - 1) / CENTER_FEATURES;
    *s = (struct center){ cuda_of(be),
                          { .bf16 = cuda_is_bf16(d->in),
                            .classes = d->classes,
                            .d = (unsigned)row,
                            .c = (unsigned)d->in->shape.c,
                            .rows_back = (unsigned)d->rows_back,
                            .lambda = d->lambda,
                            .warmup = d->warmup,
                            .alpha = d->alpha } };
    p->scratch_bytes = (size_t)d->classes * parts * sizeof(double);
    return OK;
}

static int forward(const struct op_plan *p, const struct op_context *context, const void *x,
                   const struct center_state *state, double *loss)
{
    const struct center *s = p->self;
    const int hold = context->reuse_detached;
    return kernel_center(s->cu, &s->job, x, context->label, (unsigned)context->scored, !context->add && !hold,
                         hold, state, context->scratch, loss);
}

static int backward(const struct op_plan *p, const struct op_context *context, const void *x,
                    const struct center_state *state, void *gx, int add)
{
    const struct center *s = p->self;
    return kernel_center_back(s->cu, &s->job, context->state, x, context->label, (unsigned)context->scored,
                              state, gx, add);
}

const struct center_ops cuda_center = { plan, forward, backward };
