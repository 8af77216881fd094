/* Private to the cuda backend.
 *
 *   device.{h,c}  the CUDA runtime: memory, copies, the stream
 *   dnn*.{h,c}    cuDNN: plans of convolutions, and running them
 *   engine_file.{h,c}  the engines that were chosen for them, in a file
 *   blas.{h,c}    cuBLAS: one matrix product
 *   kernel.h      how kernels are written: *.cu, the only files that nvcc compiles
 *   cuda.c        the device as a backend: staging, host access
 *   sum.c         NCCL: the GPUs of other processes (NCCL=1)
 *   feed.c        images that the host makes, on their way while the step before runs
 *   linear.{h,cu} what conv.c and dense.c have in common
 *   others        an operation each: plans, kernels, and the functions that launch them
 *
 * Everything but what sum.c and feed.c do, and what cuda_fork says, is enqueued in one stream; the host waits
 * only where it reads something. Tensors are N,H,W,C without gaps, float or bfloat16, but for images of few
 * channels: see cuda_image_layout. The packed weights of a convolution are O,H,W,I/groups, I as in the memory
 * of its input, those of a dense map O,H*W*C, as float, with a bfloat16 copy behind them where that is
 * computed in. Gradients and momenta of parameters are float in the same places, except gradients that cuDNN
 * gives as bfloat16 and to which nothing is added: these are where the copy would be. */
#ifndef CUDA_CUDA_H
#define CUDA_CUDA_H
#include "backend/backend.h"
#include "core/mem.h"
#include "device.h"

#ifdef __cplusplus
extern "C" {
#else
_Static_assert(sizeof(real) == sizeof(float), "the cuda backend computes in float: build with DOUBLE=0");
#endif

struct dnn;
struct blas;
struct engine_file;
struct peers;

enum { MOST_STAGES = 32 };

/* Pinned memory for copies: pieces of one size, used in turn. The host waits for a piece until the copy that
 * used it last has ended, so the small ones, of which each step takes a few, are enough for several steps. */
struct stages {
    struct stage {
        void *data;
        event_t done;
    } stage[MOST_STAGES];
    int n, turn;
    size_t bytes; /* of each */
};

struct cuda {
    int index; /* of the GPU */
    stream_t stream, side;
    event_t forked, joined; /* cuda_fork's and cuda_join's */
    struct dev_info info;
    struct engine_file *engines;
    struct dnn *dnn;
    struct blas *blas;
    struct peers *peers; /* the GPUs of other processes: sum.c's */
    struct stages small, large;
    void *dense; /* device: rows of a tensor in the host's order */
    size_t dense_bytes;
};

/* What is enqueued by way of *side until cuda_join runs beside what is enqueued by way of the device itself:
 * after all that was enqueued before, and before all that comes after cuda_join. No two pieces of work in
 * between may touch what one of them writes. */
int cuda_fork(const struct cuda *, struct cuda *side);
int cuda_join(const struct cuda *);

/* Every call that is given the backend comes through here. Those that follow it with a plan alone are made by
 * the same thread. */
static inline struct cuda *cuda_of(const struct backend *be)
{
    struct cuda *cu = (struct cuda *)be->self;
    dev_use(cu->index);
    return cu;
}

/* Tensors: one of those that cuda.c has, never NULL. Weights: also how many numbers there are. */
struct layout {
    int bf16;          /* elements are bfloat16. Weights: so is the copy behind them */
    int bf16_gradient; /* weights only: their gradient is bfloat16, in the place of the copy */
    int channels; /* tensors: of a pixel, those behind the shape's being zero; 0: as many as the shape has */
    size_t count; /* weights only */
};
extern const struct layout cuda_float, cuda_bf16;

/* Of an image. Tensor cores want the channels of a pixel to begin at multiples of 16 bytes: where there are
 * fewer than 8 in bfloat16, there are 8 from the start, or engines would copy the image to have them, forward
 * and again for the weights' gradient. (Those for float gain nothing.) pads: see backend_ops.image. */
const struct layout *cuda_image_layout(int channels, int bf16, int pads);

/* The type in which activations are kept: what the precision of the backend asks for. */
static inline int cuda_wants_bf16(const struct backend *be) { return be->precision == PRECISION_BF16; }
static inline int cuda_is_bf16(const struct tensor *t) { return t->layout->bf16; }
static inline int cuda_channels(const struct tensor *t) /* in memory */
{
    return t->layout->channels ? t->layout->channels : t->shape.c;
}
static inline size_t cuda_element(int bf16) { return bf16 ? 2 : 4; }
/* Elements that a thread reads and writes at a time: 16 bytes of them where every pixel's channels start at a
 * multiple of that, else one. */
static inline unsigned cuda_vector(int bf16, size_t channels)
{
    const unsigned V = bf16 ? 8 : 4;
    return channels % V ? 1 : V;
}

/* Sets layout and bytes of a tensor whose shape is set. Refuses 2^31 elements and more. */
int cuda_tensor(struct tensor *, int bf16, struct err *);

/* Weights: float, then the copy. */
static inline size_t cuda_weight_bytes(const struct layout *l)
{
    return (l->count * 4 + 15) / 16 * 16 + (l->bf16 ? l->count * 2 : 0);
}
static inline void *cuda_weight_copy(const struct layout *l, const void *w) /* what is computed with */
{
    return l->bf16 ? (char *)w + (l->count * 4 + 15) / 16 * 16 : (void *)w;
}
static inline void *cuda_weight_gradient(const struct layout *l, const void *g) /* its numbers */
{
    return l->bf16_gradient ? cuda_weight_copy(l, g) : (void *)g;
}
/* Device memory to host memory and back, any size: cuda_get waits. */
int cuda_put(struct cuda *, void *to, const void *host, size_t bytes);
int cuda_get(struct cuda *, void *host, const void *from, size_t bytes);
/* New device memory with a copy of host memory; NULL after an error. */
int cuda_copy_of(struct cuda *, const void *host, size_t bytes, void **out, struct err *);

/* ---- reformat.cu ---- */

/* Rows of a tensor, from row `row` on, to and from the host's order (dense N,C,H,W of float). */
int kernel_to_dense(const struct cuda *, const struct tensor *, size_t row, size_t rows, float *dense);
int kernel_from_dense(const struct cuda *, const float *dense, const struct tensor *, size_t row, size_t rows,
                      int add);
/* to[i] = from[i], or +=, n numbers of either type. */
int kernel_convert(const struct cuda *, const void *from, int from_bf16, void *to, int to_bf16, size_t n,
                   int add);

/* ---- operations: cuda_NAME ---- */

#define OPERATION(name) extern const struct name##_ops cuda_##name;
#include "ops.inc"
#undef OPERATION

#ifdef __cplusplus
}
#endif

#endif
