/* Addition, pjreddie's [shortcut]: out has the shape of a. On the overlap (min of the channels; where the
 * sizes differ b is strided by b.w / a.w, or scattered by a.w / b.w, whole-number factors) out = alpha * a +
 * beta * b; elsewhere out = a. Then the activation, one for
 * which act_from_output holds, if it is fused. */
#ifndef BACKEND_OPS_ADD_H
#define BACKEND_OPS_ADD_H
#include "backend/activation.h"
#include "backend/backend.h"

struct add_desc {
    const struct tensor *a, *b;
    double alpha, beta;
    enum act act;
    int train, rows_back;
    int add_a, add_b; /* the `add` of either gradient */
};
/* Whole-number factors of the sizes: a.w * down = b.w * up, one of them 1, and the same of h. 0: there are
 * none. */
static inline int add_factors(struct shape a, struct shape b, int *up, int *down)
{
    *up = a.w > b.w ? a.w / b.w : 1;
    *down = b.w > a.w ? b.w / a.w : 1;
    return a.w * *down == b.w * *up && (int64_t)a.h * *down == (int64_t)b.h * *up;
}

struct add_ops {
    int (*plan)(struct backend *, const struct add_desc *, struct tensor *out, struct op_plan *,
                struct err *);
    /* a and b may be one tensor; then so may their gradients, and ga is written first. */
    int (*forward)(const struct op_plan *, const struct op_context *, const void *a, const void *b, void *y);
    /* ga and gb (either may be NULL) are added to as planned. y: the output of forward, for the slope of
     * the activation. */
    int (*backward)(const struct op_plan *, const struct op_context *, const void *y, const void *gy,
                    void *ga, void *gb);
};

#endif
