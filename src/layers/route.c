/* [route]: concatenates the outputs of earlier layers along the channels, or, as AlexeyAB's, one part of each
 * input's channels: part group_id of `groups` equal ones. */
#include "backend/ops/concat.h"
#include "net/graph.h"
#include "net/layer.h"
#include "core/mem.h"

struct route {
    struct list layers;
    int groups, group_id;
    struct buffer *pointers; /* host, nin of them: to the inputs or their gradients, set in each pass */
};

static const struct key keys[] = {
    REFS_KEY(route, layers, "layers to concatenate: -1 is the one before this, 4 the fifth of the net"),
    INT_KEY(route, groups, 1, 1, 1 << 20,
            "parts of equal length into which the channels of each input are cut"),
    INT_KEY(route, group_id, 0, 0, 1 << 20, "the part that is taken, from 0"),
    { 0 },
};

static const char *const examples[] = {
    "layers=-1",
    "layers=-1,-2",
    "layers=-2,-1,-2",
    "layers=-1\ngroups=2\ngroup_id=1",
    "layers=-2,-1\ngroups=4",
    NULL,
};

static int inputs(const struct layer *l, int *at, int capacity, struct err *e)
{
    const struct route *s = l->self;
    if (!s->layers.n)
        return layer_fail(l, e, "needs layers=: list the layers to concatenate, as in layers=-1,-4");
    if (s->layers.n > capacity)
        return layer_fail(l, e, "layers= has %d entries: expected at most %d", s->layers.n, capacity);
    for (int i = 0; i < s->layers.n; i++)
        if ((at[i] = layer_referred(l, "layers", &s->layers, i, e)) < 0) return at[i];
    return s->layers.n;
}

static int shape(struct layer *l, struct shape *out, struct err *e)
{
    const struct route *r = l->self;
    *out = l->in[0]->x.shape;
    out->c = 0;
    l->identity = l->inert = l->nin == 1 && r->groups == 1;
    if (r->group_id >= r->groups)
        return layer_fail(l, e, "group_id=%d: expected 0 to %d, with groups=%d", r->group_id, r->groups - 1,
                          r->groups);
    for (int i = 0; i < l->nin; i++) {
        struct shape s = l->in[i]->x.shape;
        if (s.c % r->groups) return layer_fail(l, e, "groups=%d does not divide %d channels", r->groups, s.c);
        if (s.h != out->h || s.w != out->w)
            return layer_fail(l, e, "inputs differ in size: %dx%d and %dx%d", out->w, out->h, s.w, s.h);
        if (__builtin_add_overflow(out->c, s.c / r->groups, &out->c))
            return layer_fail(l, e, "the inputs have more than 2^31 - 1 channels in all");
    }
    return OK;
}

static int build(struct layer *l, struct builder *b, struct err *e)
{
    struct route *s = l->self;
    const struct tensor **in = mem_alloc((size_t)l->nin, sizeof *in);
    s->pointers = builder_buffer(b, (size_t)l->nin * sizeof(void *), LIFE_HOST);
    int rc = in ? OK : layer_no_memory(l, e);
    for (int i = 0; i < l->nin && !rc; i++) in[i] = &l->in[i]->x;
    struct concat_desc d = { in, l->nin, s->groups, s->group_id, l->train, l->rows_back };
    if (!rc) rc = l->be->ops->concat->plan(l->be, &d, &l->out->x, l->plan, e);
    mem_free(in);
    return rc;
}

static int forward(struct layer *l, const struct pass *p)
{
    const struct route *s = l->self;
    const void **x = s->pointers->data;
    for (int i = 0; i < l->nin; i++) x[i] = l->in[i]->x.data;
    return l->be->ops->concat->forward(l->plan, &p->context, x, l->out->x.data);
}

static int backward(struct layer *l, const struct pass *p)
{
    const struct route *s = l->self;
    void **gx = s->pointers->data;
    for (int i = 0; i < l->nin; i++) gx[i] = l->in[i]->g.data;
    return l->be->ops->concat->backward(l->plan, &p->context, l->out->g.data, gx, l->add);
}

static int export(const struct layer *l, struct graph *g, struct err *e)
{
    const struct route *s = l->self;
    int *x = mem_alloc((size_t)l->nin, sizeof *x);
    if (!x) return layer_no_memory(l, e);
    for (int i = 0; i < l->nin; i++) {
        const int part = l->in[i]->x.shape.c / s->groups, from = part * s->group_id;
        x[i] = graph_map(g, l, i);
        if (s->groups > 1) x[i] = graph_channels(g, x[i], from, from + part);
    }
    int y = graph_node(g, "Concat", l->nin, x);
    graph_int(g, "axis", 1);
    graph_output(g, l, y);
    mem_free(x);
    return OK;
}

const struct layer_ops layer_route = {
    .name = "route",
    .help = "concatenates earlier layers along the channels",
    .size = sizeof(struct route),
    .keys = keys,
    .examples = examples,
    .inputs = inputs,
    .shape = shape,
    .build = build,
    .forward = forward,
    .backward = backward,
    .export = export,
};
