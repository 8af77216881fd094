/* Index maps, element by element. */
#include "backend/ops/remap.h"
#include "kernel.h"

struct remap {
    const struct cuda *cu;
    struct remap_desc desc;
    int small_bf16, large_bf16;
    struct shape small, large;
};

/* Where element i of a row, counted in C,H,W order, lies in row r; and the way back, of element i of that
 * row. Rows together have fewer than 2^31 elements. */
DEVICE unsigned place_of(struct shape s, unsigned r, unsigned i)
{
    const unsigned hw = s.h * s.w;
    return (r * hw + i % hw) * s.c + i / hw;
}
DEVICE unsigned number_of(struct shape s, unsigned i) { return i % s.c * (s.h * s.w) + i / s.c; }

KERNEL(spread, struct remap m, const void *x, void *y, size_t n, int add)
{
    PHASE GRID_LOOP(i, n)
    {
        const unsigned row = m.large.c * m.large.h * m.large.w, r = (unsigned)i / row;
        float f;
        load(m.small_bf16, 1, x,
             place_of(m.small, r, remap_small(&m.desc, number_of(m.large, (unsigned)i % row))), &f);
        f *= (float)m.desc.scale;
        put(m.large_bf16, 1, y, i, &f, add);
    }
}

KERNEL(gather, struct remap m, const void *x, void *y, size_t n, int add)
{
    PHASE GRID_LOOP(i, n)
    {
        const unsigned row = m.small.c * m.small.h * m.small.w, r = (unsigned)i / row,
                       at = number_of(m.small, (unsigned)i % row);
        float f, sum = 0;
        for (int k = 0; k < remap_copies(&m.desc); k++) {
            load(m.large_bf16, 1, x, place_of(m.large, r, remap_large(&m.desc, at, k)), &f);
            sum += f;
        }
        sum *= (float)m.desc.scale;
        put(m.small_bf16, 1, y, i, &sum, add);
    }
}

static int plan(struct backend *be, const struct remap_desc *d, struct tensor *out, struct op_plan *p,
                struct err *e)
{
    TRY(op_plan_init(p, sizeof(struct remap), e));
    TRY(cuda_tensor(out, cuda_wants_bf16(be), e));
    const struct tensor *small = d->gather ? out : d->in, *large = d->gather ? d->in : out;
    *(struct remap *)p->self = (struct remap){ cuda_of(be),         *d,           cuda_is_bf16(small),
                                               cuda_is_bf16(large), small->shape, large->shape };
    return OK;
}

static int run(const struct remap *s, int to_small, size_t rows, const void *from, void *to, int add)
{
    const size_t n = rows * shape_row(to_small ? s->small : s->large);
    if (to_small)
        LAUNCH(s->cu, gather, blocks_for(s->cu, n), 1, THREADS, *s, from, to, n, add);
    else
        LAUNCH(s->cu, spread, blocks_for(s->cu, n), 1, THREADS, *s, from, to, n, add);
    return OK;
}

static int forward(const struct op_plan *p, const struct op_context *, const void *x, void *y)
{
    const struct remap *s = (const struct remap *)p->self;
    return run(s, s->desc.gather, s->small.n, x, y, 0);
}

static int backward(const struct op_plan *p, const struct op_context *, const void *gy, void *gx, int add)
{
    const struct remap *s = (const struct remap *)p->self;
    return gx ? run(s, !s->desc.gather, s->desc.rows_back, gy, gx, add) : OK;
}

const struct remap_ops cuda_remap = { plan, forward, backward };
