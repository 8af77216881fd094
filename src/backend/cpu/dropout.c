#include "backend/ops/dropout.h"
#include "backend/scalar.h"
#include "cpu.h"

struct dropout {
    const struct cpu *cpu;
    struct memory_format format;
    size_t rows, rows_back;
    double probability;
    uint64_t key;
};

static int dropout_plan(struct backend *be, const struct dropout_desc *d, struct tensor *out,
                        struct op_plan *plan, struct err *e)
{
    TRY(op_plan_init(plan, sizeof(struct dropout), e));
    *(struct dropout *)plan->self = (struct dropout){ cpu_of(be),
                                                      format_of(d->in->shape, d->in->layout),
                                                      (size_t)d->in->shape.n,
                                                      (size_t)d->rows_back,
                                                      d->probability,
                                                      d->key };
    return format_tensor(out, d->in->layout, e);
}

struct mask {
    uint64_t key, step;
    double probability;
    float scale;
    int add;
};

/* y[i] = x[i] scaled, or 0, for n neighbours in memory whose logical numbers are e, e + step, ... */
CPU_CLONES static void mask_run(struct mask m, uint64_t e, size_t n, const float *x, float *y)
{
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

struct masked {
    const struct memory_format *format;
    struct mask mask;
    const float *x;
    float *y;
};

/* Part i is block i % blocks of row i / blocks. A dense row is one part and one run. */
static void mask_parts(void *ctx, size_t first, size_t last)
{
    const struct masked *k = ctx;
    const struct memory_format *o = k->format;
    size_t part = o->block == 1 ? o->row : o->block * o->hw, blocks = o->row / part;
    for (size_t i = first; i < last; i++) {
        size_t c = i % blocks * o->block, used = o->c - c < o->block ? o->c - c : o->block;
        uint64_t e = (i / blocks * o->c + c) * o->hw;
        if (o->block == 1) {
            mask_run(k->mask, e, part, k->x + i * part, k->y + i * part);
            continue;
        }
        for (size_t p = 0; p < o->hw; p++)
            mask_run(k->mask, e + p, used, k->x + i * part + p * o->block, k->y + i * part + p * o->block);
    }
}

static int mask_all(const struct dropout *s, size_t rows, const struct step_state *state, const float *x,
                    float *y, int add)
{
    uint64_t key = rng_key(s->key, RNG_DROPOUT, state->step);
    struct masked k = { &s->format,
                        { key, s->format.block == 1 ? 1 : s->format.hw, s->probability,
                          (float)(1 / (1 - s->probability)), add },
                        x,
                        y };
    cpu_share(s->cpu, rows * (s->format.block == 1 ? 1 : s->format.blocks), 1, mask_parts, &k);
    if (!add) format_pad(s->cpu, &s->format, rows, y);
    return OK;
}

static int dropout_forward(const struct op_plan *plan, const struct op_context *context, const void *x,
                           void *y)
{
    const struct dropout *s = plan->self;
    return mask_all(s, s->rows, context->state, x, y, 0);
}

static int dropout_backward(const struct op_plan *plan, const struct op_context *context, const void *gy,
                            void *gx, int add)
{
    const struct dropout *s = plan->self;
    return mask_all(s, s->rows_back, context->state, gy, gx, add);
}

const struct dropout_ops cpu_dropout = {
    .plan = dropout_plan,
    .forward = dropout_forward,
    .backward = dropout_backward,
};
