/* What [convolutional], [local] and [connected] have in common: a linear map, then batch normalisation or a
 * bias, then an activation. In training the three are kept apart, as far as the backend cannot fuse them; in
 * inference the normalisation is folded into the weights. */
#ifndef NET_LINEAR_H
#define NET_LINEAR_H
#include "net/activate.h"

struct linear {
    /* Set by the layer before linear_build: */
    const struct linear_ops *ops;
    struct linear_desc desc; /* in, size, dilation, stride_y, stride_x, pad, groups */
    size_t weights;          /* how many, */
    int rank;                /* and in what shape */
    int64_t dims[PARAM_RANK];
    double spread; /* of the initial weights: standard deviation, or half-width */
    enum init init;
    int norm;                 /* batch_normalize */
    int untied;               /* as many biases as numbers in a row of the output, not one for each channel */
    int weights_first;        /* .weights order: [connected] has its weights before the batch-norm triple */
    struct activate activate; /* act */
    /* The rest is linear.c's. */
    struct tensor map;                  /* output of the linear map where normalisation follows */
    struct buffer *map_memory, *kept;   /* training */
    struct buffer *folded_w, *folded_b; /* inference */
    struct param *bias, *w, *scale, *mean, *var;
    double bn_momentum;
};

/* As in struct layer_ops, for layers whose struct begins with a struct linear. */
int linear_build(struct layer *, struct builder *, struct err *);
int linear_refresh(struct layer *, struct err *);
int linear_forward(struct layer *, const struct pass *);
int linear_backward(struct layer *, const struct pass *);
/* Appends the layer to a graph, up to its activation, which *y is. map: appends the linear map with these
 * constants (bias may be GRAPH_ABSENT) and returns it. */
struct graph;
typedef int linear_map(const struct layer *, struct graph *, int weights, int bias);
int linear_export(const struct layer *, struct graph *, linear_map *, int *y, struct err *);

/* Folds the normalisation into weights and biases: w <- w f, bias <- bias - mean f, where f = scale /
 * sqrt(variance + NORM_EPSILON). All lie one after another in w: n x per weights, then n each of bias,
 * scale, mean and variance. */
void linear_fold(real *w, size_t n, size_t per);

#endif
