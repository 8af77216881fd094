/* Mini-batches of images that the host makes, on their way to an asynchronous device while it computes on
 * those before. Where a backend has no such operation, backend_ops.write takes them. */
#ifndef BACKEND_OPS_FEED_H
#define BACKEND_OPS_FEED_H
#include "backend/backend.h"

struct feed_desc {
    struct shape most; /* of a mini-batch */
};
struct feed_ops {
    int (*plan)(struct backend *, const struct feed_desc *, struct op_plan *, struct err *);
    /* Host memory that the device reads by itself; free waits until it has. */
    int (*alloc)(const struct op_plan *, size_t bytes, void **, struct err *);
    void (*free)(const struct op_plan *, void *); /* accepts NULL */
    /* The first rows of a tensor of the image's kind, from such memory, dense n x c x h x w. turn: 0 or 1. */
    int (*send)(const struct op_plan *, const float *, int rows, int turn, struct tensor *to);
    /* Waits until the memory of the latest send with this turn has been read. */
    int (*await)(const struct op_plan *, int turn);
};

#endif
