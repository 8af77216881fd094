/* [center]: center loss (Wen, Zhang, Li, Qiao, ECCV 2016): lambda/(2m) sum |h - c_y|^2 over the m scored
 * rows, and its gradient lambda (h - c_y)/m. Centers start at 0 and move once per optimiser step, over the
 * whole batch: c_j -= alpha sum_{rows of class j} (c_j - h) / (1 + n_j). Training only; the centers are in
 * the training state, not in .weights. The maths below, or the backend's where it has some (center_ops):
 * nothing comes to the host then. */
#include "net/net.h"

struct center {
    double lambda, alpha, warmup;
    struct param *centers;            /* classes x d */
    struct param *sum, *count;        /* of this step's sub-mini-batches, by class: sum of (c - h), rows */
    struct center_plan plan;          /* on the device */
    struct buffer *h, *g, *c, *s, *n; /* on the host: features, gradient, and the three params */
};

static const struct key keys[] = {
    REAL_KEY(center, lambda, 0.1, 0, 1e6, "weight of the loss; 0: training as without the section"),
    REAL_KEY(center, alpha, 0.5, 0, 1, "pace of the centers"),
    WARMUP_KEY(center, 0),
    { 0 },
};

static const char *const examples[] = { "lambda=0.3", "lambda=2\nalpha=0.3\nwarmup=4", NULL };

static int shape(struct layer *l, struct shape *out, struct err *e)
{
    const struct center *s = l->self;
    (void)e;
    *out = l->in[0]->x.shape;
    l->identity = 1;
    l->inert = !l->train || s->lambda == 0;
    return OK;
}

static int build_device(struct layer *l, struct builder *b, struct err *e)
{
    struct center *s = l->self;
    struct center_desc d = { .in = &l->in[0]->x,
                             .classes = l->classes,
                             .rows_back = l->rows_back,
                             .lambda = s->lambda,
                             .warmup = s->warmup,
                             .alpha = s->alpha };
    TRY(l->be->ops->center->plan(l->be, &d, &s->plan, e));
    builder_scratch(b, s->plan.scratch_bytes);
    builder_keep_in(b, 0);
    l->loss_sum = builder_loss(b);
    return l->loss_sum ? OK : E_MEM;
}

static int build_host(struct layer *l, struct builder *b)
{
    struct center *s = l->self;
    size_t d = shape_row(l->in[0]->x.shape), k = (size_t)l->classes, rows = (size_t)l->in[0]->x.shape.n;
    l->on_host = 1;
    s->h = builder_buffer(b, rows * d * sizeof(real), LIFE_HOST);
    s->g = builder_buffer(b, rows * d * sizeof(real), LIFE_HOST);
    s->c = builder_buffer(b, k * d * sizeof(real), LIFE_HOST);
    s->s = builder_buffer(b, k * d * sizeof(real), LIFE_HOST);
    s->n = builder_buffer(b, k * sizeof(real), LIFE_HOST);
    return s->h && s->g && s->c && s->s && s->n ? OK : E_MEM;
}

static int build(struct layer *l, struct builder *b, struct err *e)
{
    struct center *s = l->self;
    size_t d = shape_row(l->in[0]->x.shape), k = (size_t)l->classes;
    unsigned flags = PARAM_STATE | PARAM_UNSAVED;
    s->centers = builder_param(b, k * d, INIT_ZERO, 0, flags);
    s->sum = builder_param(b, k * d, INIT_ZERO, 0, flags);
    s->count = builder_param(b, k, INIT_ZERO, 0, flags);
    int rc = s->centers && s->sum && s->count ? OK : E_MEM;
    if (!rc) rc = l->be->ops->center ? build_device(l, b, e) : build_host(l, b);
    return rc == E_MEM ? layer_no_memory(l, e) : rc;
}

/* The step before ended: its sums move the centers. (Moving them late keeps everything about a step in its
 * state.) */
static void move(const struct center *s, size_t k, size_t d)
{
    real *c = s->c->data, *sum = s->s->data, *n = s->n->data;
    for (size_t j = 0; j < k; j++) {
        for (size_t t = 0; t < d; t++) {
            c[j * d + t] -= (real)(s->alpha * (double)sum[j * d + t] / (1 + (double)n[j]));
            sum[j * d + t] = 0;
        }
        n[j] = 0;
    }
}

/* Loss before lambda; g gets its gradient, sums and counts go on. */
static double measure(struct center *s, const struct pass *p, double lambda, size_t d)
{
    const real *h = s->h->data;
    real *c = s->c->data, *sum = s->s->data, *n = s->n->data, *g = s->g->data;
    double loss = 0;
    for (size_t i = 0; i < (size_t)p->scored; i++) {
        size_t j = (size_t)p->label[i];
        n[j] += 1;
        for (size_t t = 0; t < d; t++) {
            double z = (double)h[i * d + t] - (double)c[j * d + t];
            loss += z * z;
            sum[j * d + t] -= (real)z;
            g[i * d + t] = (real)(lambda * z / p->scored);
        }
    }
    return loss / (2.0 * p->scored);
}

static double weigh(const struct layer *l, const struct pass *p)
{
    const struct center *s = l->self;
    return s->lambda * layer_warmup(l, p, s->warmup);
}

static int forward_host(struct layer *l, const struct pass *p)
{
    struct center *s = l->self;
    size_t d = shape_row(l->in[0]->x.shape), k = (size_t)l->classes;
    TRY(param_get(s->centers, s->c->data));
    TRY(param_get(s->sum, s->s->data));
    TRY(param_get(s->count, s->n->data));
    if (!p->add && !p->reuse_detached) move(s, k, d);
    TRY(p->be->ops->read(p->be, &l->in[0]->x, 0, p->scored, s->h->data));
    l->loss = measure(s, p, l->weight, d);
    if (p->reuse_detached) return OK;
    TRY(param_set(s->centers, s->c->data));
    TRY(param_set(s->sum, s->s->data));
    return param_set(s->count, s->n->data);
}

static struct center_state state_of(const struct center *s)
{
    return (struct center_state){ param_w(s->centers), param_w(s->sum), param_w(s->count) };
}

static int forward(struct layer *l, const struct pass *p)
{
    const struct center *s = l->self;
    l->weight = weigh(l, p);
    if (!p->be->ops->center) return forward_host(l, p);
    struct center_state state = state_of(s);
    return p->be->ops->center->forward(&s->plan, l->in[0]->x.data, p->dev_label, p->scored,
                                       !p->add && !p->reuse_detached, p->reuse_detached, &state,
                                       l->loss_sum->data, p->scratch);
}

static int backward_host(struct layer *l, const struct pass *p)
{
    struct center *s = l->self;
    size_t d = shape_row(l->in[0]->x.shape);
    real *g = s->g->data;
    for (size_t i = (size_t)p->scored * d; i < (size_t)l->rows_back * d; i++) g[i] = 0;
    return p->be->ops->write(p->be, &l->in[0]->g, 0, l->rows_back, g, l->add[0]);
}

static int backward(struct layer *l, const struct pass *p)
{
    const struct center *s = l->self;
    const struct value *in = l->in[0];
    if (!p->be->ops->center) return backward_host(l, p);
    struct center_state state = state_of(s);
    return p->be->ops->center->backward(&s->plan, p->now, in->x.data, p->dev_label, p->scored, &state,
                                        in->g.data, l->add[0]);
}

static void destroy(struct layer *l)
{
    struct center *s = l->self;
    if (l->be->ops->center) l->be->ops->center->destroy(&s->plan);
}

const struct layer_ops layer_center = {
    .name = "center",
    .help = "pulls the features of a class to their center (training only)",
    .size = sizeof(struct center),
    .keys = keys,
    .strict = 1,
    .examples = examples,
    .flags = LAYER_LOSS | LAYER_TRAIN_ONLY,
    .shape = shape,
    .build = build,
    .forward = forward,
    .backward = backward,
    .destroy = destroy,
    .weigh = weigh,
};
