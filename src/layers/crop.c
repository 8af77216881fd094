/* [crop]: crops the input images: in training at one random place (mirrored or not, the colours shifted) for
 * the whole mini-batch, otherwise at the centre. Values become 2x - 1 unless noadjust is set. The shift is
 * that of Darknet's GPU builds; its CPU builds ignore the key. */
#include "net/graph.h"
#include "net/layer.h"
#include "core/rng.h"

struct crop_layer {
    int crop_height, crop_width, flip, noadjust;
    double angle, saturation, exposure, shift;
    struct buffer *in, *out; /* host: one image of the input, all of the output */
};

static const struct key keys[] = {
    INT_KEY(crop_layer, crop_height, 1, 1, 1 << 20, "rows of the output"),
    INT_KEY(crop_layer, crop_width, 1, 1, 1 << 20, "columns of the output"),
    INT_KEY(crop_layer, flip, 0, 0, 1, "1: mirror half of the mini-batches in training"),
    INT_KEY(crop_layer, noadjust, 0, 0, 1, "1: leave values as they are"),
    REAL_KEY(crop_layer, angle, 0, 0, 0, "must be 0: use angle= in [net]"),
    REAL_KEY(crop_layer, saturation, 1, 1, 1, "must be 1: use saturation= in [net]"),
    REAL_KEY(crop_layer, exposure, 1, 1, 1, "must be 1: use exposure= in [net]"),
    REAL_KEY(crop_layer, shift, 0, 0, 1,
             "training: each channel of a mini-batch is shifted by up to half of this, either way"),
    { 0 },
};

static const char *const examples[] = { "crop_height=3\ncrop_width=4\nflip=1",
                                        "crop_height=2\ncrop_width=2\nnoadjust=1\nshift=.4", NULL };

static int shape(struct layer *l, struct shape *out, struct err *e)
{
    const struct crop_layer *s = l->self;
    struct shape in = l->in[0]->x.shape;
    if (s->crop_height > in.h || s->crop_width > in.w)
        return layer_fail(l, e, "a crop of %dx%d is larger than the input of %dx%d", s->crop_width,
                          s->crop_height, in.w, in.h);
    *out = (struct shape){ in.n, in.c, s->crop_height, s->crop_width };
    return OK;
}

static int build(struct layer *l, struct builder *b, struct err *e)
{
    struct crop_layer *s = l->self;
    l->on_host = 1;
    s->in = builder_buffer(b, shape_row(l->in[0]->x.shape) * sizeof(real), LIFE_HOST);
    s->out = builder_buffer(b, shape_count(l->out->x.shape) * sizeof(real), LIFE_HOST);
    return l->be->ops->image(l->be, &l->out->x, 0, e);
}

/* What happens to all images of a mini-batch. */
struct move {
    int dy, dx, flip;
    double shift; /* how far colours may move */
    uint64_t key; /* of the random numbers: 0, 1 and 2 are dy, dx and flip, the others shift the channels */
};

static struct move draw(const struct crop_layer *s, int spare_y, int spare_x, uint64_t key)
{
    return (struct move){ .dy = (int)rng_below(key, 0, (uint64_t)spare_y + 1),
                          .dx = (int)rng_below(key, 1, (uint64_t)spare_x + 1),
                          .flip = s->flip && rng_bits(key, 2) >> 63,
                          .shift = s->shift,
                          .key = key };
}

static void crop_image(const struct crop_layer *s, struct shape in, const struct move *m, const real *x,
                       real *y)
{
    for (int c = 0; c < in.c; c++) {
        double moved = m->shift * (rng_uniform(m->key, 3 + (uint64_t)c) - .5);
        real scale = s->noadjust ? 1 : 2, shift = (real)(moved - (s->noadjust ? 0 : 1));
        for (int i = 0; i < s->crop_height; i++) {
            const real *row = x + ((size_t)c * (size_t)in.h + (size_t)(m->dy + i)) * (size_t)in.w;
            for (int j = 0; j < s->crop_width; j++)
                *y++ = scale * row[m->flip ? in.w - m->dx - j - 1 : m->dx + j] + shift;
        }
    }
}

static int forward(struct layer *l, const struct pass *p)
{
    struct crop_layer *s = l->self;
    struct shape in = l->in[0]->x.shape;
    int spare_y = in.h - s->crop_height, spare_x = in.w - s->crop_width;
    struct move m = { .dy = spare_y / 2, .dx = spare_x / 2 };
    if (l->train) m = draw(s, spare_y, spare_x, rng_key(p->seed, RNG_CROP, p->step));
    real *image = s->in->data, *y = s->out->data;
    for (int i = 0; i < in.n; i++) {
        TRY(l->be->ops->read(l->be, &l->in[0]->x, i, 1, image));
        crop_image(s, in, &m, image, y + (size_t)i * shape_row(l->out->x.shape));
    }
    return l->be->ops->write(l->be, &l->out->x, 0, in.n, y, 0);
}

static int export(const struct layer *l, struct graph *g, struct err *e)
{
    const struct crop_layer *s = l->self;
    const struct shape in = l->in[0]->x.shape, out = l->out->x.shape;
    const int64_t y = (in.h - out.h) / 2, x = (in.w - out.w) / 2;
    (void)e;
    int part = graph_op(g, "Slice", graph_map(g, l, 0), graph_indices(g, 2, (int64_t[]){ y, x }),
                        graph_indices(g, 2, (int64_t[]){ y + out.h, x + out.w }),
                        graph_indices(g, 2, (int64_t[]){ 2, 3 }));
    if (!s->noadjust) part = graph_op(g, "Sub", graph_scale(g, part, 2), graph_real(g, 1));
    graph_output(g, l, part);
    return OK;
}

const struct layer_ops layer_crop = {
    .name = "crop",
    .help = "crops the input: at random in training, at the centre otherwise",
    .size = sizeof(struct crop_layer),
    .keys = keys,
    .examples = examples,
    .flags = LAYER_SPATIAL | LAYER_NO_GRAD,
    .shape = shape,
    .build = build,
    .forward = forward,
    .export = export,
};
