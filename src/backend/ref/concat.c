#include "backend/ops/concat.h"
#include <string.h>
#include "ref.h"

struct concat {
    int rows, rows_back, nin, groups, group;
    ptrdiff_t row[]; /* numbers in a row of each input */
};

static int plan(struct backend *be, const struct concat_desc *d, struct tensor *out, struct op_plan *p,
                struct err *e)
{
    TRY(op_plan_init(p, sizeof(struct concat) + (size_t)d->nin * sizeof(ptrdiff_t), e));
    struct concat *s = p->self;
    *s = (struct concat){ out->shape.n, d->rows_back, d->nin, d->groups, d->group };
    for (int i = 0; i < d->nin; i++) s->row[i] = (ptrdiff_t)shape_row(d->in[i]->shape);
    return ref_tensor(out, e);
}

static int forward(const struct op_plan *p, const struct op_context *context, const void *const *x, void *y)
{
    const struct concat *s = p->self;
    real *to = y;
    for (int n = 0; n < s->rows; n++)
        for (int i = 0; i < s->nin; i++) {
            ptrdiff_t part = s->row[i] / s->groups;
            memcpy(to, (const real *)x[i] + n * s->row[i] + s->group * part, (size_t)part * sizeof *to);
            to += part;
        }
    return OK;
}

static int backward(const struct op_plan *p, const struct op_context *context, const void *gy,
                    void *const *gx, const int *add)
{
    const struct concat *s = p->self;
    const real *g = gy;
    for (int n = 0; n < s->rows_back; n++)
        for (int i = 0; i < s->nin; i++) {
            ptrdiff_t part = s->row[i] / s->groups, first = s->group * part;
            for (ptrdiff_t k = 0; gx[i] && k < s->row[i]; k++)
                ref_put((real *)gx[i] + n * s->row[i] + k, k / part == s->group ? g[k - first] : 0, add[i]);
            g += part;
        }
    return OK;
}

const struct concat_ops ref_concat = { plan, forward, backward };
