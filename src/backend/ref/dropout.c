#include "backend/ops/dropout.h"
#include "ref.h"

static int plan(struct backend *be, const struct dropout_desc *d, struct tensor *out, struct op_plan *p,
                struct err *e)
{
    return ref_plan(p, d, sizeof *d, out, e);
}

/* Forward and backward are the same map. Memory is dense, so the index of an element is its logical one. */
static void thin_out(const struct dropout_desc *s, const struct step_state *state, int rows, const real *from,
                     real *to, int add)
{
    uint64_t key = rng_key(s->key, RNG_DROPOUT, state->step);
    double scale = 1 / (1 - s->probability);
    const size_t n = shape_row(s->in->shape);
    for (int row = 0; row < rows; row++, from += n, to += n) {
        const uint64_t first = (uint64_t)share_row(s->share, row) * n;
        for (size_t i = 0; i < n; i++)
            ref_put(&to[i], dropout_keep(key, first + i, s->probability) ? from[i] * scale : 0, add);
    }
}

static int forward(const struct op_plan *p, const struct op_context *context, const void *x, void *y)
{
    const struct dropout_desc *s = p->self;
    thin_out(s, context->state, s->in->shape.n, x, y, 0);
    return OK;
}

static int backward(const struct op_plan *p, const struct op_context *context, const void *gy, void *gx,
                    int add)
{
    const struct dropout_desc *s = p->self;
    if (gx) thin_out(s, context->state, s->rows_back, gy, gx, add);
    return OK;
}

const struct dropout_ops ref_dropout = { plan, forward, backward };
