/* What layers and devices know of one another, and nothing else: devices, tensors, memory, and how operations
 * are planned and run. Each operation has a header of its own in backend/ops/.
 *
 * An operation is planned once, when shapes are known and before memory is: plan chooses an implementation
 * and a layout and says how many bytes it wants. Then it runs many times: forward and backward allocate
 * nothing and cannot run out of memory. Plans are made in network order: an operation is told the layout of
 * its input and chooses that of its output. Two backends, or two devices of one backend, work side by side in
 * one process.
 *
 * Conventions
 *  - Shapes are logical: n images (rows), c channels, h rows and w columns of pixels. Memory order belongs to
 *    the backend; rows are always outermost, so that the first k rows of a tensor are a prefix of its memory.
 *  - Gradients are dLoss/dx. `add` nonzero: add to what is there; else overwrite.
 *  - Everything passed to forward and backward is backend memory unless it says host. Pointers to tensors
 *    whose gradient nobody wants are NULL.
 *  - Backward covers the first `rows_back` rows only; the gradient memory behind them is not touched.
 *  - The tensors that a description names outlive the plan; the rest of it is copied.
 *  - plan returns OK or an error that names what the backend cannot do; either way its caller calls
 *    op_destroy. forward and backward return OK or a code; sync reports what a device finds out later.
 *  - Results depend on inputs, shapes and the number of threads only, never on timing.
 */
#ifndef BACKEND_BACKEND_H
#define BACKEND_BACKEND_H
#include <stddef.h>
#include <stdint.h>
#include "core/err.h"
#include "core/mixed.h"
#include "core/real.h"
#include "core/share.h"

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

/* What activations, gradients and products are computed in; in the order of precision_names. Parameters,
 * their gradients (but see struct linear_desc, sum_gw) and momenta, statistics and losses are `real` in all
 * of them. */
enum precision {
    PRECISION_FP32, /* float; in double builds double */
    PRECISION_TF32, /* float, whose products may round their factors to 10 bits */
    PRECISION_BF16, /* bfloat16 in memory, sums in float */
    PRECISION_COUNT
};
extern const char *const precision_names[PRECISION_COUNT + 1]; /* "fp32", "tf32", "bf16", NULL */

struct group; /* of processes: group/group.h */

struct backend {
    const struct backend_ops *ops;
    void *self;
    char title[80];           /* for messages: "cpu", "cuda:0 (NVIDIA H100 80GB HBM3)" */
    char note[300];           /* what there is to tell about opening it; "": nothing */
    int threads;              /* compute threads, >= 1 */
    unsigned precisions;      /* those of ops->precisions that this machine has */
    enum precision precision; /* of operations planned from now on; one of them */
    int deterministic;        /* plans may not depend on timing, nor sums on the order of threads */
    struct group *group;      /* that trains one net together, borrowed; NULL: this process alone */
    int eager;                /* nothing is recorded and losses are read at once: to find out what fails */
};

/* What changes from one training step to the next. It lives in backend memory, so that a recorded step can be
 * run again with new values. */
struct step_state {
    uint64_t step;      /* number of the sub-mini-batch since training began */
    uint64_t iteration; /* from 1 */
    double rate;        /* of the update, before the layers' own factors */
    double v_share,
        s_share; /* Adam: how much of a mean its moments hold after t updates, 1 - B1^t and 1 - B2^t */
    double average_share; /* of w in the moving average: 0: not yet; 1: it begins with w */
    /* Asynchronous devices keep the rest themselves from step to step. */
    double ce_sum;     /* of the sub-mini-batches of this iteration so far */
    double ce_average; /* running mean of the CE before this iteration; < 0: none yet */
    int stop;          /* STOP_ bits: something was not finite, so there are no more updates */
};
enum { STOP_LOSS = 1, STOP_GRADIENT = 2 };

/* An operation made ready for a shape, a layout and a device. */
struct op_plan {
    size_t scratch_bytes;         /* of op_context.scratch, at least */
    size_t kept_bytes;            /* of memory whose contents last from forward to backward */
    int fused;                    /* forward applies the activation that the description asks for */
    size_t weight_bytes;          /* linear maps: of the packed weights */
    const struct layout *weights; /* linear maps: how they are packed; lives as long as the plan */
    void *self;                   /* the implementation's own: see op_plan_init */
    void (*release)(void *self);  /* frees what self owns; NULL: nothing */
};

/* Empties the plan and gives it a zeroed private struct. For implementations of plan. */
int op_plan_init(struct op_plan *, size_t self_bytes, struct err *);
/* Frees a plan; accepts one that is all zero, or whose planning has failed. */
void op_destroy(struct op_plan *);

/* What calls of forward and backward have in common in one pass over the net. */
struct op_context {
    void *scratch; /* shared by all operations: contents are undefined between calls */
    const struct step_state *state;
    const int *label;                /* class of each row; NULL: no labels, so no loss */
    const struct mixed_label *mixed; /* of each row, besides the label with the largest share; or NULL */
    int scored;                      /* rows 0..scored-1 count in the losses, */
    int scored_all;                  /* which are means over so many: those of all processes */
    int add;            /* gradients of parameters: add to those of the sub-mini-batches before */
    int reuse_detached; /* what is computed from data but not differentiated (bandwidths) stays as in the pass
                           before */
};

struct capture; /* a recorded step, to be run again on whatever its memory then holds */

/* One OPERATION(name) for each header in backend/ops/: the build makes the list. */
#define OPERATION(name) struct name##_ops;
#include "ops.inc"
#undef OPERATION

struct backend_ops {
    const char *name;             /* "ref", "cpu", "cuda" */
    int gpu;                      /* its devices are graphics cards: -i, -gpus and -nogpu speak of them */
    unsigned precisions;          /* bits: 1 << enum precision */
    const char *(*version)(void); /* libraries and versions, for `darknet version` */
    int by_threads;               /* results depend on how many threads there are, in their last bits */
    int (*open)(struct backend *, int index, struct err *); /* threads and precisions are set */
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
    /* Layout and bytes of a tensor that no operation makes, whose shape is set: the image. pads: channels of
     * zeros may lie behind those of the shape, since none but convolutions without groups read it. */
    int (*image)(struct backend *, struct tensor *, int pads, struct err *);

#define OPERATION(name) const struct name##_ops *name; /* NULL: this backend has none */
#include "ops.inc"
#undef OPERATION

    /* NULL where operations have finished when they return. After capture_begin operations are recorded
     * instead of run, until capture_end, which also ends a recording that failed (*capture is NULL then).
     * E_ARG: this device cannot record. */
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
