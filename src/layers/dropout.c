/* [dropout]: in training each value becomes 0 with probability p and is scaled by 1 / (1 - p) otherwise. */
#include "backend/ops/dropout.h"
#include "net/layer.h"
#include "core/rng.h"

struct dropout {
    double probability;
};

static const struct key keys[] = {
    REAL_KEY(dropout, probability, 0.5, 0, 0.999, "probability that a value is dropped"),
    { 0 },
};

static const char *const examples[] = { "probability=0.3", "probability=0", NULL };

static int shape(struct layer *l, struct shape *out, struct err *e)
{
    const struct dropout *s = l->self;
    (void)e;
    *out = l->in[0]->x.shape;
    l->identity = l->inert = !l->train || s->probability == 0;
    return OK;
}

static int build(struct layer *l, struct builder *b, struct err *e)
{
    struct dropout *s = l->self;
    struct dropout_desc d = { &l->in[0]->x, l->rows_back, s->probability, builder_random(b, RNG_DROPOUT) };
    return l->be->ops->dropout->plan(l->be, &d, &l->out->x, l->plan, e);
}

static int forward(struct layer *l, const struct pass *p)
{
    return l->be->ops->dropout->forward(l->plan, &p->context, l->in[0]->x.data, l->out->x.data);
}

static int backward(struct layer *l, const struct pass *p)
{
    return l->be->ops->dropout->backward(l->plan, &p->context, l->out->g.data, l->in[0]->g.data, l->add[0]);
}

const struct layer_ops layer_dropout = {
    .name = "dropout",
    .help = "drops values at random in training",
    .size = sizeof(struct dropout),
    .keys = keys,
    .examples = examples,
    .shape = shape,
    .build = build,
    .forward = forward,
    .backward = backward,
};
