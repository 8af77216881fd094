/* [activation]: an activation as a layer of its own. */
#include "backend/ops/act.h"
#include "net/layer.h"

struct activation {
    int activation;
    struct op_plan plan;
};

static const struct key keys[] = {
    WORD_KEY(activation, activation, ACT_LINEAR, act_names, "which one"),
    { 0 },
};

static const char *const examples[] = {
    "activation=relu",     "activation=relu6", "activation=leaky", "activation=relie",     "activation=ramp",
    "activation=logistic", "activation=loggy", "activation=tanh",  "activation=elu",       "activation=selu",
    "activation=gelu",     "activation=swish", "activation=mish",  "activation=hard_mish", "activation=plse",
    "activation=hardtan",  "activation=lhtan", "activation=stair", "activation=linear",    NULL,
};

static int shape(struct layer *l, struct shape *out, struct err *e)
{
    const struct activation *s = l->self;
    (void)e;
    *out = l->in[0]->x.shape;
    l->identity = s->activation == ACT_LINEAR;
    return OK;
}

static int build(struct layer *l, struct builder *b, struct err *e)
{
    struct activation *s = l->self;
    struct act_desc d = { &l->in[0]->x, l->train, l->rows_back, (enum act)s->activation };
    TRY(l->be->ops->act->plan(l->be, &d, &l->out->x, &s->plan, e));
    builder_scratch(b, s->plan.scratch_bytes);
    if (act_from_output(d.act))
        builder_keep_out(b);
    else
        builder_keep_in(b, 0);
    return OK;
}

static int forward(struct layer *l, const struct pass *p)
{
    struct activation *s = l->self;
    return p->be->ops->act->forward(&s->plan, &p->context, l->in[0]->x.data, l->out->x.data);
}

static int backward(struct layer *l, const struct pass *p)
{
    struct activation *s = l->self;
    int from_output = act_from_output((enum act)s->activation);
    return p->be->ops->act->backward(&s->plan, &p->context, from_output ? NULL : l->in[0]->x.data,
                                     from_output ? l->out->x.data : NULL, l->out->g.data, l->in[0]->g.data,
                                     l->add[0]);
}

static void destroy(struct layer *l) { op_destroy(&((struct activation *)l->self)->plan); }

const struct layer_ops layer_activation = {
    .name = "activation",
    .help = "activation as a layer of its own",
    .size = sizeof(struct activation),
    .keys = keys,
    .examples = examples,
    .shape = shape,
    .build = build,
    .forward = forward,
    .backward = backward,
    .destroy = destroy,
};
