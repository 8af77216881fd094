#include "backend/ops/sgd.h"
#include <stdatomic.h>
#include <string.h>
#include "share.h"

struct sgd {
    const struct cpu *cpu;
    double momentum, average;
    int n;
    struct sgd_item item[];
};

static int plan(struct backend *be, const struct sgd_desc *d, struct op_plan *p, struct err *e)
{
    size_t items = (size_t)d->n * sizeof *d->item;
    TRY(op_plan_init(p, sizeof(struct sgd) + items, e));
    struct sgd *s = p->self;
    *s = (struct sgd){ cpu_of(be), d->momentum, d->average, d->n };
    if (d->n) memcpy(s->item, d->item, items);
    return OK;
}

struct update {
    float *w, *v;
    const float *g;
    float rate, momentum, decay, average;
};

CPU_CLONES static void update_part(void *ctx, size_t from, size_t to)
{
    const struct update *k = ctx;
    const float rate = k->rate, momentum = k->momentum, decay = k->decay, average = k->average;
    float *w = k->w, *v = k->v;
    const float *g = k->g;
#pragma omp simd
    for (size_t i = from; i < to; i++) {
        v[i] = momentum * v[i] + (average * g[i] + decay * w[i]);
        w[i] -= rate * v[i];
    }
}

static int update(const struct op_plan *p, const struct step_state *state)
{
    const struct sgd *s = p->self;
    for (int i = 0; i < s->n; i++) {
        const struct sgd_item *item = &s->item[i];
        struct update k = { item->w,
                            item->v,
                            item->g,
                            (float)(state->rate * item->rate),
                            (float)s->momentum,
                            (float)item->decay,
                            (float)s->average };
        parallel_for(s->cpu, item->bytes / sizeof(float), 4096, update_part, &k);
    }
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

static int check(const struct op_plan *p, int *bad)
{
    const struct sgd *s = p->self;
    *bad = -1;
    for (int i = 0; i < s->n && *bad < 0; i++) {
        struct scan k = { .x = s->item[i].g };
        parallel_for(s->cpu, s->item[i].bytes / sizeof(float), 4096, scan_part, &k);
        if (atomic_load(&k.bad)) *bad = i;
    }
    return OK;
}

const struct sgd_ops cpu_sgd = { .plan = plan, .update = update, .check = check };
