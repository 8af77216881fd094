#include "backend/ops/mix.h"
#include <string.h>
#include "act.h"
#include "backend/scalar.h"

struct mix {
    const struct cpu *cpu;
    struct mix_desc desc;
    size_t rows, rows_back;
    struct operand y, gy, x[MIX_MOST], gx[MIX_MOST]; /* y has the format of the first */
    size_t at_factor;                                /* in scratch: nin x channels of y */
    size_t at_sum;                                   /* in scratch: the gradients of these */
    size_t at_g;                                     /* in scratch: the gradient before the activation */
};

static int plan(struct backend *be, const struct mix_desc *d, struct tensor *out, struct op_plan *p,
                struct err *e)
{
    TRY(op_plan_init(p, sizeof(struct mix), e));
    TRY(format_tensor(out, d->in[0]->layout, e));
    struct mix *s = p->self;
    *s = (struct mix){ .cpu = cpu_of(be),
                       .desc = *d,
                       .rows = (size_t)out->shape.n,
                       .rows_back = (size_t)d->rows_back,
                       .y = operand_float(out, out->shape.n, &p->scratch_bytes),
                       .gy = operand_float(out, d->rows_back, &p->scratch_bytes) };
    for (int k = 0; k < d->nin; k++) {
        s->x[k] = operand_float(d->in[k], out->shape.n, &p->scratch_bytes);
        s->gx[k] = operand_float(d->in[k], d->rows_back, &p->scratch_bytes);
    }
    size_t factors = (size_t)d->nin * s->y.want.c * sizeof(float);
    s->at_factor = scratch_reserve(&p->scratch_bytes, factors);
    if (d->train) s->at_sum = scratch_reserve(&p->scratch_bytes, factors);
    if (d->train && d->act != ACT_LINEAR)
        s->at_g = scratch_reserve(&p->scratch_bytes, s->rows_back * s->y.want.row * sizeof(float));
    return OK;
}

static float *factors(const struct mix *s, const float *w, void *scratch)
{
    float *f = scratch_at(scratch, s->at_factor);
    for (size_t i = 0; i < (size_t)s->desc.nin * s->y.want.c; i++)
        f[i] = mix_factor(&s->desc, w, (int)(i / s->y.want.c), (int)(i % s->y.want.c));
    return f;
}

/* For input k: to += factor * from, in rows and channels that it shares with out. */
struct job {
    const struct mix *s;
    int k;
    const float *factor, *from;
    float *to;
    const struct memory_format *of_from, *of_to;
};

/* In runs of pixels, so that the cache lines that channels share are still there for the next channel. */
static void add_rows(void *ctx, size_t first, size_t last)
{
    enum { RUN = 64 };
    const struct job *j = ctx;
    size_t channels = min_size(j->of_from->c, j->of_to->c), from = j->of_from->block, to = j->of_to->block;
    for (size_t n = first; n < last; n++)
        for (size_t p = 0; p < j->of_to->hw; p += RUN)
            for (size_t c = 0; c < channels; c++) {
                const float f = j->factor[(size_t)j->k * j->s->y.want.c + c];
                const float *x = j->from + format_at(j->of_from, n, c, p);
                float *y = j->to + format_at(j->of_to, n, c, p);
                for (size_t i = 0; i < min_size(RUN, j->of_to->hw - p); i++) y[i * to] += f * x[i * from];
            }
}

static int forward(const struct op_plan *p, const struct op_context *context, const void *const *x,
                   const float *w, void *y)
{
    const struct mix *s = p->self;
    void *scratch = context->scratch;
    const float *f = factors(s, w, scratch);
    float *to = operand_place(&s->y, y, scratch);
    memset(to, 0, s->rows * s->y.want.row * sizeof(float));
    for (int k = 0; k < s->desc.nin; k++) {
        struct job j = {
            s, k, f, operand_get(s->cpu, &s->x[k], x[k], scratch), to, &s->x[k].want, &s->y.want
        };
        parallel_for(s->cpu, s->rows, 1, add_rows, &j);
    }
    act_bias(s->cpu, s->desc.act, &s->y.want, s->rows, NULL, to);
    operand_put(s->cpu, &s->y, y, scratch, 0);
    format_pad(s->cpu, &s->y.have, s->rows, y);
    return OK;
}

struct sums {
    const struct mix *s;
    const float *x[MIX_MOST], *g;
    float *sum;
};

/* The gradient of each factor: the sum of g * x_k over its channel. */
static void sum_channels(void *ctx, size_t first, size_t last)
{
    const struct sums *j = ctx;
    const struct memory_format *out = &j->s->y.want;
    for (size_t i = first; i < last; i++) {
        size_t k = i / out->c, c = i % out->c;
        const struct memory_format *in = &j->s->x[k].want;
        double sum = 0;
        for (size_t n = 0; c < in->c && n < j->s->rows_back; n++) {
            const float *g = j->g + format_at(out, n, c, 0), *x = j->x[k] + format_at(in, n, c, 0);
            for (size_t p = 0; p < out->hw; p++) sum += (double)(g[p * out->block] * x[p * in->block]);
        }
        j->sum[i] = (float)sum;
    }
}

static void gradient_of_weights(const struct mix *s, const float *w, const float *sum, float *gw, int add)
{
    const struct mix_desc *m = &s->desc;
    for (int i = 0; i < m->weights; i++) {
        float g[MIX_MOST] = { 0 };
        for (size_t k = 0; k < (size_t)m->nin; k++)
            for (size_t c = (size_t)i; c < s->y.want.c && (m->weights == 1 || c == (size_t)i); c++)
                g[k] += sum[k * s->y.want.c + c];
        for (int k = 0; k < m->nin; k++) {
            float *to = &gw[k * m->weights + i];
            *to = mix_slope(m, w, k, i, g) + (add ? *to : 0);
        }
    }
}

static int backward(const struct op_plan *p, const struct op_context *context, const void *const *x,
                    const float *w, const void *y, const void *gy, void *const *gx, float *gw)
{
    const struct mix *s = p->self;
    void *scratch = context->scratch;
    const float *f = factors(s, w, scratch);
    struct sums sums = { .s = s,
                         .g = operand_get(s->cpu, &s->gy, gy, scratch),
                         .sum = scratch_at(scratch, s->at_sum) };
    if (s->desc.act != ACT_LINEAR) {
        float *g = scratch_at(scratch, s->at_g);
        act_grad_all(s->cpu, s->desc.act, s->rows_back * s->y.want.row, 0,
                     operand_get(s->cpu, &s->y, y, scratch), sums.g, g, 0);
        sums.g = g;
    }
    if (gw) {
        for (int k = 0; k < s->desc.nin; k++) sums.x[k] = operand_get(s->cpu, &s->x[k], x[k], scratch);
        parallel_for(s->cpu, (size_t)s->desc.nin * s->y.want.c, 1, sum_channels, &sums);
        gradient_of_weights(s, w, sums.sum, gw, context->add);
    }
    for (int k = 0; k < s->desc.nin; k++) {
        const struct operand *o = &s->gx[k];
        struct job j = { s, k, f, sums.g, operand_place(o, gx[k], scratch), &s->y.want, &o->want };
        if (!gx[k]) continue;
        if (!operand_adds(o, s->desc.add[k])) memset(j.to, 0, s->rows_back * o->want.row * sizeof(float));
        parallel_for(s->cpu, s->rows_back, 1, add_rows, &j);
        operand_put(s->cpu, o, gx[k], scratch, s->desc.add[k]);
    }
    return OK;
}

const struct mix_ops cpu_mix = { plan, forward, backward };
