/* Batch normalisation, in cuDNN's form: biased variance, eps inside the root.
 *
 * With root = sqrt(var + eps), u = (x - mean) / root and g = dLoss/d(scale * u + bias), over the N values
 * of a channel (the chain rule of Ioffe and Szegedy 2015, its three terms put together):
 *   dLoss/dx = scale / root * (g - sum(g) / N - u * sum(g * u) / N) */
#include "backend/ops/norm.h"
#include "backend/ops/sum.h"
#include "ref.h"

struct norm {
    struct norm_desc desc;
    struct backend *be;
};

/* Kept from forward to backward: one for each channel of each split. */
struct moments {
    double mean, var;
};
/* Of the gradient before the activation: sums of g and of g * u. */
struct sums {
    double g, gu;
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

/* The same in all processes. */
static double values_all(const struct norm_desc *s, int split)
{
    return share_total(s->share, (double)values(s, split));
}

static ptrdiff_t value(const struct norm_desc *s, int split, int c, ptrdiff_t k)
{
    ptrdiff_t pixels = (ptrdiff_t)s->in->shape.h * s->in->shape.w;
    return ref_plane(s->in->shape, (split ? s->rows_s1 : 0) + (int)(k / pixels), c) + k % pixels;
}

static int plan(struct backend *be, const struct norm_desc *d, struct tensor *out, struct op_plan *p,
                struct err *e)
{
    const struct norm self = { *d, be };
    struct shape stats = { d->splits, d->in->shape.c, 1, 1 };
    TRY(ref_plan(p, &self, sizeof self, out, e));
    p->fused = 1;
    if (!d->train) return OK;
    TRY(ref_bytes(stats, sizeof(struct sums), &p->scratch_bytes, e));
    return ref_bytes(stats, sizeof(struct moments), &p->kept_bytes, e);
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

static int measure_all(const struct norm *norm, const real *x, struct moments *stats)
{
    const struct norm_desc *s = &norm->desc;
    const int channels = s->in->shape.c, n = s->splits * channels;
    for (int k = 0; k < n; k++) stats[k] = measure(s, k / channels, k % channels, x);
    if (!s->share.all) return OK;
    for (int k = 0; k < n; k++) norm_to_sums(s->share, &stats[k].mean, &stats[k].var);
    TRY(norm->be->ops->sum->add(norm->be, &stats->mean, 2 * (size_t)n));
    for (int k = 0; k < n; k++) norm_from_sums(&stats[k].mean, &stats[k].var);
    return OK;
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
        double n = values_all(s, i), unbias = n > 1 ? n / (n - 1) : 1; /* one value has no variance */
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
    const struct norm *norm = p->self;
    const struct norm_desc *s = &norm->desc;
    struct moments *stats = kept;
    if (s->train) TRY(measure_all(norm, x, stats));
    if (s->train && never_updated(s, var)) bn_momentum = 1;
    for (int c = 0; c < s->in->shape.c; c++) {
        for (int i = 0; i < s->splits; i++) {
            struct moments m = { mean[c], var[c] };
            apply(s, i, c, s->train ? stats[i * s->in->shape.c + c] : m, scale[c], bias[c], x, y);
        }
        if (s->train) follow(s, stats, c, bn_momentum, mean, var);
    }
    return OK;
}

/* u */
static double normalised(struct moments m, double x) { return (x - m.mean) / sqrt(m.var + NORM_EPSILON); }

static struct sums sum_up(const struct norm_desc *s, int split, int c, struct moments m, const real *x,
                          const real *y, const real *gy)
{
    struct sums sum = { 0, 0 };
    for (ptrdiff_t k = 0; k < values(s, split); k++) {
        ptrdiff_t at = value(s, split, c, k);
        double g = ref_before(s->act, y, gy, at);
        sum.g += g;
        sum.gu += g * normalised(m, x[at]);
    }
    return sum;
}

static void descend(const struct norm_desc *s, int split, int c, struct moments m, struct sums sum,
                    double scale, const real *x, const real *y, const real *gy, real *gx)
{
    const double n = values_all(s, split), slope = scale / sqrt(m.var + NORM_EPSILON);
    for (ptrdiff_t k = 0; k < values(s, split); k++) {
        ptrdiff_t at = value(s, split, c, k);
        double g = ref_before(s->act, y, gy, at);
        gx[at] = (real)(slope * (g - sum.g / n - normalised(m, x[at]) * sum.gu / n));
    }
}

/* The gradients of scale and bias are of these rows, whoever else there is: like all gradients of parameters
 * they are added up later. */
static int backward(const struct op_plan *p, const struct op_context *context, const void *x, const void *y,
                    const real *scale, const void *kept, const void *gy, void *gx, void *gaddend,
                    real *gscale, real *gbias)
{
    const struct norm *norm = p->self;
    const struct norm_desc *s = &norm->desc;
    const struct moments *stats = kept;
    const int channels = s->in->shape.c, splits = s->rows_back < s->in->shape.n ? 1 : s->splits;
    struct sums *sum = context->scratch;
    for (int k = 0; k < splits * channels; k++) {
        sum[k] = sum_up(s, k / channels, k % channels, stats[k], x, y, gy);
        ref_put(&gscale[k % channels], sum[k].gu, context->add || k >= channels);
        ref_put(&gbias[k % channels], sum[k].g, context->add || k >= channels);
    }
    if (s->share.all) TRY(norm->be->ops->sum->add(norm->be, &sum->g, 2 * (size_t)(splits * channels)));
    for (int k = 0; gx && k < splits * channels; k++)
        descend(s, k / channels, k % channels, stats[k], sum[k], scale[k % channels], x, y, gy, gx);
    return OK;
}

const struct norm_ops ref_norm = { .plan = plan, .forward = forward, .backward = backward };
