/* [shortcut]: adds the output of an earlier layer to the previous one's, by pjreddie's rules where shapes
 * differ; or, as in AlexeyAB's Darknet, those of several layers of equal height and width, with learnt
 * weights. In .weights come those of the previous layer, then those of each of `from`. AlexeyAB leaves the
 * normalisation out of their gradient and, with softmax, adds 1e-4 to a sum that is at least 1; here the sum
 * and the gradient are exact. */
#include "backend/ops/add.h"
#include "backend/ops/mix.h"
#include "core/mem.h"
#include "net/activate.h"
#include "net/graph.h"

enum { ADD, MIX = ADD, ACTIVATION }; /* plans */

struct shortcut {
    struct list from;
    double alpha, beta;
    int activation, weights_type, weights_normalization;
    struct activate activate;
    struct param *weights;
    struct buffer *copy;     /* inference: the weights in backend memory */
    struct buffer *pointers; /* host, two of nin: the inputs, and their gradients */
};

/* PER_FEATURE and PER_LAYER are the same, as are RELU and AVG_RELU below. */
enum weights_type { NO_WEIGHTS, PER_FEATURE, PER_LAYER, PER_CHANNEL };
static const char *const type_words[] = { "none", "per_feature", "per_layer", "per_channel", NULL };
enum { NONE, RELU, AVG_RELU, SOFTMAX };
static const char *const normalization_words[] = { "none", "relu", "avg_relu", "softmax", NULL };

static const struct key keys[] = {
    REFS_KEY(shortcut, from, "layers to add: -1 is the one before this, 4 the fifth of the net"),
    REAL_KEY(shortcut, alpha, 1, -1e6, 1e6, "factor of the previous layer"),
    REAL_KEY(shortcut, beta, 1, -1e6, 1e6, "factor of the added layer"),
    WORD_KEY(shortcut, activation, ACT_LINEAR, act_names, "activation of the sum"),
    WORD_KEY(shortcut, weights_type, NO_WEIGHTS, type_words,
             "learnt weights: one for each layer, or one for each of its channels"),
    WORD_KEY(shortcut, weights_normalization, NONE, normalization_words,
             "makes the weights of the layers add up to 1"),
    { 0 },
};

static const char *const examples[] = {
    "from=-2\nactivation=relu",
    "from=-2\nactivation=linear",
    "from=-2\nactivation=mish",
    "from=-2\nalpha=.5\nbeta=2\nactivation=leaky",
    "[convolutional]\nfilters=6\nactivation=leaky\n[shortcut]\nfrom=-2,-3\nactivation=mish",
    "from=-2\nweights_type=per_feature\nactivation=leaky",
    "from=-2,-1\nweights_type=per_channel\nweights_normalization=relu",
    "[convolutional]\nfilters=6\nactivation=leaky\n[shortcut]\nfrom=-2,-3\nweights_type=per_feature\n"
    "weights_normalization=softmax\nactivation=swish",
    NULL,
};

static int mixes(const struct shortcut *s) { return s->from.n > 1 || s->weights_type != NO_WEIGHTS; }

static int inputs(const struct layer *l, int *at, int capacity, struct err *e)
{
    const struct shortcut *s = l->self;
    int most = capacity < MIX_MOST ? capacity : MIX_MOST;
    if (!s->from.n) return layer_fail(l, e, "needs from= with a layer, as in from=-3");
    if (s->from.n >= most)
        return layer_fail(l, e, "from= has %d layers: expected at most %d", s->from.n, most - 1);
    at[0] = l->index - 1;
    for (int i = 0; i < s->from.n; i++)
        if ((at[i + 1] = layer_referred(l, "from", &s->from, i, e)) < 0) return at[i + 1];
    if (!mixes(s) && at[1] == at[0])
        return layer_fail(l, e, "from= adds the previous layer to itself: name an earlier one");
    return s->from.n + 1;
}

static int shape_of_mix(struct layer *l, struct shape a, struct err *e)
{
    const struct shortcut *s = l->self;
    l->learns = s->weights_type != NO_WEIGHTS;
    if (s->alpha != 1 || s->beta != 1)
        return layer_fail(l, e, "alpha= and beta= are for a sum of two layers without weights");
    for (int i = 1; i < l->nin; i++) {
        struct shape b = l->in[i]->x.shape;
        if (b.h != a.h || b.w != a.w)
            return layer_fail(l, e, "inputs differ in size: %dx%d and %dx%d", a.w, a.h, b.w, b.h);
    }
    return OK;
}

static int shape(struct layer *l, struct shape *out, struct err *e)
{
    struct shape a = l->in[0]->x.shape, b = l->in[1]->x.shape;
    int up, down;
    *out = a;
    if (mixes(l->self)) return shape_of_mix(l, a, e);
    if (!add_factors(a, b, &up, &down))
        return layer_fail(
            l, e, "cannot add a map of %dx%d to one of %dx%d: one size must be a whole multiple of the other",
            b.w, b.h, a.w, a.h);
    return OK;
}

static int sum(const struct layer *l)
{
    const struct shortcut *s = l->self;
    struct shape a = l->in[0]->x.shape, b = l->in[1]->x.shape;
    int plain = !mixes(s) && s->alpha == 1 && s->beta == 1 && a.c == b.c && a.h == b.h && a.w == b.w;
    return plain ? s->activation : -1;
}

static struct mix_desc describe_mix(const struct layer *l)
{
    static const enum mix_norm norms[] = { MIX_PLAIN, MIX_RELU, MIX_RELU, MIX_SOFTMAX };
    const struct shortcut *s = l->self;
    struct mix_desc d = {
        .nin = l->nin,
        .weights = s->weights_type == PER_CHANNEL ? l->out->x.shape.c : s->weights_type != NO_WEIGHTS,
        .norm = norms[s->weights_normalization],
        .act = act_from_output((enum act)s->activation) ? (enum act)s->activation : ACT_LINEAR,
        .train = l->train,
        .rows_back = l->rows_back
    };
    for (int i = 0; i < l->nin; i++) {
        d.in[i] = &l->in[i]->x;
        d.add[i] = l->add[i];
    }
    return d;
}

static int build_mix(struct layer *l, struct builder *b, struct err *e)
{
    struct shortcut *s = l->self;
    enum act act = (enum act)s->activation;
    int from_output = act_from_output(act);
    const struct mix_desc d = describe_mix(l);
    const int weights = d.weights;
    size_t count = (size_t)l->nin * (size_t)weights;
    for (int i = 0; i < l->nin && weights; i++) builder_keep_in(b, i);
    s->pointers = builder_buffer(b, 2 * (size_t)l->nin * sizeof(void *), LIFE_HOST);
    if (weights) s->weights = builder_param(b, count, INIT_ONE, 0, 0);
    if (weights && !l->train) s->copy = builder_buffer(b, count * sizeof(real), LIFE_PROGRAM);
    s->activate.act = act;
    TRY(l->be->ops->mix->plan(l->be, &d, activate_input(&s->activate, l), &l->plan[MIX], e));
    return activate_build(&s->activate, l, b, &l->plan[ACTIVATION], from_output, e);
}

/* Nets opened for inference alone have no parameters in backend memory. */
static int refresh(struct layer *l, struct err *e)
{
    struct shortcut *s = l->self;
    if (!s->copy) return OK;
    real *host = mem_alloc(s->copy->bytes, 1);
    int rc = host ? param_get(s->weights, host) : layer_no_memory(l, e);
    if (!rc) rc = l->be->ops->upload(l->be, s->copy->data, host, s->copy->bytes);
    mem_free(host);
    return rc;
}

static int build(struct layer *l, struct builder *b, struct err *e)
{
    struct shortcut *s = l->self;
    enum act act = (enum act)s->activation;
    int from_output = act_from_output(act);
    if (mixes(s)) return build_mix(l, b, e);
    struct add_desc d = { .a = &l->in[0]->x,
                          .b = &l->in[1]->x,
                          .alpha = s->alpha,
                          .beta = s->beta,
                          .act = from_output ? act : ACT_LINEAR,
                          .train = l->train,
                          .rows_back = l->rows_back,
                          .add_a = l->add[0],
                          .add_b = l->add[1] };
    s->activate.act = act;
    TRY(l->be->ops->add->plan(l->be, &d, activate_input(&s->activate, l), &l->plan[ADD], e));
    return activate_build(&s->activate, l, b, &l->plan[ACTIVATION], from_output && l->plan[ADD].fused, e);
}

/* The weights, or NULL. */
static real *weights(const struct shortcut *s)
{
    return s->copy ? s->copy->data : s->weights ? param_w(s->weights) : NULL;
}

static int forward(struct layer *l, const struct pass *p)
{
    const struct shortcut *s = l->self;
    void *y = activate_memory(&s->activate, l);
    if (mixes(s)) {
        const void **x = s->pointers->data;
        for (int i = 0; i < l->nin; i++) x[i] = l->in[i]->x.data;
        TRY(l->be->ops->mix->forward(&l->plan[MIX], &p->context, x, weights(s), y));
    } else {
        TRY(l->be->ops->add->forward(&l->plan[ADD], &p->context, l->in[0]->x.data, l->in[1]->x.data, y));
    }
    return activate_forward(&s->activate, l, p);
}

static int backward(struct layer *l, const struct pass *p)
{
    const struct shortcut *s = l->self;
    void *y = l->out->x.data, *gy = l->out->g.data;
    TRY(activate_backward(&s->activate, l, p));
    if (!mixes(s))
        return l->be->ops->add->backward(&l->plan[ADD], &p->context, y, gy, l->in[0]->g.data,
                                         l->in[1]->g.data);
    void **x = s->pointers->data, **gx = x + l->nin;
    for (int i = 0; i < l->nin; i++) {
        x[i] = l->in[i]->x.data;
        gx[i] = l->in[i]->g.data;
    }
    return l->be->ops->mix->backward(&l->plan[MIX], &p->context, (const void *const *)x, weights(s), y, gy,
                                     gx, s->weights ? param_g(s->weights) : NULL);
}

/* A map with as many channels as `want`: those behind are left out, or 0. */
static int fit_channels(struct graph *g, int map, int have, int want)
{
    if (have == want) return map;
    if (have > want) return graph_channels(g, map, 0, want);
    const int64_t pads[] = { 0, 0, 0, 0, 0, want - have, 0, 0 };
    return graph_op(g, "Pad", map, graph_indices(g, 8, pads));
}

/* Pixel (y, x) of b meets pixel (y up, x up) of a larger a, or pixel (y down, x down) that of a smaller one.
 */
static int fit_pixels(struct graph *g, int map, int c, int up, int down)
{
    if (down > 1)
        return graph_op(g, "Slice", map, graph_indices(g, 2, (int64_t[]){ 0, 0 }),
                        graph_indices(g, 2, (int64_t[]){ INT32_MAX, INT32_MAX }),
                        graph_indices(g, 2, (int64_t[]){ 2, 3 }),
                        graph_indices(g, 2, (int64_t[]){ down, down }));
    if (up == 1) return map;
    real *ones = mem_alloc((size_t)c, sizeof *ones);
    g->failed |= !ones;
    for (int i = 0; ones && i < c; i++) ones[i] = 1;
    int kernel = ones ? graph_reals(g, NULL, 4, (int64_t[]){ c, 1, 1, 1 }, ones) : 0;
    mem_free(ones);
    map = graph_op(g, "ConvTranspose", map, kernel);
    graph_ints(g, "strides", 2, (int64_t[]){ up, up });
    graph_ints(g, "output_padding", 2, (int64_t[]){ up - 1, up - 1 });
    graph_int(g, "group", c);
    return map;
}

/* alpha holds only where there is a b to add. */
static int scale_meeting(struct graph *g, int map, struct shape a, int channels, int up, double alpha)
{
    if (alpha == 1 || (channels >= a.c && up == 1)) return graph_scale(g, map, alpha);
    real *factor = mem_alloc(shape_row(a), sizeof *factor), *f = factor;
    g->failed |= !factor;
    for (int c = 0; factor && c < a.c; c++)
        for (int y = 0; y < a.h; y++)
            for (int x = 0; x < a.w; x++) *f++ = c < channels && y % up == 0 && x % up == 0 ? (real)alpha : 1;
    int k = factor ? graph_reals(g, NULL, 3, (int64_t[]){ a.c, a.h, a.w }, factor) : 0;
    mem_free(factor);
    return graph_op(g, "Mul", map, k);
}

static int export_sum(const struct layer *l, struct graph *g)
{
    const struct shortcut *s = l->self;
    const struct shape a = l->in[0]->x.shape, b = l->in[1]->x.shape;
    int up, down;
    add_factors(a, b, &up, &down);
    int x = scale_meeting(g, graph_map(g, l, 0), a, b.c, up, s->alpha);
    int y = fit_pixels(g, fit_channels(g, graph_map(g, l, 1), b.c, a.c), a.c, up, down);
    return graph_op(g, "Add", x, graph_scale(g, y, s->beta));
}

/* w: the learnt weights, or NULL. */
static int export_mix(const struct layer *l, struct graph *g, const real *w, real *factor)
{
    const int c = l->out->x.shape.c;
    const struct mix_desc d = describe_mix(l);
    int sum = 0;
    for (int k = 0; k < l->nin; k++) {
        int x = fit_channels(g, graph_map(g, l, k), l->in[k]->x.shape.c, c);
        for (int i = 0; w && i < c; i++) factor[i] = mix_factor(&d, w, k, i);
        if (w) x = graph_op(g, "Mul", x, graph_reals(g, NULL, 3, (int64_t[]){ c, 1, 1 }, factor));
        sum = k ? graph_op(g, "Add", sum, x) : x;
    }
    return sum;
}

static int export(const struct layer *l, struct graph *g, struct err *e)
{
    const struct shortcut *s = l->self;
    real *w = NULL, *factor = mem_alloc((size_t)l->out->x.shape.c, sizeof *factor);
    int rc = factor ? OK : layer_no_memory(l, e);
    if (!rc && s->copy)
        rc = (w = mem_alloc(s->copy->bytes, 1)) ? param_get(s->weights, w) : layer_no_memory(l, e);
    if (!rc) {
        int y = mixes(s) ? export_mix(l, g, w, factor) : export_sum(l, g);
        graph_output(g, l, graph_activation(g, y, (enum act)s->activation));
    }
    mem_free(w);
    mem_free(factor);
    return rc;
}

const struct layer_ops layer_shortcut = {
    .name = "shortcut",
    .help = "adds earlier layers",
    .size = sizeof(struct shortcut),
    .keys = keys,
    .examples = examples,
    .inputs = inputs,
    .shape = shape,
    .build = build,
    .refresh = refresh,
    .forward = forward,
    .backward = backward,
    .sum = sum,
    .export = export,
};
