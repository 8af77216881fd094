/* The optimiser: stochastic gradient descent with momentum and weight decay, or Adam. */
#ifndef BACKEND_OPS_OPTIM_H
#define BACKEND_OPS_OPTIM_H
#include "backend/backend.h"

/* A parameter: value, momentum, with Adam the mean square (NULL: gradient descent), and gradient, each of so
 * many bytes and with the layout of a linear plan's weights, which knows the type of the gradient, too (NULL:
 * `real`, dense). */
struct optim_item {
    void *w, *v, *s;
    const void *g; /* NULL: not learnt; after those that are */
    void *average; /* moving average of w, or NULL */
    size_t bytes;
    const struct layout *layout;
    double rate, decay; /* rate: a factor of the step state's */
};
struct optim_desc {
    const struct optim_item *item; /* copied */
    int n;
    double momentum;    /* B1 of Adam */
    double b2, epsilon; /* Adam */
    double average;     /* the gradient is g * average: 1 / subdivisions */
};
struct optim_ops {
    int (*plan)(struct backend *, const struct optim_desc *, struct op_plan *, struct err *);
    /* v = momentum * v + (average * g + decay * w); w = w - rate * v, for all items. The same step as
     * Darknet's (u = -B v) and as PyTorch's SGD without dampening or Nesterov. Adam, with d in the brackets:
     * v = B1 * v + (1 - B1) * d; s = B2 * s + (1 - B2) * d^2;
     * w = w - rate * (v / v_share) / (sqrt(s / s_share) + epsilon), with the shares of the step state. Then
     * average = (1 - average_share) * average + average_share * w. */
    int (*update)(const struct op_plan *, const struct step_state *);
    /* *bad (host): the first item whose gradient is not finite, or -1. */
    int (*check)(const struct op_plan *, int *bad);
    /* For asynchronous devices: the same without the host. Sets stop; update then does nothing. */
    int (*guard)(const struct op_plan *, struct step_state *);
};

#endif
