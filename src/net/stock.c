#include "stock.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "net/layer.h"

#define REFUSED   STOCK_REFUSED
#define MISSED    STOCK_MISSED
#define NOTHING   STOCK_NOTHING
#define BITS      "binary weights and activations are not supported: these weights need the Darknet that made them"
#define VIDEO     "layers for video and sequences are not supported"
#define DETECTION "this trainer is for classifiers: detection and segmentation are not supported"

const struct stock_key stock_keys[] = {
    { "net", "clip", REFUSED, 0, "clamping of weights is not supported: remove it" },
    { "net", "time_steps", REFUSED, 1, VIDEO },
    { "net", "track", REFUSED, 0, VIDEO },
    { "net", "contrastive", REFUSED, 0, "contrastive training is not supported" },
    { "net", "unsupervised", REFUSED, 0, "contrastive training is not supported" },
    { "net", "adversarial_lr", REFUSED, 0, "adversarial training is not supported" },
    { "net", "attention", REFUSED, 0, "adversarial training is not supported" },
    { "net", "random", MISSED, 0, "the net keeps its size: training at changing sizes is not supported" },
    { "net", "seq_scales", REFUSED, 1, VIDEO },
    { "net", "center", NOTHING, 0, NULL }, /* pjreddie's trainer never passes it on */
    { "net", "notruth", NOTHING, 0, NULL },
    { "net", "gaussian_noise", NOTHING, 0, NULL }, /* the next three: detectors only */
    { "net", "resize_step", NOTHING, 0, NULL },
    { "net", "mosaic_bound", NOTHING, 0, NULL },
    { "net", "loss_scale", NOTHING, 0,
      NULL }, /* from here on: engineering of its GPU code, charts, detectors */
    { "net", "try_fix_nan", NOTHING, 0, NULL },
    { "net", "optimized_memory", NOTHING, 0, NULL },
    { "net", "workspace_size_limit_MB", NOTHING, 0, NULL },
    { "net", "use_cuda_graph", NOTHING, 0, NULL },
    { "net", "dynamic_minibatch", NOTHING, 0, NULL },
    { "net", "max_chart_loss", NOTHING, 0, NULL },
    { "net", "contrastive_jit_flip", NOTHING, 0, NULL },
    { "net", "contrastive_color", NOTHING, 0, NULL },
    { "net", "augment_speed", NOTHING, 0, NULL },
    { "net", "sequential_subdivisions", NOTHING, 0, NULL },
    { "net", "weights_reject_freq", NOTHING, 0, NULL },
    { "net", "equidistant_point", NOTHING, 0, NULL },
    { "net", "badlabels_rejection_percentage", NOTHING, 0, NULL },
    { "net", "badlabels_reject_threshold", NOTHING, 0, NULL },
    { "net", "num_sigmas_reject_badlabels", NOTHING, 0, NULL },
    { "net", "show_receptive_field", NOTHING, 0, NULL },

    { "", "onlyforward", REFUSED, 0, "use stopbackward=1 to freeze the layers up to this one" },
    { "", "dont_update", REFUSED, 0, "use stopbackward=1 to freeze the layers up to this one" },
    { "", "train_only_bn", REFUSED, 0, "training of batch normalisation alone is not supported" },
    { "", "burnin_update", REFUSED, 0, "a burn-in of single layers is not supported: remove it" },
    { "", "clip", REFUSED, 0, "clamping of weights is not supported: remove it" },
    { "", "truth", REFUSED, 0, "the output of a layer as truth is not supported" },
    { "", "numload", REFUSED, 0, "loading of a part of the filters is not supported" },
    { "", "dontsave", REFUSED, 0, "every layer is saved: use darknet partial to cut the file" },
    { "", "smooth", NOTHING, 0, NULL },

    { "convolutional", "binary", REFUSED, 0, BITS },
    { "convolutional", "xnor", REFUSED, 0, BITS },
    { "convolutional", "bin_output", REFUSED, 0, BITS },
    { "convolutional", "flipped", REFUSED, 0, "transposed weights are not supported" },
    { "convolutional", "dot", REFUSED, 0, "the penalty on similar filters is not supported" },
    { "convolutional", "cbn", REFUSED, 0, "statistics over several mini-batches are not supported" },
    { "convolutional", "share_index", REFUSED, -1, "weights shared among layers are not supported" },
    { "convolutional", "sway", REFUSED, 0, "augmented kernels are not supported" },
    { "convolutional", "rotate", REFUSED, 0, "augmented kernels are not supported" },
    { "convolutional", "stretch", REFUSED, 0, "augmented kernels are not supported" },
    { "convolutional", "stretch_sway", REFUSED, 0, "augmented kernels are not supported" },
    { "convolutional", "angle", NOTHING, 0, NULL }, /* of the four above */
    { "convolutional", "grad_centr", REFUSED, 0, "gradient centralisation is not supported: remove it" },
    { "convolutional", "reverse", REFUSED, 0, "reversed gradients are not supported" },
    { "convolutional", "coordconv", REFUSED, 0, "coordinates as channels are not supported" },
    { "convolutional", "assisted_excitation", REFUSED, 0, "assisted excitation needs boxes: remove it" },
    { "convolutional", "stream", NOTHING, 0, NULL },
    { "convolutional", "wait_stream", NOTHING, 0, NULL },
    { "connected", "flipped", REFUSED, 0, "transposed weights are not supported" },
    { "maxpool", "maxpool_zero_nonmax", REFUSED, 0, "a map of the maxima is not supported" },
    { "softmax", "tree", REFUSED, -1, "class hierarchies are not supported" },
    { "cost", "ratio", REFUSED, 0, "a loss over a share of the outputs is not supported" },
    { "cost", "noobj", NOTHING, 0, NULL }, /* of detectors */
    { "cost", "thresh", NOTHING, 0, NULL },
    { "route", "stream", NOTHING, 0, NULL },
    { "route", "wait_stream", NOTHING, 0, NULL },
    { "reorg", "extra", REFUSED, 0, "outputs that are always 0, for a move of Go, are not supported" },
    { "reorg", "flatten", REFUSED, 0, "transposed maps are not supported" },
    { 0 },
};

/* Values that keys of ours have there. */
static const struct {
    const char *name, *value, *advice;
} foreign[] = {
    { "activation", "silu", "write swish, as the Darknets call it" },
    { "activation", "norm_chan", "activations that look across channels are not supported" },
    { "activation", "norm_chan_softmax", "activations that look across channels are not supported" },
    { "activation", "norm_chan_softmax_maxval", "activations that look across channels are not supported" },
    { "batch_normalize", "2", "statistics over several mini-batches are not supported: write 1" },
};

/* Keys that do nothing without another one. */
static const struct {
    const char *section, *name, *needs;
} dependent[] = {
    { "shortcut", "weights_normalization", "weights_type" },
    { "maxpool", "out_channels", "maxpool_depth" },
    { "dropout", "dropblock_size_abs", "dropblock" },
    { "dropout", "dropblock_size_rel", "dropblock" },
};

const struct stock_section stock_sections[] = {
    { "deconv", "transposed convolutions are not supported" },
    { "deconvolutional", "transposed convolutions are not supported" },
    { "lrn", "local response normalisation is not supported: use batch_normalize=1" },
    { "normalization", "local response normalisation is not supported: use batch_normalize=1" },
    { "logistic", "several labels for an image are not supported: end the cfg with [softmax]" },
    { "l2norm", "scaling to length 1 is not supported" },
    { "contrastive", "contrastive training is not supported" },
    { "implicit", "learnt constants are not supported" },
    { "empty", "it does nothing: remove it" },
    { "silence", "it does nothing: remove it" },
    /* the next two: of other forks */
    { "depthwise_convolutional",
      "write [convolutional], with filters= and groups= both the channels of its input: the weights load" },
    { "centerloss", "write [center], then [connected] and [softmax]" },
    { "rnn", VIDEO },
    { "lstm", VIDEO },
    { "gru", VIDEO },
    { "crnn", VIDEO },
    { "conv_lstm", VIDEO },
    { "history", VIDEO },
    { "detection", DETECTION },
    { "region", DETECTION },
    { "yolo", DETECTION },
    { "Gaussian_yolo", DETECTION },
    { "iseg", DETECTION },
    { 0 },
};

const char *stock_section(const char *name)
{
    const struct stock_section *s = stock_sections;
    while (s->name && strcmp(s->name, name)) s++;
    return s->reason;
}

static const struct stock_key *find(const char *section, const char *name)
{
    int layer = strcmp(section, "net") != 0;
    for (const struct stock_key *k = stock_keys; k->name; k++)
        if (!strcmp(k->name, name) && (!strcmp(k->section, section) || (layer && !*k->section))) return k;
    return NULL;
}

static int is_neutral(double neutral, const char *value)
{
    char *end;
    double v = strtod(value, &end);
    return end != value ? v == neutral : !strcmp(value, "none");
}

/* Collects the names of the keys that have no effect, each once. */
struct effectless {
    char text[1000];
};
static void collect(struct effectless *list, const char *section, const char *key, const char *needs)
{
    char item[100];
    snprintf(item, sizeof item, "[%s] %s%s%s%s", section, key, needs ? " (without " : "", needs ? needs : "",
             needs ? "=)" : "");
    size_t n = strlen(list->text);
    if (!strstr(list->text, item) && n + strlen(item) + 3 < sizeof list->text)
        snprintf(list->text + n, sizeof list->text - n, "%s%s", n ? ", " : "", item);
}

static int check_value(const struct cfg_entry *x, const char *section, const char *path, struct err *e)
{
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++)
        if (!strcmp(x->key, foreign[i].name) && !strcmp(x->value, foreign[i].value))
            return fail_at(e, E_CFG, x->line ? path : "-set", x->line, "[%s] %s=%s: %s", section, x->key,
                           x->value, foreign[i].advice);
    return OK;
}

static void check_needs(struct cfg_section *s, const char *section, const char *key, struct effectless *list)
{
    for (size_t i = 0; i < sizeof dependent / sizeof *dependent; i++) {
        if (strcmp(section, dependent[i].section) || strcmp(key, dependent[i].name)) continue;
        const char *value = cfg_find(s, dependent[i].needs, NULL);
        if (!value || is_neutral(0, value)) collect(list, section, key, dependent[i].needs);
    }
}

static int check_entry(struct cfg_entry *x, const char *section, const char *path, struct err *e,
                       const struct notes *notes, struct effectless *list)
{
    const struct stock_key *k = find(section, x->key);
    TRY(check_value(x, section, path, e));
    if (!k) return OK;
    x->used = 1;
    if (k->verdict == REFUSED && !is_neutral(k->neutral, x->value))
        return fail_at(e, E_CFG, x->line ? path : "-set", x->line, "[%s] %s=%.40s: %s", section, x->key,
                       x->value, k->advice);
    if (k->verdict == MISSED && !is_neutral(k->neutral, x->value))
        note(notes, "%s:%d: [%s] %s=%.40s: %s", path, x->line, section, x->key, x->value, k->advice);
    if (k->verdict == NOTHING) collect(list, section, x->key, NULL);
    return OK;
}

int stock_check(struct cfg *c, const struct notes *notes, struct err *e)
{
    struct effectless list = { "" };
    for (int i = 0; i < c->n; i++) {
        struct cfg_section *s = &c->section[i];
        const struct layer_ops *ops = i ? layer_find(s->name) : NULL;
        if (i && !ops) continue;
        const char *section = ops ? ops->name : "net";
        for (int k = 0; k < s->n; k++) {
            TRY(check_entry(&s->entry[k], section, c->path, e, notes, &list));
            check_needs(s, section, s->entry[k].key, &list);
        }
    }
    if (*list.text) note(notes, "%s: no effect here: %s", c->path, list.text);
    return OK;
}
