/* Batch normalisation: what norm.c asks of the kernels in norm.cu. */
#ifndef CUDA_NORM_H
#define CUDA_NORM_H
#include "backend/ops/norm.h"
#include "cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a kernel computes: the activation by calling it; one of two half-lines that meet in 0, in place; or
 * that of the sum with an addend. */
enum norm_mode { NORM_ANY, NORM_RELU_LIKE, NORM_ADDED };

/* A tensor as rows of pixels, in splits with statistics of their own. */
struct norm_job {
    int bf16;
    enum norm_mode mode;
    enum act act;
    float below; /* slope of the left half-line, unless NORM_ANY */
    unsigned V, channels, splits;
    unsigned rows_s1, rows; /* pixels of the first of two splits, and of all */
    unsigned blocks;        /* for each split */
};
/* Arrays of numbers a channel. mean and inv: 2 * channels further on for the second split. */
struct norm_at {
    const float *mean, *inv; /* inv: 1 / sqrt(var + eps); infer: var itself */
    const float *scale, *bias;
    int infer;
};
unsigned kernel_norm_blocks(const struct cuda *, const struct norm_job *);
/* Statistics of the batch, and how the running ones follow. stats: [split][mean, inv][channel], and bias;
 * partial: [split][block][2][channel]; fresh: one number. */
int kernel_norm_stats(const struct cuda *, const struct norm_job *, const void *x, const float *bias,
                      float *mean, float *var, double bn_momentum, float *stats, float *partial, int *fresh);
/* addend: for NORM_ADDED. */
int kernel_norm_apply(const struct cuda *, const struct norm_job *, const struct norm_at *, const void *x,
                      const void *addend, void *y);
/* Gradients of scale and bias, and what the one of x wants of all rows: means, [split][2][channel].
 * NORM_ADDED: the slope is that of y, and gy times it goes to g, which may be gy. */
int kernel_norm_sums(const struct cuda *, const struct norm_job *, const struct norm_at *, const void *x,
                     const void *y, const void *gy, void *g, float *gscale, float *gbias, int add,
                     float *partial, float *means);
/* g: gy; NORM_ADDED: what kernel_norm_sums stored. */
int kernel_norm_back(const struct cuda *, const struct norm_job *, const struct norm_at *, const float *means,
                     const void *x, const void *g, void *gx);

#ifdef __cplusplus
}
#endif
#endif
