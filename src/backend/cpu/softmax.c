#include "backend/ops/softmax.h"
#include <math.h>
#include "memory_format.h"

/* Rows are few and short beside what feeds them: plain C, a row at a time, in dense order. */
struct softmax {
    const struct cpu *cpu;
    struct memory_format in, dense;
    int flat; /* the input is dense already */
    size_t rows, rows_back, group;
    double temperature, smooth;
    size_t at_loss; /* in scratch: a loss a row, so that their sum has one order whatever the threads */
};

static int plan(struct backend *be, const struct softmax_desc *d, struct tensor *out, struct op_plan *p,
                struct err *e)
{
    struct shape shape = d->in->shape;
    TRY(op_plan_init(p, sizeof(struct softmax), e));
    TRY(format_tensor(out, NULL, e));
    struct softmax *s = p->self;
    *s = (struct softmax){ .cpu = cpu_of(be),
                           .in = format_of(shape, d->in->layout),
                           .dense = format_of(shape, NULL),
                           .flat = format_same(shape, d->in->layout, NULL),
                           .rows = (size_t)shape.n,
                           .rows_back = (size_t)d->rows_back,
                           .group = shape_row(shape) / (size_t)d->groups,
                           .temperature = d->temperature,
                           .smooth = d->smooth };
    if (!s->flat) scratch_reserve(&p->scratch_bytes, s->dense.row * s->rows * sizeof(float));
    s->at_loss = scratch_reserve(&p->scratch_bytes, s->rows * sizeof(double));
    return OK;
}

struct job {
    const struct softmax *s;
    const float *x, *gy; /* logits or probabilities; gradient from above, or NULL */
    float *to;
    const int *label;
    const struct mixed_label *mixed;
    size_t scored, scored_all;
    double *loss;
    int add;
};

/* What the loss wants of output i in row n. */
static double truth(const struct job *k, size_t i, size_t n)
{
    const double smooth = k->s->smooth, on = 1 - smooth;
    const double off = smooth == 0 || k->s->dense.row < 2 ? 0 : smooth / (double)(k->s->dense.row - 1);
    if (k->mixed) return mixed_truth(&k->mixed[n], (int)i, on, off);
    return i == (size_t)k->label[n] ? on : off;
}

/* The logarithm of the sum of exp((x - most) / temperature). */
static double log_sum(const struct softmax *s, const float *x, float *most)
{
    *most = x[0];
    for (size_t i = 1; i < s->group; i++)
        if (x[i] > *most) *most = x[i];
    double sum = 0;
    for (size_t i = 0; i < s->group; i++) sum += exp(((double)x[i] - (double)*most) / s->temperature);
    return log(sum);
}

static void forward_rows(void *ctx, size_t first, size_t last)
{
    const struct job *k = ctx;
    const struct softmax *s = k->s;
    size_t row = s->dense.row;
    for (size_t n = first; n < last; n++) {
        const float *x = k->x + n * row;
        int scored = k->label && n < k->scored;
        double loss = 0;
        for (size_t g = 0; g < row; g += s->group) {
            float most;
            double log_of = log_sum(s, x + g, &most);
            for (size_t i = g; i < g + s->group; i++) {
                double log_p = ((double)x[i] - (double)most) / s->temperature - log_of;
                k->to[n * row + i] = (float)exp(log_p);
                double t = scored ? truth(k, i, n) : 0;
                if (t != 0) loss -= t * log_p;
            }
        }
        k->loss[n] = loss;
    }
}

static int forward(const struct op_plan *made, const struct op_context *context, const void *x, void *p,
                   double *loss)
{
    const struct softmax *s = made->self;
    struct job k = { .s = s,
                     .x = x,
                     .to = p,
                     .label = context->label,
                     .mixed = context->mixed,
                     .scored = (size_t)context->scored,
                     .loss = scratch_at(context->scratch, s->at_loss) };
    if (!s->flat) {
        format_reorder(s->cpu, s->rows, &s->in, x, &s->dense, context->scratch, 0);
        k.x = context->scratch;
    }
    parallel_for(s->cpu, s->rows, 1, forward_rows, &k);
    if (!k.label) return OK;
    *loss = 0;
    for (size_t n = 0; n < k.scored; n++) *loss += k.loss[n];
    return OK;
}

/* With t the truth and T its sum over the group: d loss / dx = (T p - t) / temperature, and from above
 * p (gy - sum of p gy) / temperature. */
static void backward_rows(void *ctx, size_t first, size_t last)
{
    const struct job *k = ctx;
    const struct softmax *s = k->s;
    size_t row = s->dense.row;
    for (size_t n = first; n < last; n++) {
        const float *p = k->x + n * row, *gy = k->gy ? k->gy + n * row : NULL;
        int scored = k->label && n < k->scored;
        for (size_t g = 0; g < row; g += s->group) {
            double dot = 0, all = 0;
            for (size_t i = g; i < g + s->group; i++) {
                if (gy) dot += (double)p[i] * (double)gy[i];
                if (scored) all += truth(k, i, n);
            }
            for (size_t i = g; i < g + s->group; i++) {
                double d = gy ? (double)p[i] * ((double)gy[i] - dot) : 0;
                if (scored) d += (all * (double)p[i] - truth(k, i, n)) / (double)k->scored_all;
                float *to = k->to + n * row + i;
                *to = (float)(d / s->temperature) + (k->add ? *to : 0);
            }
        }
    }
}

static int backward(const struct op_plan *made, const struct op_context *context, const void *p,
                    const void *gy, void *gx, int add)
{
    const struct softmax *s = made->self;
    struct job k = { .s = s,
                     .x = p,
                     .gy = gy,
                     .to = s->flat ? gx : context->scratch,
                     .label = context->label,
                     .mixed = context->mixed,
                     .scored = (size_t)context->scored,
                     .scored_all = (size_t)context->scored_all,
                     .add = s->flat && add };
    parallel_for(s->cpu, s->rows_back, 1, backward_rows, &k);
    if (!s->flat) format_reorder(s->cpu, s->rows_back, &s->dense, context->scratch, &s->in, gx, add);
    return OK;
}

const struct softmax_ops cpu_softmax = { plan, forward, backward };
