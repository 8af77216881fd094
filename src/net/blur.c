#include "blur.h"
#include "backend/ops/pool.h"
#include "core/mem.h"
#include "net/graph.h"

enum { PLAN = LAYER_PLANS - 1 }; /* the layer's own come first */

static struct pool_desc describe(struct blur *s, const struct layer *l)
{
    int size = s->antialiasing == 2 ? 2 : 3;
    return (struct pool_desc){ .in = &s->sharp.x,
                               .kind = POOL_BLUR,
                               .size = size,
                               .stride_y = s->stride_y,
                               .stride_x = s->stride_x,
                               .pad = size == 3 ? 2 : 0,
                               .train = l->train,
                               .rows_back = l->rows_back };
}

int blur_shape(struct blur *s, struct layer *l, int stride_y, int stride_x, struct shape *out, struct err *e)
{
    s->stride_y = stride_y;
    s->stride_x = stride_x;
    s->sharp.x.shape = *out;
    if (!s->antialiasing) return OK;
    struct pool_desc d = describe(s, l);
    if (out->h + d.pad < d.size || out->w + d.pad < d.size)
        return layer_fail(l, e, "antialiasing=2 needs a map of 2x2 pixels or more, not %dx%d", out->w,
                          out->h);
    out->h = (out->h + d.pad - d.size) / stride_y + 1;
    out->w = (out->w + d.pad - d.size) / stride_x + 1;
    return OK;
}

int blur_build(struct blur *s, struct layer *l, struct builder *b,
               int (*inner)(struct layer *, struct builder *, struct err *), struct err *e)
{
    if (!s->antialiasing) return inner(l, b, e);
    struct value *out = l->out;
    l->out = &s->sharp;
    int rc = inner(l, b, e);
    l->out = out;
    TRY(rc);
    struct pool_desc d = describe(s, l);
    TRY(l->be->ops->pool->plan(l->be, &d, &out->x, &l->plan[PLAN], e));
    s->x = builder_buffer(b, s->sharp.x.bytes, LIFE_PASS);
    s->g = builder_buffer(b, l->train ? s->sharp.x.bytes : 0, LIFE_PASS);
    return OK;
}

/* Calls it on the sharp output. */
static int within(struct blur *s, struct layer *l, const struct pass *p,
                  int (*inner)(struct layer *, const struct pass *))
{
    struct value *out = l->out;
    s->sharp.x.data = s->x->data;
    s->sharp.g.data = s->g->data;
    l->out = &s->sharp;
    int rc = inner(l, p);
    l->out = out;
    return rc;
}

int blur_forward(struct blur *s, struct layer *l, const struct pass *p,
                 int (*inner)(struct layer *, const struct pass *))
{
    if (!s->antialiasing) return inner(l, p);
    TRY(within(s, l, p, inner));
    return l->be->ops->pool->forward(&l->plan[PLAN], &p->context, s->x->data, l->out->x.data, NULL);
}

int blur_backward(struct blur *s, struct layer *l, const struct pass *p,
                  int (*inner)(struct layer *, const struct pass *))
{
    if (!s->antialiasing) return inner(l, p);
    TRY(l->be->ops->pool->backward(&l->plan[PLAN], &p->context, NULL, l->out->g.data, s->g->data, 0));
    return within(s, l, p, inner);
}

/* As a convolution, channel by channel. */
int blur_export(const struct blur *s, const struct layer *l, struct graph *g, int map)
{
    const int size = s->antialiasing == 2 ? 2 : 3, c = l->out->x.shape.c;
    const size_t cells = (size_t)(size * size);
    const struct linear_desc d = {
        .size = size, .dilation = 1, .stride_y = s->stride_y, .stride_x = s->stride_x, .pad = size == 3
    };
    if (!s->antialiasing) return map;
    real *w = mem_alloc((size_t)c * cells, sizeof *w);
    g->failed |= !w;
    for (size_t i = 0; w && i < (size_t)c * cells; i++) {
        const size_t y = i % cells / (size_t)size, x = i % (size_t)size;
        w[i] = (real)(size == 2 ? .25 : (y == 1 ? .5 : .25) * (x == 1 ? .5 : .25));
    }
    int kernel = w ? graph_reals(g, NULL, 4, (int64_t[]){ c, 1, size, size }, w) : 0;
    mem_free(w);
    int blurred = graph_op(g, "Conv", map, kernel);
    graph_windows(g, s->sharp.x.shape, l->out->x.shape, &d);
    graph_int(g, "group", c);
    return blurred;
}
