/* Private to src/net: what a program is made of, and the stages that make and run it, a file each. */
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
    void *arena, *fixed, *host; /* `host` in host memory, the others in backend memory */
    struct buffer *scratch;     /* the first claim, so that it is aligned as well as the backend can */
    struct buffer *label, *mixed, *crop; /* of the rows of a step, as they come: backend memory */
    struct buffer *image;                /* one row of input, host */
    struct plan_item *item;              /* as placed: tensors first, then claims */
    int nitem;

    struct async *async;      /* in training on an asynchronous device; else NULL, and: */
    struct step_stats *stats; /* of the sub-mini-batches of this iteration so far */
    double extra_seconds;     /* spent in training-only layers in this step */
};

/* The active layers, those that are not inert, in order: the one after `l` (NULL: the first), or NULL. */
static inline struct layer *next_active(const struct program *p, const struct layer *l)
{
    int i = l ? l->index + 1 : 0;
    while (i < p->n && p->node[i].l.inert) i++;
    return i < p->n ? &p->node[i].l : NULL;
}

/* The schedule: forward of layer i is step i + 1 (the image is there at 0), its backward step 2n + 1 - i. */
static inline int forward_step(int i) { return i + 1; }
static inline int backward_step(const struct program *p, int i) { return 2 * p->n + 1 - i; }

/* With program_desc.guard every item of the arena is followed by GUARD bytes of value POISON. */
enum { GUARD = 64, POISON = 0xa5 };

/* ---- connect.c: who reads whose output, shapes, who writes which gradient first ---- */

/* No plans, no memory. *out is closed by the caller, also after a failure. */
int connect_program(struct program **out, struct net *, const struct program_desc *, struct err *);
/* Copies shapes, FLOPs per row and the number of classes into the model. */
void describe_model(const struct program *, struct net *);
int program_output(const struct program *); /* the last layer that is not [cost] */

/* ---- builder.c: what layers declare through the functions of struct builder in layer.h ---- */

/* Builds the active layers, in order. creates: this is the first program of the net, and parameters are
 * declared instead of looked up. */
int builder_run(struct program *, int creates, struct err *);

/* ---- memory.c: when tensors and buffers are alive, and where they are ---- */

/* Once every layer is planned: decides when and where each tensor and buffer lives, and fills in the
 * sizes. */
int memory_plan(struct program *, struct err *);
/* Allocates and binds. params: bytes that the parameters will take in addition. A net that cannot fit is
 * refused before anything is allocated. */
int memory_allocate(struct program *, size_t params, struct err *);

/* ---- run.c: the passes that steps and inference are made of ---- */

/* Brings a step's images and labels to the device, and in training what changes from step to step; fills
 * *pass. */
int run_fill(struct program *, const struct step *, struct pass *, struct err *);
/* check: E_NUMBER, naming the first layer whose output is not finite, if there is one. */
int run_forward(struct program *, const struct pass *, int check, struct err *);
/* sum: the gradients of parameters become their sums over all processes, as they are computed, and running
 * statistics their means. */
int run_backward(struct program *, const struct pass *, int sum, struct err *);
/* After run_forward in training: losses in backend memory become those of the rows of all processes. */
int run_add_losses(struct program *);
/* Reads the losses of a pass with labels, and their weights, into the layers: from `kept`, the record that
 * the device kept of them, or (NULL) from where forward left them, which waits for the device. */
int run_read_losses(struct program *, const struct pass *, const double *kept);
struct step_stats run_stats(const struct program *); /* the losses of the layers, as they stand */
int run_refresh(struct program *, struct err *);     /* calls refresh of each layer */

/* ---- async.c: training steps on an asynchronous device ----
 * The host submits them and reads their losses later; meanwhile the device keeps the losses of the last
 * steps, follows the CE, and stops by itself at a loss or a gradient that is not finite. */

enum { ASYNC_WINDOW = 10 }; /* iterations that may be submitted while as many others are not read yet */
/* Sets p->async where the device can and no layer needs the host. */
int async_open(struct program *, struct err *);
void async_close(struct program *);
/* Runs `compute`, the operations of a step. The second step of a kind is captured: what compute calls is
 * recorded instead, and from then on launched whole. A step that cannot be captured is noted, and run as it
 * is. */
typedef int compute_step(struct program *, const struct step *, const struct pass *, struct err *);
int async_run(struct program *, const struct step *, const struct pass *, compute_step *, struct err *);
/* The end of a step: its losses go into the ring, and the update is made, unless something was not finite. */
int async_update(struct program *, int update);
/* See step_mark and step_wait. */
int async_mark(struct program *, int mark);
int async_wait(struct program *, int mark);
/* The losses of a step that was waited for, into the layers. E_NUMBER: something was not finite in it. */
int async_read(struct program *, const struct step *, struct err *);

#endif
