/* [shortcut]: adds the output of an earlier layer to the previous one's, by pjreddie's rules where shapes
 * differ. */
#include "backend/ops/act.h"
#include "backend/ops/add.h"
#include "net/layer.h"

struct shortcut {
    struct list from;
    double alpha, beta;
    int activation;
    struct op_plan plan;
    struct op_plan act_plan;
    struct buffer *sum; /* before an activation whose slope needs its input */
    struct tensor mid;
    int act_plain;
};

static const struct key keys[] = {
    INTS_KEY(shortcut, from, -(1 << 20), 1 << 20,
             "the layer to add: -3 counts from this one, 4 from the first (0)"),
    REAL_KEY(shortcut, alpha, 1, -1e6, 1e6, "factor of the previous layer"),
    REAL_KEY(shortcut, beta, 1, -1e6, 1e6, "factor of the layer that is added"),
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
    if (s->from.n != 1) return layer_fail(l, e, "needs from= with one layer, as from=-3");
    at[0] = l->index - 1;
    at[1] = layer_referred(l, "from", &s->from, 0, e);
    if (at[1] >= 0 && at[1] == at[0])
        return layer_fail(l, e, "from= adds the previous layer to itself: name an earlier one");
    return at[1] < 0 ? at[1] : 2;
}

/* Sizes must be a whole multiple of one another, the same one on both axes. */
static int factors_fit(struct shape a, struct shape b)
{
    if (b.w >= a.w) return b.w % a.w == 0 && b.h % a.h == 0 && b.w / a.w == b.h / a.h;
    return a.w % b.w == 0 && a.h % b.h == 0 && a.w / b.w == a.h / b.h;
}

static int shape(struct layer *l, struct shape *out, struct err *e)
{
    struct shape a = l->in[0]->x.shape, b = l->in[1]->x.shape;
    if (!factors_fit(a, b))
        return layer_fail(l, e,
                          "cannot add a map of %dx%d to one of %dx%d: sizes must be equal or whole multiples",
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
    int apart = !act_from_output(act) && l->train;
    s->mid.shape = l->out->x.shape;
    struct add_desc d = {
        &l->in[0]->x, &l->in[1]->x, s->alpha,  s->beta,  act_from_output(act) ? act : ACT_LINEAR,
        l->train,     l->rows_back, l->add[0], l->add[1]
    };
    TRY(l->be->ops->add->plan(l->be, &d, apart ? &s->mid : &l->out->x, &s->plan, e));
    builder_scratch(b, s->plan.scratch_bytes);
    s->act_plain = act != ACT_LINEAR && !(s->plan.fused && act_from_output(act));
    if (s->act_plain) {
        struct tensor same = { .shape = l->out->x.shape };
        struct act_desc a = { apart ? &s->mid : &l->out->x, l->train, l->rows_back, act };
        TRY(l->be->ops->act->plan(l->be, &a, apart ? &l->out->x : &same, &s->act_plan, e));
        builder_scratch(b, s->act_plan.scratch_bytes);
    }
    if (apart && !(s->sum = builder_buffer(b, s->mid.bytes, LIFE_PASS))) return layer_no_memory(l, e);
    if (!apart && act != ACT_LINEAR) builder_keep_out(b);
    return OK;
}

static int forward(struct layer *l, const struct pass *p)
{
    struct shortcut *s = l->self;
    void *y = l->out->x.data, *sum = s->sum ? s->sum->data : y;
    TRY(p->be->ops->add->forward(&s->plan, &p->context, l->in[0]->x.data, l->in[1]->x.data, sum));
    return s->act_plain ? p->be->ops->act->forward(&s->act_plan, &p->context, sum, y) : OK;
}

static int backward(struct layer *l, const struct pass *p)
{
    struct shortcut *s = l->self;
    void *gy = l->out->g.data;
    if (s->act_plain)
        TRY(p->be->ops->act->backward(&s->act_plan, &p->context, s->sum ? s->sum->data : NULL,
                                      s->sum ? NULL : l->out->x.data, gy, gy, 0));
    return p->be->ops->add->backward(&s->plan, &p->context, l->out->x.data, gy, l->in[0]->g.data,
                                     l->in[1]->g.data);
}

static void destroy(struct layer *l)
{
    struct shortcut *s = l->self;
    op_destroy(&s->plan);
    op_destroy(&s->act_plan);
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
    .destroy = destroy,
    .sum = sum,
};
