/* What [maxpool] and [local_avgpool] have in common: windows that move over the map. */
#ifndef NET_POOLING_H
#define NET_POOLING_H
#include "backend/ops/pool.h"
#include "net/layer.h"

/* At the start of the layer's struct. */
struct pooling {
    int stride, stride_x, stride_y, size, padding;
    struct buffer *kept;
};

#define POOLING_KEYS                                                                                         \
    INT_KEY(pooling, stride, 1, 1, 1 << 12, "step between windows"),                                         \
        INT_KEY(pooling, stride_x, 0, 0, 1 << 12, "step to the right (0: stride)"),                          \
        INT_KEY(pooling, stride_y, 0, 0, 1 << 12, "step down (0: stride)"),                                  \
        INT_KEY(pooling, size, 0, 0, 1 << 12, "height and width of the window (0: as stride)"),              \
        INT_KEY(pooling, padding, -1, -1, 1 << 12, "padding of both sides together (-1: size-1)")

/* dense: the windows take steps of 1, whatever the strides. */
struct pool_desc pooling_describe(const struct layer *, enum pool_kind, int dense);
int pooling_shape(const struct layer *, const struct pool_desc *, struct shape *out, struct err *);
int pooling_build(struct layer *, struct builder *, const struct pool_desc *, struct err *);
/* Input 0 through ONNX's `op` over these windows. out: the shape that pooling_shape gives. */
struct graph;
int pooling_export(const struct layer *, struct graph *, const char *op, const struct pool_desc *,
                   struct shape out);
int pooling_forward(struct layer *, const struct pass *);
int pooling_backward(struct layer *, const struct pass *);

#endif
