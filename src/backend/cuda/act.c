/* Activations and dropout: plans. */
#include "cuda.h"
#include "core/mem.h"

struct each {
    const struct cuda *cu;
    int bf16;
    size_t n, n_back, c, hw; /* numbers, forward and backward; channels and pixels */
    enum act act;
    double probability;
    uint64_t key;
};

static int plan_each(struct backend *be, const struct tensor *in, int rows_back, struct tensor *out,
                     void **self, struct err *e)
{
    TRY(cuda_tensor(out, cuda_is_bf16(in), e));
    TRY(cuda_self(self, sizeof(struct each), e));
    size_t row = shape_row(in->shape), c = (size_t)in->shape.c;
    *(struct each *)*self = (struct each){ .cu = cuda_of(be),
                                           .bf16 = cuda_is_bf16(in),
                                           .n = shape_count(in->shape),
                                           .n_back = row * (size_t)rows_back,
                                           .c = c,
                                           .hw = row / c };
    return OK;
}

static int act_plan(struct backend *be, const struct act_desc *d, struct tensor *out, struct act_plan *p,
                    struct err *e)
{
    *p = (struct act_plan){ 0 };
    TRY(plan_each(be, d->in, d->rows_back, out, &p->self, e));
    ((struct each *)p->self)->act = d->act;
    return OK;
}

static int act_forward(const struct act_plan *p, const void *x, void *y, void *scratch)
{
    (void)scratch;
    const struct each *s = p->self;
    return kernel_act(s->cu, s->act, s->bf16, x, y, s->n);
}

static int act_backward(const struct act_plan *p, const void *x, const void *y, const void *gy, void *gx,
                        int add, void *scratch)
{
    (void)scratch;
    const struct each *s = p->self;
    return gx ? kernel_act_back(s->cu, s->act, s->bf16, x, y, gy, gx, s->n_back, add) : OK;
}

static void act_destroy(struct act_plan *p)
{
    mem_free(p->self);
    p->self = NULL;
}

static int dropout_plan(struct backend *be, const struct dropout_desc *d, struct tensor *out,
                        struct dropout_plan *p, struct err *e)
{
    *p = (struct dropout_plan){ 0 };
    TRY(plan_each(be, d->in, d->rows_back, out, &p->self, e));
    struct each *s = p->self;
    s->probability = d->probability;
    s->key = d->key;
    return OK;
}

static int thin_out(const struct each *s, const struct step_state *now, const void *x, void *y, size_t n,
                    int add)
{
    return kernel_destroy(s->cu, s->bf16, s->key, now, s->probability, x, y, n, s->c, s->hw, add);
}

static int drop_forward(const struct dropout_plan *p, const struct step_state *now, const void *x, void *y,
                        void *scratch)
{
    (void)scratch;
    const struct each *s = p->self;
    return thin_out(s, now, x, y, s->n, 0);
}

static int drop_backward(const struct dropout_plan *p, const struct step_state *now, const void *gy, void *gx,
                         int add, void *scratch)
{
    (void)scratch;
    const struct each *s = p->self;
    return gx ? thin_out(s, now, gy, gx, s->n_back, add) : OK;
}

static void drop_drop(struct dropout_plan *p)
{
    mem_free(p->self);
    p->self = NULL;
}

const struct act_ops cuda_act = { act_plan, act_forward, act_backward, act_destroy };
const struct dropout_ops cuda_dropout = { dropout_plan, drop_forward, drop_backward, drop_drop };
