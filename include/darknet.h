/* Darknet-compatible image classifiers as a library: networks described by .cfg files, weights in .weights
 * files, inference and training. C and C++.
 *
 *     dn_error e;
 *     dn_net *net = NULL;
 *     const char *photo = "cat.jpg";
 *     if (dn_open(&net, "cfg/resnet18.cfg", NULL, &e) || dn_load(net, "resnet18.weights", &e) ||
 *         dn_predict_files(net, &photo, 1, prob, &e))
 *         fprintf(stderr, "%s\n", e.msg);
 *     dn_close(net);
 *
 * Programs find it by pkg-config (cc x.c $(pkg-config --cflags --libs darknet-itra)); tests/api has examples.
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
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#if defined __GNUC__
#pragma GCC visibility push(default) /* what is declared here is all that the library exports */
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

/* What the net sees of an image of another size. */
enum {
    DN_LETTERBOX, /* all of it, fitted inside, the rest gray: as `darknet classifier predict` */
    DN_CENTER,    /* the central part in the shape of the input: as `darknet classifier valid` */
    DN_WHOLE      /* all of it, stretched */
};

/* All zero, or NULL in its place: as the cfg says, inference only, on the default device. */
typedef struct {
    const char *device; /* "cuda", "cuda:1", "cpu", "ref"; NULL: the first that was built in */
    int threads;        /* compute threads, up to 1024; 0: one per core this process may use */
    int train;          /* 1: for dn_step: parameters get gradients and momenta (3 times the memory) */
    int rows;           /* images per pass of dn_predict; 0: batch / subdivisions of the cfg. One image has a
                           pass of its own */
    uint64_t seed;      /* of initial weights, dropout, policy=random */
    const char *precision; /* "fp32", "tf32", "bf16": replaces precision= of the cfg; NULL: as the cfg says */
    int deterministic;     /* 1: the same bits from run to run; on a CPU they always are */
    int view;              /* what dn_prepare_* show of an image of another size: DN_LETTERBOX, ... */
    int orient;            /* 1: dn_prepare_* turn images upright, as their EXIF data says */
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

/* Images of a mini-batch: batch / subdivisions of the cfg. */
int dn_mini_batch(const dn_net *);

/* Images of training so far, at most 2^53, by the .weights file and dn_step; what the learning rate follows.
 */
uint64_t dn_seen(const dn_net *);
int dn_set_seen(dn_net *, uint64_t seen, dn_error *);

/* Reads a .weights file of this cfg, all of it. On failure (DN_FILE, DN_FORMAT, DN_MEM, DN_DEVICE) the
 * weights are as before. Momenta are not in these files: they stay as they are. */
int dn_load(dn_net *, const char *weights, dn_error *);

/* Writes a .weights file: under a temporary name first, so that `weights` appears whole or not at all.
 * With ema_alpha in the cfg the averages are written, once they have begun, and dn_predict goes by them. */
int dn_save(dn_net *, const char *weights, dn_error *);

/* The three below make one row of dn_predict, dn_input floats, of an image of any size: decoded, brought to
 * the size of the input by options.view, in its channels (gray is replicated, colour becomes luma, alpha is
 * dropped), in [0, 1], and normalised as the cfg says. They fail with DN_FORMAT for what is no image or
 * damaged, with DN_CFG for a net whose input is no image; what is odd about an image is told to `say`.
 *
 * File: JPEG, PNG, BMP, TGA, GIF, PSD, PNM; in builds with OpenCV, WebP and TIFF. */
int dn_prepare_file(const dn_net *, const char *path, float *image, dn_error *);
/* The n bytes of such a file. */
int dn_prepare_memory(const dn_net *, const void *bytes, size_t n, float *image, dn_error *);
/* Pixels: h x w x c bytes, interleaved, rows from the top without gaps; c = 1 (gray), 2 (gray, alpha), 3
 * (RGB) or 4 (RGBA). */
int dn_prepare_pixels(const dn_net *, const uint8_t *pixels, int h, int w, int c, float *image, dn_error *);

/* ---- parameters ---- */

enum { DN_RANK = 4 };
typedef struct {
    char name[96]; /* as in "0.convolutional.weights": the layer, its section, and "weights", "bias", "scale",
                      "mean" or "variance" (the last two: running statistics; of a weighted [shortcut]:
                      "scale") */
    int layer;
    int rank;               /* 1..DN_RANK */
    int64_t shape[DN_RANK]; /* row-major; weights of [convolutional]: filters, channels / groups, size, size;
                               of [connected]: outputs, inputs */
    size_t count;           /* numbers in all */
} dn_param;

/* How many parameters the .weights file has; they are numbered from 0 in its order. < 0: an error. */
int dn_params(dn_net *, dn_error *);
int dn_param_info(dn_net *, int i, dn_param *, dn_error *);
/* The number of the parameter of this name. < 0: an error, DN_ARG if there is none. */
int dn_find_param(dn_net *, const char *name, dn_error *);
/* Its numbers, `count` floats. (Not the averages of ema_alpha.) DN_NUMBER: a number is not finite, or a
 * variance is negative; nothing is changed then. Momenta stay as they are. */
int dn_get_param(dn_net *, int i, float *to, dn_error *);
int dn_set_param(dn_net *, int i, const float *from, dn_error *);

/* ---- images and what the net says of them ---- */

/* Normalises n images in place, each c x h x w in [0, 1], as the cfg says: (x - mean) / std. Without those
 * keys they stay as they are. */
int dn_normalise(const dn_net *, float *images, int n, dn_error *);

/* Decodes a file: *pixels gets height x width x channels bytes, interleaved, for the caller to dn_free.
 * channels: 1 (luma) or 3 (RGB). orient as in dn_options. */
int dn_read_image(const char *path, int channels, int orient, int *height, int *width, uint8_t **pixels,
                  dn_error *);
void dn_free(void *); /* accepts NULL */

/* Class probabilities of n images (n >= 0, any number): prob gets n x dn_classes floats, row by row.
 * DN_NUMBER: some are not finite, so an image has such numbers, or the weights have grown too large or are of
 * another cfg. */
int dn_predict(dn_net *, const float *images, int n, float *prob, dn_error *);

/* dn_prepare_file, then dn_predict, of n files: the numbers of `darknet classifier predict`. The first file
 * that cannot be read ends it. */
int dn_predict_files(dn_net *, const char *const *paths, int n, float *prob, dn_error *);

/* index gets the k most probable of `classes` classes, the most probable first; of equal ones the first. */
void dn_top(const float *prob, int classes, int k, int *index);

/* Layers are the sections of the cfg after [net], from 0. */
int dn_layers(const dn_net *);
/* The layer whose output the classifier sees: what [itra] or [center] sit on, else the input of the last
 * layer with weights. -1: that is the image itself. */
int dn_feature_layer(const dn_net *);
/* Numbers a row of this layer's output; 0 where there is no such layer. */
int dn_feature_size(const dn_net *, int layer);
/* The output of a layer, say dn_feature_layer, for n images: features gets n x dn_feature_size floats (of
 * maps c x h x w), prob n x dn_classes unless it is NULL. The first call, and one for another layer than the
 * last time, takes memory and time to prepare. DN_ARG: no such layer; DN_NUMBER: as dn_predict, of prob. */
int dn_features(dn_net *, int layer, const float *images, int n, float *features, float *prob, dn_error *);

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

/* ---- from a .data file ---- */

typedef struct {
    uint64_t iteration, seen; /* from 1; images so far */
    double epoch;             /* seen / images of the training set */
    double ce, ce_smooth;     /* of this iteration; a running mean */
    double match, lambda;     /* as in dn_stats */
    double rate;              /* learning rate */
    double images_per_second; /* of late */
    double eta_seconds;       /* to max_batches; < 0: not known */
} dn_progress;

typedef struct {
    uint64_t iteration;     /* dn_train: completed so far */
    double epoch;           /* dn_train: trained so far */
    double top1, topk, ce;  /* 0..1; 0..1; mean cross-entropy of the images that could be read */
    int k;                  /* `top` of the .data file */
    int images, unreadable; /* unreadable ones are among the images and count as wrong */
    int best;               /* dn_train: the best so far */
} dn_score;

/* All zero, or NULL in its place, is fine. */
typedef struct {
    const char *name;   /* of the files that are written, as in NAME_last.weights; NULL: the cfg's */
    const char *backup; /* the folder they are written to; NULL: `backup` of the .data file */
    const char *resume; /* a NAME_last.state; NULL: on from the net's present weights and dn_seen */
    int workers;        /* threads that read and augment images; 0: one per core, at most 16 */
    void *ctx;          /* the first argument of both: */
    /* Called after each iteration (on a GPU several at a time) and each validation, in the calling thread.
     * They must not use the net. Not 0: training ends after this iteration, saved, so that it can be resumed.
     */
    int (*iteration)(void *ctx, const dn_progress *);
    int (*validation)(void *ctx, const dn_score *);
} dn_training;

/* Trains as `darknet classifier train DATA` does, with its loader, augmentation, validation and files, up to
 * the cfg's max_batches or out of its patience. Needs a handle opened with `train`. Afterwards the net has
 * the weights of the last iteration. After a failure it has those that were reached: DN_CFG, DN_FILE,
 * DN_FORMAT: the .data file or what it names; DN_NUMBER: loss, gradients or weights are not finite. */
int dn_train(dn_net *, const char *data, const dn_training *, dn_error *);

/* All zero, or NULL in its place, is fine. */
typedef struct {
    int workers; /* threads that read images; 0: one per core, at most 16 */
    void *ctx;   /* the first argument of: */
    /* Called for each image in the order of the list, in the calling thread, with its class and its
     * dn_classes probabilities, NULL if it could not be read. Must not use the net. Not 0: the pass ends with
     * this mini-batch. */
    int (*image)(void *ctx, int label, const float *prob);
} dn_validation;

/* Tells how well the net does on the validation images of a .data file, or on those that were looked at, as
 * `darknet classifier valid`. DN_CFG, DN_FILE, DN_FORMAT: the file or what it names, also when no image could
 * be read; DN_NUMBER: a probability is not finite. */
int dn_validate(dn_net *, const char *data, const dn_validation *, dn_score *, dn_error *);

#if defined __GNUC__
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
#endif
