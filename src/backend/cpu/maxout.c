#include "backend/ops/maxout.h"
#include <string.h>
#include "memory_format.h"

struct maxout {
    const struct cpu *cpu;
    struct operand x, y, gy, gx;
    size_t rows, rows_back;
};

static int plan(struct backend *be, const struct maxout_desc *d, struct tensor *out, struct op_plan *p,
                struct err *e)
{
    TRY(op_plan_init(p, sizeof(struct maxout), e));
    TRY(format_tensor(out, format_layout(out->shape, format_block(d->in->layout), format_bf16(d->in->layout)),
                      e));
    *(struct maxout *)p->self = (struct maxout){ .cpu = cpu_of(be),
                                                 .x = operand_float(d->in, out->shape.n, &p->scratch_bytes),
                                                 .y = operand_float(out, out->shape.n, &p->scratch_bytes),
                                                 .gy = operand_float(out, d->rows_back, &p->scratch_bytes),
                                                 .gx = operand_float(d->in, d->rows_back, &p->scratch_bytes),
                                                 .rows = (size_t)out->shape.n,
                                                 .rows_back = (size_t)d->rows_back };
    if (d->train) p->kept_bytes = shape_count(out->shape) * sizeof(uint32_t);
    return OK;
}

struct job {
    const struct maxout *s;
    const float *from;
    float *to;
    uint32_t *kept; /* channels, in the order of the loops over outputs; NULL: not wanted */
};

static void take_maxima(void *ctx, size_t first, size_t last)
{
    const struct job *k = ctx;
    const struct memory_format *in = &k->s->x.want, *out = &k->s->y.want;
    for (size_t at = first * out->hw * out->c; first < last; first++)
        for (size_t p = 0; p < out->hw; p++)
            for (size_t g = 0; g < out->c; g++, at++) {
                size_t best = g;
                for (size_t c = g; c < in->c; c += out->c)
                    if (k->from[format_at(in, first, c, p)] > k->from[format_at(in, first, best, p)])
                        best = c;
                k->to[format_at(out, first, g, p)] = k->from[format_at(in, first, best, p)];
                if (k->kept) k->kept[at] = (uint32_t)best;
            }
}

static void give_back(void *ctx, size_t first, size_t last)
{
    const struct job *k = ctx;
    const struct memory_format *in = &k->s->x.want, *out = &k->s->y.want;
    for (size_t at = first * out->hw * out->c; first < last; first++)
        for (size_t p = 0; p < out->hw; p++)
            for (size_t g = 0; g < out->c; g++, at++)
                k->to[format_at(in, first, k->kept[at], p)] += k->from[format_at(out, first, g, p)];
}

static int forward(const struct op_plan *p, const struct op_context *context, const void *x, void *y,
                   void *kept)
{
    const struct maxout *s = p->self;
    void *scratch = context->scratch;
    struct job k = { s, operand_get(s->cpu, &s->x, x, scratch), operand_place(&s->y, y, scratch), kept };
    parallel_for(s->cpu, s->rows, 1, take_maxima, &k);
    operand_put(s->cpu, &s->y, y, scratch, 0);
    format_pad(s->cpu, &s->y.have, s->rows, y);
    return OK;
}

static int backward(const struct op_plan *p, const struct op_context *context, const void *kept,
                    const void *gy, void *gx, int add)
{
    const struct maxout *s = p->self;
    void *scratch = context->scratch;
    struct job k = { s, operand_get(s->cpu, &s->gy, gy, scratch), operand_place(&s->gx, gx, scratch),
                     (uint32_t *)kept };
    if (!gx) return OK;
    if (!operand_adds(&s->gx, add)) memset(k.to, 0, s->rows_back * s->gx.want.row * sizeof(float));
    parallel_for(s->cpu, s->rows_back, 1, give_back, &k);
    operand_put(s->cpu, &s->gx, gx, scratch, add);
    return OK;
}

const struct maxout_ops cpu_maxout = { plan, forward, backward };
