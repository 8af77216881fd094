#include "backend/ops/mul.h"
#include <string.h>
#include "act.h"

struct mul {
    const struct cpu *cpu;
    struct mul_desc desc;
    size_t rows, rows_back;
    struct operand a, b, y, gy, ga, gb; /* the result has the format of a */
    size_t at_g;                        /* in scratch: the gradient before the activation */
};

static int plan(struct backend *be, const struct mul_desc *d, struct tensor *out, struct op_plan *p,
                struct err *e)
{
    TRY(op_plan_init(p, sizeof(struct mul), e));
    TRY(format_tensor(out, d->a->layout, e));
    struct mul *s = p->self;
    *s = (struct mul){ .cpu = cpu_of(be),
                       .desc = *d,
                       .rows = (size_t)d->a->shape.n,
                       .rows_back = (size_t)d->rows_back,
                       .a = operand_float(d->a, d->a->shape.n, &p->scratch_bytes),
                       .b = operand_float(d->b, d->b->shape.n, &p->scratch_bytes),
                       .y = operand_float(out, out->shape.n, &p->scratch_bytes),
                       .gy = operand_float(out, d->rows_back, &p->scratch_bytes),
                       .ga = operand_float(d->a, d->rows_back, &p->scratch_bytes),
                       .gb = operand_float(d->b, d->rows_back, &p->scratch_bytes) };
    if (d->train && d->act != ACT_LINEAR)
        s->at_g = scratch_reserve(&p->scratch_bytes, s->rows_back * s->a.want.row * sizeof(float));
    return OK;
}

struct job {
    const struct mul *s;
    const float *a, *b, *g;
    float *y, *ga, *gb; /* NULL: not wanted */
    int add_a;
};

/* `n` elements of a, `step` apart, and their factors: one, or as many. */
static void run(const struct job *k, size_t a, size_t step, size_t b, size_t b_step, size_t n)
{
    for (size_t i = 0; k->y && i < n; i++) k->y[a + i * step] = k->a[a + i * step] * k->b[b + i * b_step];
    for (size_t i = 0; k->ga && i < n; i++) {
        float *to = &k->ga[a + i * step], v = k->g[a + i * step] * k->b[b + i * b_step];
        *to = k->add_a ? *to + v : v;
    }
    if (!k->gb) return;
    float sum = 0;
    for (size_t i = 0; i < n; i++) {
        float v = k->g[a + i * step] * k->a[a + i * step];
        if (b_step)
            k->gb[b + i * b_step] += v;
        else
            sum += v;
    }
    if (!b_step) k->gb[b] += sum;
}

/* In runs of pixels, so that the cache lines that channels share are still there for the next channel. */
static void rows(void *ctx, size_t first, size_t last)
{
    enum { RUN = 64 };
    const struct job *k = ctx;
    const struct memory_format *a = &k->s->a.want, *b = &k->s->b.want;
    for (size_t n = first; n < last; n++)
        for (size_t p = 0; p < a->hw; p += RUN)
            for (size_t c = 0; c < a->c; c++)
                run(k, format_at(a, n, c, p), a->block, format_at(b, n, b->c > 1 ? c : 0, b->hw > 1 ? p : 0),
                    b->hw > 1 ? b->block : 0, min_size(RUN, a->hw - p));
}

static int forward(const struct op_plan *p, const struct op_context *context, const void *a, const void *b,
                   void *y)
{
    const struct mul *s = p->self;
    void *scratch = context->scratch;
    struct job k = { .s = s,
                     .a = operand_get(s->cpu, &s->a, a, scratch),
                     .b = operand_get(s->cpu, &s->b, b, scratch),
                     .y = operand_place(&s->y, y, scratch) };
    parallel_for(s->cpu, s->rows, 1, rows, &k);
    if (s->desc.act != ACT_LINEAR) act_bias(s->cpu, s->desc.act, &s->y.want, s->rows, NULL, k.y);
    operand_put(s->cpu, &s->y, y, scratch, 0);
    format_pad(s->cpu, &s->y.have, s->rows, y);
    return OK;
}

static int backward(const struct op_plan *p, const struct op_context *context, const void *a, const void *b,
                    const void *y, const void *gy, void *ga, void *gb)
{
    const struct mul *s = p->self;
    void *scratch = context->scratch;
    struct job k = { .s = s,
                     .a = operand_get(s->cpu, &s->a, a, scratch),
                     .b = operand_get(s->cpu, &s->b, b, scratch),
                     .g = operand_get(s->cpu, &s->gy, gy, scratch),
                     .ga = operand_place(&s->ga, ga, scratch),
                     .gb = operand_place(&s->gb, gb, scratch),
                     .add_a = operand_adds(&s->ga, s->desc.add_a) };
    if (s->desc.act != ACT_LINEAR) {
        float *g = scratch_at(scratch, s->at_g);
        act_grad_all(s->cpu, s->desc.act, s->rows_back * s->a.want.row, 0,
                     operand_get(s->cpu, &s->y, y, scratch), k.g, g, 0);
        k.g = g;
    }
    if (k.gb && !operand_adds(&s->gb, s->desc.add_b))
        memset(k.gb, 0, s->rows_back * s->b.want.row * sizeof(float));
    parallel_for(s->cpu, s->rows_back, 1, rows, &k);
    operand_put(s->cpu, &s->ga, ga, scratch, s->desc.add_a);
    operand_put(s->cpu, &s->gb, gb, scratch, s->desc.add_b);
    if (ga && !s->desc.add_a) format_pad(s->cpu, &s->ga.have, s->rows_back, ga);
    return OK;
}

const struct mul_ops cpu_mul = { plan, forward, backward };
