/* What [reorg] and [reorg3d] have in common: pixels become channels, or with reverse=1 channels become
 * pixels. Both are the same index map, which Darknet calls with the input's shape for [reorg] and with the
 * output's for [reorg3d]; only [reorg3d] without reverse is what other frameworks call space to depth. */
#ifndef NET_REORG_H
#define NET_REORG_H
#include "net/layer.h"

struct reorg {
    int stride, reverse;
};
extern const struct key reorg_keys[];

/* As in struct layer_ops. small: the shape that is taken for the map of few pixels and many channels, which
 * is either the input's or out. */
int reorg_shape(struct layer *, struct shape *out, const struct shape *small, struct err *);
int reorg_build(struct layer *, struct shape small, struct err *);
int reorg_export(const struct layer *, struct shape small, struct graph *, struct err *);
int reorg_forward(struct layer *, const struct pass *);
int reorg_backward(struct layer *, const struct pass *);

#endif
