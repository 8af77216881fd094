/* [convolutional]: cross-correlation, then batch normalisation or bias, then activation. Weights O, I/groups,
 * H, W. */
#include "net/linear.h"
#include <math.h>
#include "backend/ops/conv.h"
#include "backend/ops/norm.h"
#include "net/blur.h"
#include "net/graph.h"

struct convolutional {
    struct linear linear; /* first: see linear.h */
    struct blur blur;
    int filters, size, stride, stride_x, stride_y, dilation, pad, padding, groups, batch_normalize,
        activation;
};

static const struct key keys[] = {
    INT_KEY(convolutional, filters, 1, 1, 1 << 20, "output channels"),
    INT_KEY(convolutional, size, 1, 1, 1 << 12, "height and width of the window"),
    INT_KEY(convolutional, stride, 1, 1, 1 << 12, "step between windows"),
    INT_KEY(convolutional, stride_x, -1, -1, 1 << 12, "step to the right (below 1: stride)"),
    INT_KEY(convolutional, stride_y, -1, -1, 1 << 12, "step down (below 1: stride)"),
    INT_KEY(convolutional, dilation, 1, 1, 1 << 12, "step from one cell of the window to the next"),
    INT_KEY(convolutional, pad, 0, -(1 << 20), 1 << 20, "not 0: padding is size/2, whatever padding= says"),
    INT_KEY(convolutional, padding, 0, 0, 1 << 12, "zeros added on each side, times dilation"),
    BLUR_KEY(convolutional),
    INT_KEY(convolutional, groups, 1, 1, 1 << 20,
            "groups of channels that are convolved apart (as many as channels: depthwise)"),
    INT_KEY(convolutional, batch_normalize, 0, 0, 1, "1: batch normalisation instead of a bias"),
    WORD_KEY(convolutional, activation, ACT_LOGISTIC, act_names, "activation"),
    { 0 },
};

static const char *const examples[] = {
    "filters=4\nsize=3\npad=1\nactivation=leaky",
    "filters=6\nsize=3\nstride=2\npad=1\nbatch_normalize=1\nactivation=relu",
    "filters=4\nsize=2\npadding=1\nactivation=mish\nbatch_normalize=1",
    "filters=8\nsize=3\ngroups=2\npad=1\nactivation=linear\nbatch_normalize=1",
    "filters=4\nsize=3\ngroups=4\npad=1\nactivation=swish",
    "filters=20\nsize=1\nactivation=tanh",
    "filters=5\nsize=1\nstride=2\nbatch_normalize=1\nactivation=leaky",
    "filters=4\nsize=3\npad=1\ndilation=2\nbatch_normalize=1\nactivation=leaky",
    "filters=4\nsize=2\npadding=1\ndilation=3\nstride_x=2\nactivation=relu",
    "filters=4\nsize=3\nstride=2\nstride_y=1\npad=1\ngroups=2\nactivation=mish",
    "filters=4\nsize=3\nstride=2\npad=1\nbatch_normalize=1\nactivation=mish\nantialiasing=1",
    "filters=4\nsize=3\nstride=2\nstride_x=3\npad=1\nactivation=relu\nantialiasing=2",
    NULL,
};

static int stride(const struct convolutional *s, int of_axis) { return of_axis > 0 ? of_axis : s->stride; }

/* The window and its steps. AlexeyAB's Darknet dilates the padding too, which keeps the size of the map where
 * size is odd and pad=1. Elsewhere its output has the size that it would have without dilation, and is wrong;
 * ours has a pixel for each window. */
static struct linear_desc geometry(const struct layer *l)
{
    const struct convolutional *s = l->self;
    int dilation = s->size > 1 ? s->dilation : 1;
    return (struct linear_desc){ .in = &l->in[0]->x,
                                 .size = s->size,
                                 .dilation = dilation,
                                 .stride_y = s->blur.antialiasing ? 1 : stride(s, s->stride_y),
                                 .stride_x = s->blur.antialiasing ? 1 : stride(s, s->stride_x),
                                 .pad = (s->pad ? s->size / 2 : s->padding) * dilation,
                                 .groups = s->groups };
}

static int shape(struct layer *l, struct shape *out, struct err *e)
{
    struct convolutional *s = l->self;
    struct shape in = l->in[0]->x.shape;
    struct linear_desc d = geometry(l);
    int extent = (d.size - 1) * d.dilation + 1;
    int last_y = in.h + 2 * d.pad - extent, last_x = in.w + 2 * d.pad - extent;
    if (last_y < 0 || last_x < 0) /* where the last window starts */
        return layer_fail(
            l, e, "size=%d%s is larger than the padded map %dx%d: use a smaller size or more padding",
            s->size, d.dilation > 1 ? ", with its dilation," : "", in.w + 2 * d.pad, in.h + 2 * d.pad);
    if (in.c % s->groups || s->filters % s->groups)
        return layer_fail(l, e, "groups=%d must divide the %d input channels and filters=%d", s->groups, in.c,
                          s->filters);
    l->pads = s->groups == 1;
    *out = (struct shape){ in.n, s->filters, last_y / d.stride_y + 1, last_x / d.stride_x + 1 };
    return blur_shape(&s->blur, l, stride(s, s->stride_y), stride(s, s->stride_x), out, e);
}

/* Weights of one filter: size x size x channels / groups. */
static size_t window(const struct layer *l)
{
    const struct convolutional *s = l->self;
    return (size_t)s->size * (size_t)s->size * (size_t)(l->in[0]->x.shape.c / s->groups);
}

static int build(struct layer *l, struct builder *b, struct err *e)
{
    struct convolutional *s = l->self;
    s->linear.ops = &l->be->ops->conv->linear;
    s->linear.desc = geometry(l);
    s->linear.weights = (size_t)s->filters * window(l);
    s->linear.rank = 4;
    s->linear.dims[0] = s->filters;
    s->linear.dims[1] = l->in[0]->x.shape.c / s->groups;
    s->linear.dims[2] = s->linear.dims[3] = s->size;
    s->linear.init = INIT_NORMAL;
    s->linear.spread = sqrt(2.0 / (double)window(l));
    s->linear.norm = s->batch_normalize;
    s->linear.activate.act = (enum act)s->activation;
    return blur_build(&s->blur, l, b, linear_build, e);
}

static int forward(struct layer *l, const struct pass *p)
{
    struct convolutional *s = l->self;
    return blur_forward(&s->blur, l, p, linear_forward);
}

static int backward(struct layer *l, const struct pass *p)
{
    struct convolutional *s = l->self;
    return blur_backward(&s->blur, l, p, linear_backward);
}

static int takes_sum(const struct layer *l, enum act act)
{
    const struct convolutional *s = l->self;
    const struct norm_ops *norm = l->be->ops->norm;
    return s->batch_normalize && !s->blur.antialiasing && s->activation == ACT_LINEAR && norm->adds &&
           norm->adds(act);
}

static double flops(const struct layer *l)
{
    const struct convolutional *s = l->self;
    return 2.0 * (double)window(l) * (double)shape_row(s->blur.sharp.x.shape);
}

static int map(const struct layer *l, struct graph *g, int weights, int bias)
{
    const struct convolutional *s = l->self;
    int y = graph_op(g, "Conv", graph_map(g, l, 0), weights, bias);
    const struct linear_desc d = geometry(l);
    graph_windows(g, l->in[0]->x.shape, s->blur.sharp.x.shape, &d);
    if (d.groups > 1) graph_int(g, "group", d.groups);
    return y;
}

static int export(const struct layer *l, struct graph *g, struct err *e)
{
    const struct convolutional *s = l->self;
    int y;
    TRY(linear_export(l, g, map, &y, e));
    graph_output(g, l, blur_export(&s->blur, l, g, y));
    return OK;
}

const struct layer_ops layer_convolutional = {
    .name = "convolutional",
    .alias = "conv",
    .help = "convolution, batch normalisation or bias, activation",
    .size = sizeof(struct convolutional),
    .keys = keys,
    .examples = examples,
    .flags = LAYER_PARAMS | LAYER_DRAWS | LAYER_SPATIAL,
    .shape = shape,
    .build = build,
    .refresh = linear_refresh,
    .forward = forward,
    .backward = backward,
    .flops = flops,
    .takes_sum = takes_sum,
    .export = export,
};
