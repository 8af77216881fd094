/* [convolutional]: cross-correlation, then batch normalisation or bias, then activation. Weights O, I/groups,
 * H, W. */
#include "net/linear.h"
#include <math.h>
#include "backend/ops/conv.h"
#include "backend/ops/norm.h"

struct convolutional {
    struct linear linear; /* first: see linear.h */
    int filters, size, stride, pad, padding, groups, batch_normalize, activation;
};

static const struct key keys[] = {
    INT_KEY(convolutional, filters, 1, 1, 1 << 20, "output channels"),
    INT_KEY(convolutional, size, 1, 1, 1 << 12, "height and width of the window"),
    INT_KEY(convolutional, stride, 1, 1, 1 << 12, "step between windows"),
    INT_KEY(convolutional, pad, 0, -(1 << 20), 1 << 20, "not 0: padding is size/2, whatever padding= says"),
    INT_KEY(convolutional, padding, 0, 0, 1 << 12, "zeros added on each side"),
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
    NULL,
};

static int padding(const struct convolutional *s) { return s->pad ? s->size / 2 : s->padding; }

static int shape(struct layer *l, struct shape *out, struct err *e)
{
    struct convolutional *s = l->self;
    struct shape in = l->in[0]->x.shape;
    int pad = padding(s), last_y = in.h + 2 * pad - s->size, last_x = in.w + 2 * pad - s->size;
    if (last_y < 0 || last_x < 0) /* where the last window starts */
        return layer_fail(l, e,
                          "size=%d is larger than the padded map %dx%d: use a smaller size or more padding",
                          s->size, in.w + 2 * pad, in.h + 2 * pad);
    if (in.c % s->groups || s->filters % s->groups)
        return layer_fail(l, e, "groups=%d must divide the %d input channels and filters=%d", s->groups, in.c,
                          s->filters);
    *out = (struct shape){ in.n, s->filters, last_y / s->stride + 1, last_x / s->stride + 1 };
    return OK;
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
    s->linear.desc = (struct linear_desc){
        .in = &l->in[0]->x, .size = s->size, .stride = s->stride, .pad = padding(s), .groups = s->groups
    };
    s->linear.weights = (size_t)s->filters * window(l);
    s->linear.init = INIT_NORMAL;
    s->linear.spread = sqrt(2.0 / (double)window(l));
    s->linear.norm = s->batch_normalize;
    s->linear.activate.act = (enum act)s->activation;
    return linear_build(l, b, e);
}

static int takes_sum(const struct layer *l, enum act act)
{
    const struct convolutional *s = l->self;
    const struct norm_ops *norm = l->be->ops->norm;
    return s->batch_normalize && s->activation == ACT_LINEAR && norm->adds && norm->adds(act);
}

static double flops(const struct layer *l)
{
    return 2.0 * (double)window(l) * (double)shape_row(l->out->x.shape);
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
    .forward = linear_forward,
    .backward = linear_backward,
    .flops = flops,
    .takes_sum = takes_sum,
};
