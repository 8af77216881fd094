/* Private to src/net: what a program is made of, for the files that make and run one.
 *
 *   connect.c  who reads whose output, shapes, who writes which gradient first
 *   program.c  what layers declare, plans, the arena
 *   run.c      a forward pass, a backward pass, an inference
 *   async.c     steps that are submitted now and whose stats are read later */
#ifndef NET_COMPILED_H
#define NET_COMPILED_H
#include "core/crop.h"
#include "net/model.h"
#include "net/plan.h"

/* A buffer a layer has asked for. */
struct claim {
    struct buffer buffer;
    enum life life;
    int layer;
    struct claim *next;
};

struct node {
    struct layer l;
    struct value value; /* its output, unless it is the identity */
    int used;           /* takes part: forward is called */
    int back;           /* backward is called */
    int keep_out, *keep_in;
    int params; /* declared so far in this build */
};

struct program {
    struct net *net;
    struct program_desc desc;
    int rows; /* of the forward pass: S1 and S2 */
    int n;
    struct node *node;
    struct value input;
    struct claim *claims, **last_claim;
    size_t scratch_bytes, arena_bytes, fixed_bytes, host_bytes;
    void *arena, *fixed, *scratch; /* backend memory */
    char *host;
    real *image;    /* one row of input, in host */
    int *dev_label; /* in fixed, as is: */
    struct crop *dev_crop;
    int feature;            /* layer whose output is kept for program_features, or -1 */
    struct plan_item *item; /* as placed: tensors first, then claims */
    int nitem;
    /* Where losses are read late: */
    int async, nrecord; /* losses in a record */
    struct op_plan loss_ring;
    double *record;               /* host: all records, as pulled */
    struct capture *recording[4]; /* of a step, by add and update */
    int enqueued[4];              /* it has run once: what is used first is there */
    int unrecorded;               /* the device has failed to record one: no more are tried */
    /* Where they are not: */
    struct step_stats *stats; /* of the steps of an iteration */
};

/* The schedule: forward of layer i is step i + 1 (the image is there at 0), its backward step 2n + 1 - i. */
static inline int forward_step(int i) { return i + 1; }
static inline int backward_step(const struct program *p, int i) { return 2 * p->n + 1 - i; }

/* With program_desc.guard every item of the arena is followed by so many bytes of this value. */
enum { GUARD = 64, POISON = 0xa5 };

int program_output(const struct program *); /* the last layer that is not [cost] */

/* ---- run.c ---- */

int run_check(const struct program *, const struct step *, struct err *);
/* Brings a step's images and labels to the device, and fills *pass. late: nobody waits for the losses. */
int run_fill(struct program *, const struct step *, int async, struct pass *, struct err *);
/* stats (may be NULL) get the time of training-only layers. */
int run_forward(struct program *, const struct pass *, struct step_stats *, struct err *);
int run_backward(struct program *, const struct pass *, struct step_stats *, struct err *);
/* What forward left in memory is in l->loss: makes it a mean over the scored rows. */
int finish_loss(struct layer *, int scored, struct err *);
/* The losses of the layers, as they stand, into stats. */
void run_add_stats(const struct program *, struct step_stats *);

/* ---- async.c ---- */

int async_plan(struct program *, struct err *);
void async_destroy(struct program *);

#endif
