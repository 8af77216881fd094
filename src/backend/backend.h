/* What layers and devices know of one another, and nothing else: tables of planned operations.
 *
 * An operation is planned once, when shapes are known and before memory is (plan: choose an implementation
 * and a layout, say how many bytes it wants), and then run many times (forward, backward: no allocation,
 * cannot run out of memory). Plans are made in network order: an operation is told the layout of its input
 * and chooses that of its output. Two backends, or two backends of one kind, work side by side in one
 * process.
 *
 * Conventions
 *  - Shapes are logical: n images (rows), c channels, h rows and w columns of pixels. Memory order belongs to
 *    the backend; rows are always outermost, so that the first k rows of a tensor are a prefix of its memory.
 *  - Gradients are dLoss/dx. `add` nonzero: add to what is there; else overwrite.
 *  - Everything passed to forward/backward is backend memory unless it says host. Pointers to tensors whose
 *    gradient nobody wants are NULL.
 *  - Backward covers the first `rows_back` rows only; the gradient memory behind them is not touched.
 *  - plan returns OK or an error that names what the backend cannot do. forward and backward return OK or a
 *    code; what a device finds out later comes from sync. drop accepts a plan that is all zero.
 *  - Results depend on inputs, shapes and the number of threads only, never on timing.
 */
#ifndef BACKEND_BACKEND_H
#define BACKEND_BACKEND_H
#include <stddef.h>
#include <stdint.h>
#include "core/err.h"
#include "core/crop.h"
#include "core/real.h"

#ifdef __cplusplus
extern "C" {
#endif

struct shape {
    int n, c, h, w;
};

struct layout; /* memory order and element type: the backend's own; NULL = dense N,C,H,W of `real` */

struct tensor {
    struct shape shape;
    const struct layout *layout; /* lives as long as the plan that chose it */
    size_t bytes;                /* for all rows, padding of the layout included; per row it is bytes / n */
    void *data;                  /* bound by the planner once every plan is made */
};

/* Activations, in the order of act_names. The maths is in scalar.h. */
enum act {
    ACT_LINEAR,
    ACT_RELU,
    ACT_RELU6,
    ACT_LEAKY,
    ACT_RELIE,
    ACT_RAMP,
    ACT_LOGISTIC,
    ACT_LOGGY,
    ACT_TANH,
    ACT_ELU,
    ACT_SELU,
    ACT_GELU,
    ACT_SWISH,
    ACT_MISH,
    ACT_HARD_MISH,
    ACT_PLSE,
    ACT_HARDTAN,
    ACT_LHTAN,
    ACT_STAIR,
    ACT_COUNT
};
extern const char *const act_names[ACT_COUNT + 1]; /* "linear", "relu", ..., NULL */

/* Nonzero if the slope can be computed from the output alone: such activations run in place. */
int act_from_output(enum act);

/* What activations, gradients and products are computed in; in the order of precision_names. Parameters,
 * their gradients and momenta, statistics and losses are `real` in all of them. */
enum precision {
    PRECISION_FP32, /* float; in double builds double */
    PRECISION_TF32, /* float, whose products may round their factors to 10 bits */
    PRECISION_BF16, /* bfloat16 in memory, sums in float */
    PRECISION_COUNT
};
extern const char *const precision_names[PRECISION_COUNT + 1]; /* "fp32", "tf32", "bf16", NULL */

struct backend {
    const struct backend_ops *ops;
    void *self;
    char title[80];           /* which it is, for people: "cpu", "cuda:0 (NVIDIA H100 80GB HBM3)" */
    int threads;              /* compute threads, >= 1 */
    enum precision precision; /* of what is planned from now on; one of ops->precisions */
    int deterministic;        /* plans may not depend on timing, nor sums on the order of threads */
    int eager;                /* no recordings, and losses at once: to find out where something fails */
};

/* What changes from one training step to the next. It lives in backend memory, so that a recorded step can be
 * run again with new values. */
struct step_state {
    uint64_t step;      /* number of the sub-mini-batch since training began */
    uint64_t iteration; /* from 1 */
    double rate;        /* of the update, before the layers' own factors */
    /* Where losses are read late the device itself keeps the rest from step to step. */
    double ce_sum;     /* of the sub-mini-batches of this iteration so far */
    double ce_average; /* running mean of the CE before this iteration; < 0: none yet */
    int stop;          /* once something was not finite: there are no updates any more */
};
enum { STOP_LOSS = 1, STOP_GRADIENT = 2 };

/* ---- linear maps: convolution and dense ---- */

struct linear_desc {
    const struct tensor *in;      /* shape and layout */
    int size, stride, pad;        /* convolution: square window, stride, zero padding on each side */
    int groups;                   /* convolution: 1..c */
    int train;                    /* 1: backward will be called, weights are the model's; 0: inference only */
    int rows_back;                /* rows of the backward pass, <= in->shape.n */
    int need_gx, add_gx;          /* will backward be given gx, and with which add */
    enum act act;                 /* inference: fuse this activation if you can (see fused) */
    const struct layout *weights; /* NULL: choose; else as a plan for other rows has stored them */
};
struct linear_plan {
    size_t weight_bytes;          /* of the packed weights */
    size_t scratch_bytes;         /* shared block, contents undefined between calls */
    const struct layout *weights; /* how packed weights are stored; valid while the plan lives */
    int fused;                    /* the activation asked for is applied by forward */
    void *self;
};
struct linear_ops {
    /* Fills *plan, and layout and bytes of *out, whose shape is set (dense: c outputs, h = w = 1). */
    int (*plan)(struct backend *, const struct linear_desc *, struct tensor *out, struct linear_plan *,
                struct err *);
    /* Host weights in .weights order (O, I/groups, H, W; dense: O, C*H*W) to packed ones and back. */
    int (*pack)(const struct linear_plan *, const real *host, void *w);
    int (*unpack)(const struct linear_plan *, const void *w, real *host);
    /* y = x * w (+ bias[o], unless NULL). Cross-correlation; dense flattens its input in C,H,W order. */
    int (*forward)(const struct linear_plan *, const void *x, const void *w, const real *bias, void *y,
                   void *scratch);
    /* gx (may be NULL) is added to as planned; gw (packed as w) and gbias (may be NULL) as `add` says. */
    int (*backward)(const struct linear_plan *, const void *x, const void *w, const void *gy, void *gx,
                    void *gw, real *gbias, int add, void *scratch);
    void (*destroy)(struct linear_plan *);
};

/* ---- batch normalisation (+ activation) ---- */

struct norm_desc {
    const struct tensor *in;
    int train;
    int splits;  /* 1, or 2: statistics of rows [0, rows_s1) and [rows_s1, n) apart, as of two forward passes
                  */
    int rows_s1; /* rows of the first half when splits == 2 */
    int rows_back; /* n, or with splits == 2 also rows_s1: the backward pass of the first half only */
    enum act act;  /* fuse it if you can; only activations for which act_from_output holds are asked for */
    const struct tensor *addend; /* NULL, or what is added before the activation; only where `adds` allows */
};
struct norm_plan {
    size_t stats_bytes;     /* batch mean and variance, per split: kept from forward to backward */
    size_t workspace_bytes; /* e.g. the mask of a fused relu: kept from forward to backward */
    size_t scratch_bytes;
    int fused;
    void *self;
};
struct norm_ops {
    /* out: shape set; gets the layout of in. */
    int (*plan)(struct backend *, const struct norm_desc *, struct tensor *out, struct norm_plan *,
                struct err *);
    /* y = act(scale * (x - mean) / sqrt(var + 1e-5) + bias), per channel; scale, bias, mean, var: c values
     * each. train: mean and (biased) variance of the batch, per split, saved in stats; the running ones, mean
     * and var, move once: r += bn_momentum * (batch - r), batch = the average over the splits of mean and of
     * unbiased variance (v * N/(N-1), N = rows*h*w of the split). Where all of var is still 0 (never updated)
     * bn_momentum is taken as 1. Batch statistics that are not finite leave the running ones of that channel
     * alone. infer: mean and var are used, stats and workspace are NULL. x == y is not allowed. */
    int (*forward)(const struct norm_plan *, const void *x, const void *addend, const real *scale,
                   const real *bias, real *mean, real *var, double bn_momentum, void *stats, void *workspace,
                   void *y, void *scratch);
    /* gx may be gy (in place). gscale and gbias as `add` says. y is the output of forward: for activations
     * without a workspace. gaddend (NULL: not wanted) is overwritten. */
    int (*backward)(const struct norm_plan *, const void *x, const void *y, const real *scale,
                    const void *stats, const void *workspace, const void *gy, void *gx, void *gaddend,
                    real *gscale, real *gbias, int add, void *scratch);
    /* Can a plan for training have an addend of its input's kind, and then this activation? NULL: no. */
    int (*adds)(enum act);
    void (*destroy)(struct norm_plan *);
};

/* ---- element by element ---- */

struct act_desc {
    const struct tensor *in;
    int train, rows_back;
    enum act act;
};
struct act_plan {
    size_t scratch_bytes;
    void *self;
};
struct act_ops {
    int (*plan)(struct backend *, const struct act_desc *, struct tensor *out, struct act_plan *,
                struct err *);
    /* y may be x when act_from_output(act), or when no backward follows. */
    int (*forward)(const struct act_plan *, const void *x, void *y, void *scratch);
    /* x may be NULL when act_from_output(act), y when not. gx may be gy when add is 0. */
    int (*backward)(const struct act_plan *, const void *x, const void *y, const void *gy, void *gx, int add,
                    void *scratch);
    void (*destroy)(struct act_plan *);
};

/* Dropout: element e = (row * c + channel) * h*w + pixel (logical order, whatever the layout) is kept when
 * rng_uniform(key of the step, e) >= probability, and then scaled by 1 / (1 - probability). Nothing is
 * stored. */
struct dropout_desc {
    const struct tensor *in;
    int rows_back;
    double probability;
    uint64_t key; /* of this layer; that of a step is rng_key(key, RNG_DROPOUT, step) */
};
struct dropout_plan {
    size_t scratch_bytes;
    void *self;
};
struct dropout_ops {
    int (*plan)(struct backend *, const struct dropout_desc *, struct tensor *out, struct dropout_plan *,
                struct err *);
    int (*forward)(const struct dropout_plan *, const struct step_state *, const void *x, void *y,
                   void *scratch);
    int (*backward)(const struct dropout_plan *, const struct step_state *, const void *gy, void *gx, int add,
                    void *scratch);
    void (*destroy)(struct dropout_plan *);
};

/* ---- pooling ---- */

/* The average is over the whole map: out is n,c,1,1; size, stride, pad unused. */
enum pool_kind { POOL_MAX, POOL_AVERAGE };

struct pool_desc {
    const struct tensor *in;
    enum pool_kind kind;
    int size, stride, pad; /* Darknet's: pad is the total; a window starts at i*stride - pad/2 (C division);
                              cells outside count as -infinity; every window has a cell inside */
    int train, rows_back;
};
struct pool_plan {
    size_t workspace_bytes; /* where the maxima were: kept from forward to backward */
    size_t scratch_bytes;
    void *self;
};
struct pool_ops {
    int (*plan)(struct backend *, const struct pool_desc *, struct tensor *out, struct pool_plan *,
                struct err *);
    /* Of equal maxima the first in row order wins. */
    int (*forward)(const struct pool_plan *, const void *x, void *y, void *workspace, void *scratch);
    int (*backward)(const struct pool_plan *, const void *workspace, const void *gy, void *gx, int add,
                    void *scratch);
    void (*destroy)(struct pool_plan *);
};

/* ---- joining ---- */

/* Addition, pjreddie's [shortcut]: out has the shape of a. On the overlap (min of the channels; where the
 * sizes differ b is strided by b.w / a.w, or scattered by a.w / b.w, whole-number factors) out = alpha * a +
 * beta * b; elsewhere out = a. Then the activation (only such that act_from_output holds, and only if fused).
 */
struct add_desc {
    const struct tensor *a, *b;
    double alpha, beta;
    enum act act;
    int train, rows_back;
    int add_a, add_b; /* the `add` of either gradient */
};
/* Concatenation along the channels of tensors with equal h, w. */
struct concat_desc {
    const struct tensor *const *in;
    int nin;
    int train, rows_back;
};
struct join_plan {
    size_t scratch_bytes;
    int fused; /* add: the activation is applied by forward, and its slope by backward */
    void *self;
};
struct join_ops {
    int (*plan_add)(struct backend *, const struct add_desc *, struct tensor *out, struct join_plan *,
                    struct err *);
    int (*plan_concat)(struct backend *, const struct concat_desc *, struct tensor *out, struct join_plan *,
                       struct err *);
    /* x: the inputs (a, b for addition), which may be one tensor more than once; then so may their gradients,
     * which are written in this order. */
    int (*forward)(const struct join_plan *, const void *const *x, void *y, void *scratch);
    /* gx[i] may be NULL; add[i] as for gx elsewhere (for addition as planned). y: the output, for the slope.
     */
    int (*backward)(const struct join_plan *, const void *y, const void *gy, void *const *gx, const int *add,
                    void *scratch);
    void (*destroy)(struct join_plan *);
};

/* ---- softmax and cross-entropy ---- */

struct softmax_desc {
    const struct tensor *in; /* c*h*w values a row, flattened in C,H,W order: */
    int groups;              /* so many groups of equal length */
    double temperature;
    double smooth; /* label smoothing as AlexeyAB spells it: truth is 1-smooth on the class, smooth/(K-1)
                      elsewhere, K = c*h*w; 0: one-hot */
    int rows_back;
};
struct softmax_plan {
    size_t scratch_bytes;
    void *self;
};
struct softmax_ops {
    /* out: the shape of in; gets a dense layout. */
    int (*plan)(struct backend *, const struct softmax_desc *, struct tensor *out, struct softmax_plan *,
                struct err *);
    /* p = softmax(x / temperature) per group. With label (backend memory, one int a row; NULL: none) also
     * *loss = sum over the first `scored` rows of -sum_k truth_k log p_k, from the logits (finite for finite
     * x); loss is backend memory. */
    int (*forward)(const struct softmax_plan *, const void *x, const int *label, int scored, void *p,
                   double *loss, void *scratch);
    /* gx = J^T gy (gy NULL: 0) + for rows < scored d/dx (1/scored * sum of the losses above); label NULL: no
     * loss. */
    int (*backward)(const struct softmax_plan *, const void *p, const int *label, int scored, const void *gy,
                    void *gx, int add, void *scratch);
    void (*destroy)(struct softmax_plan *);
};

/* ---- losses of features, while training: the formulas are in ref/match.c and ref/center.c ---- */

enum bandwidth {
    BANDWIDTH_MEDIAN, /* of each class */
    BANDWIDTH_POOLED, /* one median over all pairs of one class */
    BANDWIDTH_FIXED
};

struct match_options {
    int conditional;   /* 0: one pool, labels ignored */
    int kernels;       /* L */
    double kernel_mul; /* s_i = kernel_mul^i * s */
    enum bandwidth bandwidth;
    double fixed; /* s, for BANDWIDTH_FIXED: a squared distance */
    int root;     /* 1: MMD, smoothed at 0; 0: squared MMD */
    int present;  /* average over the classes present in both halves instead of all */
};

struct match_desc {
    const struct tensor *in; /* features: rows of S1, then of S2, if that is not the memory */
    int m1, m2;              /* rows of S1 and S2 */
    int classes;
    int rows_back, gradient_first; /* gradient_first: rows of S2 get none */
    struct match_options options;
    double lambda, warmup; /* weight, and its share in force: see warmup_share */
    int every;             /* on every k-th iteration, at k times the weight */
};
struct match_memory {    /* backend memory of `real`: S2 is the S1 of the step before */
    real *h, *label, *n; /* m2 rows in C,H,W order; m2; 1: 0 while there is none */
};
struct match_plan {
    size_t workspace_bytes; /* kept from forward to backward */
    void *self;
};
struct match_ops {
    int (*plan)(struct backend *, const struct match_desc *, struct match_plan *, struct err *);
    /* *match (backend memory): Match before its weight; < 0: none in this step; NaN: a feature was not
     * finite. label: backend memory, one a row of x. memory: NULL, or what holds S2 and then S1.
     * reuse_detached: the memory stays; ref also keeps the bandwidths, and S2 where it has no gradient, of
     * the pass before (for finite differences). */
    int (*forward)(const struct match_plan *, const struct step_state *, const void *x, const int *label,
                   const struct match_memory *, int reuse_detached, double *match, void *workspace);
    /* gx: the gradient of the weighted loss; rows without one get 0. */
    int (*backward)(const struct match_plan *, const void *workspace, void *gx, int add);
    void (*destroy)(struct match_plan *);
};

struct center_desc {
    const struct tensor *in;
    int classes, rows_back;
    double lambda, warmup, alpha;
};
struct center_state { /* backend memory of `real`, classes x features in C,H,W order; count: one a class */
    real *centers, *sum, *count;
};
struct center_plan {
    size_t scratch_bytes;
    void *self;
};
struct center_ops {
    int (*plan)(struct backend *, const struct center_desc *, struct center_plan *, struct err *);
    /* move: centers first go where the sums of the step before send them. Then *loss (backend memory) = sum
     * of |h - c|^2 / 2 over the first `scored` rows, and they enter the sums. reuse_detached: the state
     * stays. */
    int (*forward)(const struct center_plan *, const void *x, const int *label, int scored, int move,
                   int reuse_detached, const struct center_state *, double *loss, void *scratch);
    /* gx: the gradient of the weighted mean over the scored rows; 0 in the others. */
    int (*backward)(const struct center_plan *, const struct step_state *, const void *x, const int *label,
                    int scored, const struct center_state *, void *gx, int add, void *scratch);
    void (*destroy)(struct center_plan *);
};

/* ---- optimiser ---- */

/* A parameter: value, gradient and momentum, each of so many bytes and with the layout of a linear plan's
 * weights (NULL: `real`, dense). */
struct sgd_item {
    void *w, *v;
    const void *g;
    size_t bytes;
    const struct layout *layout;
    double rate, decay; /* rate: a factor of the step state's */
};
struct sgd_desc {
    const struct sgd_item *item; /* copied */
    int n;
    double momentum;
    double average; /* the gradient is g * average: 1 / subdivisions */
};
struct sgd_plan {
    void *self;
};
struct sgd_ops {
    int (*plan)(struct backend *, const struct sgd_desc *, struct sgd_plan *, struct err *);
    /* v = momentum * v + (average * g + decay * w); w = w - rate * v, for all items. The same step as
     * Darknet's (u = -B v) and as PyTorch's SGD without dampening or Nesterov. */
    int (*update)(const struct sgd_plan *, const struct step_state *);
    /* *bad (host): the first item whose gradient is not finite, or -1. */
    int (*check)(const struct sgd_plan *, int *bad);
    /* Where losses are read late: the same without the host. Sets stop; update then does nothing. */
    int (*guard)(const struct sgd_plan *, struct step_state *);
    void (*destroy)(struct sgd_plan *);
};

/* ---- images that stay on the device ---- */

struct images_desc {
    const uint8_t *pixels; /* host: n x c x h x w; copied */
    int n, c, h, w;
    const float *mean, *scale; /* c of each: what the net gets is (pixel / 255 - mean) * scale */
};
struct images_plan {
    void *self;
};
struct images_ops {
    int (*plan)(struct backend *, const struct images_desc *, struct images_plan *, struct err *);
    /* The first rows of a tensor of the image's kind (see image): one move a row, in backend memory. */
    int (*show)(const struct images_plan *, const struct crop *, int rows, struct tensor *);
    void (*destroy)(struct images_plan *);
};

/* ---- records: losses that the host reads late ---- */

struct loss_ring_desc {
    const double *const *loss; /* backend memory: n losses of a step */
    const int *is_ce;          /* n: the sum over the scored rows of what counts as the CE */
    int n;
    int capacity;  /* records that are kept */
    int scored;    /* rows */
    int parts;     /* sub-mini-batches of an iteration */
    double chance; /* where the running mean of the CE begins: ln K */
};
struct loss_ring_plan {
    void *self;
};
struct loss_ring_ops {
    int (*plan)(struct backend *, const struct loss_ring_desc *, struct loss_ring_plan *, struct err *);
    /* Keeps the losses of this step, and whether there is a stop, as record step % capacity; follows the CE
     * as net_follow_ce does; stops where a loss is not finite. last: the iteration ends with it. */
    int (*push)(const struct loss_ring_plan *, struct step_state *, int last);
    /* All records, capacity x (n + 1) numbers: the losses, and the stop. Waits. */
    int (*pull)(const struct loss_ring_plan *, double *host);
    void (*destroy)(struct loss_ring_plan *);
};
struct capture; /* a step, to be run again with what its memory then holds */

/* ---- the backend ---- */

struct backend_ops {
    const char *name;             /* "ref", "cpu", "cuda" */
    unsigned precisions;          /* bits: 1 << enum precision */
    const char *(*version)(void); /* libraries and versions, for `darknet version` */
    int (*open)(struct backend *, int index, struct err *); /* threads is set */
    void (*close)(struct backend *);
    size_t (*free_bytes)(struct backend *); /* bytes that alloc could still give, roughly */
    /* Zeroed, aligned to 64 bytes or more. */
    int (*alloc)(struct backend *, size_t bytes, void **, struct err *);
    void (*free)(struct backend *, void *); /* accepts NULL */
    int (*upload)(struct backend *, void *to, const void *host, size_t bytes);
    int (*download)(struct backend *, void *host, const void *from, size_t bytes);
    /* Any layout <-> dense N,C,H,W on the host, for the first `rows` rows from row `row` on. */
    int (*read)(struct backend *, const struct tensor *, int row, int rows, real *host);
    int (*write)(struct backend *, struct tensor *, int row, int rows, const real *host, int add);
    int (*sync)(struct backend *, struct err *); /* waits, and reports what failed since the last call */
    /* Layout and bytes of a tensor that no operation makes, whose shape is set: the image. */
    int (*image)(struct backend *, struct tensor *, struct err *);

    const struct linear_ops *conv, *dense;
    const struct norm_ops *norm;
    const struct act_ops *act;
    const struct dropout_ops *dropout;
    const struct pool_ops *pool;
    const struct join_ops *join;
    const struct softmax_ops *softmax;
    const struct match_ops *match;
    const struct center_ops *center;
    const struct sgd_ops *sgd;

    const struct images_ops *images; /* NULL where the loader makes the images */
    /* NULL where operations have finished when they return. */
    const struct loss_ring_ops *loss_ring;
    /* From record on operations are written down instead of run, until recorded, which also ends a recording
     * that failed (then *recording is NULL). E_ARG: this device cannot. */
    int (*capture_begin)(struct backend *);
    int (*capture_end)(struct backend *, struct capture **, struct err *);
    int (*launch)(struct backend *, const struct capture *);
    void (*capture_destroy)(struct capture *); /* accepts NULL */
};

/* Opens a device by name: "cpu", "ref". threads: at most MOST_THREADS; 0: one per core this process may use.
 * Unknown or not built in: an error that lists what is there. */
int backend_open(struct backend **, const char *device, int threads, struct err *);
void backend_close(struct backend *); /* accepts NULL */

/* The i-th backend built in, in order of preference, or NULL: backend_at(0) is the default. */
const struct backend_ops *backend_at(int i);

/* Elements in a row, and in all. */
static inline size_t shape_row(struct shape s) { return (size_t)s.c * (size_t)s.h * (size_t)s.w; }
static inline size_t shape_count(struct shape s) { return (size_t)s.n * shape_row(s); }

#ifdef __cplusplus
}
#endif
#endif
