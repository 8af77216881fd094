/* [batchnorm]: batch normalisation as a layer of its own. In .weights: bias, scale, mean, variance, as in
 * AlexeyAB's Darknet. (pjreddie's has no bias, never updates the layer and crashes on a CPU.) */
#include "backend/ops/act.h"
#include "backend/ops/norm.h"
#include "core/mem.h"
#include "net/config.h"
#include "net/graph.h"
#include "net/layer.h"

enum { BIAS, SCALE, MEAN, VARIANCE, PARAMS }; /* in the order of .weights */
/* Plans. ACCUMULATE adds to the gradient that other readers of the input have left. */
enum { NORM, ACCUMULATE };

struct batchnorm {
    struct buffer *kept;
    struct param *param[PARAMS];
    struct buffer *copy[PARAMS]; /* inference: the parameters in backend memory, c values each */
    double bn_momentum;
};

static const char *const examples[] = { "", NULL };

static int shape(struct layer *l, struct shape *out, struct err *e)
{
    (void)e;
    *out = l->in[0]->x.shape;
    return OK;
}

static void declare(struct batchnorm *s, const struct layer *l, struct builder *b)
{
    static const enum init init[PARAMS] = { INIT_ZERO, INIT_ONE, INIT_ZERO, INIT_ZERO };
    static const unsigned flags[PARAMS] = { 0, 0, PARAM_STATE, PARAM_STATE | PARAM_VARIANCE };
    size_t c = (size_t)l->in[0]->x.shape.c;
    for (int i = 0; i < PARAMS; i++) {
        s->param[i] = builder_param(b, c, init[i], 0, flags[i]);
        if (!l->train) s->copy[i] = builder_buffer(b, c * sizeof(real), LIFE_PROGRAM);
    }
}

static int build(struct layer *l, struct builder *b, struct err *e)
{
    struct batchnorm *s = l->self;
    struct norm_desc d = { .in = &l->in[0]->x,
                           .train = l->train,
                           .splits = l->rows_s1 ? 2 : 1,
                           .rows_s1 = l->rows_s1,
                           .rows_back = l->rows_back,
                           .act = ACT_LINEAR };
    if (builder_config(b)->sync_bn) d.share = layer_joined(l);
    TRY(l->be->ops->norm->plan(l->be, &d, &l->out->x, &l->plan[NORM], e));
    s->kept = builder_buffer(b, l->plan[NORM].kept_bytes, LIFE_PASS);
    s->bn_momentum = builder_bn_momentum(b);
    declare(s, l, b);
    builder_keep_in(b, 0);
    if (!l->train || !l->add[0]) return OK;
    struct act_desc identity = { &l->out->x, 1, l->rows_back, ACT_LINEAR };
    struct tensor same = { .shape = l->out->x.shape };
    return l->be->ops->act->plan(l->be, &identity, &same, &l->plan[ACCUMULATE], e);
}

/* Nets opened for inference alone have no parameters in backend memory. */
static int refresh(struct layer *l, struct err *e)
{
    struct batchnorm *s = l->self;
    size_t c = (size_t)l->in[0]->x.shape.c;
    real *host = mem_alloc(c, sizeof *host);
    int rc = host ? OK : layer_no_memory(l, e);
    for (int i = 0; i < PARAMS && !rc; i++) {
        rc = param_get(s->param[i], host);
        if (!rc) rc = l->be->ops->upload(l->be, s->copy[i]->data, host, c * sizeof *host);
    }
    mem_free(host);
    return rc;
}

static int forward(struct layer *l, const struct pass *p)
{
    struct batchnorm *s = l->self;
    real *v[PARAMS];
    for (int i = 0; i < PARAMS; i++) v[i] = l->train ? param_w(s->param[i]) : s->copy[i]->data;
    return l->be->ops->norm->forward(&l->plan[NORM], &p->context, l->in[0]->x.data, NULL, v[SCALE], v[BIAS],
                                     v[MEAN], v[VARIANCE], s->bn_momentum, l->train ? s->kept->data : NULL,
                                     l->out->x.data);
}

static int backward(struct layer *l, const struct pass *p)
{
    struct batchnorm *s = l->self;
    void *gy = l->out->g.data, *gx = l->in[0]->g.data, *to = l->add[0] || !gx ? gy : gx;
    TRY(l->be->ops->norm->backward(&l->plan[NORM], &p->context, l->in[0]->x.data, NULL,
                                   param_w(s->param[SCALE]), s->kept->data, gy, to, NULL,
                                   param_g(s->param[SCALE]), param_g(s->param[BIAS])));
    return gx && l->add[0]
               ? l->be->ops->act->backward(&l->plan[ACCUMULATE], &p->context, NULL, l->out->x.data, gy, gx, 1)
               : OK;
}

static int export(const struct layer *l, struct graph *g, struct err *e)
{
    struct batchnorm *s = l->self;
    size_t c = (size_t)l->in[0]->x.shape.c;
    real *host = mem_alloc(PARAMS * c, sizeof *host);
    int rc = host ? OK : layer_no_memory(l, e);
    for (size_t i = 0; i < PARAMS && !rc; i++) rc = param_get(s->param[i], host + i * c);
    if (!rc) graph_output(g, l, graph_norm(g, graph_any(g, l, 0), (int64_t)c, host));
    mem_free(host);
    return rc;
}

const struct layer_ops layer_batchnorm = {
    .name = "batchnorm",
    .help = "batch normalisation",
    .size = sizeof(struct batchnorm),
    .examples = examples,
    .flags = LAYER_PARAMS,
    .shape = shape,
    .build = build,
    .refresh = refresh,
    .forward = forward,
    .backward = backward,
    .export = export,
};
