#include "backend/ops/dropout.h"
#include "backend/scalar.h"
#include "memory_format.h"

struct dropout {
    const struct cpu *cpu;
    struct dropout_desc desc;
    struct operand from, to; /* x and y, or their gradients */
};

static int plan(struct backend *be, const struct dropout_desc *d, struct tensor *out, struct op_plan *p,
                struct err *e)
{
    TRY(op_plan_init(p, sizeof(struct dropout), e));
    TRY(format_tensor(out, d->in->layout, e));
    *(struct dropout *)p->self =
        (struct dropout){ .cpu = cpu_of(be),
                          .desc = *d,
                          .from = operand_float(d->in, d->in->shape.n, &p->scratch_bytes),
                          .to = operand_float(d->in, d->in->shape.n, &p->scratch_bytes) };
    return OK;
}

struct mask {
    uint64_t key;  /* of this step */
    uint64_t step; /* from one element's number to that of its neighbour in memory */
    double probability;
    float scale;
    int add;
    struct share share;
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

/* Part i is block i % blocks of row i / blocks: a run a pixel. A dense row is one part and one run. */
static void mask_parts(void *ctx, size_t first, size_t last)
{
    const struct mask *k = ctx;
    const struct memory_format *f = k->format;
    int dense = f->block == 1;
    size_t part = dense ? f->row : f->block * f->hw, blocks = f->row / part, runs = dense ? 1 : f->hw;
    for (size_t i = first; i < last; i++) {
        size_t c = i % blocks * f->block, n = dense ? part : min_size(f->c - c, f->block);
        uint64_t row = (uint64_t)share_row(k->share, (int)(i / blocks)), e = (row * f->c + c) * f->hw;
        for (size_t p = 0, at = i * part; p < runs; p++, at += f->block)
            mask_run(k, e + p, n, k->x + at, k->y + at);
    }
}

static int mask_all(const struct op_plan *p, const struct op_context *context, int rows, const void *x,
                    void *y, int add)
{
    const struct dropout *s = p->self;
    struct operand from = s->from, to = s->to;
    from.rows = to.rows = (size_t)rows;
    const struct memory_format *f = &to.want;
    struct mask k = { .key = rng_key(s->desc.key, RNG_DROPOUT, context->state->step),
                      .step = f->block == 1 ? 1 : f->hw,
                      .probability = s->desc.probability,
                      .scale = (float)(1 / (1 - s->desc.probability)),
                      .add = operand_adds(&to, add),
                      .share = s->desc.share,
                      .format = f,
                      .x = operand_get(s->cpu, &from, x, context->scratch),
                      .y = operand_place(&to, y, context->scratch) };
    parallel_for(s->cpu, (size_t)rows * (f->block == 1 ? 1 : f->blocks), 1, mask_parts, &k);
    operand_put(s->cpu, &to, y, context->scratch, add);
    if (!add) format_pad(s->cpu, &to.have, (size_t)rows, y);
    return OK;
}

static int forward(const struct op_plan *p, const struct op_context *context, const void *x, void *y)
{
    const struct dropout *s = p->self;
    return mask_all(p, context, s->desc.in->shape.n, x, y, 0);
}

static int backward(const struct op_plan *p, const struct op_context *context, const void *gy, void *gx,
                    int add)
{
    const struct dropout *s = p->self;
    return mask_all(p, context, s->desc.rows_back, gy, gx, add);
}

const struct dropout_ops cpu_dropout = { plan, forward, backward };
