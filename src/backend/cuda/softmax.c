/* Softmax and cross-entropy: plans. */
#include "cuda.h"
#include "core/mem.h"

struct softmax {
    const struct cuda *cu;
    struct softmax_job job;
    int rows, rows_back;
};

static int plan(struct backend *be, const struct softmax_desc *d, struct tensor *out, struct softmax_plan *p,
                struct err *e)
{
    *p = (struct softmax_plan){ 0 };
    const struct shape in = d->in->shape;
    const size_t k = shape_row(in);
    if (d->groups < 1 || k % (size_t)d->groups)
        return fail(e, E_ARG, "softmax: groups=%d does not divide the %zu inputs", d->groups, k);
    TRY(cuda_tensor(out, 0, e));
    TRY(cuda_self(&p->self, sizeof(struct softmax), e));
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

static int forward(const struct softmax_plan *made, const void *x, const int *label, int scored, void *p,
                   double *loss, void *scratch)
{
    const struct softmax *s = made->self;
    return kernel_softmax(s->cu, &s->job, (unsigned)s->rows, x, label, (unsigned)scored, p, scratch, loss);
}

static int backward(const struct softmax_plan *made, const void *p, const int *label, int scored,
                    const void *gy, void *gx, int add, void *scratch)
{
    (void)scratch;
    const struct softmax *s = made->self;
    return gx ? kernel_softmax_back(s->cu, &s->job, (unsigned)s->rows_back, p, label, (unsigned)scored, gy,
                                    gx, add)
              : OK;
}

static void destroy(struct softmax_plan *p)
{
    mem_free(p->self);
    p->self = NULL;
}

const struct softmax_ops cuda_softmax = { plan, forward, backward, destroy };
