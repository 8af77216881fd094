/* What the files of the reference backend share. Every tensor is dense N,C,H,W of `real` (layout NULL); sums
 * are carried in double also where `real` is float, so that a difference to another backend is the other's
 * rounding. */
#ifndef REF_REF_H
#define REF_REF_H
#include <stddef.h>
#include "backend/backend.h"
#include "backend/scalar.h"

extern const struct linear_ops ref_conv, ref_dense;
extern const struct norm_ops ref_norm;
extern const struct act_ops ref_act;
extern const struct dropout_ops ref_dropout;
extern const struct pool_ops ref_pool;
extern const struct join_ops ref_join;
extern const struct softmax_ops ref_softmax;
extern const struct match_ops ref_match;   /* for any backend whose memory is the host's */
extern const struct center_ops ref_center; /* likewise */
extern const struct sgd_ops ref_sgd;

/* *bytes = size of a dense array of this shape, `each` bytes an element. */
int ref_bytes(struct shape, size_t each, size_t *bytes, struct err *);

/* Sets layout and bytes of an output whose shape is set. */
int ref_tensor(struct tensor *, struct err *);

/* Memory for a plan's private struct, zeroed: *self is set, mem_free it. */
int ref_self(void **self, size_t bytes, struct err *);

/* Convolution and dense: packed weights are the host's. */
int ref_pack(const struct linear_plan *, const real *host, void *w);
int ref_unpack(const struct linear_plan *, const void *w, real *host);
void ref_linear_destroy(struct linear_plan *);

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
