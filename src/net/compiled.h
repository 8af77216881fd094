/* Private to src/net: what a program is made of.
 *
 *   connect.c  who reads whose output, shapes, who writes which gradient first
 *   builder.c  what layers declare
 *   memory.c   when tensors and buffers are alive, and where they lie
 *   program.c  opening and closing
 *   run.c      passes forward and back
 *   step.c     a training step
 *   async.c    what a device needs that takes steps on its own
 *   infer.c    inference */
#ifndef NET_COMPILED_H
#define NET_COMPILED_H
#include "net/desc.h"
#include "net/model.h"
#include "net/plan.h"

/* A buffer that a layer (or the program itself: layer -1) has asked for. */
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
    int feature; /* layer whose output is kept for program_features, or -1 */

    struct claim *claims, **last_claim;
    size_t arena_bytes, fixed_bytes, host_bytes;
    void *arena, *fixed, *host;  /* host: the others are backend memory */
    struct buffer *scratch;      /* the first claim, so that it is aligned as well as the backend can */
    struct buffer *label, *crop; /* of the rows of a step, as they come: backend memory */
    struct buffer *image;        /* one row of input, host */
    struct plan_item *item;      /* as placed: tensors first, then claims */
    int nitem;

    struct async *async;      /* training where the device works on its own; else NULL, and: */
    struct step_stats *stats; /* of the sub-mini-batches of this iteration so far */
    double extra_seconds;     /* spent in training-only layers in this step */
};

/* The schedule: forward of layer i is step i + 1 (the image is there at 0), its backward step 2n + 1 - i. */
static inline int forward_step(int i) { return i + 1; }
static inline int backward_step(const struct program *p, int i) { return 2 * p->n + 1 - i; }

/* With program_desc.guard every item of the arena is followed by so many bytes of this value. */
enum { GUARD = 64, POISON = 0xa5 };

#endif
