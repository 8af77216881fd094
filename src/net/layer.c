#include "layer.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "backend/scalar.h"
#include "core/text.h"

const char *const s2_source_names[] = { "loader", "split", "memory", NULL };

#define LAYER(name) extern const struct layer_ops layer_##name;
#include "layers.inc"
#undef LAYER

static const struct layer_ops *const all[] = {
#define LAYER(name) &layer_##name,
#include "layers.inc"
#undef LAYER
};

const struct key layer_common_keys[] = {
    REAL_KEY(layer_common, learning_rate, 1, 0, 1e6, "multiplies the net's rate for this layer"),
    INT_KEY(layer_common, stopbackward, 0, 0, 1, "1: this layer and those before it stay as they are"),
    INT_KEY(layer_common, dontload, 0, 0, 1, "1: the .weights file holds nothing for this layer"),
    INT_KEY(layer_common, dontloadscales, 0, 0, 1, "1: the .weights file lacks its batch-norm triple"),
    { 0 },
};

const char *const warmup_words[] = { "auto", NULL };

double layer_warmup(const struct layer *l, const struct pass *p, double warmup)
{
    return warmup_share(warmup, p->iteration, p->ce_average, l->classes);
}

const struct layer_ops *layer_at(int i)
{
    return i >= 0 && (size_t)i < sizeof all / sizeof *all ? all[i] : NULL;
}

const struct layer_ops *layer_find(const char *name)
{
    for (int i = 0; layer_at(i); i++)
        if (!strcmp(layer_at(i)->name, name) || (layer_at(i)->alias && !strcmp(layer_at(i)->alias, name)))
            return layer_at(i);
    return NULL;
}

const char *layer_nearest(const char *name)
{
    const char *near = NULL;
    for (int i = 0; layer_at(i); i++) near = text_nearer(name, near, layer_at(i)->name);
    return near;
}

int layer_no_memory(const struct layer *l, struct err *e)
{
    return fail_at(e, E_MEM, l->cfg, l->line, "[%s]: not enough memory", l->ops->name);
}

int layer_referred(const struct layer *l, const char *key, const struct list *list, int i, struct err *e)
{
    int from = (int)list_at(list, i), at = from < 0 ? l->index + from : from;
    if (at >= 0 && at < l->index) return at;
    return layer_fail(l, e, "%s=%d means layer %d: expected one before this layer (%d)", key, from, at,
                      l->index);
}

int layer_fail(const struct layer *l, struct err *e, const char *fmt, ...)
{
    char msg[300];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(msg, sizeof msg, fmt, ap);
    va_end(ap);
    return fail_at(e, E_CFG, l->cfg, l->line, "[%s] %s", l->ops->name, msg);
}
