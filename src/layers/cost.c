/* [cost]: an error against the truth, on a linear output. The truth is one-hot, smoothed and mixed as for
 * [softmax]. After a [softmax], which has its own loss, it does nothing (the Darknets add a second gradient
 * there).
 *
 * Per element, with d = x - truth:
 *   sse     d^2 / 2                                  slope d (as in Darknet, which prints d^2)
 *   L1      |d|                                      slope sign(d)
 *   smooth  d^2 / 2 where |d| < 1, else |d| - 1/2    slope d, else sign(d)
 * Summed over the row, averaged over rows. */
#include <math.h>
#include "net/config.h"
#include "net/layer.h"

enum kind { SSE, L1, SMOOTH };
static const char *const kinds[] = { "sse", "L1", "smooth", NULL };

struct cost {
    int type;
    double scale;
    double on, off;       /* truth of the class, and of every other one: label_smooth_eps= */
    struct buffer *x, *g; /* host: rows x inputs */
};

static const struct key keys[] = {
    WORD_KEY(cost, type, SSE, kinds, "error measure"),
    REAL_KEY(cost, scale, 1, 0, 1e6, "factor of the loss and its gradient"),
    { 0 },
};

static const char *const examples[] = { "type=sse", "type=smooth\nscale=2", "type=L1", NULL };

/* The layer below is the net's output and has a loss of its own: [softmax]. */
static int output_has_loss(const struct layer *l)
{
    return l->below && (l->below->flags & (LAYER_LOSS | LAYER_TERMINAL)) == LAYER_LOSS;
}

static int shape(struct layer *l, struct shape *out, struct err *e)
{
    (void)e;
    *out = l->in[0]->x.shape;
    l->identity = 1;
    l->inert = output_has_loss(l);
    return OK;
}

static int build(struct layer *l, struct builder *b, struct err *e)
{
    (void)e;
    struct cost *s = l->self;
    const double k = (double)shape_row(l->in[0]->x.shape);
    const double smooth = l->train ? builder_config(b)->label_smooth_eps : 0;
    l->on_host = 1;
    s->on = 1 - smooth;
    s->off = k > 1 ? smooth / (k - 1) : 0;
    size_t bytes = shape_count(l->in[0]->x.shape) * sizeof(real);
    s->x = builder_buffer(b, bytes, LIFE_HOST);
    s->g = builder_buffer(b, bytes, LIFE_HOST);
    return OK;
}

static double error(enum kind kind, double d, double *slope)
{
    double a = fabs(d), sign = d > 0 ? 1 : d < 0 ? -1 : 0;
    switch (kind) {
    case SSE: *slope = d; return d * d / 2;
    case L1: *slope = sign; return a;
    case SMOOTH: break;
    }
    *slope = a < 1 ? d : sign;
    return a < 1 ? d * d / 2 : a - .5;
}

static int forward(struct layer *l, const struct pass *p)
{
    struct cost *s = l->self;
    if (!p->label) return OK;
    size_t n = shape_row(l->in[0]->x.shape);
    real *x = s->x->data, *g = s->g->data;
    TRY(l->be->ops->read(l->be, &l->in[0]->x, 0, p->context.scored, x));
    double sum = 0;
    for (size_t i = 0; i < (size_t)p->context.scored * n; i++) {
        const int k = (int)(i % n);
        double truth = k == p->label[i / n] ? s->on : s->off, slope;
        if (p->mixed) truth = mixed_truth(&p->mixed[i / n], k, s->on, s->off);
        sum += error((enum kind)s->type, (double)x[i] - truth, &slope);
        g[i] = (real)(s->scale * slope / p->context.scored_all);
    }
    l->loss = s->scale * sum / p->context.scored_all;
    return OK;
}

static int backward(struct layer *l, const struct pass *p)
{
    struct cost *s = l->self;
    real *g = s->g->data;
    size_t n = shape_row(l->in[0]->x.shape);
    for (size_t i = (size_t)p->context.scored * n; i < (size_t)l->rows_back * n; i++) g[i] = 0;
    return l->be->ops->write(l->be, &l->in[0]->g, 0, l->rows_back, g, l->add[0]);
}

const struct layer_ops layer_cost = {
    .name = "cost",
    .help = "squared, absolute or smooth error of a linear output; nothing after [softmax]",
    .size = sizeof(struct cost),
    .keys = keys,
    .examples = examples,
    .flags = LAYER_LOSS | LAYER_TERMINAL,
    .shape = shape,
    .build = build,
    .forward = forward,
    .backward = backward,
};
