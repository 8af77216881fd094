/* What the files of the reference backend share. Every tensor is dense N,C,H,W of `real` (layout NULL); sums
 * are carried in double also where `real` is float, so that a difference to another backend is the other's
 * rounding. */
#ifndef REF_REF_H
#define REF_REF_H
#include <stddef.h>
#include "backend/linear.h"
#include "backend/scalar.h"

/* The signatures are every backend's: here few operations look at the device or the context. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

/* *bytes = size of a dense array of this shape, `each` bytes an element. */
int ref_bytes(struct shape, size_t each, size_t *bytes, struct err *);

/* Sets layout and bytes of an output whose shape is set. */
int ref_tensor(struct tensor *, struct err *);

/* Gives a plan a copy of its private struct; sets layout and bytes of an output whose shape is set. */
int ref_plan(struct op_plan *, const void *self, size_t bytes, struct tensor *out, struct err *);

/* Memory of the host as that of a device, where operations have finished when they return: cpu's too. */
size_t ref_free_bytes(struct backend *);
int ref_alloc(struct backend *, size_t bytes, void **, struct err *);
void ref_free(struct backend *, void *);
int ref_copy(struct backend *, void *to, const void *from, size_t bytes);
int ref_sync(struct backend *, struct err *);

/* The convolution, for dense too. Packed weights are as on the host. */
int ref_conv_plan(struct backend *, const struct linear_desc *, struct tensor *out, struct op_plan *,
                  struct err *);
int ref_pack(const struct op_plan *, const real *host, void *w);
int ref_unpack(const struct op_plan *, const void *w, real *host);
int ref_conv_forward(const struct op_plan *, const struct op_context *, const void *x, const void *w,
                     const real *bias, void *y);
int ref_conv_backward(const struct op_plan *, const struct op_context *, const void *x, const void *w,
                      const void *gy, void *gx, void *gw, real *gbias);

/* Offset of the plane of channel c of row n. */
static inline ptrdiff_t ref_plane(struct shape s, int n, int c)
{
    return ((ptrdiff_t)n * s.c + c) * s.h * s.w;
}

/* Elements in the first `rows` rows. */
static inline ptrdiff_t ref_rows(struct shape s, int rows)
{
    return (ptrdiff_t)rows * (ptrdiff_t)shape_row(s);
}

static inline void ref_put(real *to, double v, int add) { *to = (real)(add ? *to + v : v); }

/* Gradient before an activation that is fused: gy times the slope. y may be NULL when there is none. */
static inline double ref_before(enum act a, const real *y, const real *gy, ptrdiff_t i)
{
    return a == ACT_LINEAR ? gy[i] : (double)gy[i] * act_slope_y(a, y[i]);
}

#endif
