/* [reorg3d]: AlexeyAB's. */
#include "net/graph.h"
#include "net/reorg.h"

static const char *const examples[] = {
    "[upsample]\n[reorg3d]\nstride=2",
    "[convolutional]\nfilters=16\nactivation=leaky\n[reorg3d]\nstride=2\nreverse=1", NULL
};

static int shape(struct layer *l, struct shape *out, struct err *e) { return reorg_shape(l, out, out, e); }

static int build(struct layer *l, struct builder *b, struct err *e)
{
    (void)b;
    return reorg_build(l, l->out->x.shape, e);
}

static int export(const struct layer *l, struct graph *g, struct err *e)
{
    return reorg_export(l, l->out->x.shape, g, e);
}

const struct layer_ops layer_reorg3d = {
    .name = "reorg3d",
    .help = "pixels as channels, block by block",
    .size = sizeof(struct reorg),
    .keys = reorg_keys,
    .examples = examples,
    .flags = LAYER_SPATIAL,
    .shape = shape,
    .build = build,
    .forward = reorg_forward,
    .backward = reorg_backward,
    .export = export,
};
