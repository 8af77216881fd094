/* Loops over activations, for the operations that apply one. */
#ifndef BACKEND_CPU_ACT_H
#define BACKEND_CPU_ACT_H
#include "backend/activation.h"
#include "memory_format.h"

/* y[i] = f(x[i]), in place or not; by the calling thread, and by all. bf16: both are bfloat16. */
void act_map(enum act, size_t n, const float *x, float *y);
void act_map_all(const struct cpu *, enum act, size_t n, int bf16, const void *x, void *y);

/* gx[i] = gy[i] * f'(x[i]); z: y if act_from_output, else x. */
void act_grad(enum act, size_t n, const float *z, const float *gy, float *gx);
void act_grad_all(const struct cpu *, enum act, size_t n, int bf16, const void *z, const void *gy, void *gx,
                  int add);

/* y = f(y + bias[channel]) for so many rows without padding. bias: NULL, or one a channel. */
void act_bias(const struct cpu *, enum act, const struct memory_format *, size_t rows, const float *bias,
              float *y);

#endif
