/* [connected]: every output from every input (flattened in C,H,W order), then batch normalisation or bias,
 * then activation. Weights O, I. */
#include "net/graph.h"
#include "net/linear.h"
#include <math.h>
#include "backend/ops/dense.h"

struct connected {
    struct linear linear; /* first: see linear.h */
    int output, batch_normalize, activation;
};

static const struct key keys[] = {
    INT_KEY(connected, output, 1, 1, 1 << 24, "outputs"),
    INT_KEY(connected, batch_normalize, 0, 0, 1, "1: batch normalisation instead of a bias"),
    WORD_KEY(connected, activation, ACT_LOGISTIC, act_names, "activation"),
    { 0 },
};

static const char *const examples[] = {
    "output=7\nactivation=relu",
    "output=5\nbatch_normalize=1\nactivation=leaky",
    "output=16\nactivation=gelu",
    NULL,
};

static int shape(struct layer *l, struct shape *out, struct err *e)
{
    const struct connected *s = l->self;
    (void)e;
    *out = (struct shape){ l->in[0]->x.shape.n, s->output, 1, 1 };
    return OK;
}

static int build(struct layer *l, struct builder *b, struct err *e)
{
    struct connected *s = l->self;
    size_t inputs = shape_row(l->in[0]->x.shape);
    s->linear.ops = &l->be->ops->dense->linear;
    s->linear.desc = (struct linear_desc){ .in = &l->in[0]->x, .groups = 1 };
    s->linear.weights = (size_t)s->output * inputs;
    s->linear.rank = 2;
    s->linear.dims[0] = s->output;
    s->linear.dims[1] = (int64_t)inputs;
    s->linear.init = INIT_UNIFORM;
    s->linear.spread = sqrt(2.0 / (double)inputs);
    s->linear.norm = s->batch_normalize;
    s->linear.weights_first = 1;
    s->linear.activate.act = (enum act)s->activation;
    return linear_build(l, b, e);
}

static double flops(const struct layer *l)
{
    return 2.0 * (double)shape_row(l->in[0]->x.shape) * (double)shape_row(l->out->x.shape);
}

static int map(const struct layer *l, struct graph *g, int weights, int bias)
{
    int y = graph_op(g, "Gemm", graph_row(g, l, 0), weights, bias);
    graph_int(g, "transB", 1);
    return y;
}

static int export(const struct layer *l, struct graph *g, struct err *e)
{
    int y;
    TRY(linear_export(l, g, map, &y, e));
    graph_output(g, l, y);
    return OK;
}

const struct layer_ops layer_connected = {
    .name = "connected",
    .alias = "conn",
    .help = "fully connected layer, batch normalisation or bias, activation",
    .size = sizeof(struct connected),
    .keys = keys,
    .examples = examples,
    .flags = LAYER_PARAMS | LAYER_DRAWS,
    .shape = shape,
    .build = build,
    .refresh = linear_refresh,
    .forward = linear_forward,
    .backward = linear_backward,
    .flops = flops,
    .export = export,
};
