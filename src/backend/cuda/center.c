/* Center loss: plans. */
#include "cuda.h"
#include "core/mem.h"

struct center {
    const struct cuda *cu;
    struct center_job job;
};

static int plan(struct backend *be, const struct center_desc *d, struct center_plan *p, struct err *e)
{
    *p = (struct center_plan){ 0 };
    TRY(cuda_self(&p->self, sizeof(struct center), e));
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

static int forward(const struct center_plan *p, const void *x, const int *label, int scored, int move,
                   int reuse_detached, const struct center_state *state, double *loss, void *scratch)
{
    const struct center *s = p->self;
    return kernel_center(s->cu, &s->job, x, label, (unsigned)scored, move, reuse_detached, state, scratch,
                         loss);
}

static int backward(const struct center_plan *p, const struct step_state *now, const void *x,
                    const int *label, int scored, const struct center_state *state, void *gx, int add,
                    void *scratch)
{
    (void)scratch;
    const struct center *s = p->self;
    return kernel_center_back(s->cu, &s->job, now, x, label, (unsigned)scored, state, gx, add);
}

static void destroy(struct center_plan *p)
{
    mem_free(p->self);
    p->self = NULL;
}

const struct center_ops cuda_center = { plan, forward, backward, destroy };
