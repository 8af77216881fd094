/* [maxpool]: the largest value of each window, or with maxpool_depth=1 of channels at one pixel: output g is
 * the maximum of the channels g, g + out_channels, g + 2 out_channels ... */
#include <math.h>
#include "backend/ops/maxout.h"
#include "net/blur.h"
#include "net/graph.h"
#include "net/pooling.h"

struct maxpool {
    struct pooling pooling; /* first: see pooling.h */
    struct blur blur;
    int maxpool_depth, out_channels;
};

static const struct key keys[] = {
    POOLING_KEYS,
    BLUR_KEY(maxpool),
    INT_KEY(maxpool, maxpool_depth, 0, 0, 1,
            "1: the largest of every out_channels-th channel, not of a window"),
    INT_KEY(maxpool, out_channels, 1, 1, 1 << 20, "output channels of maxpool_depth=1"),
    { 0 },
};

static const char *const examples[] = {
    "size=2\nstride=2",
    "size=3\nstride=2",
    "size=2\nstride=1",
    "size=3\nstride=1\npadding=0",
    "size=3\nstride=2\npadding=1",
    "size=3\nstride_x=2\nstride_y=1",
    "size=2\nstride=2\nantialiasing=1",
    "size=3\nstride=2\nstride_y=1\nantialiasing=2",
    "maxpool_depth=1\nout_channels=3",
    NULL,
};

static int shape(struct layer *l, struct shape *out, struct err *e)
{
    struct maxpool *s = l->self;
    struct pool_desc d = pooling_describe(l, POOL_MAX, s->blur.antialiasing),
                     strided = pooling_describe(l, POOL_MAX, 0);
    if (!s->maxpool_depth) {
        TRY(pooling_shape(l, &d, out, e));
        return blur_shape(&s->blur, l, strided.stride_y, strided.stride_x, out, e);
    }
    *out = l->in[0]->x.shape;
    if (s->blur.antialiasing)
        return layer_fail(l, e, "maxpool_depth=1 takes no strides: remove antialiasing=%d",
                          s->blur.antialiasing);
    if (s->out_channels > out->c)
        return layer_fail(l, e, "out_channels=%d: the input has %d channels", s->out_channels, out->c);
    out->c = s->out_channels;
    return OK;
}

static int build_windows(struct layer *l, struct builder *b, struct err *e)
{
    const struct maxpool *s = l->self;
    struct pool_desc d = pooling_describe(l, POOL_MAX, s->blur.antialiasing);
    return pooling_build(l, b, &d, e);
}

static int build(struct layer *l, struct builder *b, struct err *e)
{
    struct maxpool *s = l->self;
    if (!s->maxpool_depth) return blur_build(&s->blur, l, b, build_windows, e);
    struct maxout_desc d = { &l->in[0]->x, l->train, l->rows_back };
    TRY(l->be->ops->maxout->plan(l->be, &d, &l->out->x, l->plan, e));
    s->pooling.kept = builder_buffer(b, l->plan->kept_bytes, LIFE_PASS);
    return OK;
}

static int forward(struct layer *l, const struct pass *p)
{
    struct maxpool *s = l->self;
    if (!s->maxpool_depth) return blur_forward(&s->blur, l, p, pooling_forward);
    return l->be->ops->maxout->forward(l->plan, &p->context, l->in[0]->x.data, l->out->x.data,
                                       s->pooling.kept->data);
}

static int backward(struct layer *l, const struct pass *p)
{
    struct maxpool *s = l->self;
    if (!s->maxpool_depth) return blur_backward(&s->blur, l, p, pooling_backward);
    return l->be->ops->maxout->backward(l->plan, &p->context, s->pooling.kept->data, l->out->g.data,
                                        l->in[0]->g.data, l->add[0]);
}

/* With the channels c*k + g as an axis k before the axis g. Where they are no multiple of c, some that never
 * win are added. */
static int export_depth(const struct layer *l, struct graph *g)
{
    const struct shape in = l->in[0]->x.shape, out = l->out->x.shape;
    const int64_t k = (in.c + out.c - 1) / out.c, more = k * out.c - in.c;
    int x = graph_map(g, l, 0);
    if (more)
        x = graph_op(g, "Pad", x, graph_indices(g, 8, (int64_t[]){ 0, 0, 0, 0, 0, more, 0, 0 }),
                     graph_real(g, -INFINITY));
    x = graph_reshape(g, x, 4, (int64_t[]){ k, out.c, out.h, out.w });
    int y = graph_op(g, "ReduceMax", x);
    graph_ints(g, "axes", 1, (int64_t[]){ 1 });
    graph_int(g, "keepdims", 0);
    return y;
}

static int export(const struct layer *l, struct graph *g, struct err *e)
{
    const struct maxpool *s = l->self;
    struct pool_desc d = pooling_describe(l, POOL_MAX, s->blur.antialiasing);
    (void)e;
    int y =
        s->maxpool_depth ? export_depth(l, g) : pooling_export(l, g, "MaxPool", &d, s->blur.sharp.x.shape);
    graph_output(g, l, blur_export(&s->blur, l, g, y));
    return OK;
}

const struct layer_ops layer_maxpool = {
    .name = "maxpool",
    .alias = "max",
    .help = "largest value of each window",
    .size = sizeof(struct maxpool),
    .keys = keys,
    .examples = examples,
    .flags = LAYER_SPATIAL,
    .shape = shape,
    .build = build,
    .forward = forward,
    .backward = backward,
    .export = export,
};
