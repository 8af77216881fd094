/* Activations: plans. */
#include "backend/ops/act.h"
#include "cuda.h"

struct activation {
    const struct cuda *cu;
    int bf16;
    enum act act;
    size_t n, n_back; /* numbers, forward and backward */
};

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

static int forward(const struct op_plan *p, const struct op_context *context, const void *x, void *y)
{
    (void)context;
    const struct activation *s = p->self;
    return kernel_act(s->cu, s->act, s->bf16, x, y, s->n);
}

static int backward(const struct op_plan *p, const struct op_context *context, const void *x, const void *y,
                    const void *gy, void *gx, int add)
{
    (void)context;
    const struct activation *s = p->self;
    return gx ? kernel_act_back(s->cu, s->act, s->bf16, x, y, gy, gx, s->n_back, add) : OK;
}

const struct act_ops cuda_act = { plan, forward, backward };
