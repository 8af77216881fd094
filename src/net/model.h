/* Private to src/net: what a net and its programs are made of. */
#ifndef NET_MODEL_H
#define NET_MODEL_H
#include "net/net.h"

/* One section of the cfg. */
struct model_layer {
    const struct layer_ops *ops;
    void *self; /* options filled in, nothing planned: programs copy it */
    struct layer_common common;
    int line;
    int *in, nin;     /* absolute indices; -1: the image */
    struct shape out; /* of one row */
    double flops;
    int frozen;        /* at or before a stopbackward */
    int param, nparam; /* its parameters: net->param[param .. param + nparam) */
};

struct param {
    struct net *net;
    int layer;
    size_t count;
    enum init init;
    double spread;
    unsigned flags;
    const struct linear_ops *linear; /* how w, g and v are packed; NULL: dense */
    const struct op_plan *plan;      /* of the first program */
    size_t bytes;                    /* of w, packed */
    void *w, *g, *v;                 /* backend memory, in training nets; g and v: only what learns */
    real *host;                      /* nets for inference: dense */
};

/* Allocates the parameters the first program has declared and gives them their initial values. */
int model_create_params(struct net *, int train, struct err *);
/* Bytes that will take. 0 on overflow. */
size_t model_param_bytes(const struct net *, int train);
/* Numbers of the largest parameter. */
size_t model_largest(const struct net *);
/* As if no program had been opened yet. */
void model_destroy_params(struct net *);
/* Does the update move it? */
int model_moves(const struct param *);
/* Dense host copy of w (or of v, with the packing of w), and back. */
int model_get(const struct param *, const void *from, real *host);
int model_set(const struct param *, void *to, const real *host);
/* Bare codes come from the backend, and what a device has met only sync tells: fills *e with it, behind what
 * is known already. e->code was OK before the call that gave rc. Returns rc. */
int attach_device_error(const struct net *, int rc, struct err *e);
/* Those return a bare code: says whose parameters they were. */
int model_explain(const struct param *, int rc, struct err *);
/* "cfg/a.cfg:14: [convolutional] (layer 3)" into buf. */
void model_name(const struct net *, int layer, char *buf, size_t size);

/* Shapes and connections only; no plans, no memory. For net_open and program_open. */
int program_draft(struct program **, struct net *, const struct program_desc *, struct err *);
/* Copies shapes and FLOPs per row into the model. */
void program_describe(const struct program *, struct net *);

#endif
