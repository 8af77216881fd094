/* [avgpool]: the mean of each channel over height and width. */
#include "backend/ops/pool.h"
#include "net/layer.h"

struct avgpool {
    struct op_plan plan;
};

static const char *const examples[] = { "", NULL };

static int shape(struct layer *l, struct shape *out, struct err *e)
{
    struct shape in = l->in[0]->x.shape;
    (void)e;
    *out = (struct shape){ in.n, in.c, 1, 1 };
    return OK;
}

static int build(struct layer *l, struct builder *b, struct err *e)
{
    struct avgpool *s = l->self;
    struct pool_desc d = {
        .in = &l->in[0]->x, .kind = POOL_AVERAGE, .train = l->train, .rows_back = l->rows_back
    };
    TRY(l->be->ops->pool->plan(l->be, &d, &l->out->x, &s->plan, e));
    builder_scratch(b, s->plan.scratch_bytes);
    return OK;
}

static int forward(struct layer *l, const struct pass *p)
{
    struct avgpool *s = l->self;
    return p->be->ops->pool->forward(&s->plan, &p->context, l->in[0]->x.data, l->out->x.data, NULL);
}

static int backward(struct layer *l, const struct pass *p)
{
    struct avgpool *s = l->self;
    return p->be->ops->pool->backward(&s->plan, &p->context, NULL, l->out->g.data, l->in[0]->g.data,
                                      l->add[0]);
}

static void destroy(struct layer *l) { op_destroy(&((struct avgpool *)l->self)->plan); }

const struct layer_ops layer_avgpool = {
    .name = "avgpool",
    .alias = "avg",
    .help = "mean over height and width",
    .size = sizeof(struct avgpool),
    .examples = examples,
    .flags = LAYER_SPATIAL,
    .shape = shape,
    .build = build,
    .forward = forward,
    .backward = backward,
    .destroy = destroy,
};
