/* [itra]: In-Training Representation Alignment (Li, Li, Pan, Qiang, Zhu, AAAI 2023). The identity in the
 * forward pass; adds lambda * Match of the features of two mini-batches to the loss and its gradient to what
 * passes through. Training only, without weights. The maths is in net/match.c, or the backend's where it has
 * some (match_ops): nothing comes to the host then. */
#include <math.h>
#include <string.h>
#include "net/match.h"
#include "net/net.h"

enum { MEDIAN = -1, POOLED = -2 }; /* words of bandwidth= */
static const char *const bandwidths[] = { "median", "pooled", NULL };
static const char *const averages[] = { "all", "present", NULL };
static const char *const pairs[] = { "loader", "split", "memory", NULL };
static const char *const matches[] = { "random", "class", NULL };
static const char *const gradients[] = { "both", "first", NULL };

struct itra {
    double lambda, kernel_mul, bandwidth, warmup;
    int conditional, kernels, root, average, pair, match, gradient, every;

    int m1, m2; /* rows of the halves in this program */
    /* pair=memory: the mini-batch before; old_n: 0 until there is one */
    struct param *old_h, *old_label, *old_n;

    /* on the device */
    struct match_plan plan;
    struct buffer *workspace;

    /* on the host */
    struct buffer *h, *g, *sigma, *work; /* features and gradient, rows x d (memory: old rows behind new) */
    struct buffer *label;                /* labels of the old rows, pair=memory */
    int pairs;                           /* rows of S2 in this step: m2, or 0 where the memory is empty */
    int applied;                         /* in the forward pass of this step */
};

static const struct key keys[] = {
    REAL_KEY(itra, lambda, 0.8, 0, 1e6, "weight of the matching loss; 0: training as without the section"),
    INT_KEY(itra, conditional, 1, 0, 1,
            "1: rows are matched with rows of their class; 0: labels are ignored"),
    INT_KEY(itra, kernels, 5, 1, 16, "Gaussian kernels in the mixture"),
    REAL_KEY(itra, kernel_mul, 2, 1e-3, 1e3, "ratio of one bandwidth to the next"),
    EITHER_KEY(itra, bandwidth, MEDIAN, 1e-30, 1e30, bandwidths,
               "squared distance s of exp(-d2/s): the median per class, one median over all same-class "
               "pairs, or fixed"),
    INT_KEY(itra, root, 1, 0, 1, "1: MMD; 0: squared MMD"),
    WORD_KEY(itra, average, 0, averages, "mean over all classes, or those in both mini-batches"),
    WORD_KEY(itra, pair, PAIR_LOADER, pairs,
             "S2: a second mini-batch, half of the mini-batch, or the one before"),
    WORD_KEY(itra, match, 0, matches, "pair=loader: S2 at random, or row by row of the classes of S1"),
    WORD_KEY(itra, gradient, 0, gradients, "into both mini-batches, or S1 only"),
    WARMUP_KEY(itra, WARMUP_AUTO),
    INT_KEY(itra, every, 1, 1, 1 << 20, "k: on every k-th iteration only, with k*lambda"),
    { 0 },
};

static const char *const examples[] = {
    "lambda=0.7\nwarmup=0\npair=split",
    "lambda=2\nwarmup=0\npair=split\nroot=0\nbandwidth=1.5\nkernels=3\nkernel_mul=1.7",
    "lambda=1\nwarmup=0\npair=split\nconditional=0",
    "lambda=1\nwarmup=0\npair=split\nbandwidth=pooled\naverage=present\ngradient=first",
    "lambda=1\nwarmup=0\npair=memory",
    "lambda=0.5\nwarmup=0",
    "lambda=0.5\nwarmup=0\nmatch=class\ngradient=first\nroot=0",
    NULL,
};

static int shape(struct layer *l, struct shape *out, struct err *e)
{
    const struct itra *s = l->self;
    *out = l->in[0]->x.shape;
    l->identity = 1;
    if (s->match && s->pair != PAIR_LOADER)
        return layer_fail(l, e, "match=class needs pair=loader: pair=%s does not choose its rows",
                          pairs[s->pair]);
    l->inert = !l->train || s->lambda == 0 || (s->pair == PAIR_LOADER && !l->rows_s1);
    if (s->pair == PAIR_SPLIT && !l->inert && out->n < 2)
        return layer_fail(
            l, e, "pair=split cannot halve a mini-batch of 1 image: raise batch or lower subdivisions");
    return OK;
}

static int gradient_first(const struct itra *s) { return s->gradient || s->pair == PAIR_MEMORY; }

static int build_memory(struct itra *s, struct layer *l, struct builder *b)
{
    size_t d = shape_row(l->in[0]->x.shape), m = (size_t)s->m2;
    s->old_h = builder_param(b, m * d, INIT_ZERO, 0, PARAM_STATE | PARAM_UNSAVED);
    s->old_label = builder_param(b, m, INIT_ZERO, 0, PARAM_STATE | PARAM_UNSAVED);
    s->old_n = builder_param(b, 1, INIT_ZERO, 0, PARAM_STATE | PARAM_UNSAVED);
    return s->old_h && s->old_label && s->old_n;
}

static struct match_options options(const struct itra *s)
{
    return (struct match_options){
        .conditional = s->conditional,
        .kernels = s->kernels,
        .kernel_mul = s->kernel_mul,
        .bandwidth = s->bandwidth == MEDIAN   ? BANDWIDTH_MEDIAN
                     : s->bandwidth == POOLED ? BANDWIDTH_POOLED
                                              : BANDWIDTH_FIXED,
        .fixed = s->bandwidth,
        .root = s->root,
        .present = s->average,
    };
}

static int build_device(struct layer *l, struct builder *b, struct err *e)
{
    struct itra *s = l->self;
    struct match_desc d = { .in = &l->in[0]->x,
                            .m1 = s->m1,
                            .m2 = s->m2,
                            .classes = l->classes,
                            .rows_back = l->rows_back,
                            .gradient_first = gradient_first(s),
                            .options = options(s),
                            .lambda = s->lambda,
                            .warmup = s->warmup,
                            .every = s->every };
    TRY(l->be->ops->match->plan(l->be, &d, &s->plan, e));
    s->workspace = builder_buffer(b, s->plan.workspace_bytes, LIFE_PASS);
    l->loss_sum = builder_loss(b);
    return s->workspace && l->loss_sum ? OK : E_MEM;
}

static int build_host(struct layer *l, struct builder *b)
{
    struct itra *s = l->self;
    size_t d = shape_row(l->in[0]->x.shape), rows = (size_t)s->m1 + (size_t)s->m2,
           work = match_bytes((int)rows, l->classes);
    l->on_host = 1;
    s->h = builder_buffer(b, rows * d * sizeof(real), LIFE_HOST);
    s->g = builder_buffer(b, rows * d * sizeof(real), LIFE_HOST);
    s->sigma = builder_buffer(b, (size_t)l->classes * sizeof(double), LIFE_HOST);
    s->work = work ? builder_buffer(b, work, LIFE_HOST) : NULL;
    if (s->pair == PAIR_MEMORY)
        s->label = builder_buffer(b, (size_t)s->m2 * (sizeof(int) + sizeof(real)), LIFE_HOST);
    return s->h && s->g && s->sigma && s->work && (s->pair != PAIR_MEMORY || s->label) ? OK : E_MEM;
}

static int build(struct layer *l, struct builder *b, struct err *e)
{
    struct itra *s = l->self;
    int n = l->in[0]->x.shape.n;
    s->m1 = s->pair == PAIR_LOADER ? l->rows_s1 : s->pair == PAIR_SPLIT ? n - n / 2 : n;
    s->m2 = s->pair == PAIR_MEMORY ? n : n - s->m1;
    int rc = s->pair != PAIR_MEMORY || build_memory(s, l, b) ? OK : E_MEM;
    if (!rc) rc = l->be->ops->match ? build_device(l, b, e) : build_host(l, b);
    if (rc != E_MEM) return rc;
    return fail_at(e, rc, l->cfg, l->line, "[itra]: not enough memory for pairs of %d rows", s->m1 + s->m2);
}

/* Puts the mini-batch before behind the present one, and the present one in its place. Sets the rows of S2.
 */
static int exchange(struct itra *s, const struct pass *p, size_t d)
{
    int *label = s->label->data;
    real n, now = 1, *h = s->h->data, *numbers = (real *)(void *)(label + s->m2);
    TRY(param_get(s->old_n, &n));
    TRY(param_get(s->old_h, h + (size_t)s->m1 * d));
    TRY(param_get(s->old_label, numbers));
    for (int i = 0; i < s->m2; i++) label[i] = (int)numbers[i];
    for (int i = 0; i < s->m1; i++) numbers[i] = (real)p->label[i];
    s->pairs = n > 0 ? s->m2 : 0;
    TRY(param_set(s->old_h, h));
    TRY(param_set(s->old_label, numbers));
    return param_set(s->old_n, &now);
}

/* Features of both halves into h. What the mode counts as constant stays as it is when the pass says hold. */
static int collect(struct itra *s, struct layer *l, const struct pass *p, size_t d)
{
    int held = p->reuse_detached && gradient_first(s), rows = held ? s->m1 : l->in[0]->x.shape.n;
    TRY(p->be->ops->read(p->be, &l->in[0]->x, 0, rows, s->h->data));
    if (s->pair == PAIR_MEMORY) return held ? OK : exchange(s, p, d);
    s->pairs = s->m2;
    return OK;
}

static double weigh(const struct layer *l, const struct pass *p)
{
    const struct itra *s = l->self;
    return s->lambda * layer_warmup(l, p, s->warmup);
}

static int not_finite(const struct layer *l, struct err *e)
{
    return fail_at(e, E_NUMBER, l->cfg, l->line, "[itra] (layer %d): a feature is not finite", l->index);
}

static int forward_host(struct layer *l, const struct pass *p)
{
    struct itra *s = l->self;
    size_t d = shape_row(l->in[0]->x.shape);
    real *h = s->h->data, *g = s->g->data;
    l->loss = NAN;
    s->applied = p->iteration % (uint64_t)s->every == 0;
    if (!s->applied && s->pair != PAIR_MEMORY) return OK;
    TRY(collect(s, l, p, d));
    s->applied = s->applied && s->pairs;
    if (!s->applied) return OK;
    const int *label2 = s->pair == PAIR_MEMORY ? s->label->data : p->label + s->m1;
    struct match_options o = options(s);
    o.threads = p->be->threads;
    o.reuse_detached = p->reuse_detached;
    struct match_half one = { h, p->label, s->m1, g };
    struct match_half two = { h + (size_t)s->m1 * d, label2, s->pairs,
                              gradient_first(s) ? NULL : g + (size_t)s->m1 * d };
    int rc = match_compute(&o, l->classes, (int)d, &one, &two, s->sigma->data, &l->loss, s->work->data);
    return rc ? not_finite(l, p->err) : OK;
}

static int forward_device(struct layer *l, const struct pass *p)
{
    const struct itra *s = l->self;
    const struct value *in = l->in[0];
    struct match_memory old = { 0 };
    if (s->pair == PAIR_MEMORY)
        old = (struct match_memory){ param_w(s->old_h), param_w(s->old_label), param_w(s->old_n) };
    return p->be->ops->match->forward(&s->plan, p->now, in->x.data, p->dev_label, old.h ? &old : NULL,
                                      p->reuse_detached, l->loss_sum->data, s->workspace->data);
}

static int forward(struct layer *l, const struct pass *p)
{
    l->weight = weigh(l, p);
    return p->be->ops->match ? forward_device(l, p) : forward_host(l, p);
}

/* What the device says of the match. */
static int finish_loss(struct layer *l, struct err *e)
{
    if (isnan(l->loss)) return not_finite(l, e);
    if (l->loss < 0) l->loss = NAN;
    return OK;
}

static int backward_host(struct layer *l, const struct pass *p)
{
    struct itra *s = l->self;
    int rows = gradient_first(s) ? s->m1 : s->m1 + s->m2, add = l->add[0];
    real *g = s->g->data, factor = s->applied ? (real)(l->weight * s->every) : 0;
    size_t d = shape_row(l->in[0]->x.shape);
    if (!s->applied && add) return OK;
    if (!s->applied) memset(g, 0, (size_t)l->rows_back * d * sizeof *g);
    if (!add && rows < l->rows_back)
        memset(g + (size_t)rows * d, 0, (size_t)(l->rows_back - rows) * d * sizeof *g);
    for (size_t i = 0; i < (size_t)rows * d; i++) g[i] *= factor;
    return p->be->ops->write(p->be, &l->in[0]->g, 0, add ? rows : l->rows_back, g, add);
}

static int backward(struct layer *l, const struct pass *p)
{
    const struct itra *s = l->self;
    if (!p->be->ops->match) return backward_host(l, p);
    return p->be->ops->match->backward(&s->plan, s->workspace->data, l->in[0]->g.data, l->add[0]);
}

static void destroy(struct layer *l)
{
    struct itra *s = l->self;
    if (l->be->ops->match) l->be->ops->match->destroy(&s->plan);
}

/* What the trainer must know to feed this layer. */
static void wants(const struct layer *l, struct pairing_wants *w)
{
    const struct itra *s = l->self;
    *w = (struct pairing_wants){ s->lambda > 0, (enum pair_source)s->pair, s->match, gradient_first(s),
                                 s->every };
}

const struct layer_ops layer_itra = {
    .name = "itra",
    .help = "aligns the features of two mini-batches (training only)",
    .size = sizeof(struct itra),
    .keys = keys,
    .strict = 1,
    .examples = examples,
    .flags = LAYER_LOSS | LAYER_TRAIN_ONLY | LAYER_PAIRED,
    .shape = shape,
    .build = build,
    .forward = forward,
    .backward = backward,
    .destroy = destroy,
    .wants = wants,
    .finish_loss = finish_loss,
    .weigh = weigh,
};
