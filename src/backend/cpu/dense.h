/* Products of activations with a matrix of outputs x inputs: all of a dense layer, and what conv_as_gemm.c
 * does once it has made the matrix. */
#ifndef BACKEND_CPU_DENSE_H
#define BACKEND_CPU_DENSE_H
#include "backend/linear.h"
#include "memory_format.h"

struct dense {
    const struct cpu *cpu;
    struct memory_format in;      /* of x */
    struct memory_format product; /* of x as it is multiplied: a row is a column of inputs */
    struct memory_format out;     /* of y */
    int reorder;                  /* in and product differ */
    size_t rows, rows_back;
    size_t at_x; /* in scratch: x, or its gradient, as multiplied */
    int add_gx;
    enum act act; /* applied by forward */
};
/* Adds to plan->scratch_bytes what the products need, and sets plan->fused. */
void dense_init(struct dense *, const struct cpu *, const struct linear_desc *, const struct layout *product,
                const struct memory_format *out, struct op_plan *);

/* Bytes of the matrix. */
int dense_bytes(size_t outputs, size_t inputs, size_t *bytes, struct err *);

/* Their arguments are those of linear_ops; w, gw: the matrix and its gradient. */
int dense_product(const struct dense *, const void *x, const void *w, const real *bias, void *y,
                  void *scratch);
int dense_product_gx(const struct dense *, const void *w, const void *gy, void *gx, void *scratch);
int dense_product_gw(const struct dense *, const void *x, const void *gy, void *gw, int add, void *scratch);

/* Convolutions of maps of at most 2x2 pixels as such a product. */
extern const struct linear_ops conv_as_gemm;
int conv_as_gemm_fits(const struct linear_desc *, const struct tensor *out);

/* 3x3 and 5x5 convolutions by Winograd's algorithm. */
extern const struct linear_ops conv_winograd;
int conv_winograd_fits(const struct linear_desc *, const struct tensor *out);

#endif
