/* [itra]: In-Training Representation Alignment (Li, Li, Pan, Qiang, Zhu, AAAI 2023). The identity in the
 * forward pass; adds lambda * Match of the features of two mini-batches to the loss and its gradient to what
 * passes through. Training only, without weights. */
#include <math.h>
#include "backend/ops/match.h"
#include "backend/scalar.h"
#include "net/config.h"
#include "net/layer.h"

enum { MEDIAN = -1, POOLED = -2 }; /* words of bandwidth= */
static const char *const bandwidths[] = { "median", "pooled", NULL };
static const char *const averages[] = { "all", "present", NULL };
static const char *const matches[] = { "random", "class", NULL };
static const char *const gradients[] = { "both", "first", NULL };
static const char *const estimates[] = { "biased", "unbiased", NULL };
static const char *const fades[] = { "no", "rate", NULL };

struct itra {
    double lambda, kernel_mul, bandwidth, warmup, full_rate; /* full_rate: see fade_share */
    int conditional, unconditional, kernels, root, estimate, average, pair, match, gradient, fade, every,
        sync;

    struct buffer *kept;
    /* pair=memory, NULL otherwise: features and labels of the mini-batch before, and whether there is one */
    struct param *old_h, *old_label, *old_n;
};

static const struct key keys[] = {
    REAL_KEY(itra, lambda, 0.8, 0, 1e6, "weight of the matching loss; 0: training as without the section"),
    INT_KEY(itra, conditional, 1, 0, 1,
            "1: rows are matched with rows of their class; 0: labels are ignored"),
    INT_KEY(itra, unconditional, 0, 0, 1 << 30, "on so many iterations at the beginning labels are ignored"),
    INT_KEY(itra, kernels, 5, 1, 16, "Gaussian kernels in the mixture"),
    REAL_KEY(itra, kernel_mul, 2, 1e-3, 1e3, "ratio of one bandwidth to the next"),
    EITHER_KEY(itra, bandwidth, MEDIAN, 1e-30, 1e30, bandwidths,
               "squared distance s of exp(-d2/s): the median per class, one median over all same-class "
               "pairs, or fixed"),
    INT_KEY(itra, root, 1, 0, 1, "1: MMD; 0: squared MMD"),
    WORD_KEY(itra, estimate, 0, estimates,
             "of the squared MMD (unbiased needs root=0): with the pairs of a row with itself, or without"),
    WORD_KEY(itra, average, 0, averages, "mean over all classes, or those in both mini-batches"),
    WORD_KEY(itra, pair, S2_FROM_LOADER, s2_source_names,
             "what S2 is: a second mini-batch, half of the mini-batch, or the one before"),
    WORD_KEY(itra, match, 0, matches,
             "pair=loader: S2 is drawn at random, or each row from the class of that row of S1"),
    WORD_KEY(itra, gradient, 0, gradients, "flows into both mini-batches, or into S1 only"),
    WARMUP_KEY(itra, WARMUP_AUTO),
    WORD_KEY(itra, fade, 0, fades,
             "rate: lambda falls with the learning rate, as its share, at most 1, of learning_rate"),
    INT_KEY(itra, sync, 1, 0, 1,
            "several processes: 1: their rows are matched together; 0: each matches its own"),
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
    "lambda=3\nwarmup=0\npair=split\nroot=0\nestimate=unbiased\nfade=rate",
    "lambda=2\nwarmup=0\npair=split\nunconditional=1",
    "lambda=0.5\nwarmup=0\nmatch=class\ngradient=first\nroot=0",
    NULL,
};

/* Rows of S1 that are matched together. */
static int rows_of(const struct layer *l, const struct itra *s)
{
    return s->sync ? l->share.all : l->share.rows;
}

static int shape(struct layer *l, struct shape *out, struct err *e)
{
    const struct itra *s = l->self;
    *out = l->in[0]->x.shape;
    l->identity = 1;
    if (s->match && s->pair != S2_FROM_LOADER)
        return layer_fail(l, e, "match=class needs pair=loader: pair=%s does not choose its rows",
                          s2_source_names[s->pair]);
    if (!s->sync && s->pair == S2_FROM_MEMORY && layer_joined(l).all)
        return layer_fail(l, e, "sync=0 needs pair=loader or split: the memory is of all processes");
    if (s->estimate && s->root)
        return layer_fail(l, e, "estimate=unbiased needs root=0: an estimate below 0 has no root");
    /* One image cannot be halved: program_open refuses to train so. */
    l->inert = !l->train || s->lambda == 0 || (s->pair == S2_FROM_LOADER && !l->rows_s1) ||
               (s->pair == S2_FROM_SPLIT && rows_of(l, s) < 2);
    return OK;
}

static int gradient_first(const struct itra *s) { return s->gradient || s->pair == S2_FROM_MEMORY; }

/* They are parameters so that the training state has them. */
static void declare_memory(struct itra *s, struct builder *b, size_t rows, size_t features)
{
    const unsigned flags = PARAM_STATE | PARAM_UNSAVED;
    s->old_h = builder_param(b, rows * features, INIT_ZERO, 0, flags);
    s->old_label = builder_param(b, rows, INIT_ZERO, 0, flags);
    s->old_n = builder_param(b, 1, INIT_ZERO, 0, flags);
}

static int build(struct layer *l, struct builder *b, struct err *e)
{
    struct itra *s = l->self;
    const struct tensor *in = &l->in[0]->x;
    if (s->fade) s->full_rate = builder_config(b)->learning_rate;
    const int n = rows_of(l, s), memory = s->pair == S2_FROM_MEMORY, split = s->pair == S2_FROM_SPLIT;
    const int m2 = split ? n / 2 : n, m1 = split ? n - m2 : n;
    struct match_desc d = { .in = in,
                            .m1 = m1,
                            .m2 = m2,
                            .classes = l->classes,
                            .rows_back = l->rows_back,
                            .gradient_first = gradient_first(s),
                            .options = { .conditional = s->conditional,
                                         .kernels = s->kernels,
                                         .kernel_mul = s->kernel_mul,
                                         .bandwidth = BANDWIDTH_FIXED,
                                         .fixed = s->bandwidth,
                                         .root = s->root,
                                         .present = s->average,
                                         .unbiased = s->estimate },
                            .lambda = s->lambda,
                            .warmup = s->warmup,
                            .every = s->every,
                            .full_rate = s->full_rate,
                            .unconditional = s->unconditional };
    if (s->sync) d.share = layer_joined(l);
    if (s->bandwidth == MEDIAN) d.options.bandwidth = BANDWIDTH_MEDIAN;
    if (s->bandwidth == POOLED) d.options.bandwidth = BANDWIDTH_POOLED;
    if (memory) declare_memory(s, b, (size_t)n, shape_row(in->shape));
    TRY(l->be->ops->match->plan(l->be, &d, l->plan, e));
    s->kept = builder_buffer(b, l->plan->kept_bytes, LIFE_PASS);
    l->loss_sum = builder_loss(b);
    return OK;
}

static double weigh(const struct layer *l, const struct pass *p)
{
    const struct itra *s = l->self;
    return s->lambda * layer_warmup(l, p, s->warmup) * fade_share(s->full_rate, p->rate);
}

static int forward(struct layer *l, const struct pass *p)
{
    const struct itra *s = l->self;
    const void *x = l->in[0]->x.data;
    const struct match_ops *ops = l->be->ops->match;
    if (!s->old_h) return ops->forward(l->plan, &p->context, x, NULL, l->loss_sum->data, s->kept->data);
    struct match_memory memory = { param_w(s->old_h), param_w(s->old_label), param_w(s->old_n) };
    return ops->forward(l->plan, &p->context, x, &memory, l->loss_sum->data, s->kept->data);
}

static int backward(struct layer *l, const struct pass *p)
{
    const struct itra *s = l->self;
    return l->be->ops->match->backward(l->plan, &p->context, s->kept->data, l->in[0]->g.data, l->add[0]);
}

static int finish_loss(struct layer *l, struct err *e)
{
    if (isnan(l->loss))
        return fail_at(e, E_NUMBER, l->cfg, l->line, "[itra] (layer %d): a feature is not finite", l->index);
    if (l->loss <= NO_MATCH) l->loss = NAN;
    return OK;
}

/* What the trainer must know to feed this layer. */
static void wants(const struct layer *l, struct pairing_wants *w)
{
    const struct itra *s = l->self;
    *w = (struct pairing_wants){ .lambda = s->lambda,
                                 .active = s->lambda > 0,
                                 .source = (enum s2_source)s->pair,
                                 .by_class = s->match,
                                 .gradient_first = gradient_first(s),
                                 .alone = !s->sync,
                                 .every = s->every,
                                 .warmup = s->warmup,
                                 .conditional = s->conditional,
                                 .present = s->average,
                                 .unbiased = s->estimate };
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
    .wants = wants,
    .finish_loss = finish_loss,
    .weigh = weigh,
};
