#include "cpu.h"
#include <stdatomic.h>
#include <string.h>

struct update {
    float *w, *v;
    const float *g;
    float rate, momentum, decay, average;
};

CPU_CLONES static void update_range(const struct update *k, size_t from, size_t to)
{
    const float rate = k->rate, momentum = k->momentum, decay = k->decay, average = k->average;
    float *w = k->w, *v = k->v;
    const float *g = k->g;
#pragma omp simd
    for (size_t i = from; i < to; i++) {
        v[i] = momentum * v[i] + (average * g[i] + decay * w[i]);
        w[i] -= rate * v[i];
    }
}

static void update_part(void *ctx, size_t from, size_t to) { update_range(ctx, from, to); }

static int sgd_update(struct backend *be, void *w, const void *g, void *v, size_t n,
                      const struct sgd_step *step)
{
    struct update k = {
        w, v, g, (float)step->rate, (float)step->momentum, (float)step->decay, (float)step->average
    };
    cpu_share(cpu_of(be), n, 4096, update_part, &k);
    return OK;
}

struct scan {
    const float *x;
    atomic_int bad;
};

/* Not finite: all ones in the exponent. */
CPU_CLONES static uint32_t any_bad(const float *x, size_t n)
{
    uint32_t bad = 0;
#pragma omp simd reduction(| : bad)
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, x + i, sizeof bits);
        bad |= (bits & 0x7f800000u) == 0x7f800000u;
    }
    return bad;
}

static void scan_part(void *ctx, size_t from, size_t to)
{
    struct scan *k = ctx;
    if (any_bad(k->x + from, to - from)) atomic_store(&k->bad, 1);
}

static int sgd_finite(struct backend *be, const void *g, size_t n, int *bad)
{
    struct scan k = { .x = g };
    cpu_share(cpu_of(be), n, 4096, scan_part, &k);
    *bad = atomic_load(&k.bad);
    return OK;
}

const struct sgd_ops cpu_sgd = { .update = sgd_update, .finite = sgd_finite };
