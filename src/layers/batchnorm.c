/* [batchnorm]: batch normalisation as a layer of its own. In .weights: bias, scale, mean, variance
 * (AlexeyAB's order; pjreddie's has no bias there, never updates the layer and crashes on a CPU). */
#include "net/net.h"

struct batchnorm {
    struct norm_plan plan;
    struct act_plan move; /* adds the gradient to what other readers of the input left there */
    struct buffer *stats, *workspace;
    struct param *bias, *scale, *mean, *var;
    double bn_momentum;
};

static const char *const examples[] = { "", NULL };

static int shape(struct layer *l, struct shape *out, struct err *e)
{
    (void)e;
    *out = l->in[0]->x.shape;
    return OK;
}

static int build(struct layer *l, struct builder *b, struct err *e)
{
    struct batchnorm *s = l->self;
    int train = builder_train(b), first = builder_paired(b);
    struct norm_desc d = { .in = &l->in[0]->x,
                           .train = train,
                           .splits = first ? 2 : 1,
                           .rows_s1 = first ? first : builder_rows(b),
                           .rows_back = l->rows_back,
                           .act = ACT_LINEAR };
    TRY(l->be->ops->norm->plan(l->be, &d, &l->out->x, &s->plan, e));
    builder_scratch(b, s->plan.scratch_bytes);
    size_t c = (size_t)l->in[0]->x.shape.c;
    s->bias = builder_param(b, c, INIT_ZERO, 0, 0);
    s->scale = builder_param(b, c, INIT_ONE, 0, 0);
    s->mean = builder_param(b, c, INIT_ZERO, 0, PARAM_STATE);
    s->var = builder_param(b, c, INIT_ZERO, 0, PARAM_STATE | PARAM_VARIANCE);
    s->stats = builder_buffer(b, s->plan.stats_bytes, LIFE_PASS);
    s->workspace = builder_buffer(b, s->plan.workspace_bytes, LIFE_PASS);
    s->bn_momentum = builder_bn_momentum(b);
    if (!s->bias || !s->scale || !s->mean || !s->var || !s->stats || !s->workspace)
        return layer_no_memory(l, e);
    builder_keep_in(b, 0);
    if (!train || !l->add[0]) return OK;
    struct act_desc move = { &l->out->x, 1, l->rows_back, ACT_LINEAR };
    struct tensor same = { .shape = l->out->x.shape };
    TRY(l->be->ops->act->plan(l->be, &move, &same, &s->move, e));
    builder_scratch(b, s->move.scratch_bytes);
    return OK;
}

static int forward(struct layer *l, const struct pass *p)
{
    struct batchnorm *s = l->self;
    return p->be->ops->norm->forward(&s->plan, l->in[0]->x.data, NULL, param_w(s->scale), param_w(s->bias),
                                     param_w(s->mean), param_w(s->var), s->bn_momentum,
                                     p->train ? s->stats->data : NULL, p->train ? s->workspace->data : NULL,
                                     l->out->x.data, p->scratch);
}

static int backward(struct layer *l, const struct pass *p)
{
    struct batchnorm *s = l->self;
    void *gy = l->out->g.data, *gx = l->in[0]->g.data, *to = l->add[0] || !gx ? gy : gx;
    TRY(p->be->ops->norm->backward(&s->plan, l->in[0]->x.data, NULL, param_w(s->scale), s->stats->data,
                                   s->workspace->data, gy, to, NULL, param_g(s->scale), param_g(s->bias),
                                   p->add, p->scratch));
    return gx && l->add[0] ? p->be->ops->act->backward(&s->move, NULL, l->out->x.data, gy, gx, 1, p->scratch)
                           : OK;
}

static void destroy(struct layer *l)
{
    struct batchnorm *s = l->self;
    l->be->ops->norm->destroy(&s->plan);
    l->be->ops->act->destroy(&s->move);
}

const struct layer_ops layer_batchnorm = {
    .name = "batchnorm",
    .help = "batch normalisation",
    .size = sizeof(struct batchnorm),
    .examples = examples,
    .flags = LAYER_PARAMS,
    .shape = shape,
    .build = build,
    .forward = forward,
    .backward = backward,
    .destroy = destroy,
};
