/* Maximum over channels: a thread takes an element. */
#include "backend/ops/maxout.h"
#include "kernel.h"

struct maxout {
    const struct cuda *cu;
    int bf16;
    size_t rows, rows_back, pixels;
    unsigned in_c, out_c;
};

/* where: the channels of the maxima, or NULL. */
KERNEL(largest, struct maxout m, const void *x, void *y, uint32_t *where, size_t n)
{
    PHASE GRID_LOOP(i, n)
    {
        const size_t first = i / m.out_c * m.in_c;
        unsigned best = (unsigned)(i % m.out_c);
        float f, most;
        load(m.bf16, 1, x, first + best, &most);
        for (unsigned c = best + m.out_c; c < m.in_c; c += m.out_c) {
            load(m.bf16, 1, x, first + c, &f);
            if (f > most) most = f, best = c;
        }
        store(m.bf16, 1, y, i, &most);
        if (where) where[i] = best;
    }
}

KERNEL(give_back, struct maxout m, const uint32_t *where, const void *gy, void *gx, size_t n, int add)
{
    PHASE GRID_LOOP(i, n)
    {
        const unsigned c = (unsigned)(i % m.in_c);
        const size_t o = i / m.in_c * m.out_c + c % m.out_c;
        float g;
        load(m.bf16, 1, gy, o, &g);
        if (where[o] != c) g = 0;
        put(m.bf16, 1, gx, i, &g, add);
    }
}

static int plan(struct backend *be, const struct maxout_desc *d, struct tensor *out, struct op_plan *p,
                struct err *e)
{
    TRY(op_plan_init(p, sizeof(struct maxout), e));
    const size_t pixels = (size_t)out->shape.h * out->shape.w;
    *(struct maxout *)p->self =
        (struct maxout){ cuda_of(be), cuda_is_bf16(d->in),      (size_t)out->shape.n,  (size_t)d->rows_back,
                         pixels,      (unsigned)d->in->shape.c, (unsigned)out->shape.c };
    if (d->train) p->kept_bytes = shape_count(out->shape) * sizeof(uint32_t);
    return cuda_tensor(out, cuda_is_bf16(d->in), e);
}

static int forward(const struct op_plan *p, const struct op_context *, const void *x, void *y, void *kept)
{
    const struct maxout *s = (const struct maxout *)p->self;
    const size_t n = s->rows * s->pixels * s->out_c;
    LAUNCH(s->cu, largest, blocks_for(s->cu, n), 1, THREADS, *s, x, y, (uint32_t *)kept, n);
    return OK;
}

static int backward(const struct op_plan *p, const struct op_context *, const void *kept, const void *gy,
                    void *gx, int add)
{
    const struct maxout *s = (const struct maxout *)p->self;
    const size_t n = s->rows_back * s->pixels * s->in_c;
    if (!gx) return OK;
    LAUNCH(s->cu, give_back, blocks_for(s->cu, n), 1, THREADS, *s, (const uint32_t *)kept, gy, gx, n, add);
    return OK;
}

const struct maxout_ops cuda_maxout = { plan, forward, backward };
