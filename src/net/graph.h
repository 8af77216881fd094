/* A net as a graph of ONNX operations, for `darknet export`. Each layer appends what it is in inference: its
 * function `export` takes its inputs from the graph, calls graph_op for each operation and hands over its
 * output. Names of operations and attributes are those of ONNX, opset GRAPH_OPSET.
 *
 * Tensors are numbers. Those of layers are N x C x H x W, or, where there is no map any more, N x C: a
 * layer asks for the form that it needs. N is not fixed. Constants have any shape.
 *
 * When memory is short, `failed` is set, and the functions go on with tensor 0. */
#ifndef NET_GRAPH_H
#define NET_GRAPH_H
#include "core/proto.h"
#include "net/layer.h"

struct graph {
    int folds; /* batch normalisation goes into the weights before it */
    /* The rest is graph.c's, and onnx.c's to write. */
    struct proto nodes, node; /* those that are complete; the last one */
    struct graph_constant {
        struct proto head; /* all of the message but the field of the data */
        void *data;
        size_t bytes;
    } * constant;
    struct graph_tensor {
        char name[64];
        int row;
    } * tensor;
    struct graph_value {
        const struct value *value;
        int tensor;
    } * value; /* the outputs of layers so far */
    int nconstant, ntensor, nvalue;
    const struct layer *layer; /* whose turn it is; NULL: of none */
    int failed;
};

enum { GRAPH_OPSET = 17, GRAPH_ABSENT = -1 /* an input that is left out */ };

/* Input k of the layer: as N x C x H x W; as N x C*H*W; in the form that it happens to have. */
int graph_map(struct graph *, const struct layer *, int k);
int graph_row(struct graph *, const struct layer *, int k);
int graph_any(struct graph *, const struct layer *, int k);
/* Its output, a map or a row. Once, and last. */
void graph_output(struct graph *, const struct layer *, int tensor);

/* An operation with one output, which it returns: a row if its first input is one. Inputs may be
 * GRAPH_ABSENT. The attributes that are given next belong to it. */
int graph_node(struct graph *, const char *op, int n, const int *in);
#define graph_op(g, op, ...)                                                                                 \
    graph_node(g, op, (int)(sizeof((int[]){ __VA_ARGS__ }) / sizeof(int)), (int[]){ __VA_ARGS__ })
void graph_int(struct graph *, const char *name, int64_t);
void graph_ints(struct graph *, const char *name, int n, const int64_t *);
void graph_float(struct graph *, const char *name, double);
void graph_text(struct graph *, const char *name, const char *);
/* kernel_shape, strides, pads and dilations of windows of size x size that begin `before` cells outside the
 * map, as many as give `out`. */
void graph_windows(struct graph *, struct shape in, struct shape out, const struct linear_desc *);

/* Constants. name: of what is a parameter, as in "weights"; NULL: a number is made up. */
int graph_reals(struct graph *, const char *name, int rank, const int64_t *dims, const real *);
int graph_real(struct graph *, double);
int graph_indices(struct graph *, int n, const int64_t *);

/* What is put together of these: first, a tensor of N x anything as N x dims (a row if that is one). */
int graph_reshape(struct graph *, int tensor, int rank, const int64_t *dims);
int graph_scale(struct graph *, int tensor, double factor);    /* the same tensor where factor is 1 */
int graph_channels(struct graph *, int map, int from, int to); /* of these channels: from..to-1 */
int graph_activation(struct graph *, int tensor, enum act);
/* Batch normalisation of c channels by the running statistics: c each of bias, scale, mean and variance. */
int graph_norm(struct graph *, int tensor, int64_t c, const real *);

/* For whoever makes a graph. The net's input, before anything else. */
void graph_input(struct graph *, const struct value *, const char *name, int row);
int graph_find(const struct graph *, const struct value *); /* its tensor; 0: none */
/* The same tensor as a row, under this name: an output of the graph. */
void graph_give(struct graph *, int tensor, const char *name);
void graph_end(struct graph *); /* completes `nodes` */
void graph_free(struct graph *);

#endif
