#include "model.h"
#include <stdio.h>
#include <string.h>
#include "core/mem.h"
#include "core/pairing.h"
#include "core/text.h"
#include "net/stock.h"

static int unknown_section(const struct net *n, const struct cfg_section *s, struct err *e)
{
    const char *reason = stock_section(s->name);
    if (cfg_is_net(s->name))
        return fail_at(e, E_CFG, n->cfg->path, s->line, "[%s] again: a cfg has one, in line %d", s->name,
                       n->cfg->section[0].line);
    if (reason) return fail_at(e, E_CFG, n->cfg->path, s->line, "[%s]: %s", s->name, reason);
    return fail_at(e, E_CFG, n->cfg->path, s->line, "unknown section [%.40s]%s (see: darknet help layers)",
                   s->name, text_hint("[", layer_nearest(s->name), "]").text);
}

static int find_inputs(struct net *n, int i, struct err *e)
{
    enum { MOST_INPUTS = 1024 };
    struct model_layer *m = &n->layer[i];
    int at[MOST_INPUTS] = { i - 1 }, count = 1;
    if (m->ops->inputs) {
        struct layer l = { .ops = m->ops, .self = m->self, .index = i, .line = m->line, .cfg = n->cfg->path };
        count = m->ops->inputs(&l, at, MOST_INPUTS, e);
        if (count < 0) return count;
        if (at[0] < 0) return layer_fail(&l, e, "cannot be the first layer");
    }
    m->nin = count;
    m->in = mem_alloc((size_t)count, sizeof *m->in);
    if (!m->in) return net_no_memory(n, e);
    memcpy(m->in, at, (size_t)count * sizeof *at);
    return OK;
}

static int layer_read(struct net *n, int i, struct err *e)
{
    struct cfg_section *s = &n->cfg->section[i + 1];
    struct model_layer *m = &n->layer[i];
    m->line = s->line;
    if (!(m->ops = layer_find(s->name))) return unknown_section(n, s, e);
    m->self = mem_alloc(1, m->ops->size);
    if (!m->self) return net_no_memory(n, e);
    struct cfg_section none = { .name = s->name }; /* a strict section has its own keys only */
    const struct key *tables[3] = { m->ops->strict ? m->ops->keys : layer_common_keys,
                                    m->ops->strict ? NULL : m->ops->keys, NULL };
    TRY(options_fill(&m->common, layer_common_keys, n->cfg->path, m->ops->strict ? &none : s, e));
    TRY(options_fill(m->self, m->ops->keys, n->cfg->path, s, e));
    TRY(options_unused(tables, m->ops->strict, n->cfg->path, s, &n->notes, e));
    return find_inputs(n, i, e);
}

/* stopbackward=: that layer and all before it stay as they are. */
static void freeze(struct net *n)
{
    for (int i = n->n - 1, frozen = 0; i >= 0; i--)
        n->layer[i].frozen = frozen |= n->layer[i].common.stopbackward;
}

int net_layer_wants(const struct net *n, int i, struct pairing_wants *w)
{
    const struct model_layer *m = &n->layer[i];
    struct layer l = { .ops = m->ops, .self = m->self };
    if (!(m->ops->flags & LAYER_PAIRED)) return 0;
    m->ops->wants(&l, w);
    return 1;
}

/* Several [itra] sections share the second mini-batch, so they must agree on it. */
static int gather_wants(struct net *n, struct err *e)
{
    int first = -1;
    for (int i = 0; i < n->n; i++) {
        struct pairing_wants w;
        if (!net_layer_wants(n, i, &w)) continue;
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
    n->pair_loader = n->wants.active && n->wants.source == S2_FROM_LOADER;
    return OK;
}

int model_read(struct net *n, struct err *e)
{
    n->n = n->cfg->n - 1;
    n->feature = -1;
    if (!n->n) return fail_at(e, E_CFG, n->cfg->path, 0, "no layers after [net]");
    n->layer = mem_alloc((size_t)n->n, sizeof *n->layer);
    if (!n->layer) return net_no_memory(n, e);
    for (int i = 0; i < n->n; i++) {
        TRY(layer_read(n, i, e));
        if (n->layer[i].ops->flags & LAYER_TRAIN_ONLY) n->feature = i;
    }
    freeze(n);
    return gather_wants(n, e);
}

void model_free(struct net *n)
{
    for (int i = 0; n->layer && i < n->n; i++) {
        mem_free(n->layer[i].self);
        mem_free(n->layer[i].in);
    }
    mem_free(n->layer);
}

void net_set_seen(struct net *n, uint64_t seen)
{
    const uint64_t each = net_images_per_update(n);
    n->moments_from += seen / each - n->seen / each;
    n->average_from = 0;
    n->seen = seen;
}

int net_check_seen(const char *path, uint64_t seen, struct err *e)
{
    if (seen <= MOST_SEEN) return OK;
    return fail_at(e, E_FORMAT, path, 0, "%llu images of training: the file is damaged",
                   (unsigned long long)seen);
}

uint64_t net_images_per_update(const struct net *n)
{
    return (uint64_t)n->mini * (uint64_t)n->config.subdivisions;
}

int net_is_paired(const struct net *n, uint64_t iteration)
{
    return n->pair_loader && is_paired_iteration(iteration, n->wants.every);
}

int net_penultimate(const struct net *n)
{
    int i = n->feature >= 0 ? n->feature : n->n - 1;
    while (n->feature < 0 && i >= 0 && !(n->layer[i].ops->flags & LAYER_DRAWS)) i--;
    return i < 0 ? -1 : n->layer[i].in[0];
}

struct layer_name net_layer_name(const struct net *n, int i)
{
    struct layer_name name;
    snprintf(name.text, sizeof name.text, "%.200s:%d: [%s] (layer %d)", n->cfg->path, n->layer[i].line,
             n->layer[i].ops->name, i);
    return name;
}

int net_no_memory(const struct net *n, struct err *e)
{
    return fail(e, E_MEM, "%s: not enough memory", n->cfg->path);
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
