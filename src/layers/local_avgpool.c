/* [local_avgpool]: the mean of each window, of its pixels inside the map. */
#include "net/graph.h"
#include "net/pooling.h"

static const struct key keys[] = { POOLING_KEYS, { 0 } };

static const char *const examples[] = {
    "size=2\nstride=2",
    "size=3\nstride=1",
    "size=3\nstride=1\nstride_x=2\npadding=0",
    NULL,
};

static int shape(struct layer *l, struct shape *out, struct err *e)
{
    struct pool_desc d = pooling_describe(l, POOL_MEAN, 0);
    return pooling_shape(l, &d, out, e);
}

static int build(struct layer *l, struct builder *b, struct err *e)
{
    struct pool_desc d = pooling_describe(l, POOL_MEAN, 0);
    return pooling_build(l, b, &d, e);
}

static int export(const struct layer *l, struct graph *g, struct err *e)
{
    struct pool_desc d = pooling_describe(l, POOL_MEAN, 0);
    (void)e;
    graph_output(g, l, pooling_export(l, g, "AveragePool", &d, l->out->x.shape));
    return OK;
}

const struct layer_ops layer_local_avgpool = {
    .name = "local_avgpool",
    .alias = "local_avg",
    .help = "mean of each window",
    .size = sizeof(struct pooling),
    .keys = keys,
    .examples = examples,
    .flags = LAYER_SPATIAL,
    .shape = shape,
    .build = build,
    .forward = pooling_forward,
    .backward = pooling_backward,
    .export = export,
};
