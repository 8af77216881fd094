/* Private to the cuda backend.
 *
 *   device.{h,c}  the CUDA runtime: memory, copies, the stream
 *   dnn.{h,c}     cuDNN: plans of convolutions, and running them
 *   blas.{h,c}    cuBLAS: one matrix product
 *   kernel.h      how kernels are written; *.cu are the kernels with the functions that launch them
 *   cuda.c        the device as a backend: staging, host access
 *   linear.{h,c}  what conv.c and dense.c have in common
 *   others        one group of operations each: plans in C, kernels in the .cu of the same name
 *
 * Everything is enqueued in one stream; the host waits only where it reads something. Tensors are N,H,W,C
 * without gaps, float or bfloat16; the packed weights of a convolution are O,H,W,I/groups, those of a dense
 * map O,H*W*C, as float, with a bfloat16 copy behind them where that is computed in. Gradients and momenta of
 * parameters are float in the same places. */
#ifndef CUDA_CUDA_H
#define CUDA_CUDA_H
#include "backend/linear.h"
#include "backend/ops/center.h"
#include "backend/ops/match.h"
#include "core/crop.h"
#include "device.h"

#ifdef __cplusplus
extern "C" {
#else
_Static_assert(sizeof(real) == sizeof(float), "the cuda backend computes in float: build with DOUBLE=0");
#endif

struct dnn;
struct blas;

/* Pinned memory for copies: pieces of one size, used in turn. The host waits for a piece until the copy that
 * used it last has ended, so the small ones, of which each step takes a few, are enough for several steps. */
struct stages {
    struct stage {
        void *data;
        event_t done;
    } * stage;
    int n, turn;
    size_t bytes; /* of each */
};

struct cuda {
    int index; /* of the GPU */
    stream_t stream;
    struct dev_info info;
    struct dnn *dnn;
    struct blas *blas;
    struct stages small, large;
    void *dense; /* device: a part of a tensor in the host's order */
};

#ifndef __cplusplus
/* Every call that is given the backend comes through here. Those that follow it with a plan alone are made by
 * the same thread. */
static inline struct cuda *cuda_of(const struct backend *be)
{
    struct cuda *cu = be->self;
    dev_use(cu->index);
    return cu;
}
#endif

/* Tensors: one of the two below, never NULL. Weights: also how many numbers there are. */
struct layout {
    int bf16;     /* elements are bfloat16. Weights: so is the copy behind them */
    size_t count; /* weights only */
};
extern const struct layout cuda_float, cuda_bf16;

/* The type in which activations are kept: what the precision of the backend asks for. */
static inline int cuda_wants_bf16(const struct backend *be) { return be->precision == PRECISION_BF16; }
static inline int cuda_is_bf16(const struct tensor *t) { return t->layout->bf16; }
static inline size_t cuda_element(int bf16) { return bf16 ? 2 : 4; }
/* Sixteen bytes at a time: every pixel's channels must start at a multiple of that. */
static inline int cuda_is_wide(int bf16, size_t channels) { return channels % (bf16 ? 8 : 4) == 0; }

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
/* to[i] = from[i] for i < count numbers of host memory, in the order that `at` gives: where in the packed
 * weights number i of the host's lies. Also writes the copy. */
int cuda_pack(struct cuda *, const struct layout *, const real *host, void *w,
              size_t (*at)(const void *plan, size_t i), const void *plan);
int cuda_unpack(struct cuda *, const struct layout *, const void *w, real *host,
                size_t (*at)(const void *plan, size_t i), const void *plan);

/* Device memory to host memory and back, any size: cuda_get waits. */
int cuda_put(struct cuda *, void *to, const void *host, size_t bytes);
int cuda_get(struct cuda *, void *host, const void *from, size_t bytes);

/* ---- kernels: what the .cu files offer to the others ---- */

/* reformat.cu: n rows of a tensor from, or into, the host's order (dense N,C,H,W of float). */
int kernel_to_dense(const struct cuda *, int bf16, const void *x, float *dense, size_t n, size_t c,
                    size_t hw);
int kernel_from_dense(const struct cuda *, int bf16, const float *dense, void *x, size_t n, size_t c,
                      size_t hw, int add);
/* reformat.cu: to[i] = from[i], or +=, n numbers of either type. */
int kernel_convert(const struct cuda *, const void *from, int from_bf16, void *to, int to_bf16, size_t n,
                   int add);

/* act.cu: y = act(x); gx = gy * slope, from x or from y as act_from_output says (the other may be NULL). */
int kernel_act(const struct cuda *, enum act, int bf16, const void *x, void *y, size_t n);
int kernel_act_back(const struct cuda *, enum act, int bf16, const void *x, const void *y, const void *gy,
                    void *gx, size_t n, int add);
/* dropout.cu: dropout over n elements of a tensor of c channels and hw pixels. */
int kernel_dropout(const struct cuda *, int bf16, uint64_t key, const struct step_state *, double probability,
                   const void *x, void *y, size_t n, size_t c, size_t hw, int add);

/* bias.cu: y = act(y + bias), n numbers of c channels, in place; bias may be NULL. */
int kernel_bias(const struct cuda *, enum act, int bf16, const float *bias, void *y, size_t n, size_t c);
/* bias.cu: to[k] = or += sum over rows of x[row * c + k]. Bytes of scratch that takes. */
int kernel_sums(const struct cuda *, int bf16, const void *x, size_t rows, size_t c, float *to, int add,
                void *scratch);
size_t kernel_sums_bytes(const struct cuda *, int bf16, size_t rows, size_t c);

/* norm.cu: a tensor as rows of pixels, in splits with statistics of their own. */
struct norm_job {
    int bf16, wide, act;
    int relu_like; /* act is two half-lines that meet in 0: */
    float below;   /* slope of the left one */
    unsigned channels, splits;
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
/* addend: NULL, or a tensor that is added before the activation, which is relu_like then. */
int kernel_norm_apply(const struct cuda *, const struct norm_job *, const struct norm_at *, const void *x,
                      const void *addend, void *y);
/* Gradients of scale and bias, and what the one of x wants of all rows: means, [split][2][channel]. */
int kernel_norm_sums(const struct cuda *, const struct norm_job *, const struct norm_at *, const void *x,
                     const void *gy, float *gscale, float *gbias, int add, float *partial, float *means);
/* The same behind an addend: the slope is that of y, and gy times it goes to g, which may be gy. */
int kernel_norm_sums_added(const struct cuda *, const struct norm_job *, const struct norm_at *,
                           const void *x, const void *y, const void *gy, void *g, float *gscale, float *gbias,
                           int add, float *partial, float *means);
int kernel_norm_back(const struct cuda *, const struct norm_job *, const struct norm_at *, const float *means,
                     const void *x, const void *gy, void *gx);

/* softmax.cu: see softmax_ops. A row is channels * pixels classes, in groups of `length`; x and gx are float
 * or bfloat16, p and gy float. part: [row][group]. */
struct softmax_job {
    int bf16;
    unsigned groups, length, channels, pixels;
    double temperature;
    double on, off; /* truth of the class, and of every other one */
};
int kernel_softmax(const struct cuda *, const struct softmax_job *, unsigned rows, const void *x,
                   const int *label, unsigned scored, float *p, double *part, double *loss);
int kernel_softmax_back(const struct cuda *, const struct softmax_job *, unsigned rows, const float *p,
                        const int *label, unsigned scored, const float *gy, void *gx, int add);

/* pool.cu: maps of h x w pixels to oh x ow; windows of size x size start at i * stride - offset. */
struct pool_map {
    int c, h, w, oh, ow;
    int size, stride, offset;
    int narrow; /* places in a window fit in 8 bits; else they take 32 */
};
/* where: for each output, the place of its maximum in its window, in row order; forward: may be NULL. */
int kernel_pool_max(const struct cuda *, int bf16, const struct pool_map *, const void *x, void *y,
                    void *where, size_t rows);
int kernel_pool_max_back(const struct cuda *, int bf16, const struct pool_map *, const void *where,
                         const void *gy, void *gx, size_t rows, int add);
int kernel_pool_average(const struct cuda *, int bf16, const struct pool_map *, const void *x, void *y,
                        size_t rows);
int kernel_pool_average_back(const struct cuda *, int bf16, const struct pool_map *, const void *gy, void *gx,
                             size_t rows, int add);

/* add.cu: addition of b onto a, as struct add_desc has it. */
struct add_map {
    unsigned ac, ah, aw, bc, bh, bw; /* channels and maps */
    unsigned up, down;               /* b is scattered by up and strided by down; one of them is 1 */
    int same;                        /* a and b have one shape */
    int b_bf16, act;
    float alpha, beta;
};
int kernel_add(const struct cuda *, int bf16, const struct add_map *, const void *a, const void *b, void *out,
               size_t rows);
/* Either gradient may be NULL, both may be one. */
int kernel_add_back(const struct cuda *, int bf16, const struct add_map *, const void *y, const void *gy,
                    void *ga, int add_a, void *gb, int add_b, size_t rows);
/* concat.cu: c channels of each pixel, from channel from_first of from_pitch to channel to_first of to_pitch.
 */
int kernel_channels(const struct cuda *, int from_bf16, const void *from, size_t from_pitch,
                    size_t from_first, int to_bf16, void *to, size_t to_pitch, size_t to_first, size_t c,
                    size_t pixels, int add);

/* match.cu: see match_ops. A pool is a class, or all rows together. Rows are sorted by pool, those of S1
 * first; pairs i < j of a pool lie together, at first_pair + j (j - 1) / 2 + i. */
enum { MATCH_DIGITS = 256, MATCH_PASSES = 4 }; /* the median is found by digits of 8 bits of 32 */
struct match_control {
    double weight; /* in force in this step */
    int applied;
    unsigned members, pairs; /* of all pools together */
};
struct match_digit { /* what is known of a median: the leading digits, and its rank among those that share
                        them */
    uint32_t value;
    unsigned rank;
};
struct match_job {
    struct match_options o;
    int bf16, classes, every;
    unsigned pools, m1, m, d, c;  /* rows of S1, and of both; features, and channels of them */
    unsigned rows_back, learners; /* rows that want a gradient; rows of S1 and S2 that have one */
    unsigned lists, chunks;       /* of values whose median is wanted; blocks that share one */
    double lambda, warmup;
    /* what a pass gives */
    const struct step_state *now;
    const void *h;
    const int *label;
    struct match_memory old; /* h NULL: none */
    int reuse_detached;
    double *match;
    /* workspace */
    struct match_control *control;
    unsigned *n1, *n, *first, *first_pair; /* of a pool: rows, in S1 and in all; where rows and pairs begin */
    unsigned *order, *pool, *bad;          /* row at a place, and its pool; of a row: not finite */
    float *x;                              /* features in order of the places */
    float *pair;                           /* squared distances; then dQ/dd2 */
    unsigned *count;                       /* 2 x lists x chunks x MATCH_DIGITS */
    struct match_digit *digit;             /* (MATCH_PASSES + 1) x lists */
    float *above;                          /* lists x chunks: the least value with other leading digits */
    double *sum, *q, *factor;              /* lists x chunks; pools x chunks; pools */
};
int kernel_match(const struct cuda *, const struct match_job *);
int kernel_match_back(const struct cuda *, const struct match_job *, void *gx, int add);

/* center.cu: see center_ops. */
struct center_job {
    int bf16, classes;
    unsigned d, c, rows_back; /* features, and channels of them */
    double lambda, warmup, alpha;
};
/* loss_part: a double a class and CENTER_FEATURES features. */
enum { CENTER_FEATURES = 128 };
int kernel_center(const struct cuda *, const struct center_job *, const void *x, const int *label,
                  unsigned scored, int move, int reuse_detached, const struct center_state *,
                  double *loss_part, double *loss);
int kernel_center_back(const struct cuda *, const struct center_job *, const struct step_state *,
                       const void *x, const int *label, unsigned scored, const struct center_state *,
                       void *gx, int add);

/* sgd.cu */
struct sgd_part {
    float *w, *v;
    const float *g;
    uint16_t *copy;       /* bfloat16 of w, or NULL */
    size_t count, before; /* numbers; and in the parts before this one, each rounded up to SGD_CHUNK */
    double rate;          /* a factor of the step state's */
    float decay;
};
enum { SGD_CHUNK = 4096 };
int kernel_sgd(const struct cuda *, const struct sgd_part *, int n, size_t chunks, float momentum,
               float average, const struct step_state *);
/* bad[i] = 1 for parts whose gradient is not finite; zero before. stop: of the step state, set as well; or
 * NULL.
 */
int kernel_finite(const struct cuda *, const struct sgd_part *, int n, size_t chunks, int *bad, int *stop);

/* images.cu: see images_ops. */
struct images_table {
    const uint8_t *pixels; /* device: n x c x h x w */
    int n, c, h, w;
    float mean[4], scale[4];
};
int kernel_show(const struct cuda *, const struct images_table *, const struct crop *, int rows, int bf16,
                void *x);

/* loss_ring.cu: see loss_ring_ops. */
struct loss_ring_table {
    const double **loss; /* device: n */
    int *is_ce;          /* device: n */
    double *record;      /* device: capacity x (n + 1) */
    int n, capacity, scored, parts;
    double chance;
};
int kernel_record(const struct cuda *, const struct loss_ring_table *, struct step_state *, int last);

#ifdef __cplusplus
}
#endif

#endif
