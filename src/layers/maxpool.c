/* [maxpool]: the largest value of each window. */
#include "backend/ops/pool.h"
#include "net/layer.h"

struct maxpool {
    int stride, size, padding;
    struct buffer *kept;
};

static const struct key keys[] = {
    INT_KEY(maxpool, stride, 1, 1, 1 << 12, "step between windows"),
    INT_KEY(maxpool, size, 0, 0, 1 << 12, "height and width of the window (0: as stride)"),
    INT_KEY(maxpool, padding, -1, -1, 1 << 12, "padding of both sides together (-1: size-1)"),
    { 0 },
};

static const char *const examples[] = {
    "size=2\nstride=2",
    "size=3\nstride=2",
    "size=2\nstride=1",
    "size=3\nstride=1\npadding=0",
    "size=3\nstride=2\npadding=1",
    NULL,
};

/* Windows along an axis of n pixels; window i starts at i * stride - pad/2. */
static int windows(int n, const struct pool_desc *d) { return (n + d->pad - d->size) / d->stride + 1; }

/* Does the last window have a pixel inside the map? */
static int last_inside(int n, const struct pool_desc *d)
{
    return (windows(n, d) - 1) * d->stride - d->pad / 2 < n;
}

static struct pool_desc describe(const struct layer *l)
{
    const struct maxpool *s = l->self;
    int size = s->size ? s->size : s->stride, pad = s->padding < 0 ? size - 1 : s->padding;
    return (struct pool_desc){ &l->in[0]->x, POOL_MAX, size, s->stride, pad, l->train, l->rows_back };
}

static int shape(struct layer *l, struct shape *out, struct err *e)
{
    struct shape in = l->in[0]->x.shape;
    struct pool_desc d = describe(l);
    if (in.h + d.pad < d.size || in.w + d.pad < d.size)
        return layer_fail(l, e,
                          "size=%d is larger than the padded map %dx%d: use a smaller size or more padding",
                          d.size, in.w + d.pad, in.h + d.pad);
    if (d.pad / 2 >= d.size || !last_inside(in.h, &d) || !last_inside(in.w, &d))
        return layer_fail(l, e,
                          "padding=%d leaves windows of size=%d outside the map %dx%d: use at most size-1",
                          d.pad, d.size, in.w, in.h);
    *out = (struct shape){ in.n, in.c, windows(in.h, &d), windows(in.w, &d) };
    return OK;
}

static int build(struct layer *l, struct builder *b, struct err *e)
{
    struct maxpool *s = l->self;
    struct pool_desc d = describe(l);
    TRY(l->be->ops->pool->plan(l->be, &d, &l->out->x, l->plan, e));
    s->kept = builder_buffer(b, l->plan->kept_bytes, LIFE_PASS);
    return OK;
}

static int forward(struct layer *l, const struct pass *p)
{
    struct maxpool *s = l->self;
    return l->be->ops->pool->forward(l->plan, &p->context, l->in[0]->x.data, l->out->x.data, s->kept->data);
}

static int backward(struct layer *l, const struct pass *p)
{
    struct maxpool *s = l->self;
    return l->be->ops->pool->backward(l->plan, &p->context, s->kept->data, l->out->g.data, l->in[0]->g.data,
                                      l->add[0]);
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
};
