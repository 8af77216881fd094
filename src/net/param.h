/* The parameters of a net: declared by its first program, created once, shared by all its programs. param_get
 * and param_set, which layers use too, are in layer.h. */
#ifndef NET_PARAM_H
#define NET_PARAM_H
#include "net/model.h"

struct param {
    struct net *net;
    int layer;
    size_t count;
    int rank; /* shape, for files that tell one */
    int64_t dims[PARAM_RANK];
    enum init init;
    double spread; /* of the initial values: standard deviation, or half-width */
    unsigned flags;
    const struct linear_ops *linear; /* how all of w, g, v and s are packed; NULL: dense */
    const struct op_plan *plan;      /* of the first program */
    size_t bytes;                    /* of w, packed */
    void *w, *g, *v, *s; /* backend memory, in training nets; g, v, and s of Adam: only what learns; g is in
                            net->gradients */
    void *average;       /* moving average of w: with ema_alpha=, of what is in .weights; or NULL */
    real *host;          /* nets for inference: dense */
};

/* Memory and initial values for all that were declared; for training in the backend, with gradients and
 * momenta. */
int params_create(struct net *, int train, struct err *);
/* Puts the moving averages in the place of the parameters, if they have begun, for whoever gets them; a
 * second call takes them back. No training step may come in between. */
void params_swap_averages(struct net *);
/* As if no program had been opened yet. */
void params_destroy(struct net *);
/* Bytes that params_create will take. 0 on overflow. */
size_t params_bytes(const struct net *, int train);
/* Host memory for the numbers of any one parameter. NULL: *e says why. */
real *params_host(const struct net *, struct err *);

/* Where batch norm is by each process's own rows: running statistics become the mean over all processes.
 * Weights and all else are the same in each anyway. In the background, like the sums of gradients, and at an
 * end with them. */
int params_join_begin(struct net *);

/* Does the update move it? */
int param_is_trained(const struct param *);
/* Do files of weights have it? */
int param_is_saved(const struct param *);
/* May it have this value? Files with others are damaged, or from a training that failed. */
int param_accepts(const struct param *, double);
/* w, g, v or s in the backend's own packing to dense host memory, and back (g: in nets where gradients are
 * summed): p->count numbers. */
int param_unpack(const struct param *, const void *from, real *host);
int param_pack(const struct param *, void *to, const real *host);
/* Those four, and param_get and param_set, return a bare code: this says whose parameters they were. Returns
 * rc. */
int param_explain(const struct param *, int rc, struct err *);

/* As float32, dense. host: for its numbers. */
struct file;
int param_write(const struct param *, struct file *, real *host, struct err *);

/* E_NUMBER, naming the layer, unless every parameter is a finite number. */
int net_check_finite(const struct net *, struct err *);

#endif
