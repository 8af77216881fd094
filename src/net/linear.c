#include "linear.h"
#include <math.h>
#include "backend/ops/act.h"
#include "backend/ops/norm.h"
#include "core/mem.h"
#include "net/config.h"

static size_t outputs(const struct layer *l) { return (size_t)l->out->x.shape.c; }

/* Declares the parameters in the order of the .weights file. init=pytorch: weights and bias are uniform
 * within 1/sqrt(fan-in) of 0 (reset_parameters of torch.nn.Conv2d and Linear); normalised outputs start at
 * bias 0. */
static int declare(struct linear *s, struct layer *l, struct builder *b, struct err *e)
{
    size_t n = outputs(l);
    int pytorch = builder_config(b)->init == START_PYTORCH;
    double reach = 1 / sqrt((double)s->weights / (double)n);
    enum init init = pytorch ? INIT_UNIFORM : s->init;
    s->bias = builder_param(b, n, pytorch && !s->norm ? INIT_UNIFORM : INIT_ZERO, reach, 0);
    for (int turn = 0; turn < 2; turn++) {
        if (turn == !s->weights_first)
            s->w = builder_linear(b, s->weights, init, pytorch ? reach : s->spread, PARAM_DECAY, s->ops,
                                  &s->plan);
        else if (s->norm) {
            s->scale = builder_param(b, n, INIT_ONE, 0, PARAM_SCALES);
            s->mean = builder_param(b, n, INIT_ZERO, 0, PARAM_STATE | PARAM_SCALES);
            s->var = builder_param(b, n, INIT_ZERO, 0, PARAM_STATE | PARAM_SCALES | PARAM_VARIANCE);
        }
    }
    int ok = s->bias && s->w && (!s->norm || (s->scale && s->mean && s->var));
    return ok ? OK : layer_no_memory(l, e);
}

static int build_inference(struct linear *s, struct layer *l, struct builder *b, struct err *e)
{
    struct backend *be = l->be;
    s->desc.act = s->act;
    TRY(s->ops->plan(be, &s->desc, &l->out->x, &s->plan, e));
    builder_scratch(b, s->plan.scratch_bytes);
    TRY(declare(s, l, b, e));
    s->folded_w = builder_buffer(b, s->plan.weight_bytes, LIFE_PROGRAM);
    s->folded_b = builder_buffer(b, outputs(l) * sizeof(real), LIFE_PROGRAM);
    if (!s->folded_w || !s->folded_b) return layer_no_memory(l, e);
    s->act_plain = s->act != ACT_LINEAR && !s->plan.fused;
    if (!s->act_plain) return OK;
    struct act_desc d = { &l->out->x, 0, 0, s->act };
    struct tensor out = { .shape = l->out->x.shape };
    TRY(be->ops->act->plan(be, &d, &out, &s->act_plan, e));
    builder_scratch(b, s->act_plan.scratch_bytes);
    return OK;
}

/* Which tensor a step writes: the output itself if it is the last step with memory of its own. */
static struct tensor *target(struct linear *s, struct layer *l, int step, int last)
{
    s->mid[step].shape = l->out->x.shape;
    return step == last ? &l->out->x : &s->mid[step];
}

static int build_norm(struct linear *s, struct layer *l, struct builder *b, const struct tensor *in,
                      struct tensor *out, struct err *e)
{
    struct backend *be = l->be;
    int first = l->rows_s1;
    enum act act = act_from_output(s->act) ? s->act : ACT_LINEAR;
    struct norm_desc d = { .in = in,
                           .train = 1,
                           .splits = first ? 2 : 1,
                           .rows_s1 = first ? first : l->in[0]->x.shape.n,
                           .rows_back = l->rows_back,
                           .act = act,
                           .addend = l->nin > 1 ? &l->in[1]->x : NULL };
    TRY(be->ops->norm->plan(be, &d, out, &s->norm_plan, e));
    builder_scratch(b, s->norm_plan.scratch_bytes);
    s->kept = builder_buffer(b, s->norm_plan.kept_bytes, LIFE_PASS);
    s->bn_momentum = builder_bn_momentum(b);
    return s->kept ? OK : layer_no_memory(l, e);
}

static int build_training(struct linear *s, struct layer *l, struct builder *b, struct err *e)
{
    struct backend *be = l->be;
    if (l->nin > 1) s->act = l->sum_act;
    int in_place = act_from_output(s->act);
    int last = s->norm + !in_place; /* the step that writes out: map 0, norm 1, activation behind it */
    s->desc.train = 1;
    s->desc.rows_back = l->rows_back;
    s->desc.need_gx = l->in[0]->need_g;
    s->desc.add_gx = l->add[0];
    s->desc.weights = builder_weights(b);
    struct tensor *t = target(s, l, 0, last);
    TRY(s->ops->plan(be, &s->desc, t, &s->plan, e));
    builder_scratch(b, s->plan.scratch_bytes);
    TRY(declare(s, l, b, e));
    if (s->norm) {
        struct tensor *map = t;
        t = target(s, l, 1, last);
        TRY(build_norm(s, l, b, map, t, e));
    }
    s->act_plain = s->act != ACT_LINEAR && !(s->norm && in_place && s->norm_plan.fused);
    if (s->act_plain) {
        struct act_desc d = { t, 1, l->rows_back, s->act };
        struct tensor in_place_out = { .shape = t->shape };
        TRY(be->ops->act->plan(be, &d, in_place ? &in_place_out : &l->out->x, &s->act_plan, e));
        builder_scratch(b, s->act_plan.scratch_bytes);
    }
    for (int i = 0; i < last; i++)
        if (!(s->mid_data[i] = builder_buffer(b, s->mid[i].bytes, LIFE_PASS))) return layer_no_memory(l, e);
    builder_keep_in(b, 0);
    if ((in_place && s->act != ACT_LINEAR) || l->nin > 1) builder_keep_out(b);
    return OK;
}

int linear_build(struct layer *l, struct builder *b, struct err *e)
{
    struct linear *s = l->self;
    return l->train ? build_training(s, l, b, e) : build_inference(s, l, b, e);
}

/* Memory of step i's output. */
static void *step_data(const struct linear *s, const struct layer *l, int i)
{
    return s->mid_data[i] ? s->mid_data[i]->data : l->out->x.data;
}

int linear_forward(struct layer *l, const struct pass *p)
{
    struct linear *s = l->self;
    const struct backend_ops *ops = p->be->ops;
    void *y = l->out->x.data, *x = l->in[0]->x.data;
    if (!p->train) {
        TRY(s->ops->forward(&s->plan, &p->context, x, s->folded_w->data, s->folded_b->data, y));
        return s->act_plain ? ops->act->forward(&s->act_plan, &p->context, y, y) : OK;
    }
    void *map = step_data(s, l, 0), *t = map;
    TRY(s->ops->forward(&s->plan, &p->context, x, param_w(s->w), s->norm ? NULL : param_w(s->bias), map));
    if (s->norm) {
        t = step_data(s, l, 1);
        TRY(ops->norm->forward(&s->norm_plan, &p->context, map, l->nin > 1 ? l->in[1]->x.data : NULL,
                               param_w(s->scale), param_w(s->bias), param_w(s->mean), param_w(s->var),
                               s->bn_momentum, s->kept->data, t));
    }
    return s->act_plain ? ops->act->forward(&s->act_plan, &p->context, t, y) : OK;
}

int linear_backward(struct layer *l, const struct pass *p)
{
    struct linear *s = l->self;
    const struct backend_ops *ops = p->be->ops;
    /* Every step back works in place on gy: nobody reads it again. */
    void *gy = l->out->g.data, *y = l->out->x.data;
    if (s->act_plain) {
        const void *x = act_from_output(s->act) ? NULL : step_data(s, l, s->norm);
        TRY(ops->act->backward(&s->act_plan, &p->context, x, y, gy, gy, 0));
    }
    if (s->norm)
        TRY(ops->norm->backward(&s->norm_plan, &p->context, step_data(s, l, 0), step_data(s, l, 1),
                                param_w(s->scale), s->kept->data, gy, gy,
                                l->nin > 1 ? l->in[1]->g.data : NULL, param_g(s->scale), param_g(s->bias)));
    return s->ops->backward(&s->plan, &p->context, l->in[0]->x.data, param_w(s->w), gy, l->in[0]->g.data,
                            param_g(s->w), s->norm ? NULL : param_g(s->bias));
}

/* w <- w scale / sqrt(var + 1e-5), bias <- bias - mean scale / sqrt(var + 1e-5). v: scale, mean, variance. */
static void fold(real *w, real *bias, const real *const v[3], size_t n, size_t per)
{
    for (size_t o = 0; o < n; o++) {
        double f = (double)v[0][o] / sqrt((double)v[2][o] + 1e-5);
        for (size_t i = 0; i < per; i++) w[o * per + i] = (real)((double)w[o * per + i] * f);
        bias[o] = (real)((double)bias[o] - (double)v[1][o] * f);
    }
}

int linear_refresh(struct layer *l, struct err *e)
{
    struct linear *s = l->self;
    size_t n = outputs(l);
    real *w = mem_alloc(s->weights + 4 * n, sizeof *w);
    if (!w) return layer_no_memory(l, e);
    real *bias = w + s->weights, *v[3] = { bias + n, bias + 2 * n, bias + 3 * n };
    int rc = param_get(s->w, w);
    if (!rc) rc = param_get(s->bias, bias);
    if (!rc && s->norm) {
        struct param *from[3] = { s->scale, s->mean, s->var };
        for (int i = 0; i < 3 && !rc; i++) rc = param_get(from[i], v[i]);
        if (!rc) fold(w, bias, (const real *const[3]){ v[0], v[1], v[2] }, n, s->weights / n);
    }
    if (!rc) rc = s->ops->pack(&s->plan, w, s->folded_w->data);
    if (!rc) rc = l->be->ops->upload(l->be, s->folded_b->data, bias, n * sizeof *bias);
    mem_free(w);
    return rc;
}

void linear_destroy(struct layer *l)
{
    struct linear *s = l->self;
    op_destroy(&s->plan);
    op_destroy(&s->norm_plan);
    op_destroy(&s->act_plan);
}
