/* The optimiser: stochastic gradient descent with momentum and weight decay. */
#ifndef BACKEND_OPS_SGD_H
#define BACKEND_OPS_SGD_H
#include "backend/backend.h"

/* A parameter: value, momentum and gradient, each of so many bytes and with the layout of a linear plan's
 * weights (NULL: `real`, dense). */
struct sgd_item {
    void *w, *v;
    const void *g;
    size_t bytes;
    const struct layout *layout;
    double rate, decay; /* rate: a factor of the step state's */
};
struct sgd_desc {
    const struct sgd_item *item; /* copied */
    int n;
    double momentum;
    double average; /* the gradient is g * average: 1 / subdivisions */
};
struct sgd_ops {
    int (*plan)(struct backend *, const struct sgd_desc *, struct op_plan *, struct err *);
    /* v = momentum * v + (average * g + decay * w); w = w - rate * v, for all items. The same step as
     * Darknet's (u = -B v) and as PyTorch's SGD without dampening or Nesterov. */
    int (*update)(const struct op_plan *, const struct step_state *);
    /* *bad (host): the first item whose gradient is not finite, or -1. */
    int (*check)(const struct op_plan *, int *bad);
    /* For devices that work on their own: the same without the host. Sets stop; update then does nothing. */
    int (*guard)(const struct op_plan *, struct step_state *);
};

#endif
