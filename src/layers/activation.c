/* [activation]: an activation function as a layer of its own. */
#include "backend/ops/act.h"
#include "net/graph.h"
#include "net/layer.h"

struct activation {
    int activation;
};

static const struct key keys[] = {
    WORD_KEY(activation, activation, ACT_LINEAR, act_names, "name of the activation"),
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
    TRY(l->be->ops->act->plan(l->be, &d, &l->out->x, l->plan, e));
    if (act_from_output(d.act))
        builder_keep_out(b);
    else
        builder_keep_in(b, 0);
    return OK;
}

static int forward(struct layer *l, const struct pass *p)
{
    return l->be->ops->act->forward(l->plan, &p->context, l->in[0]->x.data, l->out->x.data);
}

static int backward(struct layer *l, const struct pass *p)
{
    return l->be->ops->act->backward(l->plan, &p->context, l->in[0]->x.data, l->out->x.data, l->out->g.data,
                                     l->in[0]->g.data, l->add[0]);
}

static int export(const struct layer *l, struct graph *g, struct err *e)
{
    const struct activation *s = l->self;
    (void)e;
    graph_output(g, l, graph_activation(g, graph_any(g, l, 0), (enum act)s->activation));
    return OK;
}

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
    .export = export,
};
