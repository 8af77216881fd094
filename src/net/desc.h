/* What programs are asked for: the purpose that they are compiled for, and the steps that they take. */
#ifndef NET_DESC_H
#define NET_DESC_H
#include <stdint.h>
#include "core/crop.h"
#include "core/mixed.h"
#include "core/share.h"

struct program_desc {
    int rows;           /* of S1 */
    struct share share; /* training: of the rows that S1 has in all processes; all zero: these are all */
    int paired;         /* as many again of S2 */
    int train;
    int features;  /* inference: 1 + the layer whose output is kept for program_features; 0: none */
    int plan_only; /* sizes and plans, no memory: for program_get_info, nothing else */
    int keep;      /* tests: all tensors keep their contents to the end of the step */
    int guard;     /* tests: poison dead memory, and check that nobody writes between tensors */
};

/* Training takes as many rows as the program has, with labels; inference takes up to as many. */
struct step {
    const float *x;                  /* host: rows x c x h x w; or NULL, and instead: */
    int sent;                        /* x lies in memory of net_feed_alloc, and stays until net_feed_await */
    const struct crop *move;         /* host: rows; how to move images that net_keep_images keeps */
    const int *label;                /* host: rows; NULL in inference without loss */
    const struct mixed_label *mixed; /* host: rows; NULL: each is of its label alone */
    int rows, rows_s1;               /* rows_s1 are of S1, the others of S2 */
    int add;                         /* not the first sub-mini-batch of this update */
    int reuse_detached;              /* see struct op_context */
    uint64_t number;                 /* of the sub-mini-batch since training began */
    uint64_t iteration;              /* from 1 */
    int update;                      /* the last sub-mini-batch: the update follows, */
    double rate;                     /* at this rate */
};
struct step_stats {
    double ce;            /* mean over the scored rows (of softmax and cost layers) */
    double match;         /* sum over [itra] layers, before lambda; NaN: there was none */
    double lambda;        /* in force; of the last [itra] */
    double center;        /* sum over [center] layers, before lambda */
    double extra_seconds; /* time in training-only layers; NaN on an asynchronous device */
};

#endif
