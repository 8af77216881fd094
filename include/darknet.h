/* Darknet-compatible image classifiers as a library: networks described by .cfg files, weights in .weights
 * files, inference and training. C and C++.
 *
 *     dn_error e;
 *     dn_net *net = NULL;
 *     if (dn_open(&net, "cfg/resnet18.cfg", NULL, &e) || dn_load(net, "resnet18.weights", &e) ||
 *         dn_predict(net, image, 1, prob, &e))
 *         fprintf(stderr, "%s\n", e.msg);
 *     dn_close(net);
 *
 * Rules that hold for every function:
 *  - Those that can fail return DN_OK (0) or a negative code, and then fill the caller's dn_error (NULL: not
 *    wanted). Nothing prints, exits or aborts. After a failure a handle is as before and may be used again,
 *    unless its function says otherwise.
 *  - A NULL handle is an error (DN_ARG), never a crash; the getters return 0 for it, dn_close does nothing.
 *  - Arrays belong to the caller; nothing given to a function is kept after it returns, but say_ctx.
 *  - Handles share nothing: different ones may be used from different threads. One handle is for one thread
 *    at a time.
 *  - Images are float, planar: channels x height x width, rows from the top, without gaps; several follow
 *    one another. Values are what the network was trained on: [0, 1], then (x - mean) / std where the cfg's
 *    [net] has those keys. */
#ifndef DARKNET_H
#define DARKNET_H
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DN_VERSION "0.1.0"

/* The version of the library in use, as text: DN_VERSION of the header it was built with. */
const char *dn_version(void);

enum {
    DN_OK = 0,
    DN_ARG = -1,    /* bad argument */
    DN_CFG = -2,    /* bad configuration */
    DN_FILE = -3,   /* a file cannot be read or written */
    DN_FORMAT = -4, /* bad file contents */
    DN_MEM = -5,    /* not enough memory */
    DN_DEVICE = -6, /* device failure, or no such device */
    DN_NUMBER = -7  /* a number is not finite */
};

typedef struct {
    int code;      /* one of the above */
    char msg[480]; /* one line: place, what was found, what was expected, what to do */
} dn_error;

/* All zero, or NULL in its place: as the cfg says, inference only, on the default device. */
typedef struct {
    const char *device;    /* "cuda", "cuda:1", "cpu", "ref"; NULL: the first that was built in */
    int threads;           /* compute threads, up to 1024; 0: one per core this process may use */
    int train;             /* 1: for dn_step: parameters get gradients and momenta (3 times the memory) */
    int rows;              /* images per pass of dn_predict; 0: batch / subdivisions of the cfg */
    uint64_t seed;         /* of initial weights, dropout, policy=random */
    const char *precision; /* "fp32", "tf32", "bf16": replaces precision= of the cfg; NULL: as the cfg says */
    int deterministic;     /* 1: the same bits from run to run; on a CPU they always are */
    const char *const *set; /* "section.key=value" each, replacing what the cfg says; NULL-terminated */
    void (*say)(void *, const char *line); /* gets warnings, one line each; NULL: they are dropped */
    void *say_ctx;                         /* its first argument */
} dn_options;

typedef struct dn_net dn_net;

/* Reads a cfg and checks all of it; weights have their random initial values then. *net gets the handle, NULL
 * on failure. Memory for tensors is taken when it is first needed: by dn_load, dn_save, dn_predict or
 * dn_step. DN_CFG and DN_FILE: the cfg; DN_CFG and DN_ARG: an entry of `set`, or the precision; DN_DEVICE: no
 * such device; DN_MEM. */
int dn_open(dn_net **net, const char *cfg, const dn_options *, dn_error *);

/* Frees the handle and all it holds. Accepts NULL. */
void dn_close(dn_net *);

/* Numbers of one row of dn_predict: the outputs of the last layer that is not [cost]. */
int dn_classes(const dn_net *);

/* The shape of one image; each pointer may be NULL. A network with inputs= alone has channels = inputs,
 * height = width = 1. Returns channels * height * width. */
int dn_input(const dn_net *, int *channels, int *height, int *width);

/* Images of training so far, by the .weights file and dn_step. */
uint64_t dn_seen(const dn_net *);

/* Reads a .weights file of this cfg, all of it. On failure (DN_FILE, DN_FORMAT, DN_MEM, DN_DEVICE) the
 * weights are as before. Momenta are not in these files: they stay as they are. */
int dn_load(dn_net *, const char *weights, dn_error *);

/* Writes a .weights file: under a temporary name first, so that `weights` appears whole or not at all.
 * With ema_alpha in the cfg the averages are written, once they have begun, and dn_predict goes by them. */
int dn_save(dn_net *, const char *weights, dn_error *);

/* Class probabilities of n images (n >= 0, any number): prob gets n x dn_classes floats, row by row. */
int dn_predict(dn_net *, const float *images, int n, float *prob, dn_error *);

/* Images that the next dn_step takes: batch / subdivisions of the cfg. *second (may be NULL) gets how many of
 * a second, independent mini-batch must follow them in the same arrays: as many again when the cfg has an
 * active [itra] with pair=loader (on every k-th iteration when it has every=k), else 0. Handles without
 * `train`: 0. */
int dn_rows(const dn_net *, int *second);

typedef struct {
    const float *images; /* n of them */
    const int *label;    /* n class indices, 0 .. dn_classes - 1 */
    int n;               /* as dn_rows says, first and second mini-batch together */
} dn_batch;

typedef struct {
    double ce;          /* mean cross-entropy (or cost) of the first mini-batch */
    double match;       /* of the [itra] sections, before their weight; NaN where it was not computed */
    double lambda;      /* its weight in this step */
    double center;      /* of the [center] sections, before their weight */
    double rate;        /* learning rate of this iteration, burn-in included */
    uint64_t iteration; /* the optimiser step that this mini-batch belongs to, from 1 */
    int updated;        /* the weights have moved: this was the last of `subdivisions` mini-batches */
} dn_stats;

/* Trains on one mini-batch: forward, backward, and, on every call that completes the cfg's `subdivisions`,
 * one step of the optimiser with the cfg's policy. stats may be NULL. Needs a handle opened with `train`.
 * DN_ARG: n is not what dn_rows says, or a label is out of range. DN_NUMBER: loss or gradients are not
 * finite; the weights are then those of the last update, and the next call starts the iteration again. */
int dn_step(dn_net *, const dn_batch *, dn_stats *stats, dn_error *);

#ifdef __cplusplus
}
#endif
#endif
