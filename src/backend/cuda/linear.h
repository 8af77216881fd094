/* What convolutions and dense maps have in common: weights, bias, activation. */
#ifndef CUDA_LINEAR_H
#define CUDA_LINEAR_H
#include "backend/linear.h"
#include "cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The weights of one output are `taps` x `wide` numbers, in the host's order inputs x taps: cells of the
 * window by channels of the group; for a dense map pixels by channels of its input. Those of channels behind
 * the inputs, of an image that is padded, are zero, and so are their gradients. */
struct linear {
    struct cuda *cu;
    struct layout weights;
    int bf16, tf32; /* what is computed in */
    size_t outputs, inputs, wide, taps;
    size_t rows, rows_back; /* pixels of the output, forward and backward */
    enum act act;           /* applied by forward */
};

/* out: shape set. Fills all but scratch_bytes and self of the plan. */
int cuda_linear_plan(struct linear *, struct backend *, const struct linear_desc *, struct tensor *out,
                     size_t taps, struct op_plan *, struct err *);
/* self of the plan begins with a struct linear. */
int cuda_linear_pack(const struct op_plan *, const real *host, void *w);
int cuda_linear_unpack(const struct op_plan *, const void *w, real *host);
int cuda_linear_unpack_gradient(const struct op_plan *, const void *gw, real *host);

/* Bytes of scratch for the gradient of the bias. */
size_t cuda_linear_scratch(const struct linear *);
/* In place, y = act(y + bias); bias may be NULL. */
int cuda_linear_finish(const struct linear *, const real *bias, void *y);
/* gbias = or += the sum of gy over rows and pixels; the other for plans that apply an activation in training.
 */
int cuda_linear_back_bias(const struct linear *, const void *gy, real *gbias, int add, void *scratch);
int cuda_linear_back_act(const struct op_plan *, const struct op_context *, const void *y, void *gy,
                         real *gbias);

#ifdef __cplusplus
}
#endif
#endif
