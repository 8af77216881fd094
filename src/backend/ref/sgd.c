/* Stochastic gradient descent with momentum and weight decay. */
#include "backend/ops/sgd.h"
#include <string.h>
#include "ref.h"

struct sgd {
    double momentum, average;
    int n;
    struct sgd_item item[];
};

static int plan(struct backend *be, const struct sgd_desc *d, struct op_plan *p, struct err *e)
{
    TRY(op_plan_init(p, sizeof(struct sgd) + (size_t)d->n * sizeof *d->item, e));
    struct sgd *s = p->self;
    *s = (struct sgd){ d->momentum, d->average, d->n };
    if (d->n) memcpy(s->item, d->item, (size_t)d->n * sizeof *d->item);
    return OK;
}

static void move(const struct sgd *s, const struct sgd_item *i, double rate)
{
    real *restrict weight = i->w, *restrict velocity = i->v;
    const real *restrict gradient = i->g;
    for (size_t k = 0; k < i->bytes / sizeof(real); k++) {
        double step = s->average * gradient[k] + i->decay * weight[k];
        velocity[k] = (real)(s->momentum * velocity[k] + step);
        weight[k] = (real)(weight[k] - rate * velocity[k]);
    }
}

static int update(const struct op_plan *p, const struct step_state *state)
{
    const struct sgd *s = p->self;
    for (int i = 0; i < s->n; i++) move(s, &s->item[i], state->rate * s->item[i].rate);
    return OK;
}

static int check(const struct op_plan *p, int *bad)
{
    const struct sgd *s = p->self;
    *bad = -1;
    for (int i = 0; i < s->n && *bad < 0; i++) {
        const real *g = s->item[i].g;
        for (size_t k = 0; k < s->item[i].bytes / sizeof *g; k++)
            if (!isfinite(g[k])) *bad = i;
    }
    return OK;
}

const struct sgd_ops ref_sgd = { .plan = plan, .update = update, .check = check };
