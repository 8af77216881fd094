/* Softmax and cross-entropy: plans. */
#include "backend/ops/softmax.h"
#include "cuda.h"

struct softmax {
    const struct cuda *cu;
    struct softmax_job job;
    int rows, rows_back;
};

static int plan(struct backend *be, const struct softmax_desc *d, struct tensor *out, struct op_plan *p,
                struct err *e)
{
    TRY(op_plan_init(p, sizeof(struct softmax), e));
    const struct shape in = d->in->shape;
    const size_t k = shape_row(in);
    if (d->groups < 1 || k % (size_t)d->groups)
        return fail(e, E_ARG, "softmax: groups=%d does not divide the %zu inputs", d->groups, k);
    TRY(cuda_tensor(out, 0, e));
    *(struct softmax *)p->self = (struct softmax){
        .cu = cuda_of(be),
        .job = { .bf16 = cuda_is_bf16(d->in),
                 .groups = (unsigned)d->groups,
                 .length = (unsigned)(k / (size_t)d->groups),
                 .channels = (unsigned)in.c,
                 .pixels = (unsigned)(in.h * in.w),
                 .temperature = d->temperature,
                 .on = 1 - d->smooth,
                 .off = k > 1 ? d->smooth / (double)(k - 1) : 0 },
        .rows = in.n,
        .rows_back = d->rows_back,
    };
    p->scratch_bytes = (size_t)in.n * (size_t)d->groups * sizeof(double);
    return OK;
}

static int forward(const struct op_plan *made, const struct op_context *context, const void *x, void *p,
                   double *loss)
{
    const struct softmax *s = made->self;
    return kernel_softmax(s->cu, &s->job, (unsigned)s->rows, x, context->label, (unsigned)context->scored, p,
                          context->scratch, loss);
}

static int backward(const struct op_plan *made, const struct op_context *context, const void *p,
                    const void *gy, void *gx, int add)
{
    const struct softmax *s = made->self;
    return gx ? kernel_softmax_back(s->cu, &s->job, (unsigned)s->rows_back, p, context->label,
                                    (unsigned)context->scored, gy, gx, add)
              : OK;
}

const struct softmax_ops cuda_softmax = { plan, forward, backward };
