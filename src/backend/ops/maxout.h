/* Maximum over channels: output channel g is the largest of the channels g, g + c, g + 2c ... of its pixel, c
 * being the channels of the output (Goodfellow et al. 2013, Maxout networks, with Darknet's order). */
#ifndef BACKEND_OPS_MAXOUT_H
#define BACKEND_OPS_MAXOUT_H
#include "backend/backend.h"

struct maxout_desc {
    const struct tensor *in; /* as many channels as out, or more */
    int train, rows_back;
};
struct maxout_ops {
    /* kept: the channels of the maxima. */
    int (*plan)(struct backend *, const struct maxout_desc *, struct tensor *out, struct op_plan *,
                struct err *);
    /* Of equal maxima the first wins. */
    int (*forward)(const struct op_plan *, const struct op_context *, const void *x, void *y, void *kept);
    int (*backward)(const struct op_plan *, const struct op_context *, const void *kept, const void *gy,
                    void *gx, int add);
};

#endif
