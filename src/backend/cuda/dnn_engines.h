/* Which engines of cuDNN can compute a convolution: its graph API, in plain C. */
#ifndef CUDA_DNN_ENGINES_H
#define CUDA_DNN_ENGINES_H
#include <cudnn.h>
#include "core/err.h"
#include "dnn_conv.h"

#if CUDNN_MAJOR < 9
#error "the cuda backend needs cuDNN 9: make CUDNN=/where/it/is"
#endif

enum { ENGINES_MAX = 24, GRAPH_PARTS = 6 };
enum { UID_X = 1, UID_W, UID_Y }; /* of the tensors of a graph, for the pack of pointers to them */

/* The descriptors of an operation graph, which must live as long as its engines. */
struct conv_graph {
    cudnnBackendDescriptor_t part[GRAPH_PARTS];
    int parts;
};

struct engine {
    cudnnBackendDescriptor_t config, plan;
    int64_t id;       /* cuDNN's number of it; several configurations have the same */
    size_t workspace; /* bytes */
};

struct engine_search {
    cudnnHandle_t handle;          /* NULL: for `card`, which need not be there; the plans cannot run */
    cudnnBackendDescriptor_t card; /* NULL: the GPU of the handle */
    const struct cudnn_conv *conv;
    int deterministic;
    size_t workspace_limit; /* bytes */
    int wanted;             /* configurations, at most ENGINES_MAX */
    /* The result. */
    struct conv_graph graph;
    struct engine found[ENGINES_MAX]; /* best first, as the heuristics see it; a few of each engine */
    int n, offers;                    /* found; looked at */
};

/* Fills the result, of which the caller drops graph and engines, also after an error. E_DEVICE: there is no
 * engine, and why. */
int cudnn_find_engines(struct engine_search *, struct err *);
void cudnn_drop_engine(struct engine *);
void cudnn_drop_graph(struct conv_graph *); /* after its engines */

/* Fails with `code`, naming the convolution. */
int cudnn_refuse(const struct cudnn_conv *, int code, const char *why, struct err *);
/* What went wrong last, in cuDNN's words; returns `to`. */
const char *cudnn_error_text(cudnnStatus_t, char *to, size_t size);

/* Leave the function with the status of a call that fails. */
#define CUDNN(call)                                                                                          \
    do {                                                                                                     \
        cudnnStatus_t s_ = (call);                                                                           \
        if (s_ != CUDNN_STATUS_SUCCESS) return s_;                                                           \
    } while (0)
#define CUDNN_SET(d, name, type, n, value)                                                                   \
    CUDNN(cudnnBackendSetAttribute(d, CUDNN_ATTR_##name, CUDNN_TYPE_##type, n, value))

#endif
