/* Batch normalisation, in cuDNN's form: biased variance, eps inside the root.
 *
 * With root = sqrt(var + eps), u = (x - mean) / root and g = dLoss/d(scale * u + bias), over the N values
 * of a channel (the chain rule of Ioffe and Szegedy 2015, its three terms put together):
 *   dLoss/dx = scale / root * (g - sum(g) / N - u * sum(g * u) / N) */
#include "backend/ops/norm.h"
#include "ref.h"

/* Kept from forward to backward: one for each channel of each split. */
struct moments {
    double mean, var;
};

static int split_end(const struct norm_desc *s, int split)
{
    return split < s->splits - 1 ? s->rows_s1 : s->in->shape.n;
}

/* Values of a channel in a split, and where the k-th of them lies. */
static ptrdiff_t values(const struct norm_desc *s, int split)
{
    int rows = split_end(s, split) - (split ? s->rows_s1 : 0);
    return (ptrdiff_t)rows * s->in->shape.h * s->in->shape.w;
}

static ptrdiff_t value(const struct norm_desc *s, int split, int c, ptrdiff_t k)
{
    ptrdiff_t pixels = (ptrdiff_t)s->in->shape.h * s->in->shape.w;
    return ref_plane(s->in->shape, (split ? s->rows_s1 : 0) + (int)(k / pixels), c) + k % pixels;
}

static int plan(struct backend *be, const struct norm_desc *d, struct tensor *out, struct op_plan *p,
                struct err *e)
{
    struct shape stats = { d->splits, d->in->shape.c, 1, 1 };
    TRY(ref_plan(p, d, sizeof *d, out, e));
    p->fused = 1;
    return d->train ? ref_bytes(stats, sizeof(struct moments), &p->kept_bytes, e) : OK;
}

static struct moments measure(const struct norm_desc *s, int split, int c, const real *x)
{
    struct moments m = { 0, 0 };
    ptrdiff_t n = values(s, split);
    for (ptrdiff_t k = 0; k < n; k++) m.mean += x[value(s, split, c, k)];
    m.mean /= (double)n;
    for (ptrdiff_t k = 0; k < n; k++) {
        double d = x[value(s, split, c, k)] - m.mean;
        m.var += d * d;
    }
    m.var /= (double)n;
    return m;
}

static void apply(const struct norm_desc *s, int split, int c, struct moments m, double scale, double bias,
                  const real *x, real *y)
{
    double root = sqrt(m.var + NORM_EPSILON);
    for (ptrdiff_t k = 0; k < values(s, split); k++) {
        ptrdiff_t at = value(s, split, c, k);
        y[at] = act_apply(s->act, (real)(scale * (x[at] - m.mean) / root + bias));
    }
}

static int never_updated(const struct norm_desc *s, const real *var)
{
    for (int c = 0; c < s->in->shape.c; c++)
        if (var[c] != 0) return 0;
    return 1;
}

/* Moves the running mean and variance of channel c towards the average over the splits. */
static void follow(const struct norm_desc *s, const struct moments *stats, int c, double bn_momentum,
                   real *mean, real *var)
{
    double m = 0, v = 0;
    for (int i = 0; i < s->splits; i++) {
        const struct moments *at = &stats[i * s->in->shape.c + c];
        double n = (double)values(s, i), unbias = n > 1 ? n / (n - 1) : 1; /* one value has no variance */
        m += at->mean / s->splits;
        v += at->var * unbias / s->splits;
    }
    if (!isfinite(m) || !isfinite(v)) return; /* a net that diverges keeps the statistics it had */
    mean[c] = (real)(mean[c] + bn_momentum * (m - mean[c]));
    var[c] = (real)(var[c] + bn_momentum * (v - var[c]));
}

static int forward(const struct op_plan *p, const struct op_context *context, const void *x,
                   const void *addend, const real *scale, const real *bias, real *mean, real *var,
                   double bn_momentum, void *kept, void *y)
{
    const struct norm_desc *s = p->self;
    struct moments *stats = kept;
    if (s->train && never_updated(s, var)) bn_momentum = 1;
    for (int c = 0; c < s->in->shape.c; c++) {
        for (int i = 0; i < s->splits; i++) {
            struct moments m = { mean[c], var[c] };
            if (s->train) m = stats[i * s->in->shape.c + c] = measure(s, i, c, x);
            apply(s, i, c, m, scale[c], bias[c], x, y);
        }
        if (s->train) follow(s, stats, c, bn_momentum, mean, var);
    }
    return OK;
}

/* Adds the sums of g * u and of g over a channel of a split; gx may be NULL. */
static void back(const struct norm_desc *s, int split, int c, struct moments m, double scale, const real *x,
                 const real *y, const real *gy, real *gx, double *gscale, double *gbias)
{
    double root = sqrt(m.var + NORM_EPSILON), sum_g = 0, sum_gu = 0;
    ptrdiff_t n = values(s, split);
    for (ptrdiff_t k = 0; k < n; k++) {
        ptrdiff_t at = value(s, split, c, k);
        double g = ref_before(s->act, y, gy, at);
        sum_g += g;
        sum_gu += g * (x[at] - m.mean) / root;
    }
    for (ptrdiff_t k = 0; gx && k < n; k++) {
        ptrdiff_t at = value(s, split, c, k);
        double g = ref_before(s->act, y, gy, at), u = (x[at] - m.mean) / root;
        gx[at] = (real)(scale / root * (g - sum_g / (double)n - u * sum_gu / (double)n));
    }
    *gscale += sum_gu;
    *gbias += sum_g;
}

static int backward(const struct op_plan *p, const struct op_context *context, const void *x, const void *y,
                    const real *scale, const void *kept, const void *gy, void *gx, void *gaddend,
                    real *gscale, real *gbias)
{
    const struct norm_desc *s = p->self;
    const struct moments *stats = kept;
    for (int c = 0; c < s->in->shape.c; c++) {
        double of_scale = 0, of_bias = 0;
        for (int i = 0; i < s->splits && split_end(s, i) <= s->rows_back; i++)
            back(s, i, c, stats[i * s->in->shape.c + c], scale[c], x, y, gy, gx, &of_scale, &of_bias);
        ref_put(&gscale[c], of_scale, context->add);
        ref_put(&gbias[c], of_bias, context->add);
    }
    return OK;
}

const struct norm_ops ref_norm = { .plan = plan, .forward = forward, .backward = backward };
