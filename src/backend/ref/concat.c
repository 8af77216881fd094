#include "backend/ops/concat.h"
#include <string.h>
#include "ref.h"

struct concat {
    int rows, rows_back, nin;
    ptrdiff_t row[]; /* numbers in a row of each input */
};

static int plan(struct backend *be, const struct concat_desc *d, struct tensor *out, struct op_plan *p,
                struct err *e)
{
    TRY(op_plan_init(p, sizeof(struct concat) + (size_t)d->nin * sizeof(ptrdiff_t), e));
    struct concat *s = p->self;
    *s = (struct concat){ out->shape.n, d->rows_back, d->nin };
    for (int i = 0; i < d->nin; i++) s->row[i] = (ptrdiff_t)shape_row(d->in[i]->shape);
    return ref_tensor(out, e);
}

static int forward(const struct op_plan *p, const struct op_context *context, const void *const *x, void *y)
{
    const struct concat *s = p->self;
    real *to = y;
    for (int n = 0; n < s->rows; n++)
        for (int i = 0; i < s->nin; to += s->row[i++])
            memcpy(to, (const real *)x[i] + n * s->row[i], (size_t)s->row[i] * sizeof *to);
    return OK;
}

static int backward(const struct op_plan *p, const struct op_context *context, const void *gy,
                    void *const *gx, const int *add)
{
    const struct concat *s = p->self;
    const real *g = gy;
    for (int n = 0; n < s->rows_back; n++)
        for (int i = 0; i < s->nin; g += s->row[i++])
            for (ptrdiff_t k = 0; gx[i] && k < s->row[i]; k++)
                ref_put((real *)gx[i] + n * s->row[i] + k, g[k], add[i]);
    return OK;
}

const struct concat_ops ref_concat = { plan, forward, backward };
