/* Model and program.
 *
 * A net is what the cfg says: layers with their options, and the parameters with their gradients and momenta.
 * A program is that net compiled for one batch size and one purpose: shapes, plans, and one arena in which
 * tensors share memory over time. Several programs over one net share its parameters: training with and
 * without a second mini-batch, validation beside training. */
#ifndef NET_NET_H
#define NET_NET_H
#include "core/cfg.h"
#include "core/text.h"
#include "net/layer.h"

struct crop;
struct images_desc;

enum policy {
    POLICY_CONSTANT,
    POLICY_STEP,
    POLICY_STEPS,
    POLICY_EXP,
    POLICY_POLY,
    POLICY_SIGMOID,
    POLICY_RANDOM,
    POLICY_SGDR
};

enum start { START_DARKNET, START_PYTORCH }; /* init= */

/* The [net] section. Names are the cfg's. */
struct net_config {
    int batch, subdivisions, width, height, channels, inputs;
    double learning_rate, momentum, decay;
    int policy;
    int burn_in, step, max_batches, sgdr_cycle;
    double power, scale, gamma, learning_rate_min, sgdr_mult;
    struct list steps, scales;
    int max_crop, min_crop;
    double max_ratio, min_ratio;
    double angle, aspect, saturation, exposure, hue;
    int flip, pad_crop;
    struct list mean, std;
    int init;
    int precision;
    double bn_momentum, label_smooth_eps, valid_every;
};
extern const struct key net_config_keys[];

struct net {
    struct net_config config;
    struct cfg *cfg;    /* owned */
    struct backend *be; /* borrowed */
    struct notes notes;
    uint64_t seed;
    int mini; /* rows per forward pass: batch / subdivisions */
    int n;    /* layers */
    struct model_layer *layer;
    struct param **param; /* in .weights order */
    int nparam;
    struct step_state *now; /* in training nets, with the plan of the update: in backend memory */
    struct op_plan images;
    int follows; /* the device has kept the later part of it since the step before */
    struct op_plan sgd;
    int classes; /* outputs of the last layer that is not [cost] */
    int feature; /* index of the last [itra] or [center] layer (inert or not), or -1 */
    /* What the [itra] sections agree on: */
    struct pairing_wants wants; /* active: some section has lambda > 0; gradient_first: all of them have it */
    int pair_loader;            /* a second mini-batch is wanted: active, from the loader */
    /* Counters */
    uint64_t seen;     /* images of S1 */
    double ce_average; /* A of itra.md, or -1 */
};

/* Builds the model: parses options, checks shapes for config.batch. Takes the cfg over (also on failure).
 * Unknown keys are noted, or errors in strict sections. */
int net_open(struct net **, struct cfg *, struct backend *, uint64_t seed, const struct notes *,
             struct err *);
void net_close(struct net *);
/* A cfg for it, from a file: with overrides "section.key=value" (NULL-terminated) and another precision=;
 * NULL: none. */
int net_read_cfg(struct cfg **, const char *path, const char *const *set, const char *precision,
                 struct err *);

/* The layer whose output is what the classifier goes by: what the last [itra] or [center] sits on, else the
 * input of the last layer with weights. -1: that is the image itself. */
int net_penultimate(const struct net *);

/* Rate in force at iteration n (n from 1: the first update), with burn-in. Darknet's policies. */
double net_rate(const struct net_config *, uint64_t seed, uint64_t n);

/* After each iteration: A = .9 A + .1 ce, from ln K on, which warmup=auto goes by (itra.c). */
void net_follow_ce(struct net *, double ce);

struct program_desc {
    int rows;   /* of S1 */
    int paired; /* as many again of S2 */
    int train;
    int features;  /* inference: 1 + the layer whose output is kept for program_features; 0: none */
    int plan_only; /* sizes and plans, no memory: for program_get_info, nothing else */
    int keep;      /* tests: all tensors keep their contents to the end of the step */
    int guard;     /* tests: poison dead memory, and check that nobody writes between tensors */
};

struct program;
/* Compiles. The first program of a net also creates its parameters: with gradients and momenta, in the
 * backend's own layout, if it is for training (then they are the net's for good), else as host memory. Open
 * training programs first, and keep the first program open as long as parameters are used: it knows how they
 * are packed. */
int program_open(struct program **, struct net *, const struct program_desc *, struct err *);
void program_close(struct program *);

/* Keeps images on the device, if it can: then steps may say which of them, and how moved, instead of bringing
 * pixels. *kept: 0 where it cannot, or where they leave too little memory. */
int net_keep_images(struct net *, const struct images_desc *, int *kept, struct err *);

/* Training takes as many rows as the program has, with labels; inference takes up to as many. */
struct step {
    const float *x;          /* host: rows x c x h x w; NULL where there is: */
    const struct crop *move; /* host: rows */
    const int *label;        /* host: rows; NULL in inference without loss */
    int rows, rows_s1;       /* as in struct batch */
    int add;                 /* not the first sub-mini-batch of this update */
    int reuse_detached;      /* see struct pass */
    uint64_t number;         /* of the sub-mini-batch since training began */
    uint64_t iteration;      /* from 1 */
    int update;              /* program_submit: the update follows, */
    double rate;             /* at this rate */
};
struct step_stats {
    double ce;            /* mean over the scored rows (of softmax and cost layers) */
    double match;         /* sum over [itra] layers, before lambda */
    double lambda;        /* in force; of the last [itra] */
    double center;        /* sum over [center] layers, before lambda */
    double extra_seconds; /* time in training-only layers */
    double seconds;
};
/* Forward and backward. A loss that is not finite is E_NUMBER and names the first layer whose output is not.
 */
int program_train(struct program *, const struct step *, struct step_stats *, struct err *);

/* The same, and the update after it where the step says so, without waiting for its stats where the device
 * works on its own. So many iterations may be submitted before their stats are read: */
int program_max_in_flight(const struct program *);
int program_submit(struct program *, const struct step *, struct err *);
/* Waits for all that was submitted; then program_stats gives the stats of each step, in their order. (seconds
 * and extra_seconds are not known late.) E_NUMBER: something was not finite in that step, and no update has
 * been made since. */
int program_pull(struct program *, struct err *);
int program_stats(struct program *, const struct step *, struct step_stats *, struct err *);

/* Forward only; prob gets rows x classes (may be NULL), *ce the sum of the cross-entropies (NULL without
 * labels). */
int program_infer(struct program *, const struct step *, float *prob, double *ce, struct err *);
int program_feature_size(const struct program *); /* numbers a row; 0: none are kept */
int program_features(struct program *, int rows, real *features, struct err *);

/* After parameters changed: inference programs fold and pack them again. */
int program_refresh(struct program *, struct err *);

/* One optimiser step from the gradients of `subdivisions` program_train calls. Gradients that are not finite
 * leave the weights as they are: E_NUMBER, naming the layer. */
int net_update(struct net *, double rate, struct err *);

/* E_NUMBER, naming the layer, unless every parameter is a finite number. */
int net_check_finite(const struct net *, struct err *);

/* .weights: Darknet's format. *layers gets the number of layers that were loaded completely. A file that ends
 * inside a layer or has bytes left is an error; one that ends between layers is an error unless `partial`.
 * Reads into temporary memory first: on failure the net is unchanged. */
int weights_load(struct net *, const char *path, int partial, int *layers, struct err *);
/* Layers 0..upto-1 (n: all), written to a temporary name and renamed. */
int weights_save(const struct net *, const char *path, int upto, uint64_t seen, struct err *);
uint64_t weights_floats(const struct net *); /* numbers in the file of the whole net */

/* Everything a training run needs to go on bit for bit: all parameters (also those that .weights leaves out),
 * momenta, seen, ce_average. Written into, and read from, the trainer's state file. Reading checks every size
 * against the net and leaves it unchanged on failure. */
int net_state_write(const struct net *, struct file *, struct err *);
int net_state_read(struct net *, struct file_reader *, struct err *);

/* Totals and one row per layer, for `darknet ops`. */
struct layer_info {
    const char *name;
    struct shape out;
    uint64_t params; /* learnable */
    double flops;    /* a row, forward */
};
struct program_info {
    size_t arena, scratch, fixed; /* bytes: tensors and buffers; the shared block; what is always there */
    size_t params;                /* with gradients and momenta in training */
};
int net_layer_info(const struct net *, int i, struct layer_info *);
void program_get_info(const struct program *, struct program_info *);
size_t program_layer_bytes(const struct program *, int i);

#endif
