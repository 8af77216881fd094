/* [upsample]: each pixel becomes a block of stride x stride equal ones, times scale. A negative stride is the
 * transposed map, as in the Darknets: each block becomes its sum, times scale. */
#include <stdlib.h>
#include "backend/ops/remap.h"
#include "net/graph.h"
#include "net/layer.h"

struct upsample {
    int stride;
    double scale;
};

static const struct key keys[] = {
    INT_KEY(upsample, stride, 2, -(1 << 12), 1 << 12,
            "height and width of a block; < 0: blocks become their sums"),
    REAL_KEY(upsample, scale, 1, -1e6, 1e6, "factor of the output"),
    { 0 },
};

static const char *const examples[] = { "stride=2", "stride=3\nscale=.5",
                                        "[upsample]\n[upsample]\nstride=-2\nscale=.25", NULL };

static int shape(struct layer *l, struct shape *out, struct err *e)
{
    const struct upsample *s = l->self;
    struct shape in = l->in[0]->x.shape;
    *out = in;
    if (!s->stride) return layer_fail(l, e, "stride=0: expected a whole number that is not 0");
    if (s->stride < 0 && (in.h % -s->stride || in.w % -s->stride))
        return layer_fail(l, e, "stride=%d: the map %dx%d cannot be cut into blocks of %dx%d", s->stride,
                          in.w, in.h, -s->stride, -s->stride);
    if (s->stride < 0) {
        out->h /= -s->stride;
        out->w /= -s->stride;
    } else if (__builtin_mul_overflow(in.h, s->stride, &out->h) ||
               __builtin_mul_overflow(in.w, s->stride, &out->w)) {
        return layer_fail(l, e, "stride=%d makes a map of more than 2^31 - 1 rows or columns", s->stride);
    }
    return OK;
}

static int build(struct layer *l, struct builder *b, struct err *e)
{
    const struct upsample *s = l->self;
    int down = s->stride < 0;
    struct shape small = down ? l->out->x.shape : l->in[0]->x.shape;
    struct remap_desc d = { .in = &l->in[0]->x,
                            .w = small.w,
                            .h = small.h,
                            .c = small.c,
                            .large_c = small.c,
                            .stride = down ? -s->stride : s->stride,
                            .gather = down,
                            .scale = s->scale,
                            .rows_back = l->rows_back };
    (void)b;
    return l->be->ops->remap->plan(l->be, &d, &l->out->x, l->plan, e);
}

static int forward(struct layer *l, const struct pass *p)
{
    return l->be->ops->remap->forward(l->plan, &p->context, l->in[0]->x.data, l->out->x.data);
}

static int backward(struct layer *l, const struct pass *p)
{
    return l->be->ops->remap->backward(l->plan, &p->context, l->out->g.data, l->in[0]->g.data, l->add[0]);
}

/* The sum of a block is its mean times its size. */
static int export(const struct layer *l, struct graph *g, struct err *e)
{
    const struct upsample *s = l->self;
    const int size = abs(s->stride);
    int x = graph_map(g, l, 0);
    (void)e;
    if (s->stride < 0) {
        x = graph_op(g, "AveragePool", x);
        graph_ints(g, "kernel_shape", 2, (int64_t[]){ size, size });
        graph_ints(g, "strides", 2, (int64_t[]){ size, size });
        graph_output(g, l, graph_scale(g, x, s->scale * size * size));
        return OK;
    }
    const real scales[] = { 1, 1, (real)size, (real)size };
    x = graph_op(g, "Resize", x, GRAPH_ABSENT, graph_reals(g, NULL, 1, (int64_t[]){ 4 }, scales));
    graph_text(g, "mode", "nearest");
    graph_text(g, "coordinate_transformation_mode", "asymmetric");
    graph_text(g, "nearest_mode", "floor");
    graph_output(g, l, graph_scale(g, x, s->scale));
    return OK;
}

const struct layer_ops layer_upsample = {
    .name = "upsample",
    .help = "blocks of equal pixels",
    .size = sizeof(struct upsample),
    .keys = keys,
    .examples = examples,
    .flags = LAYER_SPATIAL,
    .shape = shape,
    .build = build,
    .forward = forward,
    .backward = backward,
    .export = export,
};
