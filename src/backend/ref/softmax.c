/* Softmax and cross-entropy. A row is K = c*h*w logits in equal groups. In a group, with temperature T,
 * z = x / T, truth t, and t' the sum of t over the group:
 *   log p_k = z_k - log sum exp z,  loss = -sum t_k log p_k,  dloss/dx_k = (t' p_k - t_k) / T */
#include "backend/ops/softmax.h"
#include "ref.h"

struct softmax {
    int rows, rows_back, groups;
    ptrdiff_t length; /* of a group */
    double temperature;
    double on, off; /* truth of the class, and of every other one */
};

static int plan(struct backend *be, const struct softmax_desc *d, struct tensor *out, struct op_plan *p,
                struct err *e)
{
    ptrdiff_t k = (ptrdiff_t)shape_row(d->in->shape);
    const struct softmax s = {
        .rows = d->in->shape.n,
        .rows_back = d->rows_back,
        .groups = d->groups,
        .length = k / d->groups,
        .temperature = d->temperature,
        .on = 1 - d->smooth,
        .off = k > 1 ? d->smooth / (double)(k - 1) : 0,
    };
    return ref_plan(p, &s, sizeof s, out, e);
}

/* Truth of the k-th class of a group, the groups of all rows being counted; 0 in rows without a label. */
static double truth(const struct softmax *s, const struct op_context *context, ptrdiff_t group, ptrdiff_t k)
{
    ptrdiff_t row = group / s->groups, class = group % s->groups * s->length + k;
    if (!context->label || row >= context->scored) return 0;
    if (context->mixed) return mixed_truth(&context->mixed[row], (int)class, s->on, s->off);
    return class == context->label[row] ? s->on : s->off;
}

/* Fills p for a group; returns its part of the loss. */
static double group_forward(const struct softmax *s, const struct op_context *context, ptrdiff_t group,
                            const real *x, real *p)
{
    double max = x[0], sum = 0, loss = 0;
    for (ptrdiff_t k = 1; k < s->length; k++) max = x[k] > max ? x[k] : max;
    for (ptrdiff_t k = 0; k < s->length; k++) sum += exp((x[k] - max) / s->temperature);
    for (ptrdiff_t k = 0; k < s->length; k++) {
        double z = (x[k] - max) / s->temperature, t = truth(s, context, group, k);
        p[k] = (real)(exp(z) / sum);
        if (t != 0) loss -= t * (z - log(sum));
    }
    return loss;
}

static int forward(const struct op_plan *made, const struct op_context *context, const void *x, void *p,
                   double *loss)
{
    const struct softmax *s = made->self;
    double total = 0;
    for (ptrdiff_t i = 0; i < (ptrdiff_t)s->rows * s->groups; i++)
        total += group_forward(s, context, i, (const real *)x + i * s->length, (real *)p + i * s->length);
    if (context->label) *loss = total;
    return OK;
}

/* gx (+)= the gradient of the loss, a mean over the scored rows, and of what follows p (gy may be NULL). */
static void group_back(const struct softmax *s, const struct op_context *context, ptrdiff_t group,
                       const real *p, const real *gy, real *gx, int add)
{
    double dot = 0, sum = 0; /* sum of the truth */
    for (ptrdiff_t k = 0; k < s->length; k++) {
        if (gy) dot += (double)gy[k] * p[k];
        sum += truth(s, context, group, k);
    }
    double weight = sum != 0 ? 1.0 / context->scored_all : 0;
    for (ptrdiff_t k = 0; k < s->length; k++) {
        double g = weight * (sum * p[k] - truth(s, context, group, k));
        if (gy) g += p[k] * (gy[k] - dot);
        ref_put(&gx[k], g / s->temperature, add);
    }
}

static int backward(const struct op_plan *made, const struct op_context *context, const void *p,
                    const void *gy, void *gx, int add)
{
    const struct softmax *s = made->self;
    for (ptrdiff_t i = 0; gx && i < (ptrdiff_t)s->rows_back * s->groups; i++) {
        ptrdiff_t at = i * s->length;
        group_back(s, context, i, (const real *)p + at, gy ? (const real *)gy + at : NULL, (real *)gx + at,
                   add);
    }
    return OK;
}

const struct softmax_ops ref_softmax = { plan, forward, backward };
