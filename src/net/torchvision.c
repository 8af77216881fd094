#include "torchvision.h"
#include <stdlib.h>
#include <string.h>
#include "core/mem.h"
#include "net/surgery.h"

/* What a module of PyTorch has. The last one counts its training steps. */
enum part { WEIGHT, BIAS, MEAN, VARIANCE, TRACKED, PARTS };
static const char *const part_names[PARTS] = { "weight", "bias", "running_mean", "running_var",
                                               "num_batches_tracked" };

struct module {
    const char *name; /* of any of its tensors, which begins with that of the module: */
    size_t length;
    struct state_tensor *part[PARTS];
};

struct modules {
    struct state_dict *file;
    struct module *module; /* in the order in which torchvision calls them */
    size_t n, next;
    real *host;
};

/* ---- the order of modules ---- */

/* A word of a name, such as "layer2" of layer2.0.bn1: letters, then a number (-1: none). */
struct word {
    const char *text;
    size_t letters;
    int last, second; /* a classifier comes last; bn1 after conv1, and as that otherwise */
    long number;
};

static int is_word(const struct word *w, const char *text)
{
    return strlen(text) == w->letters && !memcmp(w->text, text, w->letters);
}

static struct word next_word(const char **at, const char *end)
{
    struct word w = { .text = *at, .number = -1 };
    const char *dot = memchr(*at, '.', (size_t)(end - *at)), *stop = dot ? dot : end, *digits = *at;
    while (digits < stop && !(*digits >= '0' && *digits <= '9')) digits++;
    w.letters = (size_t)(digits - *at);
    if (digits < stop) w.number = strtol(digits, NULL, 10);
    w.last = is_word(&w, "fc") || is_word(&w, "classifier");
    w.second = is_word(&w, "bn");
    if (w.second) w = (struct word){ "conv", 4, 0, 1, w.number };
    *at = dot ? dot + 1 : end;
    return w;
}

static int compare_words(const struct word *a, const struct word *b)
{
    const size_t letters = a->letters < b->letters ? a->letters : b->letters;
    int order = memcmp(a->text, b->text, letters);
    if (a->last != b->last) return a->last - b->last;
    if (order || a->letters != b->letters) return order ? order : a->letters < b->letters ? -1 : 1;
    return a->number < b->number ? -1 : a->number > b->number;
}

static int by_order(const void *a, const void *b)
{
    const struct module *x = a, *y = b;
    const char *i = x->name, *i_end = i + x->length, *k = y->name, *k_end = k + y->length;
    int second = 0;
    while (i < i_end && k < k_end) {
        const struct word v = next_word(&i, i_end), w = next_word(&k, k_end);
        const int order = compare_words(&v, &w);
        if (order) return order;
        if (!second) second = v.second - w.second;
    }
    if (i < i_end || k < k_end) return i < i_end ? 1 : -1;
    return second;
}

static int find_part(const struct state_tensor *t, const char *path, struct module *m, struct err *e)
{
    const char *dot = strrchr(t->name, '.');
    for (int i = 0; dot && i < PARTS; i++)
        if (!strcmp(dot + 1, part_names[i])) {
            *m = (struct module){ .name = t->name, .length = (size_t)(dot - t->name) };
            return i;
        }
    return fail_at(
        e, E_FORMAT, path, 0,
        "%.100s is neither a tensor of this cfg (0.convolutional.weights) nor of torchvision's state dicts "
        "(conv1.weight)",
        t->name);
}

static int is_same(const struct module *a, const struct module *b)
{
    return a->length == b->length && !memcmp(a->name, b->name, a->length);
}

/* One module for each tensor, sorted; then those of one name become one. */
static int find_modules(struct modules *d, struct err *e)
{
    struct state_dict *s = d->file;
    d->module = mem_alloc(s->n, sizeof *d->module);
    if (!d->module) return fail(e, E_MEM, "not enough memory");
    for (size_t i = 0; i < s->n; i++) {
        int part = find_part(&s->tensor[i], s->path, &d->module[i], e);
        if (part < 0) return part;
        d->module[i].part[part] = &s->tensor[i];
        s->tensor[i].used = part == TRACKED;
    }
    qsort(d->module, s->n, sizeof *d->module, by_order);
    for (size_t i = 0; i < s->n; i++) {
        if (!d->n || !is_same(&d->module[d->n - 1], &d->module[i])) d->module[d->n++] = d->module[i];
        for (int k = 0; k < PARTS; k++)
            if (d->module[i].part[k]) d->module[d->n - 1].part[k] = d->module[i].part[k];
    }
    return OK;
}

/* ---- from modules to layers ---- */

static struct param *find_param(const struct net *n, int layer, const char *name)
{
    const struct model_layer *l = &n->layer[layer];
    for (int i = l->param; i < l->param + l->nparam; i++)
        if (!strcmp(surgery_param_name(n->param[i]), name)) return n->param[i];
    return NULL;
}

static int take_part(struct modules *d, const struct module *m, enum part part, struct param *p,
                     struct err *e)
{
    if (!m->part[part])
        return fail_at(e, E_FORMAT, d->file->path, 0, "has no %.*s.%s, which %s needs", (int)m->length,
                       m->name, part_names[part], net_layer_name(p->net, p->layer).text);
    TRY(state_dict_get(d->file, m->part[part], p, d->host, e));
    return param_explain(p, param_set(p, d->host), e);
}

static int next_module(struct modules *d, const struct param *p, struct module **m, struct err *e)
{
    *m = d->next < d->n ? &d->module[d->next++] : NULL;
    if (*m) return OK;
    return fail_at(e, E_FORMAT, d->file->path, 0, "has no module left for %s of %s", surgery_param_name(p),
                   net_layer_name(p->net, p->layer).text);
}

/* The bias of a convolution is taken off again by the mean of the normalisation behind it. */
static int shift_mean(struct modules *d, struct state_tensor *bias, struct param *mean, struct err *e)
{
    if (!bias) return OK;
    real *by = mem_alloc(mean->count, sizeof *by);
    int rc = by ? state_dict_get(d->file, bias, mean, by, e) : net_no_memory(mean->net, e);
    if (!rc) rc = param_explain(mean, param_get(mean, d->host), e);
    for (size_t i = 0; !rc && i < mean->count; i++) {
        d->host[i] -= by[i];
        if (!param_accepts(mean, (double)d->host[i]))
            rc = fail_at(e, E_NUMBER, d->file->path, 0,
                         "a running mean less the bias before it is not finite");
    }
    if (!rc) rc = param_explain(mean, param_set(mean, d->host), e);
    mem_free(by);
    return rc;
}

static int read_norm(struct modules *d, const struct net *n, int layer, struct err *e)
{
    struct module *m;
    TRY(next_module(d, find_param(n, layer, "scale"), &m, e));
    TRY(take_part(d, m, WEIGHT, find_param(n, layer, "scale"), e));
    TRY(take_part(d, m, BIAS, find_param(n, layer, "bias"), e));
    TRY(take_part(d, m, MEAN, find_param(n, layer, "mean"), e));
    return take_part(d, m, VARIANCE, find_param(n, layer, "variance"), e);
}

static int read_layer(struct modules *d, const struct net *n, int layer, struct err *e)
{
    struct param *weights = find_param(n, layer, "weights"), *bias = find_param(n, layer, "bias"),
                 *mean = find_param(n, layer, "mean");
    struct module *m = NULL;
    if (!bias)
        return fail_at(e, E_FORMAT, d->file->path, 0, "has nothing for the weights of %s",
                       net_layer_name(n, layer).text);
    if (weights) {
        TRY(next_module(d, weights, &m, e));
        TRY(take_part(d, m, WEIGHT, weights, e));
        if (!mean) return take_part(d, m, BIAS, bias, e);
    }
    TRY(read_norm(d, n, layer, e));
    return m ? shift_mean(d, m->part[BIAS], mean, e) : OK;
}

int torchvision_read(struct net *n, struct state_dict *s, real *host, struct err *e)
{
    struct modules d = { .file = s, .host = host };
    int rc = find_modules(&d, e);
    for (int i = 0; i < n->n && !rc; i++)
        if (n->layer[i].nparam) rc = read_layer(&d, n, i, e);
    mem_free(d.module);
    if (!rc) rc = state_dict_check_used(s, n->cfg->path, e);
    if (!rc && !n->config.mean.n)
        note(&n->notes, "torchvision's nets expect images that are normalised: mean=.485,.456,.406 and "
                        "std=.229,.224,.225 in [net]");
    return rc;
}
