/* DropBlock: a block of threads counts the blocks of a row, then the numbers go one by one. */
#include "backend/ops/dropblock.h"
#include "kernel.h"

struct dropblock {
    const struct cuda *cu;
    struct dropblock_desc desc;
    int bf16;
    struct shape in;
};

/* The draw for a plane goes by its number in the whole mini-batch. */
DEVICE uint64_t number_of(const struct dropblock *d, unsigned row, unsigned c)
{
    return (uint64_t)share_row(d->desc.share, (int)row) * d->in.c + c;
}

/* blockIdx.x is the row. */
KERNEL(drop_scale, struct dropblock d, const struct step_state *state, float *scale)
{
    SHARED(float, sum, THREADS);
    PHASE
    {
        const struct dropblock_now now = dropblock_at(&d.desc, d.in.h, d.in.w, state);
        int blocks = 0;
        for (int c = (int)threadIdx.x; c < d.in.c; c += THREADS)
            blocks += dropblock_corner(&now, number_of(&d, blockIdx.x, c)) >= 0;
        sum[threadIdx.x] = (float)blocks; /* whole numbers below 2^24 */
    }
    BLOCK_SUM(sum, THREADS, 1);
    PHASE
    {
        const struct dropblock_now now = dropblock_at(&d.desc, d.in.h, d.in.w, state);
        if (threadIdx.x == 0) scale[blockIdx.x] = (float)dropblock_scale(&now, d.in.c, (int)sum[0]);
    }
}

KERNEL(drop_blocks, struct dropblock d, const struct step_state *state, const float *scale, const void *x,
       void *y, size_t n, int add)
{
    PHASE
    {
        const struct dropblock_now now = dropblock_at(&d.desc, d.in.h, d.in.w, state);
        const size_t hw = (size_t)d.in.h * d.in.w;
        GRID_LOOP(i, n)
        {
            const unsigned row = (unsigned)(i / (hw * d.in.c)), c = (unsigned)(i % d.in.c);
            const int corner = dropblock_corner(&now, number_of(&d, row, c));
            float f;
            load(d.bf16, 1, x, i, &f);
            f = dropblock_keeps(&now, corner, (int)(i / d.in.c % hw)) ? f * scale[row] : 0;
            put(d.bf16, 1, y, i, &f, add);
        }
    }
}

static int plan(struct backend *be, const struct dropblock_desc *d, struct tensor *out, struct op_plan *p,
                struct err *e)
{
    TRY(op_plan_init(p, sizeof(struct dropblock), e));
    *(struct dropblock *)p->self = (struct dropblock){ cuda_of(be), *d, cuda_is_bf16(d->in), d->in->shape };
    p->scratch_bytes = (size_t)d->in->shape.n * sizeof(float);
    return cuda_tensor(out, cuda_is_bf16(d->in), e);
}

static int run(const struct op_plan *p, const struct op_context *context, int rows, const void *x, void *y,
               int add)
{
    const struct dropblock *s = (const struct dropblock *)p->self;
    const size_t n = rows * shape_row(s->in);
    float *scale = (float *)context->scratch;
    LAUNCH(s->cu, drop_scale, rows, 1, THREADS, *s, context->state, scale);
    LAUNCH(s->cu, drop_blocks, blocks_for(s->cu, n), 1, THREADS, *s, context->state, scale, x, y, n, add);
    return OK;
}

static int forward(const struct op_plan *p, const struct op_context *context, const void *x, void *y)
{
    return run(p, context, ((const struct dropblock *)p->self)->in.n, x, y, 0);
}

static int backward(const struct op_plan *p, const struct op_context *context, const void *gy, void *gx,
                    int add)
{
    return gx ? run(p, context, ((const struct dropblock *)p->self)->desc.rows_back, gy, gx, add) : OK;
}

const struct dropblock_ops cuda_dropblock = { plan, forward, backward };
