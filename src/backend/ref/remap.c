#include "backend/ops/remap.h"
#include "ref.h"

static int plan(struct backend *be, const struct remap_desc *d, struct tensor *out, struct op_plan *p,
                struct err *e)
{
    return ref_plan(p, d, sizeof *d, out, e);
}

static void run(const struct remap_desc *m, int gather, int rows, const real *from, real *to, int add)
{
    int copies = remap_copies(m);
    uint32_t small = (uint32_t)m->w * (uint32_t)m->h * (uint32_t)m->c, large = small * (uint32_t)copies,
             n = gather ? small : large;
    for (int r = 0; r < rows; r++, from += gather ? large : small, to += n)
        for (uint32_t i = 0; i < n; i++) {
            double sum = gather ? 0 : from[remap_small(m, i)];
            for (int k = 0; gather && k < copies; k++) sum += from[remap_large(m, i, k)];
            ref_put(&to[i], m->scale * sum, add);
        }
}

static int forward(const struct op_plan *p, const struct op_context *context, const void *x, void *y)
{
    const struct remap_desc *m = p->self;
    run(m, m->gather, m->in->shape.n, x, y, 0);
    return OK;
}

static int backward(const struct op_plan *p, const struct op_context *context, const void *gy, void *gx,
                    int add)
{
    const struct remap_desc *m = p->self;
    if (gx) run(m, !m->gather, m->rows_back, gy, gx, add);
    return OK;
}

const struct remap_ops ref_remap = { plan, forward, backward };
