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
    (void)be;
    TRY(op_plan_init(p, sizeof(struct softmax), e));
    ptrdiff_t k = (ptrdiff_t)shape_row(d->in->shape);
    if (d->groups < 1 || k % d->groups)
        return fail(e, E_ARG, "softmax: groups=%d does not divide the %td inputs", d->groups, k);
    TRY(ref_tensor(out, e));
    *(struct softmax *)p->self = (struct softmax){
        .rows = d->in->shape.n,
        .rows_back = d->rows_back,
        .groups = d->groups,
        .length = k / d->groups,
        .temperature = d->temperature,
        .on = 1 - d->smooth,
        .off = k > 1 ? d->smooth / (double)(k - 1) : 0,
    };
    return OK;
}

enum { NO_LABEL = -1 };

static double truth(const struct softmax *s, ptrdiff_t class, int label)
{
    if (label == NO_LABEL) return 0;
    return class == label ? s->on : s->off;
}

/* Fills p for the group that starts at class `first`; returns its part of the loss. */
static double group_forward(const struct softmax *s, ptrdiff_t first, const real *x, int label, real *p)
{
    double max = x[0], sum = 0, loss = 0;
    for (ptrdiff_t k = 1; k < s->length; k++) max = x[k] > max ? x[k] : max;
    for (ptrdiff_t k = 0; k < s->length; k++) sum += exp((x[k] - max) / s->temperature);
    for (ptrdiff_t k = 0; k < s->length; k++) {
        double z = (x[k] - max) / s->temperature, t = truth(s, first + k, label);
        p[k] = (real)(exp(z) / sum);
        if (t != 0) loss -= t * (z - log(sum));
    }
    return loss;
}

static int label_of(const struct op_context *context, int row)
{
    return context->label && row < context->scored ? context->label[row] : NO_LABEL;
}

static int forward(const struct op_plan *made, const struct op_context *context, const void *x, void *p,
                   double *loss)
{
    const struct softmax *s = made->self;
    double total = 0;
    for (int n = 0; n < s->rows; n++)
        for (int g = 0; g < s->groups; g++) {
            ptrdiff_t first = g * s->length, at = n * s->groups * s->length + first;
            total += group_forward(s, first, (const real *)x + at, label_of(context, n), (real *)p + at);
        }
    if (context->label) *loss = total;
    return OK;
}

/* gx (+)= the gradient of weight * loss, and of what follows p (gy may be NULL). */
static void group_back(const struct softmax *s, ptrdiff_t first, const real *p, int label, double weight,
                       const real *gy, real *gx, int add)
{
    double dot = 0, sum = 0;
    for (ptrdiff_t k = 0; k < s->length; k++) {
        if (gy) dot += (double)gy[k] * p[k];
        sum += truth(s, first + k, label);
    }
    for (ptrdiff_t k = 0; k < s->length; k++) {
        double g = weight * (sum * p[k] - truth(s, first + k, label));
        if (gy) g += p[k] * (gy[k] - dot);
        ref_put(&gx[k], g / s->temperature, add);
    }
}

static int backward(const struct op_plan *made, const struct op_context *context, const void *p,
                    const void *gy, void *gx, int add)
{
    const struct softmax *s = made->self;
    for (int n = 0; gx && n < s->rows_back; n++)
        for (int g = 0; g < s->groups; g++) {
            ptrdiff_t first = g * s->length, at = n * s->groups * s->length + first;
            int l = label_of(context, n);
            group_back(s, first, (const real *)p + at, l, l == NO_LABEL ? 0 : 1.0 / context->scored,
                       gy ? (const real *)gy + at : NULL, (real *)gx + at, add);
        }
    return OK;
}

const struct softmax_ops ref_softmax = { plan, forward, backward };
