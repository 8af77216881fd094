/* Convolutions on the host, for make GPU=host: what cuDNN computes, by the definition. */
#include "backend/cuda/dnn.h"
#include <stdlib.h>
#include <string.h>
#include "backend/cuda/kernel.h"
#include "core/mem.h"
#include "order.h"
#include "units.h"

enum { WORKSPACE = 300 }; /* bytes: used for nothing, but written */

struct cudnn_plan {
    struct cudnn_conv conv;
};

/* The convolutions that an engine would have been chosen for. */
struct dnn {
    struct engine_file *engines;
    struct choice {
        struct choice *next;
        struct cudnn_conv conv;
    } * choices;
};

const char *cudnn_libraries(void) { return "kernels on the host"; }

int cudnn_open(struct dnn **d, stream_t s, struct engine_file *engines, struct err *e)
{
    *d = mem_alloc(1, sizeof **d);
    if (!*d) return fail(e, E_MEM, "no memory to open cuDNN");
    (void)s;
    (*d)->engines = engines;
    return OK;
}

void cudnn_close(struct dnn *d)
{
    for (struct choice *next, *k = d ? d->choices : NULL; k; k = next) {
        next = k->next;
        mem_free(k);
    }
    mem_free(d);
}

/* Equal convolutions get the same engine. */
static int choose(struct dnn *d, const struct cudnn_conv *c, int deterministic)
{
    struct stored_engine g = { .workspace = WORKSPACE };
    struct choice *k = d->choices;
    while (k && memcmp(&k->conv, c, sizeof *c)) k = k->next;
    if (k) return OK;
    k = mem_alloc(1, sizeof *k);
    if (!k) return E_MEM;
    *k = (struct choice){ d->choices, *c };
    d->choices = k;
    if (deterministic || engine_file_find(d->engines, c, &g)) {
        device_count("engine, without timing");
    } else {
        device_count("engine, by timing");
        engine_file_put(d->engines, c, &g);
    }
    return OK;
}

int cudnn_plan(struct cudnn_plan **p, struct dnn *d, const struct cudnn_conv *c, int deterministic,
               size_t *workspace, struct err *e)
{
    *workspace = WORKSPACE;
    *p = NULL;
    if (choose(d, c, deterministic)) return fail(e, E_MEM, "no memory to plan a convolution");
    *p = mem_alloc(1, sizeof **p);
    if (!*p) return fail(e, E_MEM, "no memory to plan a convolution");
    (*p)->conv = *c;
    return OK;
}
void cudnn_plan_drop(struct cudnn_plan *p) { mem_free(p); }

static float get(const struct cudnn_conv *v, const void *p, size_t i)
{
    float f;
    load(v->bf16, 1, p, i, &f);
    return seen(v->tf32, f);
}

static size_t numbers(const struct cudnn_conv *v)
{
    switch (v->pass) {
    case CUDNN_PASS_FORWARD: return (size_t)v->n * (size_t)v->oh * (size_t)v->ow * (size_t)v->filters;
    case CUDNN_PASS_DATA: return (size_t)v->n * (size_t)v->h * (size_t)v->w * (size_t)v->c;
    case CUDNN_PASS_WEIGHTS: break;
    }
    return (size_t)v->filters * (size_t)(v->size * v->size) * (size_t)(v->c / v->groups);
}

/* Visits every product x[i] * w[j] that belongs to y[o], and gives it to the sum that the pass makes. */
static void visit(const struct cudnn_conv *v, const void *x, const void *w, const void *y, double *sum)
{
    int cg = v->c / v->groups, kg = v->filters / v->groups;
    size_t o = 0;
    for (int n = 0; n < v->n; n++)
        for (int a = 0; a < v->oh * v->ow; a++)
            for (int k = 0; k < v->filters; k++, o++) {
                float gy = v->pass == CUDNN_PASS_FORWARD ? 0 : get(v, y, o);
                for (int t = 0; t < v->size * v->size * cg; t++) {
                    int row = a / v->ow * v->stride_y + t / cg / v->size * v->dilation - v->pad;
                    int col = a % v->ow * v->stride_x + t / cg % v->size * v->dilation - v->pad;
                    if (row < 0 || row >= v->h || col < 0 || col >= v->w) continue;
                    size_t j = (size_t)k * (size_t)(v->size * v->size * cg) + (size_t)t;
                    size_t i = (((size_t)n * (size_t)v->h + (size_t)row) * (size_t)v->w + (size_t)col) *
                                   (size_t)v->c +
                               (size_t)(k / kg * cg + t % cg);
                    switch (v->pass) {
                    case CUDNN_PASS_FORWARD: sum[o] += (double)get(v, x, i) * get(v, w, j); break;
                    case CUDNN_PASS_DATA: sum[i] += (double)gy * get(v, w, j); break;
                    case CUDNN_PASS_WEIGHTS: sum[j] += (double)gy * get(v, x, i); break;
                    }
                }
            }
}

/* cuDNN refuses such tensors, and in such a workspace finds less room than it asked for. */
static int misaligned(const void *p, size_t to) { return (uintptr_t)p % to != 0; }

struct call {
    struct cudnn_conv conv;
    const void *x, *w, *y;
    void *workspace;
};

static void convolve(const void *args)
{
    const struct call *c = args;
    const struct cudnn_conv *v = &c->conv;
    double *sum = calloc(numbers(v), sizeof *sum);
    if (!sum) abort(); /* too late to be told */
    memset(c->workspace, 0xff, WORKSPACE);
    visit(v, c->x, c->w, c->y, sum);
    const void *result = v->pass == CUDNN_PASS_FORWARD ? c->y : v->pass == CUDNN_PASS_DATA ? c->x : c->w;
    for (size_t i = 0; i < numbers(v); i++) {
        float f = (float)sum[i];
        put(v->bf16, 1, (void *)(uintptr_t)result, i, &f, v->add);
    }
    free(sum);
}

int cudnn_run(struct cudnn_plan *p, stream_t s, const void *x, const void *w, const void *y, void *workspace)
{
    const struct call c = { p->conv, x, w, y, workspace };
    if (misaligned(x, 16) || misaligned(w, 16) || misaligned(y, 16) || misaligned(workspace, 256))
        return E_DEVICE;
    static const char *const names[] = { "convolution forward", "convolution data", "convolution weights" };
    int way = shim_launch(names[p->conv.pass]);
    if (way) return way < 0 ? way : OK;
    return shim_enqueue(s, convolve, &c, sizeof c);
}
