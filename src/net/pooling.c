#include "pooling.h"
#include "net/graph.h"

struct pool_desc pooling_describe(const struct layer *l, enum pool_kind kind, int dense)
{
    const struct pooling *s = l->self;
    int size = s->size ? s->size : s->stride;
    return (struct pool_desc){ .in = &l->in[0]->x,
                               .kind = kind,
                               .size = size,
                               .stride_y = dense         ? 1
                                           : s->stride_y ? s->stride_y
                                                         : s->stride,
                               .stride_x = dense         ? 1
                                           : s->stride_x ? s->stride_x
                                                         : s->stride,
                               .pad = s->padding < 0 ? size - 1 : s->padding,
                               .train = l->train,
                               .rows_back = l->rows_back };
}

/* Along an axis of n pixels; window i starts at i * stride - pad/2. */
static int windows(int n, int stride, const struct pool_desc *d)
{
    return (n + d->pad - d->size) / stride + 1;
}

/* Does the last window have a pixel inside the map? */
static int last_inside(int n, int stride, const struct pool_desc *d)
{
    return (windows(n, stride, d) - 1) * stride - d->pad / 2 < n;
}

int pooling_shape(const struct layer *l, const struct pool_desc *d, struct shape *out, struct err *e)
{
    struct shape in = l->in[0]->x.shape;
    if (in.h + d->pad < d->size || in.w + d->pad < d->size)
        return layer_fail(l, e,
                          "size=%d is larger than the padded map %dx%d: use a smaller size or more padding",
                          d->size, in.w + d->pad, in.h + d->pad);
    if (d->pad / 2 >= d->size || !last_inside(in.h, d->stride_y, d) || !last_inside(in.w, d->stride_x, d))
        return layer_fail(l, e,
                          "padding=%d leaves windows of size=%d outside the map %dx%d: use at most size-1",
                          d->pad, d->size, in.w, in.h);
    *out = (struct shape){ in.n, in.c, windows(in.h, d->stride_y, d), windows(in.w, d->stride_x, d) };
    return OK;
}

int pooling_build(struct layer *l, struct builder *b, const struct pool_desc *d, struct err *e)
{
    struct pooling *s = l->self;
    TRY(l->be->ops->pool->plan(l->be, d, &l->out->x, l->plan, e));
    s->kept = builder_buffer(b, l->plan->kept_bytes, LIFE_PASS);
    return OK;
}

int pooling_export(const struct layer *l, struct graph *g, const char *op, const struct pool_desc *d,
                   struct shape out)
{
    const struct linear_desc windows = {
        .size = d->size, .dilation = 1, .stride_y = d->stride_y, .stride_x = d->stride_x, .pad = d->pad / 2
    };
    int y = graph_op(g, op, graph_map(g, l, 0));
    graph_windows(g, l->in[0]->x.shape, out, &windows);
    return y;
}

int pooling_forward(struct layer *l, const struct pass *p)
{
    struct pooling *s = l->self;
    return l->be->ops->pool->forward(l->plan, &p->context, l->in[0]->x.data, l->out->x.data, s->kept->data);
}

int pooling_backward(struct layer *l, const struct pass *p)
{
    struct pooling *s = l->self;
    return l->be->ops->pool->backward(l->plan, &p->context, s->kept->data, l->out->g.data, l->in[0]->g.data,
                                      l->add[0]);
}
