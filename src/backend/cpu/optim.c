#include "backend/ops/optim.h"
#include <math.h>
#include <stdatomic.h>
#include <string.h>
#include "share.h"

struct optim {
    const struct cpu *cpu;
    struct optim_desc d; /* its items: */
    struct optim_item item[];
};

static int plan(struct backend *be, const struct optim_desc *d, struct op_plan *p, struct err *e)
{
    size_t items = (size_t)d->n * sizeof *d->item;
    TRY(op_plan_init(p, sizeof(struct optim) + items, e));
    struct optim *s = p->self;
    s->cpu = cpu_of(be);
    s->d = *d;
    if (d->n) memcpy(s->item, d->item, items);
    return OK;
}

struct update {
    float *w, *v, *s, *mean;
    const float *g;
    float rate, momentum, decay, average; /* rate: with Adam over v_share */
    float b2, epsilon, widen;             /* widen: 1 / sqrt(s_share) */
    float average_share;
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

CPU_CLONES static void adam_part(void *ctx, size_t from, size_t to)
{
    const struct update *k = ctx;
    const float rate = k->rate, b1 = k->momentum, b2 = k->b2, decay = k->decay, average = k->average;
    const float epsilon = k->epsilon, widen = k->widen;
    float *w = k->w, *v = k->v, *s = k->s;
    const float *g = k->g;
#pragma omp simd
    for (size_t i = from; i < to; i++) {
        const float step = average * g[i] + decay * w[i];
        v[i] = b1 * v[i] + (1 - b1) * step;
        s[i] = b2 * s[i] + (1 - b2) * step * step;
        w[i] -= rate * v[i] / (sqrtf(s[i]) * widen + epsilon);
    }
}

CPU_CLONES static void average_part(void *ctx, size_t from, size_t to)
{
    const struct update *k = ctx;
    const float share = k->average_share, keep = 1 - share, *w = k->w;
    float *mean = k->mean;
#pragma omp simd
    for (size_t i = from; i < to; i++) mean[i] = keep * mean[i] + share * w[i];
}

static struct update describe(const struct optim_desc *d, const struct optim_item *i,
                              const struct step_state *now)
{
    const double rate = now->rate * i->rate;
    return (struct update){ .w = i->w,
                            .v = i->v,
                            .s = i->s,
                            .mean = i->average,
                            .g = i->g,
                            .rate = (float)(i->s ? rate / now->v_share : rate),
                            .momentum = (float)d->momentum,
                            .decay = (float)i->decay,
                            .average = (float)d->average,
                            .b2 = (float)d->b2,
                            .epsilon = (float)d->epsilon,
                            .widen = (float)(1 / sqrt(now->s_share)),
                            .average_share = (float)now->average_share };
}

static int update(const struct op_plan *p, const struct step_state *state)
{
    const struct optim *s = p->self;
    for (int i = 0; i < s->d.n; i++) {
        const struct optim_item *item = &s->item[i];
        struct update k = describe(&s->d, item, state);
        size_t n = item->bytes / sizeof(float);
        if (item->g) parallel_for(s->cpu, n, 4096, item->s ? adam_part : update_part, &k);
        if (item->average && k.average_share > 0) parallel_for(s->cpu, n, 4096, average_part, &k);
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
    const struct optim *s = p->self;
    *bad = -1;
    for (int i = 0; i < s->d.n && *bad < 0; i++) {
        struct scan k = { .x = s->item[i].g };
        if (k.x) parallel_for(s->cpu, s->item[i].bytes / sizeof(float), 4096, scan_part, &k);
        if (atomic_load(&k.bad)) *bad = i;
    }
    return OK;
}

const struct optim_ops cpu_optim = { .plan = plan, .update = update, .check = check };
