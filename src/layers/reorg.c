/* [reorg]: of both Darknets. */
#include "net/graph.h"
#include "net/reorg.h"

static const char *const examples[] = { "[upsample]\n[reorg]\nstride=2", "stride=2\nreverse=1", NULL };

static int shape(struct layer *l, struct shape *out, struct err *e)
{
    return reorg_shape(l, out, &l->in[0]->x.shape, e);
}

static int build(struct layer *l, struct builder *b, struct err *e)
{
    (void)b;
    return reorg_build(l, l->in[0]->x.shape, e);
}

static int export(const struct layer *l, struct graph *g, struct err *e)
{
    return reorg_export(l, l->in[0]->x.shape, g, e);
}

const struct layer_ops layer_reorg = {
    .name = "reorg",
    .help = "pixels as channels, in the order of YOLOv2",
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
