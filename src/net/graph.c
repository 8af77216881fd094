#include "graph.h"
#include <stdio.h>
#include <string.h>
#include "backend/ops/norm.h"
#include "backend/scalar.h"
#include "core/array.h"
#include "core/mem.h"

/* Fields of ONNX's messages. */
enum { NODE_INPUT = 1, NODE_OUTPUT = 2, NODE_NAME = 3, NODE_OP = 4, NODE_ATTRIBUTE = 5 };
enum {
    ATTRIBUTE_NAME = 1,
    ATTRIBUTE_F = 2,
    ATTRIBUTE_I = 3,
    ATTRIBUTE_S = 4,
    ATTRIBUTE_INTS = 8,
    ATTRIBUTE_TYPE = 20
};
enum { TYPE_FLOAT = 1, TYPE_INT = 2, TYPE_STRING = 3, TYPE_INTS = 7 }; /* of attributes */
enum { TENSOR_DIMS = 1, TENSOR_TYPE = 2, TENSOR_NAME = 8 };
enum { ELEMENT_FLOAT = 1, ELEMENT_INT64 = 7 };
enum { GRAPH_NODE = 1 };

/* ---- tensors ---- */

static int add_tensor(struct graph *g, int row)
{
    g->failed |= array_grow(&g->tensor, (size_t)g->ntensor, sizeof *g->tensor);
    if (g->failed) return 0;
    g->tensor[g->ntensor] = (struct graph_tensor){ .row = row };
    return g->ntensor++;
}

/* "3.convolutional" and what follows; what belongs to no layer has no such beginning. */
static void name_tensor(struct graph *g, int tensor, const char *separator, const char *name)
{
    struct graph_tensor *t = g->failed ? NULL : &g->tensor[tensor];
    const struct layer *l = g->layer;
    if (t && l)
        snprintf(t->name, sizeof t->name, "%d.%s%s%s", l->index, l->ops->name, separator, name);
    else if (t)
        snprintf(t->name, sizeof t->name, "%s", name);
}

static void map_value(struct graph *g, const struct value *v, int tensor)
{
    g->failed |= array_grow(&g->value, (size_t)g->nvalue, sizeof *g->value);
    if (!g->failed) g->value[g->nvalue++] = (struct graph_value){ v, tensor };
}

int graph_find(const struct graph *g, const struct value *v)
{
    for (int i = g->nvalue; i-- > 0;)
        if (g->value[i].value == v) return g->value[i].tensor;
    return 0;
}

static const char *name_of(const struct graph *g, int tensor)
{
    return g->failed ? "" : g->tensor[tensor].name;
}

void graph_input(struct graph *g, const struct value *v, const char *name, int row)
{
    int tensor = add_tensor(g, row);
    name_tensor(g, tensor, "", name);
    map_value(g, v, tensor);
}

int graph_any(struct graph *g, const struct layer *l, int k) { return graph_find(g, l->in[k]); }

static int is_row(const struct graph *g, int tensor) { return g->failed || g->tensor[tensor].row; }

int graph_map(struct graph *g, const struct layer *l, int k)
{
    const struct shape s = l->in[k]->x.shape;
    int tensor = graph_any(g, l, k);
    if (!is_row(g, tensor)) return tensor;
    return graph_reshape(g, tensor, 3, (int64_t[]){ s.c, s.h, s.w });
}

static int as_row(struct graph *g, int tensor)
{
    if (is_row(g, tensor)) return tensor;
    int row = graph_op(g, "Flatten", tensor);
    if (!g->failed) g->tensor[row].row = 1;
    return row;
}

int graph_row(struct graph *g, const struct layer *l, int k) { return as_row(g, graph_any(g, l, k)); }

void graph_output(struct graph *g, const struct layer *l, int tensor) { map_value(g, l->out, tensor); }

void graph_give(struct graph *g, int tensor, const char *name)
{
    int row = as_row(g, tensor);
    graph_end(g);
    int given = add_tensor(g, 1);
    name_tensor(g, given, "", name);
    proto_text(&g->node, NODE_INPUT, name_of(g, row));
    proto_text(&g->node, NODE_OUTPUT, name_of(g, given));
    proto_text(&g->node, NODE_NAME, name_of(g, given));
    proto_text(&g->node, NODE_OP, "Identity");
    graph_end(g);
}

/* ---- operations ---- */

void graph_end(struct graph *g)
{
    if (g->node.n) proto_message(&g->nodes, GRAPH_NODE, &g->node);
    g->failed |= g->node.failed || g->nodes.failed;
    proto_clear(&g->node);
}

int graph_node(struct graph *g, const char *op, int n, const int *in)
{
    char name[40];
    graph_end(g);
    int out = add_tensor(g, is_row(g, in[0]));
    snprintf(name, sizeof name, "%s_%d", op, out);
    name_tensor(g, out, "/", name);
    while (in[n - 1] == GRAPH_ABSENT) n--; /* only those before one that is there are written, as "" */
    for (int i = 0; i < n; i++)
        proto_text(&g->node, NODE_INPUT, in[i] == GRAPH_ABSENT ? "" : name_of(g, in[i]));
    proto_text(&g->node, NODE_OUTPUT, name_of(g, out));
    proto_text(&g->node, NODE_NAME, name_of(g, out));
    proto_text(&g->node, NODE_OP, op);
    return out;
}

static void attribute(struct graph *g, struct proto *a, const char *name, int type)
{
    proto_text(a, ATTRIBUTE_NAME, name);
    proto_int(a, ATTRIBUTE_TYPE, type);
    proto_message(&g->node, NODE_ATTRIBUTE, a);
    proto_free(a);
}

void graph_int(struct graph *g, const char *name, int64_t v)
{
    struct proto a = { 0 };
    proto_int(&a, ATTRIBUTE_I, v);
    attribute(g, &a, name, TYPE_INT);
}

void graph_ints(struct graph *g, const char *name, int n, const int64_t *v)
{
    struct proto a = { 0 };
    for (int i = 0; i < n; i++) proto_int(&a, ATTRIBUTE_INTS, v[i]);
    attribute(g, &a, name, TYPE_INTS);
}

void graph_float(struct graph *g, const char *name, double v)
{
    struct proto a = { 0 };
    proto_float(&a, ATTRIBUTE_F, (float)v);
    attribute(g, &a, name, TYPE_FLOAT);
}

void graph_text(struct graph *g, const char *name, const char *text)
{
    struct proto a = { 0 };
    proto_text(&a, ATTRIBUTE_S, text);
    attribute(g, &a, name, TYPE_STRING);
}

/* Cells outside the map behind its end that the last window of an axis has. */
static int64_t after(int n, int windows, int stride, const struct linear_desc *d)
{
    int64_t end = (int64_t)(windows - 1) * stride - d->pad + (int64_t)(d->size - 1) * d->dilation + 1;
    return end > n ? end - n : 0;
}

void graph_windows(struct graph *g, struct shape in, struct shape out, const struct linear_desc *d)
{
    graph_ints(g, "kernel_shape", 2, (int64_t[]){ d->size, d->size });
    graph_ints(g, "strides", 2, (int64_t[]){ d->stride_y, d->stride_x });
    graph_ints(g, "pads", 4,
               (int64_t[]){ d->pad, d->pad, after(in.h, out.h, d->stride_y, d),
                            after(in.w, out.w, d->stride_x, d) });
    if (d->dilation > 1) graph_ints(g, "dilations", 2, (int64_t[]){ d->dilation, d->dilation });
}

/* ---- constants ---- */

/* Takes the data over. */
static int add_constant(struct graph *g, const char *name, int type, int rank, const int64_t *dims,
                        void *data, size_t bytes)
{
    char made_up[40];
    int tensor = add_tensor(g, 0);
    struct graph_constant c = { .data = data, .bytes = bytes };
    g->failed |= !data || array_grow(&g->constant, (size_t)g->nconstant, sizeof *g->constant);
    snprintf(made_up, sizeof made_up, "constant_%d", tensor);
    name_tensor(g, tensor, name ? "." : "/", name ? name : made_up);
    for (int i = 0; i < rank; i++) proto_int(&c.head, TENSOR_DIMS, dims[i]);
    proto_int(&c.head, TENSOR_TYPE, type);
    proto_text(&c.head, TENSOR_NAME, name_of(g, tensor));
    g->failed |= c.head.failed;
    if (g->failed) {
        proto_free(&c.head);
        mem_free(data);
        return 0;
    }
    g->constant[g->nconstant++] = c;
    return tensor;
}

int graph_reals(struct graph *g, const char *name, int rank, const int64_t *dims, const real *x)
{
    size_t n = 1;
    for (int i = 0; i < rank; i++) g->failed |= mem_mul(n, (size_t)dims[i], &n);
    float *data = g->failed ? NULL : mem_alloc(n, sizeof *data);
    for (size_t i = 0; data && i < n; i++) data[i] = (float)x[i];
    return add_constant(g, name, ELEMENT_FLOAT, rank, dims, data, n * sizeof *data);
}

int graph_real(struct graph *g, double v)
{
    const real x = (real)v;
    return graph_reals(g, NULL, 0, NULL, &x);
}

int graph_indices(struct graph *g, int n, const int64_t *v)
{
    int64_t *data = mem_alloc((size_t)n, sizeof *data);
    if (data) memcpy(data, v, (size_t)n * sizeof *v);
    return add_constant(g, NULL, ELEMENT_INT64, 1, (int64_t[]){ n }, data, (size_t)n * sizeof *v);
}

/* ---- what is put together ---- */

int graph_reshape(struct graph *g, int tensor, int rank, const int64_t *dims)
{
    int64_t shape[8] = { 0 }; /* 0: as it was */
    for (int i = 0; i < rank; i++) shape[i + 1] = dims[i];
    int to = graph_op(g, "Reshape", tensor, graph_indices(g, rank + 1, shape));
    if (!g->failed) g->tensor[to].row = rank == 1;
    return to;
}

int graph_scale(struct graph *g, int tensor, double factor)
{
    return factor == 1 ? tensor : graph_op(g, "Mul", tensor, graph_real(g, factor));
}

int graph_channels(struct graph *g, int map, int from, int to)
{
    return graph_op(g, "Slice", map, graph_indices(g, 1, (int64_t[]){ from }),
                    graph_indices(g, 1, (int64_t[]){ to }), graph_indices(g, 1, (int64_t[]){ 1 }));
}

int graph_norm(struct graph *g, int tensor, int64_t c, const real *p)
{
    static const char *const names[] = { "bias", "scale", "mean", "variance" };
    int v[4];
    for (int i = 0; i < 4; i++) v[i] = graph_reals(g, names[i], 1, &c, p + i * c);
    int y = graph_op(g, "BatchNormalization", tensor, v[1], v[0], v[2], v[3]);
    graph_float(g, "epsilon", NORM_EPSILON);
    return y;
}

static int clip(struct graph *g, int x, double low, double high)
{
    return graph_op(g, "Clip", x, graph_real(g, low), graph_real(g, high));
}

static int with_slope(struct graph *g, const char *op, int x, double alpha)
{
    int y = graph_op(g, op, x);
    graph_float(g, "alpha", alpha);
    return y;
}

/* c + slope (x - c): x goes on behind the ends of c, a clipped x. */
static int go_on(struct graph *g, int x, int c, int y, double slope)
{
    return graph_op(g, "Add", y, graph_scale(g, graph_op(g, "Sub", x, c), slope));
}

/* x/2 (1 + tanh(ax + bx^3)), with Darknet's rounded a and b. */
static int gelu(struct graph *g, int x)
{
    int cube = graph_op(g, "Mul", graph_op(g, "Mul", x, x), x);
    int sum = graph_op(g, "Add", graph_scale(g, x, 0.797885), graph_scale(g, cube, 0.035677));
    int share = graph_op(g, "Add", graph_op(g, "Tanh", sum), graph_real(g, 1));
    return graph_op(g, "Mul", graph_scale(g, x, .5), share);
}

/* With n = floor(x): floor(n/2), and where n is odd x - n more. */
static int stair(struct graph *g, int x)
{
    int n = graph_op(g, "Floor", x), half = graph_op(g, "Floor", graph_scale(g, x, .5));
    int odd = graph_op(g, "Sub", n, graph_scale(g, half, 2));
    return graph_op(g, "Add", half, graph_op(g, "Mul", odd, graph_op(g, "Sub", x, n)));
}

int graph_activation(struct graph *g, int x, enum act a)
{
    int c;
    switch (a) {
    case ACT_RELU: return graph_op(g, "Relu", x);
    case ACT_RELU6: return clip(g, x, 0, 6);
    case ACT_LEAKY: return with_slope(g, "LeakyRelu", x, .1);
    case ACT_RELIE: return with_slope(g, "LeakyRelu", x, .01);
    case ACT_RAMP: return graph_op(g, "Add", graph_op(g, "Relu", x), graph_scale(g, x, .1));
    case ACT_LOGISTIC: return graph_op(g, "Sigmoid", x);
    case ACT_LOGGY: return graph_op(g, "Tanh", graph_scale(g, x, .5));
    case ACT_TANH: return graph_op(g, "Tanh", x);
    case ACT_ELU: return with_slope(g, "Elu", x, 1);
    case ACT_SELU:
        x = with_slope(g, "Selu", x, (double)SELU_ALPHA);
        graph_float(g, "gamma", (double)SELU_SCALE);
        return x;
    case ACT_GELU: return gelu(g, x);
    case ACT_SWISH: return graph_op(g, "Mul", x, graph_op(g, "Sigmoid", x));
    case ACT_MISH: return graph_op(g, "Mul", x, graph_op(g, "Tanh", graph_op(g, "Softplus", x)));
    case ACT_HARD_MISH: /* x (x/2 + 1) between -2 and 0 */
        c = graph_op(g, "Add", graph_scale(g, x, .5), graph_real(g, 1));
        return graph_op(g, "Mul", x, clip(g, c, 0, 1));
    case ACT_PLSE:
        c = clip(g, x, -4, 4);
        return go_on(g, x, c, graph_op(g, "Add", graph_scale(g, c, .125), graph_real(g, .5)), .01);
    case ACT_HARDTAN: return clip(g, x, -1, 1);
    case ACT_LHTAN: c = clip(g, x, 0, 1); return go_on(g, x, c, c, .001);
    case ACT_STAIR: return stair(g, x);
    case ACT_LINEAR:
    default: return x;
    }
}

void graph_free(struct graph *g)
{
    for (int i = 0; i < g->nconstant; i++) {
        proto_free(&g->constant[i].head);
        mem_free(g->constant[i].data);
    }
    mem_free(g->constant);
    mem_free(g->tensor);
    mem_free(g->value);
    proto_free(&g->nodes);
    proto_free(&g->node);
    *g = (struct graph){ 0 };
}
