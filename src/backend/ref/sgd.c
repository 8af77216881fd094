/* Stochastic gradient descent with momentum and weight decay. */
#include "ref.h"

static int update(struct backend *be, void *w, const void *g, void *v, size_t n, const struct sgd_step *s)
{
    (void)be;
    real *restrict weight = w, *restrict velocity = v;
    const real *restrict gradient = g;
    for (size_t i = 0; i < n; i++) {
        double step = s->average * gradient[i] + s->decay * weight[i];
        velocity[i] = (real)(s->momentum * velocity[i] + step);
        weight[i] = (real)(weight[i] - s->rate * velocity[i]);
    }
    return OK;
}

static int finite_all(struct backend *be, const void *g, size_t n, int *bad)
{
    (void)be;
    const real *x = g;
    *bad = 0;
    for (size_t i = 0; i < n && !*bad; i++) *bad = !isfinite(x[i]);
    return OK;
}

const struct sgd_ops ref_sgd = { update, finite_all };
