/* [center]: center loss (Wen, Zhang, Li, Qiao, ECCV 2016): lambda/(2m) sum |h - c_y|^2 over the m scored
 * rows, and its gradient lambda (h - c_y)/m. Centers start at 0 and move once per optimiser step, over the
 * whole batch: c_j -= alpha sum_{rows of class j} (c_j - h) / (1 + n_j). Training only; the centers are in
 * the training state, not in .weights. */
#include "backend/ops/center.h"
#include "net/layer.h"

struct center {
    double lambda, alpha, warmup;
    struct param *centers;     /* classes x d */
    struct param *sum, *count; /* of this step's sub-mini-batches, by class: sum of (c - h), rows */
};

static const struct key keys[] = {
    REAL_KEY(center, lambda, 0.1, 0, 1e6, "weight of the loss; 0: training as without the section"),
    REAL_KEY(center, alpha, 0.5, 0, 1, "rate at which the centers move"),
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

static int build(struct layer *l, struct builder *b, struct err *e)
{
    struct center *s = l->self;
    const struct tensor *in = &l->in[0]->x;
    size_t classes = (size_t)l->classes, d = shape_row(in->shape);
    unsigned flags = PARAM_STATE | PARAM_UNSAVED;
    struct center_desc desc = {
        in, l->classes, l->rows_back, s->lambda, s->warmup, s->alpha, layer_joined(l)
    };
    s->centers = builder_param(b, classes * d, INIT_ZERO, 0, flags);
    s->sum = builder_param(b, classes * d, INIT_ZERO, 0, flags);
    s->count = builder_param(b, classes, INIT_ZERO, 0, flags);
    l->loss_sum = builder_loss(b);
    builder_keep_in(b, 0);
    return l->be->ops->center->plan(l->be, &desc, l->plan, e);
}

static struct center_state state_of(const struct center *s)
{
    return (struct center_state){ param_w(s->centers), param_w(s->sum), param_w(s->count) };
}

static double weigh(const struct layer *l, const struct pass *p)
{
    const struct center *s = l->self;
    return s->lambda * layer_warmup(l, p, s->warmup);
}

/* The sums of a step move the centers at the beginning of the next one: everything about a step is then in
 * its state. */
static int forward(struct layer *l, const struct pass *p)
{
    const struct center *s = l->self;
    struct center_state state = state_of(s);
    return l->be->ops->center->forward(l->plan, &p->context, l->in[0]->x.data, &state, l->loss_sum->data);
}

static int backward(struct layer *l, const struct pass *p)
{
    const struct center *s = l->self;
    struct center_state state = state_of(s);
    return l->be->ops->center->backward(l->plan, &p->context, l->in[0]->x.data, &state, l->in[0]->g.data,
                                        l->add[0]);
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
    .weigh = weigh,
};
