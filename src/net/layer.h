/* The layer contract. A layer is one file in src/layers/: its options, help and examples are data, its maths
 * is calls of backend operations, and the folder is the registry (build/<variant>/layers.inc is generated
 * from it).
 *
 * Life: options are filled from the cfg into `self`; shape; build; then forward and backward, many times.
 * A layer never parses, prints, allocates tensors, saves, loads or updates itself: generic code does
 * that from what it declares. */
#ifndef NET_LAYER_H
#define NET_LAYER_H
#include <stdint.h>
#include "backend/linear.h"
#include "core/options.h"
#include "core/rng.h"

/* A tensor in the net with its gradient: x and g have one shape and one layout. g.data is NULL where no
 * gradient is wanted. A layer that leaves its input as it is shares its input's value. */
struct value {
    struct tensor x, g;
    int need_g;    /* something below it learns */
    int g_written; /* for the program: a layer above has written g */
};

struct net_config; /* see config.h */
struct param;
struct buffer {
    void *data; /* bound after planning */
    size_t bytes;
};

/* What changes from pass to pass. */
struct pass {
    struct op_context context;       /* what operations are told of it */
    const int *label;                /* context.label on the host: one a row */
    const struct mixed_label *mixed; /* context.mixed on the host */
    uint64_t seed;
    uint64_t step;      /* number of the sub-mini-batch since training began */
    uint64_t iteration; /* from 1 */
    double rate;        /* of the update */
    double ce_average;  /* running mean of the CE before this iteration; < 0: none yet */
    struct err *err;
};

enum { LAYER_PLANS = 4 };

struct layer {
    const struct layer_ops *ops;
    void *self;      /* ops->size bytes, options filled in */
    int index, line; /* position in the net; line in the cfg */
    int classes;     /* of the whole net: outputs of the last layer; for build and after */
    int last;        /* nothing reads its output, save [cost] */
    int nin;
    struct value **in; /* in[0] is the previous layer's output unless `from`/`layers` say otherwise */
    struct value *out;
    int *add;                         /* per input: has a later layer written its gradient already? */
    struct op_plan plan[LAYER_PLANS]; /* of the operations it calls; the program destroys them */
    struct buffer *loss_sum;          /* builder_loss, or NULL */
    int identity;                     /* out is in[0]; set by shape */
    int pads;                         /* takes an image that ends in channels of zeros; set by shape */
    int learns;                       /* has parameters that learn: LAYER_PARAMS, or set by shape */
    int inert;          /* no effect in this program: neither forward nor backward is called; set by shape */
    int noloss;         /* it could have a loss, but the cfg says that it has none; set by shape */
    int rows_back;      /* rows of the backward pass */
    enum act sum_act;   /* see takes_sum */
    int train;          /* is this program for training */
    int on_host;        /* forward or backward reads or writes tensors on the host; set by build */
    int rows_s1;        /* rows of S1 when the loader delivers two halves, else 0 */
    struct share share; /* of the rows of S1 in all processes; share.all: of the mini-batch */
    const struct layer_ops *below; /* kind of the previous layer, inert ones left out; NULL: the image */
    double loss;   /* of the last pass: CE, or the layer's own loss before its weight; NaN: none computed */
    double weight; /* of loss in the total, in force in the last pass (lambda); 1 unless the layer sets it */
    struct backend *be;
    const char *cfg; /* path, for messages */
};

/* When a buffer must keep its contents. */
enum life {
    LIFE_PASS,    /* from this layer's forward to its backward */
    LIFE_PROGRAM, /* always: zero at first */
    LIFE_HOST     /* always, in host memory: zero at first */
};

enum init { INIT_ZERO, INIT_ONE, INIT_NORMAL, INIT_UNIFORM };

enum {
    PARAM_DECAY = 1,    /* weight decay applies */
    PARAM_STATE = 2,    /* not learnt by gradient: no g, no momentum */
    PARAM_UNSAVED = 4,  /* not in .weights; in the training state only */
    PARAM_SCALES = 8,   /* one of the batch-norm triple, which the file lacks with dontloadscales */
    PARAM_VARIANCE = 16 /* cannot be negative */
};

struct builder;
struct graph;
const struct net_config *builder_config(const struct builder *);
/* Of running statistics: bn_momentum, 0 where stopbackward holds. */
double builder_bn_momentum(const struct builder *);
/* The key of this layer's random numbers: each layer of a kind has a sequence of its own. */
uint64_t builder_random(const struct builder *, enum rng_stream);

/* Declares a parameter of `count` numbers, in the order of the .weights file. Every program over one model
 * declares the same ones. init_scale: standard deviation, or half-width for INIT_UNIFORM. When memory is
 * short, what these functions return is NULL, and building fails once the layer's build has returned. */
struct param *builder_param(struct builder *, size_t count, enum init, double init_scale, unsigned flags);

/* The same for the weights of a linear map: `plan` says how they are packed and must live as long as the
 * program. Ask builder_weights for the layout to plan with first (NULL: none chosen yet). */
struct param *builder_linear(struct builder *, size_t count, enum init, double init_scale, unsigned flags,
                             const struct linear_ops *, const struct op_plan *);
const struct layout *builder_weights(const struct builder *); /* of the next builder_linear of this layer */

/* A double in backend memory that forward fills with the sum of this layer's loss over the scored rows; the
 * program fetches it, divides and puts it into layer->loss. */
struct buffer *builder_loss(struct builder *);

struct buffer *builder_buffer(struct builder *, size_t bytes, enum life);

/* What backward reads: without these the planner re-uses the memory after the last forward reader. */
void builder_keep_in(struct builder *, int i);
void builder_keep_out(struct builder *);

/* The shape that files with names and shapes give a parameter, whose count it does not change. (Without this:
 * one dimension.) */
enum { PARAM_RANK = 4 };
void param_shape(struct param *, int rank, const int64_t *dims); /* accepts NULL, as memory may be short */

/* Backend memory of a parameter in a training program. */
void *param_w(const struct param *);
void *param_g(const struct param *);
/* Host copy, dense, in .weights order: as many numbers as were declared. */
int param_get(const struct param *, real *host);
int param_set(struct param *, const real *host);

/* What a layer with LAYER_PAIRED asks of whoever feeds it. */
enum s2_source { S2_FROM_LOADER, S2_FROM_SPLIT, S2_FROM_MEMORY };
extern const char *const s2_source_names[]; /* as in the cfg; NULL-terminated */
struct pairing_wants {
    double lambda; /* the weight of its loss after the warm-up */
    int active;    /* lambda > 0 */
    enum s2_source source;
    int by_class;       /* S2 row by row of the classes of S1 */
    int gradient_first; /* S2 gets no gradient from this layer */
    int alone;          /* each process matches its own rows */
    int every;          /* on every k-th iteration */
    double warmup;      /* the weight rises over so many iterations; 0: none; negative: auto */
    int conditional;    /* rows are matched with rows of their class */
    int present;        /* the mean is over the classes that both mini-batches have */
    int unbiased;       /* a class needs 2 rows in each */
};

enum {
    LAYER_PARAMS = 1,     /* always has parameters that learn */
    LAYER_LOSS = 2,       /* adds to the loss: its backward runs even if nothing reads its output */
    LAYER_TRAIN_ONLY = 4, /* absent from inference, from `strip` and from .weights */
    LAYER_PAIRED = 8,     /* may ask for a second mini-batch */
    LAYER_NO_GRAD = 16,   /* passes no gradient down */
    LAYER_DRAWS = 32,     /* draws initial values, and so counts in the seeds of later layers */
    LAYER_SPATIAL = 64,   /* needs an input with height and width */
    LAYER_TERMINAL = 128  /* [cost]: not counted as the net's output */
};

struct layer_ops {
    const char *name, *alias, *help; /* "convolutional", "conv", one line */
    size_t size;                     /* of the layer's struct; options and plans live in it */
    const struct key *keys;          /* ends with a NULL name; NULL: none */
    int strict;                      /* an unknown key is an error */
    /* Cfg bodies, NULL-terminated: each is a case in the test suites over the registry. One that begins with
     * a bracket brings whole sections: what must come before the layer, too. */
    const char *const *examples;
    unsigned flags;
    /* The layers whose outputs are the inputs, as absolute indices, into at[0..capacity); returns how many,
     * or an error. NULL: the previous layer. */
    int (*inputs)(const struct layer *, int *at, int capacity, struct err *);
    /* Checks options against the input shapes; sets out's shape (or identity, or inert). */
    int (*shape)(struct layer *, struct shape *out, struct err *);
    /* Declares parameters and buffers and plans operations. NULL for layers that are always identity. */
    int (*build)(struct layer *, struct builder *, struct err *);
    /* Inference programs: (re)computes what is derived from parameters, such as folded weights. NULL:
     * nothing. */
    int (*refresh)(struct layer *, struct err *);
    int (*forward)(struct layer *, const struct pass *);
    int (*backward)(struct layer *, const struct pass *);
    void (*wants)(const struct layer *, struct pairing_wants *); /* with LAYER_PAIRED */
    /* Turns layer->loss, as yet the sum that builder_loss held, into the layer's loss. NULL: divides it by
     * the scored rows. */
    int (*finish_loss)(struct layer *, struct err *);
    /* In training the program may fold a sum into the layer before it. That layer then gets the addend as
     * in[1], its output becomes sum_act(output + in[1]), and it overwrites the gradient of in[1]. sum: the
     * activation of a layer that is such a sum and no more, else -1. takes_sum: can a sum be folded into this
     * layer? NULL: no. */
    int (*sum)(const struct layer *);
    int (*takes_sum)(const struct layer *, enum act);
    double (*weigh)(const struct layer *, const struct pass *); /* layer->weight in this pass; NULL: 1 */
    double (*flops)(const struct layer *); /* per row, multiply and add counted as two; NULL: not counted */
    /* Of a layer that is built for inference and does something there: appends it to a graph of ONNX
     * operations (graph.h). NULL: it has no form in ONNX. */
    int (*export)(const struct layer *, struct graph *, struct err *);
};

const struct layer_ops *layer_at(int i);              /* the registry; NULL past the end */
const struct layer_ops *layer_find(const char *name); /* by name or alias, without brackets; NULL: unknown */
const char *layer_nearest(const char *name);          /* a name near enough to be meant, or NULL */

/* An error about a layer: "cfg/a.cfg:14: [route] ...". */
int layer_fail(const struct layer *, struct err *, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* For operations that bring rows of several processes together: the share of this one, or, alone, zero. */
static inline struct share layer_joined(const struct layer *l)
{
    return l->share.all > l->share.rows ? l->share : (struct share){ 0, 0, 0 };
}

int layer_no_memory(const struct layer *, struct err *);
/* The layer that number i of a list such as from= refers to, as an absolute index: negative numbers count
 * from this layer. Or an error. */
int layer_referred(const struct layer *, const char *key, const struct list *, int i, struct err *);

/* Keys that every layer section has. */
struct layer_common {
    double learning_rate;
    int stopbackward, dontload, dontloadscales;
};
/* The key warmup= of a training-only loss. Such a loss may win before the classes have come apart, and
 * features that have collapsed into one point do not recover. */
enum { WARMUP_AUTO = -1 };
extern const char *const warmup_words[];
#define WARMUP_KEY(type, standard)                                                                           \
    EITHER_KEY(type, warmup, standard, 0, 1e9, warmup_words,                                                 \
               "auto: lambda grows as the classifier learns; N: it rises over N iterations (0: no warm-up)")
/* The share of lambda in force in this pass: rises linearly, or is what the classifier knows, 1 - A / ln K of
 * pass->ce_average. */
double layer_warmup(const struct layer *, const struct pass *, double warmup);

extern const struct key layer_common_keys[];

#endif
