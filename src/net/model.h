/* The model: what a cfg says, checked. Layers with their options and connections, which of them learn, and
 * what they ask of whoever feeds the net; the parameters themselves are in param.h, what a program makes of
 * them in compiled.h. */
#ifndef NET_MODEL_H
#define NET_MODEL_H
#include "net/config.h"
#include "net/layer.h"

struct param;

/* One section of the cfg. */
struct model_layer {
    const struct layer_ops *ops;
    void *self; /* options filled in, nothing planned: programs copy it */
    struct layer_common common;
    int line;
    int *in, nin;     /* absolute indices; -1: the image */
    struct shape out; /* of one row */
    double flops;     /* forward, a row */
    int frozen;       /* stopbackward= here or later: stays as it is */
    /* Once a program has declared its parameters: */
    int param, nparam; /* index of the first, and how many there are */
    uint64_t learnt;   /* how many of their numbers learn */
    size_t gradients;  /* where, in net.gradients, those of this layer and of all after it end */
};

struct net {
    struct net_config config;
    struct cfg *cfg;    /* owned */
    struct backend *be; /* borrowed */
    struct notes notes;
    uint64_t seed;
    int mini;           /* rows per forward pass: batch / subdivisions */
    struct share share; /* those of this process */
    int n;              /* layers */
    struct model_layer *layer;
    int classes; /* outputs of the last layer that is not [cost] */
    int feature; /* index of the last [itra] or [center] layer (inert or not), or -1 */

    /* What the [itra] sections agree on: */
    struct pairing_wants wants; /* active: one of them has lambda > 0; gradient_first: all that do have it */
    int pair_loader;            /* a second mini-batch is wanted: active, from the loader */

    /* Created by the first program: */
    struct param **param; /* in .weights order */
    int nparam;
    real *gradients;        /* backend memory, in training nets: of all layers, the last one's first */
    real *statistics;       /* likewise: the running ones that move; or NULL */
    size_t nstatistics;     /* numbers, padding included */
    struct step_state *now; /* backend memory; in training nets, with: */
    struct op_plan optim;
    struct op_plan images; /* see net_keep_images */
    struct op_plan feed;   /* see net_open_feed */

    /* Training so far: */
    uint64_t average_from; /* the first iteration in the averages of ema_alpha=; 0: not yet */
    uint64_t seen;         /* images of S1; set by net_set_seen */
    uint64_t moments_from; /* the iteration after which the optimiser's moments began from 0 */
    double ce_sum;         /* of the sub-mini-batches of this iteration whose stats have been read */
    double ce_average;     /* running mean over iterations, for warmup_share; -1: none yet */
    int unread;            /* steps submitted to an asynchronous device whose stats have not been read */
};

/* Reads the layers from n->cfg, whose first section is in n->config, and checks all that needs no shapes.
 * Unknown keys are noted, or errors in strict sections. model_free accepts what a failure has left. */
int model_read(struct net *n, struct err *);
void model_free(struct net *n);

/* Counts on from `seen` images of S1; the age of the optimiser's moments stays what it is, averages begin
 * anew.
 */
void net_set_seen(struct net *, uint64_t seen);
/* E_FORMAT for a number in this file that no training reaches. */
int net_check_seen(const char *path, uint64_t seen, struct err *);
#define MOST_SEEN ((uint64_t)1 << 53) /* doubles count to there */

/* Images of S1 per update: batch, less what subdivisions leave over. */
uint64_t net_images_per_update(const struct net *);

/* Does this iteration (from 1) have a second mini-batch? */
int net_is_paired(const struct net *, uint64_t iteration);

/* What layer i asks of whoever feeds the net. Returns 0 for one that asks for nothing (no [itra]). */
int net_layer_wants(const struct net *, int i, struct pairing_wants *);

/* The layer whose output the classifier sees: the one that the last [itra] or [center] sits on, else the
 * input of the last layer with weights. -1: the image itself. */
int net_penultimate(const struct net *);

/* "cfg/a.cfg:14: [convolutional] (layer 3)". */
struct layer_name {
    char text[300];
};
struct layer_name net_layer_name(const struct net *, int layer);

/* "cfg/a.cfg: not enough memory". Returns E_MEM. */
int net_no_memory(const struct net *, struct err *);

/* For codes that came from the backend without a message. A device that failed says how only when it is
 * waited for: appends that to what is already in *e. e->code was OK before the call that gave rc. Returns
 * rc. */
int attach_device_error(const struct net *, int rc, struct err *e);

#endif
