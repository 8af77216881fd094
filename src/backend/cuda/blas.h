/* The one product of cuBLAS that is used. blas.c is cuBLAS; tests/shim/blas.c computes the same on the host.
 */
#ifndef CUDA_BLAS_H
#define CUDA_BLAS_H
#include "device.h"

struct blas;
int blas_open(struct blas **, stream_t, const struct dev_info *, struct err *);
void blas_close(struct blas *); /* accepts NULL */

/* C (m x n) = A B + beta C, row-major without gaps; ta, tb: that matrix is stored transposed. bf16: A and B
 * are bfloat16, else float; bf16_c the same for C. tf32: factors may be rounded to 10 bits. Sums are float.
 */
struct blas_product {
    int ta, tb, bf16, bf16_c, tf32;
    size_t m, n, k;
    float beta;
};
int blas_multiply(struct blas *, const struct blas_product *, const void *a, const void *b, void *c);

#endif
