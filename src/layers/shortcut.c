/* [shortcut]: adds the output of an earlier layer to the previous one's, by pjreddie's rules where shapes
 * differ. */
#include "backend/ops/add.h"
#include "net/activate.h"

enum { ADD, ACTIVATION }; /* plans */

struct shortcut {
    struct list from;
    double alpha, beta;
    int activation;
    struct activate activate;
};

static const struct key keys[] = {
    REFS_KEY(shortcut, from, "layer to add: -1 is the one before this, 4 the fifth of the net"),
    REAL_KEY(shortcut, alpha, 1, -1e6, 1e6, "factor of the previous layer"),
    REAL_KEY(shortcut, beta, 1, -1e6, 1e6, "factor of the added layer"),
    WORD_KEY(shortcut, activation, ACT_LINEAR, act_names, "activation of the sum"),
    { 0 },
};

static const char *const examples[] = {
    "from=-2\nactivation=relu",
    "from=-2\nactivation=linear",
    "from=-2\nactivation=mish",
    "from=-2\nalpha=.5\nbeta=2\nactivation=leaky",
    NULL,
};

static int inputs(const struct layer *l, int *at, int capacity, struct err *e)
{
    const struct shortcut *s = l->self;
    (void)capacity;
    if (s->from.n != 1) return layer_fail(l, e, "needs from= with one layer, as in from=-3");
    at[0] = l->index - 1;
    at[1] = layer_referred(l, "from", &s->from, 0, e);
    if (at[1] >= 0 && at[1] == at[0])
        return layer_fail(l, e, "from= adds the previous layer to itself: name an earlier one");
    return at[1] < 0 ? at[1] : 2;
}

static int shape(struct layer *l, struct shape *out, struct err *e)
{
    struct shape a = l->in[0]->x.shape, b = l->in[1]->x.shape;
    int up, down;
    if (!add_factors(a, b, &up, &down))
        return layer_fail(
            l, e, "cannot add a map of %dx%d to one of %dx%d: one size must be a whole multiple of the other",
            b.w, b.h, a.w, a.h);
    *out = a;
    return OK;
}

static int sum(const struct layer *l)
{
    const struct shortcut *s = l->self;
    struct shape a = l->in[0]->x.shape, b = l->in[1]->x.shape;
    int plain = s->alpha == 1 && s->beta == 1 && a.c == b.c && a.h == b.h && a.w == b.w;
    return plain ? s->activation : -1;
}

static int build(struct layer *l, struct builder *b, struct err *e)
{
    struct shortcut *s = l->self;
    enum act act = (enum act)s->activation;
    int from_output = act_from_output(act);
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

static int forward(struct layer *l, const struct pass *p)
{
    const struct shortcut *s = l->self;
    TRY(l->be->ops->add->forward(&l->plan[ADD], &p->context, l->in[0]->x.data, l->in[1]->x.data,
                                 activate_memory(&s->activate, l)));
    return activate_forward(&s->activate, l, p);
}

static int backward(struct layer *l, const struct pass *p)
{
    const struct shortcut *s = l->self;
    TRY(activate_backward(&s->activate, l, p));
    return l->be->ops->add->backward(&l->plan[ADD], &p->context, l->out->x.data, l->out->g.data,
                                     l->in[0]->g.data, l->in[1]->g.data);
}

const struct layer_ops layer_shortcut = {
    .name = "shortcut",
    .help = "adds an earlier layer",
    .size = sizeof(struct shortcut),
    .keys = keys,
    .examples = examples,
    .inputs = inputs,
    .shape = shape,
    .build = build,
    .forward = forward,
    .backward = backward,
    .sum = sum,
};
