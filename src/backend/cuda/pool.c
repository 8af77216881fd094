/* Pooling: plans. */
#include "cuda.h"
#include "core/mem.h"

struct pool {
    const struct cuda *cu;
    int bf16;
    struct pool_map map;
    enum pool_kind kind;
    size_t rows, rows_back;
};

static int plan(struct backend *be, const struct pool_desc *d, struct tensor *out, struct pool_plan *p,
                struct err *e)
{
    *p = (struct pool_plan){ 0 };
    TRY(cuda_tensor(out, cuda_is_bf16(d->in), e));
    TRY(cuda_self(&p->self, sizeof(struct pool), e));
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
    if (d->train) p->workspace_bytes = shape_count(out->shape) * (s->map.narrow ? 1 : sizeof(uint32_t));
    return OK;
}

static int forward(const struct pool_plan *p, const void *x, void *y, void *workspace, void *scratch)
{
    (void)scratch;
    const struct pool *s = p->self;
    if (s->kind == POOL_AVERAGE) return kernel_pool_average(s->cu, s->bf16, &s->map, x, y, s->rows);
    return kernel_pool_max(s->cu, s->bf16, &s->map, x, y, workspace, s->rows);
}

static int backward(const struct pool_plan *p, const void *workspace, const void *gy, void *gx, int add,
                    void *scratch)
{
    (void)scratch;
    const struct pool *s = p->self;
    if (!gx) return OK;
    if (s->kind == POOL_AVERAGE)
        return kernel_pool_average_back(s->cu, s->bf16, &s->map, gy, gx, s->rows_back, add);
    return kernel_pool_max_back(s->cu, s->bf16, &s->map, workspace, gy, gx, s->rows_back, add);
}

static void destroy(struct pool_plan *p)
{
    mem_free(p->self);
    p->self = NULL;
}

const struct pool_ops cuda_pool = { plan, forward, backward, destroy };
