/* oneDNN's primitives, for the operations. */
#ifndef BACKEND_CPU_DNN_H
#define BACKEND_CPU_DNN_H
#include "backend/activation.h"
#include "memory_format.h"

/* Opens the library for cpu->threads threads. */
int dnn_open(struct cpu *, struct err *);
void dnn_close(struct cpu *);
const char *dnn_version(void);
int dnn_has_bf16(void); /* does this processor have instructions for products of bfloat16 */

/* A primitive with its arguments. Their memory objects are made once; each run sets their pointers. */
enum { PRIMITIVE_ARGS = 12 };
struct primitive {
    const struct cpu *cpu;
    dnnl_primitive_t handle; /* NULL: not made */
    dnnl_exec_arg_t arg[PRIMITIVE_ARGS];
    int nargs;            /* the last is the scratchpad if scratch_bytes > 0 */
    size_t scratch_bytes; /* at the start of the scratch memory given to primitive_run */
};
void primitive_destroy(struct primitive *); /* accepts one that was never made (all zero) */
/* data[i] belongs to the i-th argument, in the order that the function that makes the primitive documents. */
int primitive_run(const struct primitive *, const void *const *data, void *scratch);
size_t primitive_arg_bytes(const struct primitive *, int i);
/* Is it made for its shape, rather than of products of matrices or plain loops? */
int primitive_suits(const struct primitive *, int depthwise);
/* The layout of the i-th argument, a tensor of this shape. E_DEVICE: one that memory_format.h does not have.
 */
int primitive_layout(const struct primitive *, int i, struct shape, int bf16, const struct layout **,
                     struct err *);
/* The layout of the i-th argument, packed weights; good as long as the primitive. */
struct layout primitive_weights(const struct primitive *, int i);

int dnn_same_weights(const struct layout *, const struct layout *);
size_t dnn_weight_bytes(const struct layout *);

/* A pass of an operation. */
enum pass_kind { PASS_FORWARD, PASS_DATA, PASS_WEIGHTS };

/* Convolution. Arguments of the forward pass: x, w, bias, y; PASS_DATA: gy, w, gx; PASS_WEIGHTS: x, gy, gw.
 * forward: the primitive of the forward pass, for the backward ones. */
struct dnn_conv {
    struct shape in, out;
    int size, dilation, stride_y, stride_x, pad, groups;
    int bf16;                     /* x and y, and w but not gw: bfloat16 */
    enum act act;                 /* forward: applied to the result */
    int any;                      /* oneDNN chooses the layouts of x and y; else they are dense */
    const struct layout *weights; /* NULL: oneDNN chooses */
};
int dnn_conv(struct primitive *, const struct cpu *, const struct dnn_conv *, enum pass_kind,
             const struct primitive *forward, struct err *);
int dnn_fusible(enum act); /* can the forward pass apply it */

/* Weights from one layout to another; NULL: the host's, O,(I/groups),H,W in float. Arguments: x, y. */
int dnn_reorder(struct primitive *, const struct cpu *, const struct layout *from, const struct layout *to,
                struct err *);

/* An activation of n numbers, where dnn_eltwise_known. Arguments: x, y; PASS_DATA: x or (act_from_output) y,
 * gy, gx. */
int dnn_eltwise_known(enum act);
int dnn_eltwise(struct primitive *, const struct cpu *, enum act, size_t n, int bf16, enum pass_kind,
                struct err *);

/* Maximum pooling. Arguments: x, y, and to train a mask; PASS_DATA: gy, gx, mask. */
struct dnn_pool {
    int train;
    struct shape in, out;
    const struct layout *layout; /* of x and y */
    int size, stride_y, stride_x;
    int before; /* rows above, and columns to the left of the map, that the first window covers */
};
int dnn_pool(struct primitive *, const struct cpu *, const struct dnn_pool *, enum pass_kind, struct err *);

/* C (m x n) = A B + beta C, row-major without gaps; ta, tb: that matrix is stored transposed. */
int dnn_gemm(const struct cpu *, int ta, int tb, size_t m, size_t n, size_t k, const float *a, const float *b,
             float beta, float *c);

#endif
