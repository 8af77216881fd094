/* Addition: plans. */
#include "backend/ops/add.h"
#include "cuda.h"

struct add {
    const struct cuda *cu;
    int bf16; /* the output is */
    size_t rows, rows_back;
    struct add_map map;
    int add_a, add_b;
};

static int plan(struct backend *be, const struct add_desc *d, struct tensor *out, struct op_plan *p,
                struct err *e)
{
    const struct shape a = d->a->shape, b = d->b->shape;
    int up, down;
    TRY(op_plan_init(p, sizeof(struct add), e));
    if (!add_factors(a, b, &up, &down))
        return fail(e, E_ARG,
                    "cannot add maps of %dx%d and %dx%d: one size must be a whole multiple of the other", a.w,
                    a.h, b.w, b.h);
    TRY(cuda_tensor(out, cuda_is_bf16(d->a), e));
    *(struct add *)p->self = (struct add){
        .cu = cuda_of(be),
        .bf16 = cuda_is_bf16(d->a),
        .rows = (size_t)a.n,
        .rows_back = (size_t)d->rows_back,
        .map = { .ac = (unsigned)a.c,
                 .ah = (unsigned)a.h,
                 .aw = (unsigned)a.w,
                 .bc = (unsigned)b.c,
                 .bh = (unsigned)b.h,
                 .bw = (unsigned)b.w,
                 .up = (unsigned)up,
                 .down = (unsigned)down,
                 .same = a.c == b.c && a.w == b.w,
                 .b_bf16 = cuda_is_bf16(d->b),
                 .act = (int)d->act,
                 .alpha = (float)d->alpha,
                 .beta = (float)d->beta },
        .add_a = d->add_a,
        .add_b = d->add_b,
    };
    p->fused = 1;
    return OK;
}

static int forward(const struct op_plan *p, const struct op_context *context, const void *a, const void *b,
                   void *y)
{
    (void)context;
    const struct add *s = p->self;
    return kernel_add(s->cu, s->bf16, &s->map, a, b, y, s->rows);
}

static int backward(const struct op_plan *p, const struct op_context *context, const void *y, const void *gy,
                    void *ga, void *gb)
{
    (void)context;
    const struct add *s = p->self;
    return kernel_add_back(s->cu, s->bf16, &s->map, y, gy, ga, s->add_a, gb, s->add_b, s->rows_back);
}

const struct add_ops cuda_add = { plan, forward, backward };
