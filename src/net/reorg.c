#include "reorg.h"
#include "backend/ops/remap.h"
#include "core/mem.h"
#include "net/graph.h"

const struct key reorg_keys[] = {
    INT_KEY(reorg, stride, 1, 1, 1 << 12, "height and width of the blocks of pixels that become channels"),
    INT_KEY(reorg, reverse, 0, 0, 1, "1: channels become pixels"),
    { 0 },
};

static int too_large(const struct layer *l, struct err *e)
{
    const struct reorg *s = l->self;
    return layer_fail(l, e, "stride=%d makes a map of more than 2^31 - 1 rows, columns or channels",
                      s->stride);
}

int reorg_shape(struct layer *l, struct shape *out, const struct shape *small, struct err *e)
{
    const struct reorg *s = l->self;
    struct shape in = l->in[0]->x.shape;
    int block = s->stride * s->stride;
    *out = in;
    if (s->reverse) {
        if (in.c % block)
            return layer_fail(l, e, "stride=%d: %d channels are not a multiple of %d", s->stride, in.c,
                              block);
        out->c /= block;
        if (__builtin_mul_overflow(in.h, s->stride, &out->h) ||
            __builtin_mul_overflow(in.w, s->stride, &out->w))
            return too_large(l, e);
    } else {
        if (in.h % s->stride || in.w % s->stride)
            return layer_fail(l, e, "stride=%d: the map %dx%d cannot be cut into blocks of %dx%d", s->stride,
                              in.w, in.h, s->stride, s->stride);
        out->h /= s->stride;
        out->w /= s->stride;
        if (__builtin_mul_overflow(in.c, block, &out->c)) return too_large(l, e);
    }
    if (small->c % block)
        return layer_fail(l, e,
                          "stride=%d: Darknet's order is defined for a multiple of %d channels, not for %d",
                          s->stride, block, small->c);
    return OK;
}

static struct remap_desc describe(const struct layer *l, struct shape small)
{
    const struct reorg *s = l->self;
    int block = s->stride * s->stride;
    return (struct remap_desc){ .in = &l->in[0]->x,
                                .w = small.w,
                                .h = small.h,
                                .c = small.c,
                                .large_c = small.c / block,
                                .stride = s->stride,
                                .gather = !s->reverse,
                                .scale = 1,
                                .rows_back = l->rows_back };
}

/* A map of indices: of a row, for each number of the output its place in the input. */
int reorg_export(const struct layer *l, struct shape small, struct graph *g, struct err *e)
{
    const struct remap_desc d = describe(l, small);
    const struct shape out = l->out->x.shape;
    const int n = (int)shape_row(out);
    int64_t *from = mem_alloc((size_t)n, sizeof *from);
    if (!from) return layer_no_memory(l, e);
    for (uint32_t i = 0; i < (uint32_t)n; i++)
        from[i] = d.gather ? remap_large(&d, i, 0) : remap_small(&d, i);
    int y = graph_op(g, "Gather", graph_row(g, l, 0), graph_indices(g, n, from));
    graph_int(g, "axis", 1);
    mem_free(from);
    graph_output(g, l, graph_reshape(g, y, 3, (int64_t[]){ out.c, out.h, out.w }));
    return OK;
}

int reorg_build(struct layer *l, struct shape small, struct err *e)
{
    struct remap_desc d = describe(l, small);
    return l->be->ops->remap->plan(l->be, &d, &l->out->x, l->plan, e);
}

int reorg_forward(struct layer *l, const struct pass *p)
{
    return l->be->ops->remap->forward(l->plan, &p->context, l->in[0]->x.data, l->out->x.data);
}

int reorg_backward(struct layer *l, const struct pass *p)
{
    return l->be->ops->remap->backward(l->plan, &p->context, l->out->g.data, l->in[0]->g.data, l->add[0]);
}
