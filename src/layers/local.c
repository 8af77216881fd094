/* [local]: a convolution whose every output pixel has weights and biases of its own, then an activation. */
#include "net/graph.h"
#include "net/linear.h"
#include <math.h>
#include "backend/ops/local.h"
#include "core/mem.h"

struct local {
    struct linear linear; /* first: see linear.h */
    int filters, size, stride, pad, activation;
};

static const struct key keys[] = {
    INT_KEY(local, filters, 1, 1, 1 << 20, "output channels"),
    INT_KEY(local, size, 1, 1, 1 << 12, "height and width of the window"),
    INT_KEY(local, stride, 1, 1, 1 << 12, "step between windows"),
    INT_KEY(local, pad, 0, -(1 << 20), 1 << 20, "not 0: size/2 zeros on each side"),
    WORD_KEY(local, activation, ACT_LOGISTIC, act_names, "activation"),
    { 0 },
};

static const char *const examples[] = {
    "filters=3\nsize=3\npad=1\nactivation=leaky",
    "filters=4\nsize=3\nstride=2\nactivation=mish",
    "filters=2\nsize=2\npad=1\nactivation=tanh",
    NULL,
};

/* As in Darknet, with padding there is a window around each pixel, or every stride-th one, also of even size.
 */
static int shape(struct layer *l, struct shape *out, struct err *e)
{
    const struct local *s = l->self;
    struct shape in = l->in[0]->x.shape;
    int reach = s->pad ? 1 : s->size;
    if (in.h < reach || in.w < reach)
        return layer_fail(l, e, "size=%d is larger than the map %dx%d: use a smaller size or pad=1", s->size,
                          in.w, in.h);
    *out = (struct shape){ in.n, s->filters, (in.h - reach) / s->stride + 1, (in.w - reach) / s->stride + 1 };
    return OK;
}

/* Cells of a window, in all channels. */
static size_t window(const struct layer *l)
{
    const struct local *s = l->self;
    return (size_t)s->size * (size_t)s->size * (size_t)l->in[0]->x.shape.c;
}

static int build(struct layer *l, struct builder *b, struct err *e)
{
    struct local *s = l->self;
    s->linear.ops = &l->be->ops->local->linear;
    s->linear.desc = (struct linear_desc){ .in = &l->in[0]->x,
                                           .size = s->size,
                                           .dilation = 1,
                                           .stride_y = s->stride,
                                           .stride_x = s->stride,
                                           .pad = s->pad ? s->size / 2 : 0,
                                           .groups = 1 };
    if (mem_mul(shape_row(l->out->x.shape), window(l), &s->linear.weights))
        return layer_fail(l, e, "has too many weights");
    s->linear.rank = 3;
    s->linear.dims[0] = (int64_t)l->out->x.shape.h * l->out->x.shape.w;
    s->linear.dims[1] = s->filters;
    s->linear.dims[2] = (int64_t)window(l);
    s->linear.init = INIT_UNIFORM;
    s->linear.spread = sqrt(2.0 / (double)window(l));
    s->linear.untied = 1;
    s->linear.activate.act = (enum act)s->activation;
    return linear_build(l, b, e);
}

static double flops(const struct layer *l)
{
    return 2.0 * (double)window(l) * (double)shape_row(l->out->x.shape);
}

/* The windows as columns: a convolution that copies cell k of a window to channel k. For each pixel the
 * weights are then a matrix, filters x cells; the rows are the last axis of the product. */
static int map(const struct layer *l, struct graph *g, int weights, int bias)
{
    const struct local *s = l->self;
    const struct shape in = l->in[0]->x.shape, out = l->out->x.shape;
    const size_t cells = (size_t)s->size * (size_t)s->size, taps = window(l);
    real *copy = mem_alloc(taps * cells, sizeof *copy);
    g->failed |= !copy;
    if (!copy) return 0;
    for (size_t k = 0; k < taps; k++) copy[k * cells + k % cells] = 1;
    int kernel = graph_reals(g, NULL, 4, (int64_t[]){ (int64_t)taps, 1, s->size, s->size }, copy);
    mem_free(copy);
    int x = graph_op(g, "Conv", graph_map(g, l, 0), kernel);
    graph_windows(g, in, out, &s->linear.desc);
    graph_int(g, "group", in.c);
    x = graph_reshape(g, x, 2, (int64_t[]){ (int64_t)taps, (int64_t)out.h * out.w });
    x = graph_op(g, "Transpose", x);
    graph_ints(g, "perm", 3, (int64_t[]){ 2, 1, 0 });
    int y = graph_op(g, "MatMul", weights, x);
    y = graph_op(g, "Transpose", y);
    graph_ints(g, "perm", 3, (int64_t[]){ 2, 1, 0 });
    return graph_op(g, "Add", graph_reshape(g, y, 3, (int64_t[]){ out.c, out.h, out.w }), bias);
}

static int export(const struct layer *l, struct graph *g, struct err *e)
{
    int y;
    TRY(linear_export(l, g, map, &y, e));
    graph_output(g, l, y);
    return OK;
}

const struct layer_ops layer_local = {
    .name = "local",
    .help = "convolution with weights of its own at every pixel, activation",
    .size = sizeof(struct local),
    .keys = keys,
    .examples = examples,
    .flags = LAYER_PARAMS | LAYER_DRAWS | LAYER_SPATIAL,
    .shape = shape,
    .build = build,
    .refresh = linear_refresh,
    .forward = linear_forward,
    .backward = linear_backward,
    .flops = flops,
    .export = export,
};
