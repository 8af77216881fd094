#include "backend/ops/dropout.h"
#include "backend/scalar.h"
#include "memory_format.h"

struct dropout {
    const struct cpu *cpu;
    struct memory_format format;
    size_t rows, rows_back;
    double probability;
    uint64_t key;
};

static int plan(struct backend *be, const struct dropout_desc *d, struct tensor *out, struct op_plan *p,
                struct err *e)
{
    TRY(op_plan_init(p, sizeof(struct dropout), e));
    *(struct dropout *)p->self = (struct dropout){ cpu_of(be),
                                                   format_of(d->in->shape, d->in->layout),
                                                   (size_t)d->in->shape.n,
                                                   (size_t)d->rows_back,
                                                   d->probability,
                                                   d->key };
    return format_tensor(out, d->in->layout, e);
}

struct mask {
    uint64_t key;  /* of this step */
    uint64_t step; /* from one element's number to that of its neighbour in memory */
    double probability;
    float scale;
    int add;
    const struct memory_format *format;
    const float *x;
    float *y;
};

/* y[i] = x[i] scaled, or 0, for n neighbours in memory; the first is element e. */
CPU_CLONES static void mask_run(const struct mask *k, uint64_t e, size_t n, const float *x, float *y)
{
    const struct mask m = *k; /* not written through y: known to the compiler */
    if (m.add) {
#pragma omp simd
        for (size_t i = 0; i < n; i++)
            y[i] += dropout_keep(m.key, e + i * m.step, m.probability) ? x[i] * m.scale : 0;
    } else {
#pragma omp simd
        for (size_t i = 0; i < n; i++)
            y[i] = dropout_keep(m.key, e + i * m.step, m.probability) ? x[i] * m.scale : 0;
    }
}

/* Part i is block i % blocks of row i / blocks. A dense row is one part and one run. */
static void mask_parts(void *ctx, size_t first, size_t last)
{
    const struct mask *k = ctx;
    const struct memory_format *f = k->format;
    size_t part = f->block == 1 ? f->row : f->block * f->hw, blocks = f->row / part;
    for (size_t i = first; i < last; i++) {
        size_t c = i % blocks * f->block, used = min_size(f->c - c, f->block);
        uint64_t e = (i / blocks * f->c + c) * f->hw;
        if (f->block == 1) {
            mask_run(k, e, part, k->x + i * part, k->y + i * part);
            continue;
        }
        for (size_t p = 0; p < f->hw; p++)
            mask_run(k, e + p, used, k->x + i * part + p * f->block, k->y + i * part + p * f->block);
    }
}

static int mask_all(const struct dropout *s, size_t rows, const struct step_state *state, const float *x,
                    float *y, int add)
{
    int dense = s->format.block == 1;
    struct mask k = { .key = rng_key(s->key, RNG_DROPOUT, state->step),
                      .step = dense ? 1 : s->format.hw,
                      .probability = s->probability,
                      .scale = (float)(1 / (1 - s->probability)),
                      .add = add,
                      .format = &s->format,
                      .x = x,
                      .y = y };
    parallel_for(s->cpu, rows * (dense ? 1 : s->format.blocks), 1, mask_parts, &k);
    if (!add) format_pad(s->cpu, &s->format, rows, y);
    return OK;
}

static int forward(const struct op_plan *p, const struct op_context *context, const void *x, void *y)
{
    const struct dropout *s = p->self;
    return mask_all(s, s->rows, context->state, x, y, 0);
}

static int backward(const struct op_plan *p, const struct op_context *context, const void *gy, void *gx,
                    int add)
{
    const struct dropout *s = p->self;
    return mask_all(s, s->rows_back, context->state, gy, gx, add);
}

const struct dropout_ops cpu_dropout = { plan, forward, backward };
