/* [avgpool]: the mean of each channel over height and width. */
#include "backend/ops/pool.h"
#include "net/graph.h"
#include "net/layer.h"

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
    (void)b;
    struct pool_desc d = {
        .in = &l->in[0]->x, .kind = POOL_AVERAGE, .train = l->train, .rows_back = l->rows_back
    };
    return l->be->ops->pool->plan(l->be, &d, &l->out->x, l->plan, e);
}

static int forward(struct layer *l, const struct pass *p)
{
    return l->be->ops->pool->forward(l->plan, &p->context, l->in[0]->x.data, l->out->x.data, NULL);
}

static int backward(struct layer *l, const struct pass *p)
{
    return l->be->ops->pool->backward(l->plan, &p->context, NULL, l->out->g.data, l->in[0]->g.data,
                                      l->add[0]);
}

static int export(const struct layer *l, struct graph *g, struct err *e)
{
    (void)e;
    graph_output(g, l, graph_op(g, "GlobalAveragePool", graph_map(g, l, 0)));
    return OK;
}

const struct layer_ops layer_avgpool = {
    .name = "avgpool",
    .alias = "avg",
    .help = "mean over height and width",
    .examples = examples,
    .flags = LAYER_SPATIAL,
    .shape = shape,
    .build = build,
    .forward = forward,
    .backward = backward,
    .export = export,
};
