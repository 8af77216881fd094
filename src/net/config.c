#include "config.h"
#include <limits.h>
#include <stdio.h>

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
    REAL_KEY(net_config, learning_rate, 0.001, 0, 1e6, "rate that burn_in and policy vary"),
    REAL_KEY(net_config, momentum, 0.9, 0, 1, "momentum"),
    REAL_KEY(net_config, decay, 0.0001, 0, 1e6, "weight decay"),
    INT_KEY(net_config, adam, 0, 0, 1, "1: Adam instead of gradient descent with momentum"),
    REAL_KEY(net_config, B1, .9, 0, .999999, "adam: momentum"),
    REAL_KEY(net_config, B2, .999, 0, .999999, "adam: momentum of the mean square"),
    REAL_KEY(net_config, eps, 1e-7, 0, 1,
             "adam: added to the root of the mean square of gradients that are summed over the batch, as in "
             "Darknet"),
    REAL_KEY(
        net_config, ema_alpha, 0, 0, .999999,
        "the net that is validated, and saved as best and final, is a moving average over the second half of "
        "the run: average*ema_alpha + weights*(1-ema_alpha) (0: the last weights)"),
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
    REAL_KEY(net_config, sgdr_mult, 2, 1, 1e6,
             "policy=sgdr: factor from the length of one cycle to the next"),
    INT_KEY(net_config, max_crop, 0, 0, 1 << 16,
            "augmentation: the shorter side is scaled to at most this many pixels (0: 2*width)"),
    INT_KEY(net_config, min_crop, 0, 0, 1 << 16,
            "augmentation: the shorter side is scaled to at least this many pixels (0: width)"),
    REAL_KEY(net_config, max_ratio, 0, 0, 1e4,
             "augmentation: max_crop as a multiple of width (0: as max_crop says)"),
    REAL_KEY(net_config, min_ratio, 0, 0, 1e4,
             "augmentation: min_crop as a multiple of width (0: as min_crop says)"),
    REAL_KEY(net_config, angle, 0, 0, 180, "augmentation: rotation, degrees either way"),
    REAL_KEY(net_config, aspect, 1, 0, 100, "augmentation: aspect ratio up to this or its inverse"),
    REAL_KEY(net_config, saturation, 1, 0, 100, "augmentation: saturation up to this factor or its inverse"),
    REAL_KEY(net_config, exposure, 1, 0, 100, "augmentation: brightness up to this factor or its inverse"),
    REAL_KEY(net_config, hue, 0, 0, 1, "augmentation: hue shift either way, in turns"),
    INT_KEY(net_config, flip, 1, 0, 1, "augmentation: 1: mirror half of the images"),
    INT_KEY(net_config, letter_box, 0, 0, 1,
            "1: the whole image, fitted inside, the rest gray, where the central part would be validated; in "
            "training, crops of that"),
    INT_KEY(net_config, blur, 0, 0, 1001,
            "augmentation: a quarter of the images is blurred by a Gaussian so many pixels wide (1: 15)"),
    INT_KEY(net_config, mixup, 0, 0, 4,
            "augmentation of half of the images: 1: mean of two; 2: as cutmix; 3: as mosaic; 4: one of these "
            "two. "
            "For [itra] and [center], a mixed image is of the class with the largest share"),
    INT_KEY(net_config, cutmix, 0, 0, 1,
            "augmentation: 1: half of the images get a rectangle of another one"),
    INT_KEY(net_config, mosaic, 0, 0, 1, "augmentation: 1: half of the images are quarters of four"),
    INT_KEY(net_config, pad_crop, 0, 0, 1 << 12,
            "augmentation: pad by this many black pixels, then crop at random, instead of scaling (stock "
            "Darknet ignores this key)"),
    LIST_KEY(net_config, mean, -1e6, 1e6,
             "per channel, subtracted from values in [0,1] (stock Darknet ignores this key)"),
    LIST_KEY(net_config, std, 1e-9, 1e6, "per channel, divides after mean (stock Darknet ignores this key)"),
    WORD_KEY(
        net_config, init, START_DARKNET, starts,
        "initial weights; pytorch: uniform in +-1/sqrt(fan-in), biases too (stock Darknet ignores this key)"),
    WORD_KEY(net_config, precision, PRECISION_FP32, precision_names,
             "what the net computes in: bf16 on processors and GPUs that have it, tf32 on GPUs (stock "
             "Darknet ignores this key)"),
    REAL_KEY(
        net_config, bn_momentum, 0.01, 0, 1,
        "momentum of the running statistics of batch norm (PyTorch: .1; stock Darknet ignores this key)"),
    INT_KEY(net_config, sync_bn, 0, 0, 1,
            "several processes: 1: batch norm by the statistics of the whole mini-batch, not of each one's "
            "share (stock Darknet ignores this key)"),
    REAL_KEY(net_config, label_smooth_eps, 0, 0, 0.999,
             "label smoothing: truth is 1-eps on the class, eps/(classes-1) elsewhere"),
    REAL_KEY(net_config, valid_every, 1, 0, 1e6,
             "epochs between validations (0: at the end only; stock Darknet ignores this key)"),
    INT_KEY(net_config, patience, 0, 0, 1 << 20,
            "training ends after this many validations without a new best (0: never; stock Darknet ignores this "
            "key)"),
    { 0 },
};

static int check(const struct net_config *c, const char *path, int line, struct err *e)
{
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
    int image = config_is_image(c);
    if (!image && !c->inputs)
        return fail_at(e, E_CFG, path, line, "[net] needs height=, width= and channels= (or inputs=)");
    if (image && c->inputs && (double)c->height * c->width * c->channels != c->inputs)
        return fail_at(e, E_CFG, path, line, "[net] inputs=%d is not height*width*channels", c->inputs);
    if ((double)c->height * c->width * c->channels > INT_MAX)
        return fail_at(e, E_CFG, path, line, "[net] an image of %dx%dx%d is too large", c->width, c->height,
                       c->channels);
    return OK;
}

int net_read_cfg(struct cfg **cfg, const char *path, const char *const *set, const char *precision,
                 struct err *e)
{
    char assignment[80];
    TRY(cfg_read(cfg, path, e));
    int rc = OK;
    for (; !rc && set && *set; set++) rc = cfg_override(*cfg, *set, e);
    snprintf(assignment, sizeof assignment, "net.precision=%s", precision ? precision : "");
    if (!rc && precision) rc = cfg_override(*cfg, assignment, e);
    struct net_config values; /* a bad one is said before a device is opened */
    if (!rc && (*cfg)->n && cfg_is_net((*cfg)->section[0].name))
        rc = options_fill(&values, net_config_keys, path, &(*cfg)->section[0], e);
    if (!rc) return OK;
    cfg_free(*cfg);
    *cfg = NULL;
    return rc;
}

static int check_precision(const struct net_config *c, struct cfg *cfg, const struct backend *be,
                           struct err *e)
{
    int p = c->precision, line = 0, n = 0;
    char known[40] = "";
    if (be->ops->precisions & 1u << p) return OK;
    for (int i = 0; i < PRECISION_COUNT; i++)
        if (be->precisions & 1u << i)
            n += snprintf(known + n, sizeof known - (size_t)n, "%s%s", n ? " or " : "", precision_names[i]);
    cfg_find(&cfg->section[0], "precision", &line);
    const char *what = precision_names[p], *device = be->ops->name;
    if (!line) /* from the command line, or a caller */
        return fail(e, E_CFG, "precision %s: device %s computes in %s", what, device, known);
    return fail_at(e, E_CFG, cfg->path, line,
                   "[net] precision=%s: device %s computes in %s: try -precision fp32", what, device, known);
}

void config_note_training(const struct net_config *c, const char *path, const struct notes *notes)
{
    if (c->batch % c->subdivisions)
        note(notes, "warning: %s: batch=%d is not a multiple of subdivisions=%d: an update sees %d images",
             path, c->batch, c->subdivisions, c->batch / c->subdivisions * c->subdivisions);
    if (c->max_batches && c->burn_in >= c->max_batches)
        note(
            notes,
            "warning: %s: burn_in=%d lasts to the end (max_batches=%d): the rate never reaches learning_rate",
            path, c->burn_in, c->max_batches);
    if (c->learning_rate == 0) note(notes, "warning: %s: learning_rate=0: no weight will change", path);
}

int config_read(struct net_config *c, struct cfg *cfg, const struct backend *be, const struct notes *notes,
                struct err *e)
{
    static const struct key *const tables[] = { net_config_keys, NULL };
    struct cfg_section *s = &cfg->section[0];
    TRY(options_fill(c, net_config_keys, cfg->path, s, e));
    TRY(options_unused(tables, 0, cfg->path, s, notes, e));
    TRY(check(c, cfg->path, s->line, e));
    TRY(check_precision(c, cfg, be, e));
    if (c->cutmix || c->mosaic) c->mixup = c->cutmix && c->mosaic ? 4 : c->cutmix ? 2 : 3;
    return OK;
}
