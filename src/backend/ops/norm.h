/* Batch normalisation, with the activation behind it. */
#ifndef BACKEND_OPS_NORM_H
#define BACKEND_OPS_NORM_H
#include "backend/activation.h"
#include "backend/backend.h"

#define NORM_EPSILON 1e-5 /* added to variances */

struct norm_desc {
    const struct tensor *in;
    int train;
    int splits;    /* 1; or 2: rows [0, rows_s1) and [rows_s1, n) have statistics of their own */
    int rows_s1;   /* rows of the first half when splits == 2 */
    int rows_back; /* n, or with splits == 2 also rows_s1: the backward pass of the first half only */
    enum act act;  /* to be fused if possible; always one for which act_from_output holds */
    const struct tensor *addend; /* NULL, or what is added before the activation; only where `adds` allows */
    struct share share; /* sync_bn=1: the rows of a split that are here, where statistics are of those of all
                           processes; all zero: of these rows alone */
};

/* Moments of rows that are `share` of all, and of all: forms that add up over processes, whose sums these
 * functions turn back. */
SCALAR void norm_to_sums(struct share s, double *mean, double *var)
{
    const double weight = share_weight(s);
    *var = weight * (*var + *mean * *mean);
    *mean *= weight;
}
SCALAR void norm_from_sums(double *mean, double *var)
{
    const double v = *var - *mean * *mean;
    *var = v < 0 ? 0 : v; /* by rounding */
}

struct norm_ops {
    /* out: shape set; gets the layout of in. kept: mean and variance of the batch, per split. */
    int (*plan)(struct backend *, const struct norm_desc *, struct tensor *out, struct op_plan *,
                struct err *);
    /* y = act(scale * (x - mean) / sqrt(var + NORM_EPSILON) + bias), per channel; scale, bias, mean, var:
     * c values each. train: mean and (biased) variance of the batch, per split, saved in kept; the running
     * ones, mean and var, move once: r += bn_momentum * (batch - r), batch = the average over the splits of
     * mean and of unbiased variance (v * N/(N-1), N = rows*h*w of the split). Where all of var is still 0
     * (never updated) bn_momentum is taken as 1. Batch statistics that are not finite leave the running ones
     * of that channel alone. infer: mean and var are used, kept is NULL. x == y is not allowed. */
    int (*forward)(const struct op_plan *, const struct op_context *, const void *x, const void *addend,
                   const real *scale, const real *bias, real *mean, real *var, double bn_momentum, void *kept,
                   void *y);
    /* gx may be gy (in place). gscale and gbias as context->add says. y is the output of forward. gaddend
     * (NULL: not wanted) is overwritten. */
    int (*backward)(const struct op_plan *, const struct op_context *, const void *x, const void *y,
                    const real *scale, const void *kept, const void *gy, void *gx, void *gaddend,
                    real *gscale, real *gbias);
    /* Can a plan for training have an addend of its input's kind, and then this activation? NULL: no. */
    int (*adds)(enum act);
};

#endif
