/* Linear maps with weights: what the operations conv, local and dense have in common. */
#ifndef BACKEND_LINEAR_H
#define BACKEND_LINEAR_H
#include "backend/activation.h"
#include "backend/backend.h"

struct linear_desc {
    const struct tensor *in;      /* shape and layout */
    int size, dilation;           /* convolution: square window, and from one cell of it to the next */
    int stride_y, stride_x, pad;  /* convolution: from window to window; zeros on each side */
    int groups;                   /* convolution: 1..c */
    int train;                    /* 1: backward will be called, weights are the model's; 0: inference only */
    int rows_back;                /* rows of the backward pass, <= in->shape.n */
    int need_gx, add_gx;          /* is backward given gx, and is gx added to */
    int sum_gw;                   /* is gw added to, by backward or over processes */
    enum act act;                 /* to be fused if possible; training: act_from_output holds */
    const struct layout *weights; /* how a plan for other rows has packed them; NULL: choose */
};
struct linear_ops {
    /* Fills *plan, and layout and bytes of *out, whose shape is set (dense: c outputs, h = w = 1). */
    int (*plan)(struct backend *, const struct linear_desc *, struct tensor *out, struct op_plan *,
                struct err *);
    /* Host weights in .weights order (O, I/groups, H, W; dense: O, C*H*W) to packed ones and back. */
    int (*pack)(const struct op_plan *, const real *host, void *w);
    int (*unpack)(const struct op_plan *, const void *w, real *host);
    /* The same of gw, which is `real` and packed as w, or without sum_gw in the type that it was computed in.
     * Operation optim tells by op_plan.weights. */
    int (*unpack_gradient)(const struct op_plan *, const void *gw, real *host);
    /* y = x * w (+ bias[o], unless NULL). Cross-correlation; dense flattens its input in C,H,W order. */
    int (*forward)(const struct op_plan *, const struct op_context *, const void *x, const void *w,
                   const real *bias, void *y);
    /* gx (may be NULL) is added to as planned; gw and gbias (may be NULL) as context->add says, which is 0
     * unless sum_gw. */
    int (*backward)(const struct op_plan *, const struct op_context *, const void *x, const void *w,
                    const void *gy, void *gx, void *gw, real *gbias);
    /* Training, where forward has applied act: gy becomes the gradient before it, in place, and gbias gets
     * its sums as context->add says. Comes before backward, which then gets no gbias. NULL: training plans of
     * this map are never fused. */
    int (*back_act)(const struct op_plan *, const struct op_context *, const void *y, void *gy, real *gbias);
};

#endif
