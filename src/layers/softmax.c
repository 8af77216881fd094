/* [softmax]: probabilities, and with labels the cross-entropy and its gradient, smoothed by label_smooth_eps
 * of [net]. */
#include "backend/ops/softmax.h"
#include "net/config.h"
#include "net/graph.h"
#include "net/layer.h"

struct softmax {
    int groups, noloss, spatial;
    double temperature;
};

static const struct key keys[] = {
    INT_KEY(softmax, groups, 1, 1, 1 << 24, "independent groups of equal length"),
    REAL_KEY(softmax, temperature, 1, 1e-6, 1e6, "divides the inputs"),
    INT_KEY(softmax, noloss, 0, 0, 1, "1: probabilities only, nothing to train on"),
    INT_KEY(softmax, spatial, 0, 0, 0, "softmax per pixel: not supported"),
    { 0 },
};

static const char *const examples[] = { "", "temperature=2", "groups=2", "noloss=1\ntemperature=.5", NULL };

static int shape(struct layer *l, struct shape *out, struct err *e)
{
    const struct softmax *s = l->self;
    struct shape in = l->in[0]->x.shape;
    if (shape_row(in) % (size_t)s->groups)
        return layer_fail(l, e, "groups=%d must divide the %zu inputs", s->groups, shape_row(in));
    if (shape_row(in) == (size_t)s->groups)
        return layer_fail(l, e, "of one number is always 1, whatever the number: %s",
                          s->groups > 1 ? "lower groups=" : "the layer before needs two or more outputs");
    /* Without training the loss only tells how good the probabilities are. */
    l->noloss = l->train && s->noloss;
    *out = in;
    return OK;
}

/* A softmax in the middle of a net, or with noloss, is a plain layer. */
static int has_loss(const struct layer *l) { return l->last && !l->noloss; }

static int build(struct layer *l, struct builder *b, struct err *e)
{
    struct softmax *s = l->self;
    if (l->train && has_loss(l) && l->below == l->ops)
        return layer_fail(l, e,
                          "follows another [softmax], of whose probabilities it makes nearly equal ones "
                          "again: remove one of the two");
    /* Validation reports the cross-entropy without label smoothing. */
    double smooth = l->train ? builder_config(b)->label_smooth_eps : 0;
    struct softmax_desc d = { &l->in[0]->x, s->groups, s->temperature, smooth, l->rows_back };
    TRY(l->be->ops->softmax->plan(l->be, &d, &l->out->x, l->plan, e));
    builder_keep_out(b);
    if (has_loss(l)) l->loss_sum = builder_loss(b);
    return OK;
}

/* A softmax without a loss has no use for the labels. */
static struct op_context context_of(const struct layer *l, const struct pass *p)
{
    struct op_context c = p->context;
    if (!l->loss_sum) c.label = NULL;
    return c;
}

static int forward(struct layer *l, const struct pass *p)
{
    struct op_context context = context_of(l, p);
    return l->be->ops->softmax->forward(l->plan, &context, l->in[0]->x.data, l->out->x.data,
                                        l->loss_sum ? l->loss_sum->data : NULL);
}

static int backward(struct layer *l, const struct pass *p)
{
    struct op_context context = context_of(l, p);
    return l->be->ops->softmax->backward(l->plan, &context, l->out->x.data, l->out->g.data, l->in[0]->g.data,
                                         l->add[0]);
}

static int export(const struct layer *l, struct graph *g, struct err *e)
{
    const struct softmax *s = l->self;
    const int64_t n = (int64_t)shape_row(l->in[0]->x.shape);
    (void)e;
    int x = graph_scale(g, graph_row(g, l, 0), 1 / s->temperature);
    if (s->groups > 1) x = graph_reshape(g, x, 2, (int64_t[]){ s->groups, n / s->groups });
    x = graph_op(g, "Softmax", x);
    graph_int(g, "axis", -1);
    graph_output(g, l, s->groups > 1 ? graph_reshape(g, x, 1, &n) : x);
    return OK;
}

const struct layer_ops layer_softmax = {
    .name = "softmax",
    .alias = "soft",
    .help = "probabilities and cross-entropy",
    .size = sizeof(struct softmax),
    .keys = keys,
    .examples = examples,
    .flags = LAYER_LOSS,
    .shape = shape,
    .build = build,
    .forward = forward,
    .backward = backward,
    .export = export,
};
