/* Pooling: plans. */
#include "backend/ops/pool.h"
#include "cuda.h"

struct pool {
    const struct cuda *cu;
    int bf16;
    struct pool_map map;
    enum pool_kind kind;
    size_t rows, rows_back;
};

static int plan(struct backend *be, const struct pool_desc *d, struct tensor *out, struct op_plan *p,
                struct err *e)
{
    TRY(op_plan_init(p, sizeof(struct pool), e));
    TRY(cuda_tensor(out, cuda_is_bf16(d->in), e));
    struct pool *s = p->self;
    const struct shape in = d->in->shape;
    *s = (struct pool){ .cu = cuda_of(be),
                        .bf16 = cuda_is_bf16(d->in),
                        .map = { .c = in.c, .h = in.h, .w = in.w, .oh = out->shape.h, .ow = out->shape.w },
                        .kind = d->kind,
                        .rows = (size_t)in.n,
                        .rows_back = (size_t)d->rows_back };
    if (d->kind == POOL_AVERAGE) return OK;
    s->map.size = d->size;
    s->map.stride = d->stride;
    s->map.offset = d->pad / 2;
    s->map.narrow = d->size <= 16;
    if (d->train) p->kept_bytes = shape_count(out->shape) * (s->map.narrow ? 1 : sizeof(uint32_t));
    return OK;
}

static int forward(const struct op_plan *p, const struct op_context *context, const void *x, void *y,
                   void *kept)
{
    (void)context;
    const struct pool *s = p->self;
    if (s->kind == POOL_AVERAGE) return kernel_pool_average(s->cu, s->bf16, &s->map, x, y, s->rows);
    return kernel_pool_max(s->cu, s->bf16, &s->map, x, y, kept, s->rows);
}

static int backward(const struct op_plan *p, const struct op_context *context, const void *kept,
                    const void *gy, void *gx, int add)
{
    (void)context;
    const struct pool *s = p->self;
    if (!gx) return OK;
    if (s->kind == POOL_AVERAGE)
        return kernel_pool_average_back(s->cu, s->bf16, &s->map, gy, gx, s->rows_back, add);
    return kernel_pool_max_back(s->cu, s->bf16, &s->map, kept, gy, gx, s->rows_back, add);
}

const struct pool_ops cuda_pool = { plan, forward, backward };
