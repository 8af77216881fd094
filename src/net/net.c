/* The model: what the cfg says, checked, and the parameters. */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "backend/ops/images.h"
#include "core/mem.h"
#include "core/rng.h"
#include "net/model.h"

static const char *const policies[] = { "constant", "step",   "steps", "exp", "poly",
                                        "sigmoid",  "random", "sgdr",  NULL };

static const char *const starts[] = { "darknet", "pytorch", NULL };

#define BIG INT_MAX
const struct key net_config_keys[] = {
    INT_KEY(net_config, batch, 1, 1, 1 << 24,
            "images per update (S1 only, when [itra] brings a second mini-batch)"),
    INT_KEY(net_config, subdivisions, 1, 1, 1 << 24,
            "mini-batches per update: a forward pass sees batch/subdivisions images"),
    INT_KEY(net_config, width, 0, 0, 1 << 16, "columns of the input"),
    INT_KEY(net_config, height, 0, 0, 1 << 16, "rows of the input"),
    INT_KEY(net_config, channels, 0, 0, 1 << 16, "1: gray (luma), 3: RGB"),
    INT_KEY(net_config, inputs, 0, 0, BIG, "numbers per image (0: height*width*channels)"),
    REAL_KEY(net_config, learning_rate, 0.001, 0, 1e6, "rate"),
    REAL_KEY(net_config, momentum, 0.9, 0, 1, "momentum"),
    REAL_KEY(net_config, decay, 0.0001, 0, 1e6, "weight decay"),
    WORD_KEY(net_config, policy, POLICY_CONSTANT, policies, "how the rate changes"),
    INT_KEY(net_config, burn_in, 0, 0, BIG, "iterations of warm-up: rate * (n/burn_in)^power"),
    REAL_KEY(net_config, power, 4, -100, 100, "exponent of burn_in, poly and random"),
    INT_KEY(net_config, max_batches, 0, 0, BIG, "iterations (0: until stopped)"),
    INT_KEY(net_config, step, 1, 1, BIG, "policy=step and sigmoid: iterations"),
    REAL_KEY(net_config, scale, 1, 0, 1e6, "policy=step: factor"),
    LIST_KEY(net_config, steps, 0, 1e12, "policy=steps: iterations"),
    LIST_KEY(net_config, scales, 0, 1e12, "policy=steps: a factor for each"),
    REAL_KEY(net_config, gamma, 1, -1e6, 1e6, "policy=exp and sigmoid"),
    REAL_KEY(net_config, learning_rate_min, 1e-5, 0, 1e6, "policy=sgdr: lowest rate"),
    INT_KEY(net_config, sgdr_cycle, 0, 0, BIG, "policy=sgdr: iterations of the first cycle (0: max_batches)"),
    REAL_KEY(net_config, sgdr_mult, 2, 1, 1e6, "policy=sgdr: each cycle is so many times longer"),
    INT_KEY(net_config, max_crop, 0, 0, 1 << 16,
            "augmentation: longest scaled shorter side, pixels (0: 2*width)"),
    INT_KEY(net_config, min_crop, 0, 0, 1 << 16,
            "augmentation: shortest scaled shorter side, pixels (0: width)"),
    REAL_KEY(net_config, max_ratio, 0, 0, 1e4, "augmentation: max_crop as a multiple of width (0: max_crop)"),
    REAL_KEY(net_config, min_ratio, 0, 0, 1e4, "augmentation: min_crop as a multiple of width (0: min_crop)"),
    REAL_KEY(net_config, angle, 0, 0, 180, "augmentation: rotation, degrees either way"),
    REAL_KEY(net_config, aspect, 1, 0, 100, "augmentation: aspect ratio up to this or its inverse"),
    REAL_KEY(net_config, saturation, 1, 0, 100, "augmentation: saturation up to this factor or its inverse"),
    REAL_KEY(net_config, exposure, 1, 0, 100, "augmentation: brightness up to this factor or its inverse"),
    REAL_KEY(net_config, hue, 0, 0, 1, "augmentation: hue shift either way, in turns"),
    INT_KEY(net_config, flip, 1, 0, 1, "augmentation: 1: mirror half of the images"),
    INT_KEY(net_config, pad_crop, 0, 0, 1 << 12,
            "augmentation: pad by so many black pixels, then crop at random, instead of scaling (stock "
            "Darknet ignores this key)"),
    LIST_KEY(net_config, mean, -1e6, 1e6,
             "per channel, subtracted from values in [0,1] (stock Darknet ignores this key)"),
    LIST_KEY(net_config, std, 1e-9, 1e6, "per channel, divides after mean (stock Darknet ignores this key)"),
    WORD_KEY(
        net_config, init, START_DARKNET, starts,
        "initial weights; pytorch: uniform in +-1/sqrt(fan-in), biases too (stock Darknet ignores this key)"),
    WORD_KEY(net_config, precision, PRECISION_FP32, precision_names,
             "what the net computes in: tf32 and bf16 on GPUs only (stock Darknet ignores this key)"),
    REAL_KEY(net_config, bn_momentum, 0.01, 0, 1,
             "pace of the running statistics of batch norm (PyTorch: .1; stock Darknet ignores this key)"),
    REAL_KEY(net_config, label_smooth_eps, 0, 0, 0.999,
             "label smoothing: truth is 1-eps on the class, eps/(classes-1) elsewhere"),
    REAL_KEY(net_config, valid_every, 1, 0, 1e6,
             "epochs between validations (0: at the end only; stock Darknet ignores this key)"),
    { 0 },
};

/* Keys of [net] that Darknet's cfgs carry and that have no meaning for classification here: no warning for
 * them. */
struct silent {
    struct list ignored;
};
#define SILENT(word)                                                                                         \
    {                                                                                                        \
        word, KEY_LIST, 0, 0, -1e30, 1e30, NULL, "accepted, no effect"                                       \
    }
static const struct key silent_keys[] = { SILENT("time_steps"), SILENT("notruth"), SILENT("center"), { 0 } };

static int config_check(struct net *n, int line, struct err *e)
{
    struct net_config *c = &n->config;
    const char *path = n->cfg->path;
    if (c->subdivisions > c->batch)
        return fail_at(e, E_CFG, path, line, "[net] subdivisions=%d is more than batch=%d", c->subdivisions,
                       c->batch);
    if (c->policy == POLICY_STEPS && (!c->steps.n || c->scales.n < c->steps.n))
        return fail_at(e, E_CFG, path, line,
                       "[net] policy=steps needs steps= and as many scales= (%d, %d given)", c->steps.n,
                       c->scales.n);
    for (int i = 1; c->policy == POLICY_STEPS && i < c->steps.n; i++)
        if (list_at(&c->steps, i) <= list_at(&c->steps, i - 1))
            return fail_at(e, E_CFG, path, line,
                           "[net] steps=%.80s: expected each larger than the one before", c->steps.text);
    if (c->mean.n != c->std.n || (c->mean.n && c->mean.n != c->channels))
        return fail_at(e, E_CFG, path, line,
                       "[net] mean= and std= need one number for each of the %d channels (%d, %d given)",
                       c->channels, c->mean.n, c->std.n);
    int image = c->height && c->width && c->channels;
    if (!image && !c->inputs)
        return fail_at(e, E_CFG, path, line, "[net] needs height=, width= and channels= (or inputs=)");
    if (image && c->inputs && (double)c->height * c->width * c->channels != c->inputs)
        return fail_at(e, E_CFG, path, line, "[net] inputs=%d is not height*width*channels", c->inputs);
    if ((double)c->height * c->width * c->channels > INT_MAX)
        return fail_at(e, E_CFG, path, line, "[net] an image of %dx%dx%d is too large", c->width, c->height,
                       c->channels);
    return OK;
}

static int set_precision(struct cfg *cfg, const char *precision, struct err *e)
{
    char assignment[40];
    int known = 0;
    for (int i = 0; precision_names[i]; i++) known |= !strcmp(precision_names[i], precision);
    if (!known) {
        const char *near = text_nearest(precision, precision_names, PRECISION_COUNT, sizeof *precision_names);
        return fail(e, E_ARG, "precision '%.20s': expected fp32, tf32 or bf16%s%s%s", precision,
                    near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
    }
    snprintf(assignment, sizeof assignment, "net.precision=%s", precision);
    return cfg_override(cfg, assignment, e);
}

int net_read_cfg(struct cfg **cfg, const char *path, const char *const *set, const char *precision,
                 struct err *e)
{
    TRY(cfg_read(cfg, path, e));
    int rc = OK;
    for (; !rc && set && *set; set++) rc = cfg_override(*cfg, *set, e);
    if (!rc && precision) rc = set_precision(*cfg, precision, e);
    if (!rc) return OK;
    cfg_free(*cfg);
    *cfg = NULL;
    return rc;
}

static int config_fits(const struct net *n, struct err *e)
{
    int p = n->config.precision, line = 0;
    if (n->be->ops->precisions & 1u << p) return OK;
    cfg_find(&n->cfg->section[0], "precision", &line);
    const char *what = precision_names[p], *device = n->be->ops->name;
    if (!line) /* from the command line, or a caller */
        return fail(e, E_CFG, "precision %s: device %s computes in fp32 only: %s needs a GPU", what, device,
                    what);
    return fail_at(e, E_CFG, n->cfg->path, line,
                   "[net] precision=%s: device %s computes in fp32 only: take a GPU, or -precision fp32",
                   what, device);
}

/* Settings that work and are seldom meant. */
static void config_remarks(const struct net *n)
{
    const struct net_config *c = &n->config;
    const char *path = n->cfg->path;
    if (c->batch % c->subdivisions)
        note(&n->notes, "%s: batch=%d is no multiple of subdivisions=%d: an update sees %d images", path,
             c->batch, c->subdivisions, c->batch / c->subdivisions * c->subdivisions);
    if (c->max_batches && c->burn_in >= c->max_batches)
        note(&n->notes,
             "%s: burn_in=%d lasts to the end (max_batches=%d): the rate never gets to learning_rate", path,
             c->burn_in, c->max_batches);
    if (c->learning_rate == 0) note(&n->notes, "%s: learning_rate=0: nothing will be learnt", path);
}

static int config_read(struct net *n, struct err *e)
{
    struct cfg_section *s = &n->cfg->section[0];
    struct silent nothing;
    TRY(options_fill(&n->config, net_config_keys, n->cfg->path, s, e));
    TRY(options_fill(&nothing, silent_keys, n->cfg->path, s, e));
    const struct key *const tables[] = { net_config_keys, silent_keys, NULL };
    TRY(options_unused(tables, 0, n->cfg->path, s, &n->notes, e));
    TRY(config_check(n, s->line, e));
    TRY(config_fits(n, e));
    n->mini = n->config.batch / n->config.subdivisions;
    config_remarks(n);
    return OK;
}

static int unknown_section(const struct net *n, const struct cfg_section *s, struct err *e)
{
    const char *near = layer_nearest(s->name);
    return fail_at(e, E_CFG, n->cfg->path, s->line,
                   "unknown section [%.40s]%s%s%s (see: darknet help layers)", s->name,
                   near ? "; did you mean [" : "", near ? near : "", near ? "]?" : "");
}

static int find_inputs(struct net *n, int i, struct err *e)
{
    enum { ROOM = 1024 };
    struct model_layer *m = &n->layer[i];
    int at[ROOM] = { i - 1 }, count = 1;
    if (m->ops->inputs) {
        struct layer l = { .ops = m->ops, .self = m->self, .index = i, .line = m->line, .cfg = n->cfg->path };
        count = m->ops->inputs(&l, at, ROOM, e);
        if (count < 0) return count;
        if (at[0] < 0) return layer_fail(&l, e, "cannot be the first layer");
    }
    m->nin = count;
    m->in = mem_alloc((size_t)count, sizeof *m->in);
    if (!m->in) return fail(e, E_MEM, "not enough memory for the layers");
    memcpy(m->in, at, (size_t)count * sizeof *at);
    return OK;
}

static int layer_read(struct net *n, int i, struct err *e)
{
    struct cfg_section *s = &n->cfg->section[i + 1];
    struct model_layer *m = &n->layer[i];
    m->line = s->line;
    if (!(m->ops = layer_find(s->name))) return unknown_section(n, s, e);
    m->self = mem_alloc(1, m->ops->size + 1);
    if (!m->self) return fail(e, E_MEM, "not enough memory for the layers");
    struct cfg_section none = { .name = s->name }; /* a strict section has its own keys only */
    const struct key *tables[3] = { m->ops->strict ? m->ops->keys : layer_common_keys,
                                    m->ops->strict ? NULL : m->ops->keys, NULL };
    TRY(options_fill(&m->common, layer_common_keys, n->cfg->path, m->ops->strict ? &none : s, e));
    TRY(options_fill(m->self, m->ops->keys, n->cfg->path, s, e));
    TRY(options_unused(tables, m->ops->strict, n->cfg->path, s, &n->notes, e));
    return find_inputs(n, i, e);
}

/* stopbackward: that layer and everything before it stay as they are. */
static void freeze(struct net *n)
{
    int stop = -1;
    for (int i = 0; i < n->n; i++)
        if (n->layer[i].common.stopbackward) stop = i;
    for (int i = 0; i <= stop; i++) n->layer[i].frozen = 1;
}

static struct pairing_wants wants_of(const struct net *n, int i)
{
    const struct model_layer *m = &n->layer[i];
    struct layer l = { .ops = m->ops, .self = m->self };
    struct pairing_wants w;
    m->ops->wants(&l, &w);
    return w;
}

/* Several [itra] sections share the second mini-batch, so they must agree on it. */
static int gather_wants(struct net *n, struct err *e)
{
    int first = -1;
    for (int i = 0; i < n->n; i++) {
        if (!(n->layer[i].ops->flags & LAYER_PAIRED)) continue;
        struct pairing_wants w = wants_of(n, i);
        if (first < 0) {
            first = i;
            n->wants = w;
            continue;
        }
        if (w.source != n->wants.source || w.by_class != n->wants.by_class || w.every != n->wants.every)
            return fail_at(e, E_CFG, n->cfg->path, n->layer[i].line,
                           "[%s] pair, match and every must be those of the section in line %d",
                           n->layer[i].ops->name, n->layer[first].line);
        n->wants.gradient_first &= w.gradient_first || !w.active;
        n->wants.active |= w.active;
    }
    if (first < 0) n->wants.every = 1;
    n->pair_loader = n->wants.active && n->wants.source == PAIR_LOADER;
    return OK;
}

static void find_feature(struct net *n)
{
    n->feature = -1;
    for (int i = 0; i < n->n; i++)
        if (n->layer[i].ops->flags & LAYER_TRAIN_ONLY) n->feature = i;
}

int net_penultimate(const struct net *n)
{
    int i = n->feature >= 0 ? n->feature : n->n - 1;
    while (n->feature < 0 && i >= 0 && !(n->layer[i].ops->flags & LAYER_DRAWS)) i--;
    return i < 0 ? -1 : n->layer[i].in[0];
}

/* One row, for shapes and names; checks every option against the shapes it meets. */
static int measure(struct net *n, struct err *e)
{
    struct program_desc d = { .rows = n->mini, .paired = n->pair_loader, .train = 1 };
    struct program *draft = NULL;
    int rc = program_draft(&draft, n, &d, e);
    if (!rc) program_describe(draft, n);
    program_close(draft);
    return rc;
}

static int build(struct net *n, struct err *e)
{
    TRY(config_read(n, e));
    n->n = n->cfg->n - 1;
    if (!n->n) return fail_at(e, E_CFG, n->cfg->path, 0, "no layers after [net]");
    n->layer = mem_alloc((size_t)n->n, sizeof *n->layer);
    if (!n->layer) return fail(e, E_MEM, "not enough memory for the layers");
    for (int i = 0; i < n->n; i++) TRY(layer_read(n, i, e));
    freeze(n);
    TRY(gather_wants(n, e));
    find_feature(n);
    return measure(n, e);
}

int net_open(struct net **out, struct cfg *cfg, struct backend *be, uint64_t seed, const struct notes *notes,
             struct err *e)
{
    *out = NULL;
    struct net *n = mem_alloc(1, sizeof *n);
    if (!n) {
        cfg_free(cfg);
        return fail(e, E_MEM, "not enough memory for the net");
    }
    n->cfg = cfg;
    n->be = be;
    n->seed = seed;
    n->ce_average = -1;
    if (notes) n->notes = *notes;
    int rc = build(n, e);
    if (rc) {
        net_close(n);
        return rc;
    }
    *out = n;
    return OK;
}

int net_keep_images(struct net *n, const struct images_desc *d, int *kept, struct err *e)
{
    const struct backend_ops *ops = n->be->ops;
    double bytes = (double)d->n * d->c * d->h * d->w;
    *kept = ops->images && bytes < (double)ops->free_bytes(n->be) / 2;
    if (e) e->code = OK;
    return *kept ? attach_device_error(n, ops->images->plan(n->be, d, &n->images, e), e) : OK;
}

void net_close(struct net *n)
{
    if (!n) return;
    model_destroy_params(n);
    op_destroy(&n->images);
    for (int i = 0; n->layer && i < n->n; i++) {
        mem_free(n->layer[i].self);
        mem_free(n->layer[i].in);
    }
    mem_free(n->layer);
    cfg_free(n->cfg);
    mem_free(n);
}

int attach_device_error(const struct net *n, int rc, struct err *e)
{
    struct err met = { 0 };
    if (rc == E_DEVICE) n->be->ops->sync(n->be, &met);
    if (!rc || !e || (e->code && !met.code)) return rc;
    if (!e->code) return fail(e, rc, "%s: %s", n->cfg->path, met.code ? met.msg : err_text(rc));
    const struct err known = *e;
    return fail(e, rc, "%.240s: %.200s", known.msg, met.msg);
}

void model_name(const struct net *n, int i, char *buf, size_t size)
{
    snprintf(buf, size, "%.200s:%d: [%s] (layer %d)", n->cfg->path, n->layer[i].line, n->layer[i].ops->name,
             i);
}

int net_layer_info(const struct net *n, int i, struct layer_info *info)
{
    if (i < 0 || i >= n->n) return E_ARG;
    const struct model_layer *m = &n->layer[i];
    *info = (struct layer_info){ .name = m->ops->name, .out = m->out, .flops = m->flops };
    for (int k = m->param; k < m->param + m->nparam; k++)
        if (!(n->param[k]->flags & PARAM_STATE)) info->params += n->param[k]->count;
    return OK;
}
