/* A weighted sum of tensors of equal h, w: y = act(sum of f_k x_k), where the factors f are learnt. out has
 * the channels of the first; what another has more does not count, what it has less is 0. */
#ifndef BACKEND_OPS_MIX_H
#define BACKEND_OPS_MIX_H
#ifdef __cplusplus
#include <math.h>
#else
#include <tgmath.h>
#endif
#include "backend/activation.h"
#include "backend/backend.h"

enum { MIX_MOST = 16 }; /* inputs */

/* Factors from weights: f_k = w_k; max(0, w_k) / (1e-4 + their sum); exp w_k / the sum of these. */
enum mix_norm { MIX_PLAIN, MIX_RELU, MIX_SOFTMAX };

struct mix_desc {
    const struct tensor *in[MIX_MOST];
    int nin;
    int weights; /* of each input: 0 (factors are 1), 1, or one for each channel of out */
    enum mix_norm norm;
    enum act act; /* one for which act_from_output holds */
    int train, rows_back;
    int add[MIX_MOST]; /* the `add` of each gradient */
};
struct mix_ops {
    int (*plan)(struct backend *, const struct mix_desc *, struct tensor *out, struct op_plan *,
                struct err *);
    /* w: backend memory, nin x weights. x may hold one tensor more than once; gx then its gradient, which is
     * written in this order. */
    int (*forward)(const struct op_plan *, const struct op_context *, const void *const *x, const real *w,
                   void *y);
    /* gx[i] may be NULL, and gw. gw as context->add says. y: the output of forward, unless act is linear. */
    int (*backward)(const struct op_plan *, const struct op_context *, const void *const *x, const real *w,
                    const void *y, const void *gy, void *const *gx, real *gw);
};

/* What follows is said of the weights of one kind: number s of each input. */

SCALAR real mix_largest(const struct mix_desc *m, const real *w, int s)
{
    real most = w[s];
    for (int k = 1; k < m->nin; k++)
        if (w[k * m->weights + s] > most) most = w[k * m->weights + s];
    return most;
}

/* The share of input k before it is divided by the sum of all. */
SCALAR real mix_share(const struct mix_desc *m, const real *w, int k, int s)
{
    real v = w[k * m->weights + s];
    if (m->norm == MIX_SOFTMAX) return exp(v - mix_largest(m, w, s));
    return m->norm == MIX_PLAIN || v > 0 ? v : 0;
}

SCALAR real mix_total(const struct mix_desc *m, const real *w, int s)
{
    real sum = m->norm == MIX_RELU ? (real)1e-4 : 0;
    for (int k = 0; k < m->nin; k++) sum += mix_share(m, w, k, s);
    return m->norm == MIX_PLAIN ? 1 : sum;
}

/* f_k for channel c. */
SCALAR real mix_factor(const struct mix_desc *m, const real *w, int k, int c)
{
    int s = m->weights > 1 ? c : 0;
    return m->weights ? mix_share(m, w, k, s) / mix_total(m, w, s) : 1;
}

/* The gradient of the weight of input j; g[k]: that of f_k. */
SCALAR real mix_slope(const struct mix_desc *m, const real *w, int j, int s, const real *g)
{
    real mean = 0, total = mix_total(m, w, s);
    if (m->norm == MIX_PLAIN) return g[j];
    for (int k = 0; k < m->nin; k++) mean += g[k] * mix_share(m, w, k, s) / total;
    if (m->norm == MIX_RELU) return w[j * m->weights + s] > 0 ? (g[j] - mean) / total : 0;
    return (g[j] - mean) * mix_share(m, w, j, s) / total;
}

#endif
