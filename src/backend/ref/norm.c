/* Batch normalisation, in cuDNN's form: biased variance, eps inside the root.
 *
 * With root = sqrt(var + eps), u = (x - mean) / root and g = dLoss/d(scale * u + bias), over the N values
 * of a channel (the chain rule of Ioffe and Szegedy 2015, its three terms put together):
 *   dLoss/dx = scale / root * (g - sum(g) / N - u * sum(g * u) / N) */
#include "backend/ops/norm.h"
#include "ref.h"

#define EPS 1e-5

/* Kept from forward to backward: one for each channel of each split. */
struct moments {
    double mean, var;
};

static int split_from(const struct norm_desc *s, int split) { return split ? s->rows_s1 : 0; }
static int split_to(const struct norm_desc *s, int split)
{
    return split < s->splits - 1 ? s->rows_s1 : s->in->shape.n;
}
static ptrdiff_t pixels(const struct norm_desc *s) { return (ptrdiff_t)s->in->shape.h * s->in->shape.w; }
static double split_count(const struct norm_desc *s, int split)
{
    return (double)(split_to(s, split) - split_from(s, split)) * (double)pixels(s);
}

static int plan(struct backend *be, const struct norm_desc *d, struct tensor *out, struct op_plan *p,
                struct err *e)
{
    (void)be;
    struct shape in = d->in->shape;
    TRY(ref_plan(p, d, sizeof *d, out, e));
    if (d->splits == 2 && (d->rows_s1 < 1 || d->rows_s1 >= in.n))
        return fail(e, E_ARG,
                    "batch normalisation of two halves: %d of %d rows in the first leave one half empty",
                    d->rows_s1, in.n);
    if (d->train)
        TRY(ref_bytes((struct shape){ d->splits, in.c, 1, 1 }, sizeof(struct moments), &p->kept_bytes, e));
    p->fused = 1;
    return OK;
}

static struct moments measure(const struct norm_desc *s, const real *x, int split, int c)
{
    struct moments m = { 0, 0 };
    for (int n = split_from(s, split); n < split_to(s, split); n++)
        for (ptrdiff_t i = 0; i < pixels(s); i++) m.mean += x[ref_plane(s->in->shape, n, c) + i];
    m.mean /= split_count(s, split);
    for (int n = split_from(s, split); n < split_to(s, split); n++)
        for (ptrdiff_t i = 0; i < pixels(s); i++) {
            double d = x[ref_plane(s->in->shape, n, c) + i] - m.mean;
            m.var += d * d;
        }
    m.var /= split_count(s, split);
    return m;
}

static void apply(const struct norm_desc *s, int from, int to, int c, struct moments m, double scale,
                  double bias, const real *x, real *y)
{
    double root = sqrt(m.var + EPS);
    for (int n = from; n < to; n++)
        for (ptrdiff_t i = 0; i < pixels(s); i++) {
            ptrdiff_t at = ref_plane(s->in->shape, n, c) + i;
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
        double count = split_count(s, i);
        m += at->mean / s->splits;
        double unbias = count > 1 ? count / (count - 1) : 1; /* the variance of one value is 0 */
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
    (void)context, (void)addend;
    const struct norm_desc *s = p->self;
    if (!s->train) {
        for (int c = 0; c < s->in->shape.c; c++)
            apply(s, 0, s->in->shape.n, c, (struct moments){ mean[c], var[c] }, scale[c], bias[c], x, y);
        return OK;
    }
    struct moments *m = kept;
    if (never_updated(s, var)) bn_momentum = 1;
    for (int c = 0; c < s->in->shape.c; c++) {
        for (int i = 0; i < s->splits; i++) {
            m[i * s->in->shape.c + c] = measure(s, x, i, c);
            apply(s, split_from(s, i), split_to(s, i), c, m[i * s->in->shape.c + c], scale[c], bias[c], x, y);
        }
        follow(s, m, c, bn_momentum, mean, var);
    }
    return OK;
}

/* Sums of g and g * u over a channel of a split. */
struct sums {
    double g, gu;
};

static struct sums add_up(const struct norm_desc *s, int split, int c, struct moments m, const real *x,
                          const real *y, const real *gy)
{
    struct sums sum = { 0, 0 };
    double root = sqrt(m.var + EPS);
    for (int n = split_from(s, split); n < split_to(s, split); n++)
        for (ptrdiff_t i = 0; i < pixels(s); i++) {
            ptrdiff_t at = ref_plane(s->in->shape, n, c) + i;
            double g = ref_before(s->act, y, gy, at);
            sum.g += g;
            sum.gu += g * (x[at] - m.mean) / root;
        }
    return sum;
}

static void spread(const struct norm_desc *s, int split, int c, struct moments m, struct sums sum,
                   double scale, const real *x, const real *y, const real *gy, real *gx)
{
    double root = sqrt(m.var + EPS), count = split_count(s, split);
    for (int n = split_from(s, split); n < split_to(s, split); n++)
        for (ptrdiff_t i = 0; i < pixels(s); i++) {
            ptrdiff_t at = ref_plane(s->in->shape, n, c) + i;
            double g = ref_before(s->act, y, gy, at), u = (x[at] - m.mean) / root;
            gx[at] = (real)(scale / root * (g - sum.g / count - u * sum.gu / count));
        }
}

static int backward(const struct op_plan *p, const struct op_context *context, const void *x, const void *y,
                    const real *scale, const void *kept, const void *gy, void *gx, void *gaddend,
                    real *gscale, real *gbias)
{
    (void)gaddend;
    const struct norm_desc *s = p->self;
    const struct moments *m = kept;
    for (int c = 0; c < s->in->shape.c; c++) {
        struct sums all = { 0, 0 };
        for (int i = 0; i < s->splits && split_to(s, i) <= s->rows_back; i++) {
            const struct moments at = m[i * s->in->shape.c + c];
            struct sums sum = add_up(s, i, c, at, x, y, gy);
            if (gx) spread(s, i, c, at, sum, scale[c], x, y, gy, gx);
            all.g += sum.g;
            all.gu += sum.gu;
        }
        ref_put(&gscale[c], all.gu, context->add);
        ref_put(&gbias[c], all.g, context->add);
    }
    return OK;
}

const struct norm_ops ref_norm = { .plan = plan, .forward = forward, .backward = backward };
