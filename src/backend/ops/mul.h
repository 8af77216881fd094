/* A product with what may be smaller: y = act(a * b), elementwise. b has the shape of a, or 1 channel (a
 * factor for each pixel), or 1 pixel (a factor for each channel), or both. */
#ifndef BACKEND_OPS_MUL_H
#define BACKEND_OPS_MUL_H
#include "backend/activation.h"
#include "backend/backend.h"

struct mul_desc {
    const struct tensor *a, *b;
    enum act act; /* one for which act_from_output holds */
    int train, rows_back;
    int add_a, add_b; /* the `add` of either gradient */
};
struct mul_ops {
    int (*plan)(struct backend *, const struct mul_desc *, struct tensor *out, struct op_plan *,
                struct err *);
    /* a and b may be one tensor; then so may their gradients, and ga is written first. */
    int (*forward)(const struct op_plan *, const struct op_context *, const void *a, const void *b, void *y);
    /* ga and gb (either may be NULL) are added to as planned: ga = g * b; gb = g * a, summed over what shares
     * a factor; g = gy times the slope of the activation. y: the output of forward, unless act is linear. */
    int (*backward)(const struct op_plan *, const struct op_context *, const void *a, const void *b,
                    const void *y, const void *gy, void *ga, void *gb);
};

#endif
