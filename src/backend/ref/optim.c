#include "backend/ops/optim.h"
#include <string.h>
#include "ref.h"

struct optim {
    struct optim_desc d; /* its items: */
    struct optim_item item[];
};

static int plan(struct backend *be, const struct optim_desc *d, struct op_plan *p, struct err *e)
{
    TRY(op_plan_init(p, sizeof(struct optim) + (size_t)d->n * sizeof *d->item, e));
    struct optim *s = p->self;
    s->d = *d;
    if (d->n) memcpy(s->item, d->item, (size_t)d->n * sizeof *d->item);
    return OK;
}

static void descend(const struct optim_desc *d, const struct optim_item *i, double rate)
{
    real *restrict weight = i->w, *restrict velocity = i->v;
    const real *restrict gradient = i->g;
    for (size_t k = 0; k < i->bytes / sizeof(real); k++) {
        double step = d->average * gradient[k] + i->decay * weight[k];
        velocity[k] = (real)(d->momentum * velocity[k] + step);
        weight[k] = (real)(weight[k] - rate * velocity[k]);
    }
}

static void adam(const struct optim_desc *d, const struct optim_item *i, const struct step_state *now)
{
    real *restrict weight = i->w, *restrict mean = i->v, *restrict square = i->s;
    const real *restrict gradient = i->g;
    for (size_t k = 0; k < i->bytes / sizeof(real); k++) {
        double step = d->average * gradient[k] + i->decay * weight[k];
        mean[k] = (real)(d->momentum * mean[k] + (1 - d->momentum) * step);
        square[k] = (real)(d->b2 * square[k] + (1 - d->b2) * step * step);
        double root = sqrt(square[k] / now->s_share) + d->epsilon;
        weight[k] = (real)(weight[k] - now->rate * i->rate * mean[k] / now->v_share / root);
    }
}

static void average(const struct optim_item *i, double share)
{
    const real *w = i->w;
    real *mean = i->average;
    for (size_t k = 0; k < i->bytes / sizeof *w; k++) mean[k] = (real)((1 - share) * mean[k] + share * w[k]);
}

static int update(const struct op_plan *p, const struct step_state *state)
{
    const struct optim *s = p->self;
    for (int i = 0; i < s->d.n; i++) {
        const struct optim_item *item = &s->item[i];
        if (item->s)
            adam(&s->d, item, state);
        else if (item->g)
            descend(&s->d, item, state->rate * item->rate);
        if (item->average) average(item, state->average_share);
    }
    return OK;
}

static int check(const struct op_plan *p, int *bad)
{
    const struct optim *s = p->self;
    *bad = -1;
    for (int i = 0; i < s->d.n && *bad < 0; i++) {
        const real *g = s->item[i].g;
        for (size_t k = 0; g && k < s->item[i].bytes / sizeof *g; k++)
            if (!isfinite(g[k])) *bad = i;
    }
    return OK;
}

const struct optim_ops ref_optim = { .plan = plan, .update = update, .check = check };
