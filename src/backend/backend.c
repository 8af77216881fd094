#include "backend.h"
#include <stdio.h>
#include <string.h>
#include "activation.h"
#include "core/cores.h"
#include "core/mem.h"

const char *const act_names[ACT_COUNT + 1] = {
    "linear", "relu", "relu6", "leaky", "relie",     "ramp", "logistic", "loggy", "tanh",  "elu",
    "selu",   "gelu", "swish", "mish",  "hard_mish", "plse", "hardtan",  "lhtan", "stair", NULL,
};

const char *const precision_names[PRECISION_COUNT + 1] = { "fp32", "tf32", "bf16", NULL };

int act_from_output(enum act a)
{
    return a != ACT_GELU && a != ACT_SWISH && a != ACT_MISH && a != ACT_HARD_MISH;
}

int op_plan_init(struct op_plan *p, size_t self_bytes, struct err *e)
{
    *p = (struct op_plan){ .self = mem_alloc(1, self_bytes) };
    return p->self ? OK : fail(e, E_MEM, "no memory to plan an operation (%zu bytes)", self_bytes);
}

void op_destroy(struct op_plan *p)
{
    if (p->self && p->release) p->release(p->self);
    mem_free(p->self);
    *p = (struct op_plan){ 0 };
}

#define BACKEND(name) extern const struct backend_ops backend_##name;
#include "backends.inc"
#undef BACKEND

static const struct backend_ops *const all[] = {
#define BACKEND(name) &backend_##name,
#include "backends.inc"
#undef BACKEND
};

const struct backend_ops *backend_at(int i)
{
    return i >= 0 && (size_t)i < sizeof all / sizeof *all ? all[i] : NULL;
}

static const struct backend_ops *find(const char *name, size_t n)
{
    for (int i = 0; backend_at(i); i++)
        if (strlen(backend_at(i)->name) == n && !strncmp(backend_at(i)->name, name, n)) return backend_at(i);
    return NULL;
}

static int unknown(const char *device, struct err *e)
{
    char list[100] = "";
    int gpu = 0;
    for (int i = 0; backend_at(i); i++) {
        size_t n = strlen(list);
        gpu |= backend_at(i)->gpu;
        snprintf(list + n, sizeof list - n, "%s%s", i ? ", " : "", backend_at(i)->name);
    }
    return fail(e, E_DEVICE, "device '%.60s' is not one of those built in: %s%s", device, list,
                gpu ? "" : " (for a GPU, build with make GPU=1)");
}

int backend_open(struct backend **out, const char *device, int threads, struct err *e)
{
    *out = NULL;
    size_t n = strcspn(device, ":");
    int index = 0, used = 0;
    const struct backend_ops *ops = find(device, n);
    if (!ops) return unknown(device, e);
    if (device[n] &&
        (sscanf(device + n, ":%9d%n", &index, &used) != 1 || device[n + (size_t)used] || index < 0))
        return fail(e, E_DEVICE, "device '%.60s': expected a number after ':', as in cuda:0", device);
    if (threads < 0 || threads > MOST_THREADS)
        return fail(e, E_ARG, "%d threads: expected at most %d, or 0 for one a core", threads, MOST_THREADS);
    struct backend *be = mem_alloc(1, sizeof *be);
    if (!be) return fail(e, E_MEM, "no memory to open device %s", ops->name);
    be->ops = ops;
    be->precisions = ops->precisions;
    snprintf(be->title, sizeof be->title, "%s", ops->name);
    be->threads = threads > 0 ? threads : cores();
    int rc = ops->open(be, index, e);
    if (rc) {
        mem_free(be);
        return rc;
    }
    *out = be;
    return OK;
}

void backend_close(struct backend *be)
{
    if (!be) return;
    be->ops->close(be);
    mem_free(be);
}
