/* Convolutions of maps of at most 2x2 pixels as one product of matrices. */
#ifndef BACKEND_CPU_CONV_AS_GEMM_H
#define BACKEND_CPU_CONV_AS_GEMM_H
#include "backend/linear.h"
#include "share.h"

/* The functions are as those of linear_ops. mem_free it, also when planning failed. */
struct conv_as_gemm;
int conv_as_gemm_fits(const struct linear_desc *, const struct tensor *out);
int conv_as_gemm_plan(struct conv_as_gemm **, const struct cpu *, const struct linear_desc *,
                      struct tensor *out, struct op_plan *, struct err *);
void conv_as_gemm_pack(const struct conv_as_gemm *, const real *host, float *w);
void conv_as_gemm_unpack(const struct conv_as_gemm *, const float *w, real *host);
int conv_as_gemm_forward(const struct conv_as_gemm *, const void *x, const void *w, const real *bias, void *y,
                         void *scratch);
int conv_as_gemm_backward_x(const struct conv_as_gemm *, const void *w, const void *gy, void *gx,
                            void *scratch);
int conv_as_gemm_backward_w(const struct conv_as_gemm *, const void *x, const void *gy, void *gw, int add,
                            void *scratch);

#endif
