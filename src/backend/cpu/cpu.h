/* Private to the cpu backend: oneDNN primitives where they are the faster way, plain C over the same memory
 * elsewhere.
 *
 *   dnn.c    everything that depends on oneDNN's version: descriptors, primitives, memory objects
 *   memory_format.c  where an element lies in memory; copies between memory orders
 *   cpu.c    the device: threads, memory, host access
 *   others   one group of operations each
 */
#ifndef BACKEND_CPU_CPU_H
#define BACKEND_CPU_CPU_H
#include <oneapi/dnnl/dnnl.h>
#include "backend/linear.h"

_Static_assert(sizeof(real) == sizeof(float), "oneDNN computes in float: build with ONEDNN=0 for double");

struct cpu {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    int threads;
};
static inline const struct cpu *cpu_of(const struct backend *be) { return be->self; }

/* ---- memory formats (memory_format.c) ---- */

/* A tensor: channels are stored in groups of `block` next to each other, as oneDNN's nChw16c, padded with
 * zeros to whole groups; ALL_CHANNELS is NHWC. Packed weights: whatever oneDNN's descriptor says. */
enum { ALL_CHANNELS = -1 };
struct layout {
    int block;
    dnnl_memory_desc_t weights;
};

/* Element (n, c, pixel p) lies at n*row + (c/block)*hw*block + p*block + c%block. Dense has block 1. */
struct memory_format {
    size_t c, hw, block, blocks, row;
};
struct memory_format format_of(struct shape, const struct layout *);
static inline size_t format_at(const struct memory_format *o, size_t n, size_t c, size_t p)
{
    return n * o->row + (c / o->block * o->hw + p) * o->block + c % o->block;
}

/* The layout with such blocks; NULL where that is the same as dense. known = 0: there is none. */
const struct layout *format_layout(struct shape, int block, int *known);
/* Sets layout and bytes of a tensor whose shape is set. */
int format_tensor(struct tensor *, const struct layout *, struct err *);
/* Nonzero if tensors of this shape have the same bytes in both layouts. */
int order_same(struct shape, const struct layout *, const struct layout *);

/* One side of a copy: `data` in `order`, from channel `at` on. */
struct view {
    struct memory_format format;
    size_t at;
    float *data;
};
/* to = from, or to += from, for so many rows and channels; padding is not written. */
void format_copy(const struct cpu *, const struct view *to, const struct view *from, size_t rows,
                 size_t channels, int add);
/* out[c] = the sum of x over rows and pixels, or += (the gradient of a bias). */
void order_sums(const struct cpu *, struct shape, const struct layout *, const float *x, float *out, int add);
/* Zeroes what pads the last block of channels. */
void format_pad(const struct cpu *, const struct memory_format *, size_t rows, float *data);

/* ---- work shared between threads (cpu.c) ---- */

/* Calls fn on consecutive parts of [0, n), one a thread, whose bounds are multiples of `grain`; the bounds
 * depend on n and the number of threads only. Small n stay in the calling thread. */
void cpu_share(const struct cpu *, size_t n, size_t grain, void (*fn)(void *ctx, size_t from, size_t to),
               void *ctx);
/* y += x */
void cpu_accumulate(const struct cpu *, size_t n, const float *x, float *y);
/* Makes room in a block of scratch: returns the offset, a multiple of 64, and moves *end behind it. */
size_t cpu_carve(size_t *end, size_t bytes);
static inline size_t cpu_max(size_t a, size_t b) { return a > b ? a : b; }
static inline void *cpu_at(void *base, size_t offset) { return (char *)base + offset; }

/* Hot loops are compiled for several instruction sets and chosen when the program is loaded. For static
 * functions: clang 14 gives the chosen one another name. Sanitizers cannot run the code that chooses. */
#if defined(__x86_64__) && defined(__gnu_linux__) && !defined(__SANITIZE_ADDRESS__) &&                       \
    !defined(__SANITIZE_THREAD__)
#if defined(__clang__)
#if __has_attribute(target_clones) && !__has_feature(address_sanitizer) && !__has_feature(thread_sanitizer)
#define CPU_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#endif
#else
#define CPU_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#endif
#endif
#ifndef CPU_CLONES
#define CPU_CLONES
#endif
#if defined(__clang__)
/* Of `omp simd`: the checks of sanitizers keep loops scalar. */
#pragma clang diagnostic ignored "-Wpass-failed"
#endif

/* y[i] = f(x[i]), in place or not; and gx[i] = gy[i] * f'(x[i]), the slope from the output y or from the
 * input x (the other may be NULL). For the ranges of cpu_share. */
void act_map(enum act, size_t n, const float *x, float *y);
void act_grad(enum act, size_t n, const float *x, const float *y, const float *gy, float *gx);

/* ---- oneDNN (dnn.c) ---- */

/* A primitive with its arguments. Memory objects are made once; pointers are put in at each run. */
enum { OP_ARGS = 12 };
struct op {
    const struct cpu *cpu;
    dnnl_primitive_t primitive; /* NULL: not made */
    dnnl_exec_arg_t arg[OP_ARGS];
    int nargs; /* the last is the scratchpad if scratch_bytes > 0 */
    size_t scratch_bytes;
};
void op_drop(struct op *); /* accepts an op that was never made (all zero) */
/* data[i] belongs to the i-th argument, in the order that the maker of the op says. */
int op_run(const struct op *, const void *const *data, void *scratch);
size_t op_arg_bytes(const struct op *, int i);
/* The memory order of the i-th argument, a tensor of this shape. known = 0: not one of those above. */
const struct layout *op_tensor(const struct op *, int i, struct shape, int *known);
/* The same for packed weights. */
void op_weights(const struct op *, int i, struct layout *);
int layout_same_weights(const struct layout *, const struct layout *);
size_t layout_weight_bytes(const struct layout *);

/* A pass of an operation. */
enum pass_kind { PASS_TRAIN, PASS_INFER, PASS_DATA, PASS_WEIGHTS };

/* Convolution. The arguments run in this order: forward x, w, bias, y; data gy, w, gx; weights x, gy, gw. */
struct dnn_conv {
    struct shape in, out;
    int size, stride, pad, groups;
    int winograd; /* let oneDNN choose it where it can */
    enum act act; /* forward: applied to the result */
    int any;      /* oneDNN chooses the orders of x and y; else: */
    const struct layout *x, *y;
    const struct layout *weights; /* NULL: oneDNN chooses */
};
int dnn_conv(struct op *, const struct cpu *, const struct dnn_conv *, enum pass_kind,
             const struct op *forward, struct err *);
int dnn_fusible(enum act); /* can forward apply it */

/* Weights from one layout to another: arguments x, y. The host's is O,(I/groups),H,W. */
int dnn_reorder(struct op *, const struct cpu *, const struct layout *from, const struct layout *to,
                struct err *);
void dnn_host_weights(struct layout *, const struct dnn_conv *);

/* Elementwise over n numbers: activations for which `dnn_eltwise_known` holds. forward x, y; backward
 * (PASS_DATA) x or y (if act_from_output), gy, gx. */
int dnn_eltwise_known(enum act);
int dnn_eltwise(struct op *, const struct cpu *, enum act, size_t n, enum pass_kind, struct err *);

/* Maximum pooling, out of the shape of y. train x, y, mask; infer x, y; backward gy, gx, mask. */
struct dnn_pool {
    struct shape in, out;
    const struct layout *layout;
    int size, stride;
    int before; /* rows above, and columns to the left of the map, that the first window covers */
};
int dnn_pool(struct op *, const struct cpu *, const struct dnn_pool *, enum pass_kind,
             const struct op *forward, struct err *);

/* C (m x n) = A B + beta C, row-major without gaps; ta, tb: that matrix is stored transposed. */
int dnn_gemm(const struct cpu *, int ta, int tb, size_t m, size_t n, size_t k, const float *a, const float *b,
             float beta, float *c);

/* ---- convolutions of maps of at most 2x2 pixels (conv_as_gemm.c) ---- */

/* As linear_ops; mem_free it, also when planning failed. */
struct conv_as_gemm;
int small_fits(const struct linear_desc *, const struct tensor *out);
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

int onednn_open(struct cpu *, struct err *);
void onednn_close(struct cpu *);

#endif
