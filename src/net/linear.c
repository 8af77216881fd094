#include "linear.h"
#include <math.h>
#include "backend/ops/norm.h"
#include "core/mem.h"
#include "net/config.h"
#include "net/graph.h"
#include "net/param.h"

enum { MAP, NORM, ACTIVATION }; /* the layer's plans */

/* Biases; each belongs to as many weights. */
static size_t outputs(const struct layer *l)
{
    const struct linear *s = l->self;
    return s->untied ? shape_row(l->out->x.shape) : (size_t)l->out->x.shape.c;
}

/* Declares the parameters in the order of the .weights file. init=pytorch: weights and bias are uniform
 * within 1/sqrt(fan-in) of 0 (reset_parameters of torch.nn.Conv2d and Linear); normalised outputs start at
 * bias 0. */
static void declare(struct linear *s, struct layer *l, struct builder *b)
{
    size_t n = outputs(l);
    int pytorch = builder_config(b)->init == START_PYTORCH;
    double reach = 1 / sqrt((double)s->weights / (double)n);
    enum init init = pytorch ? INIT_UNIFORM : s->init;
    s->bias = builder_param(b, n, pytorch && !s->norm ? INIT_UNIFORM : INIT_ZERO, reach, 0);
    for (int turn = 0; turn < 2; turn++) {
        if (turn == !s->weights_first) {
            s->w = builder_linear(b, s->weights, init, pytorch ? reach : s->spread, PARAM_DECAY, s->ops,
                                  &l->plan[MAP]);
            param_shape(s->w, s->rank, s->dims);
        } else if (s->norm) {
            s->scale = builder_param(b, n, INIT_ONE, 0, PARAM_SCALES);
            s->mean = builder_param(b, n, INIT_ZERO, 0, PARAM_STATE | PARAM_SCALES);
            s->var = builder_param(b, n, INIT_ZERO, 0, PARAM_STATE | PARAM_SCALES | PARAM_VARIANCE);
        }
    }
}

static int build_inference(struct linear *s, struct layer *l, struct builder *b, struct err *e)
{
    struct op_plan *map = &l->plan[MAP];
    s->desc.act = s->activate.act;
    TRY(s->ops->plan(l->be, &s->desc, &l->out->x, map, e));
    declare(s, l, b);
    s->folded_w = builder_buffer(b, map->weight_bytes, LIFE_PROGRAM);
    s->folded_b = builder_buffer(b, outputs(l) * sizeof(real), LIFE_PROGRAM);
    return activate_build(&s->activate, l, b, &l->plan[ACTIVATION], map->fused, e);
}

static int build_norm(struct linear *s, struct layer *l, struct builder *b, struct tensor *out, struct err *e)
{
    struct op_plan *norm = &l->plan[NORM];
    struct norm_desc d = { .in = &s->map,
                           .train = 1,
                           .splits = l->rows_s1 ? 2 : 1,
                           .rows_s1 = l->rows_s1,
                           .rows_back = l->rows_back,
                           .act = act_from_output(s->activate.act) ? s->activate.act : ACT_LINEAR,
                           .addend = l->nin > 1 ? &l->in[1]->x : NULL };
    if (builder_config(b)->sync_bn) d.share = layer_joined(l);
    TRY(l->be->ops->norm->plan(l->be, &d, out, norm, e));
    s->kept = builder_buffer(b, norm->kept_bytes, LIFE_PASS);
    s->map_memory = builder_buffer(b, s->map.bytes, LIFE_PASS);
    s->bn_momentum = builder_bn_momentum(b);
    return OK;
}

int linear_build(struct layer *l, struct builder *b, struct err *e)
{
    struct linear *s = l->self;
    if (!l->train) return build_inference(s, l, b, e);
    if (l->nin > 1) s->activate.act = l->sum_act;
    struct tensor *end = activate_input(&s->activate, l);
    s->map.shape = end->shape;
    s->desc.train = 1;
    s->desc.rows_back = l->rows_back;
    s->desc.need_gx = l->in[0]->need_g;
    s->desc.add_gx = l->add[0];
    s->desc.sum_gw = builder_config(b)->subdivisions > 1 || l->be->group;
    s->desc.act = !s->norm && act_from_output(s->activate.act) ? s->activate.act : ACT_LINEAR;
    s->desc.weights = builder_weights(b);
    TRY(s->ops->plan(l->be, &s->desc, s->norm ? &s->map : end, &l->plan[MAP], e));
    declare(s, l, b);
    if (s->norm) TRY(build_norm(s, l, b, end, e));
    builder_keep_in(b, 0);
    if (l->nin > 1) builder_keep_out(b);
    return activate_build(&s->activate, l, b, &l->plan[ACTIVATION], l->plan[s->norm ? NORM : MAP].fused, e);
}

/* Output of the linear map. */
static void *map_data(const struct linear *s, const struct layer *l)
{
    return s->norm ? s->map_memory->data : activate_memory(&s->activate, l);
}

static int forward_training(struct linear *s, struct layer *l, const struct pass *p)
{
    void *map = map_data(s, l);
    const void *addend = l->nin > 1 ? l->in[1]->x.data : NULL, *bias = s->norm ? NULL : param_w(s->bias);
    TRY(s->ops->forward(&l->plan[MAP], &p->context, l->in[0]->x.data, param_w(s->w), bias, map));
    if (!s->norm) return OK;
    return l->be->ops->norm->forward(&l->plan[NORM], &p->context, map, addend, param_w(s->scale),
                                     param_w(s->bias), param_w(s->mean), param_w(s->var), s->bn_momentum,
                                     s->kept->data, activate_memory(&s->activate, l));
}

int linear_forward(struct layer *l, const struct pass *p)
{
    struct linear *s = l->self;
    TRY(l->train ? forward_training(s, l, p)
                 : s->ops->forward(&l->plan[MAP], &p->context, l->in[0]->x.data, s->folded_w->data,
                                   s->folded_b->data, l->out->x.data));
    return activate_forward(&s->activate, l, p);
}

/* Every step back works in place on gy: nobody reads it again. */
int linear_backward(struct layer *l, const struct pass *p)
{
    struct linear *s = l->self;
    void *gy = l->out->g.data, *gaddend = l->nin > 1 ? l->in[1]->g.data : NULL;
    real *gbias = s->norm ? NULL : param_g(s->bias);
    TRY(activate_backward(&s->activate, l, p));
    if (s->norm)
        TRY(l->be->ops->norm->backward(&l->plan[NORM], &p->context, map_data(s, l),
                                       activate_memory(&s->activate, l), param_w(s->scale), s->kept->data, gy,
                                       gy, gaddend, param_g(s->scale), param_g(s->bias)));
    if (s->desc.act != ACT_LINEAR && l->plan[MAP].fused) {
        TRY(s->ops->back_act(&l->plan[MAP], &p->context, l->out->x.data, gy, gbias));
        gbias = NULL;
    }
    return s->ops->backward(&l->plan[MAP], &p->context, l->in[0]->x.data, param_w(s->w), gy, l->in[0]->g.data,
                            param_g(s->w), gbias);
}

void linear_fold(real *w, size_t n, size_t per)
{
    real *bias = w + n * per;
    const real *scale = bias + n, *mean = scale + n, *var = mean + n;
    for (size_t o = 0; o < n; o++) {
        double f = (double)scale[o] / sqrt((double)var[o] + NORM_EPSILON);
        for (size_t i = 0; i < per; i++) w[o * per + i] = (real)((double)w[o * per + i] * f);
        bias[o] = (real)((double)bias[o] - (double)mean[o] * f);
    }
}

/* *out gets weights and what follows them, as linear_fold has it, folded if asked for; mem_free it. */
static int read_params(const struct layer *l, int fold, real **out, struct err *e)
{
    const struct linear *s = l->self;
    const struct param *const vector[] = { s->bias, s->scale, s->mean, s->var };
    size_t n = outputs(l);
    real *w = *out = mem_alloc(s->weights + 4 * n, sizeof *w);
    if (!w) return layer_no_memory(l, e);
    TRY(param_get(s->w, w));
    for (size_t i = 0; i < (s->norm ? 4 : 1); i++) TRY(param_get(vector[i], w + s->weights + i * n));
    if (fold) linear_fold(w, n, s->weights / n);
    return OK;
}

int linear_refresh(struct layer *l, struct err *e)
{
    struct linear *s = l->self;
    real *w;
    int rc = read_params(l, s->norm, &w, e);
    if (!rc) rc = s->ops->pack(&l->plan[MAP], w, s->folded_w->data);
    if (!rc) rc = l->be->ops->upload(l->be, s->folded_b->data, w + s->weights, outputs(l) * sizeof *w);
    mem_free(w);
    return rc;
}

/* Constants, the map, what is not folded into it, and the activation. */
static int append(const struct layer *l, struct graph *g, linear_map *map, const real *w)
{
    const struct linear *s = l->self;
    const int apart = s->norm && !g->folds;
    const struct shape out = l->out->x.shape;
    const int64_t n = (int64_t)outputs(l), pixels[] = { out.c, out.h, out.w };
    const real *vectors = w + s->weights;
    int weights = graph_reals(g, "weights", s->rank, s->dims, w), bias = GRAPH_ABSENT;
    if (!apart) bias = graph_reals(g, "bias", s->untied ? 3 : 1, s->untied ? pixels : &n, vectors);
    int y = map(l, g, weights, bias);
    if (apart) y = graph_norm(g, y, n, vectors);
    return graph_activation(g, y, s->activate.act);
}

int linear_export(const struct layer *l, struct graph *g, linear_map *map, int *y, struct err *e)
{
    const struct linear *s = l->self;
    real *w;
    int rc = read_params(l, s->norm && g->folds, &w, e);
    *y = rc ? 0 : append(l, g, map, w);
    mem_free(w);
    return rc;
}
