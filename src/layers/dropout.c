/* [dropout]: in training each value becomes 0 with probability p and is scaled by 1 / (1 - p) otherwise; with
 * dropblock=1, blocks of pixels become 0 instead. */
#include <math.h>
#include "backend/ops/dropblock.h"
#include "backend/ops/dropout.h"
#include "net/config.h"
#include "net/layer.h"
#include "core/rng.h"

struct dropout {
    double probability, dropblock_size_rel, dropblock_size_abs;
    int dropblock;
};

static const struct key keys[] = {
    REAL_KEY(dropout, probability, 0.5, 0, 0.999, "probability that a value is dropped"),
    INT_KEY(dropout, dropblock, 0, 0, 1,
            "1: drop blocks of pixels; their size and probability grow until 85% of max_batches"),
    REAL_KEY(dropout, dropblock_size_abs, 0, 0, 1 << 12,
             "height and width of a block (0: dropblock_size_rel, or 7)"),
    REAL_KEY(dropout, dropblock_size_rel, 0, 0, 1,
             "height and width of a block, as a share of the shorter side of the map"),
    { 0 },
};

static const char *const examples[] = {
    "probability=0.3",
    "probability=0",
    "probability=0.3\ndropblock=1\ndropblock_size_abs=3",
    "probability=0.6\ndropblock=1\ndropblock_size_rel=.4",
    NULL,
};

static int shape(struct layer *l, struct shape *out, struct err *e)
{
    const struct dropout *s = l->self;
    (void)e;
    *out = l->in[0]->x.shape;
    l->identity = l->inert = !l->train || s->probability == 0;
    return OK;
}

/* AlexeyAB's rules: dropblock_size_abs goes before dropblock_size_rel, and no block is larger than the map.
 */
static double block_size(const struct dropout *s, struct shape in)
{
    double side = in.h < in.w ? in.h : in.w;
    if (s->dropblock_size_abs > 0) return fmin(s->dropblock_size_abs, side);
    return s->dropblock_size_rel > 0 ? s->dropblock_size_rel * side : fmin(7, side);
}

static int build(struct layer *l, struct builder *b, struct err *e)
{
    struct dropout *s = l->self;
    uint64_t key = builder_random(b, RNG_DROPOUT);
    if (s->dropblock) {
        struct dropblock_desc d = { .in = &l->in[0]->x,
                                    .rows_back = l->rows_back,
                                    .probability = s->probability,
                                    .size = block_size(s, l->in[0]->x.shape),
                                    .share = l->share,
                                    .ramp = .85 * builder_config(b)->max_batches,
                                    .key = key };
        return l->be->ops->dropblock->plan(l->be, &d, &l->out->x, l->plan, e);
    }
    struct dropout_desc d = { &l->in[0]->x, l->rows_back, s->probability, key, l->share };
    return l->be->ops->dropout->plan(l->be, &d, &l->out->x, l->plan, e);
}

static int forward(struct layer *l, const struct pass *p)
{
    const struct dropout *s = l->self;
    const struct backend_ops *ops = l->be->ops;
    const void *x = l->in[0]->x.data;
    if (s->dropblock) return ops->dropblock->forward(l->plan, &p->context, x, l->out->x.data);
    return ops->dropout->forward(l->plan, &p->context, x, l->out->x.data);
}

static int backward(struct layer *l, const struct pass *p)
{
    const struct dropout *s = l->self;
    const struct backend_ops *ops = l->be->ops;
    const void *gy = l->out->g.data;
    if (s->dropblock) return ops->dropblock->backward(l->plan, &p->context, gy, l->in[0]->g.data, l->add[0]);
    return ops->dropout->backward(l->plan, &p->context, gy, l->in[0]->g.data, l->add[0]);
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
