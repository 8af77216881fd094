/* An activation, element by element. */
#ifndef BACKEND_OPS_ACT_H
#define BACKEND_OPS_ACT_H
#include "backend/activation.h"
#include "backend/backend.h"

struct act_desc {
    const struct tensor *in;
    int train, rows_back;
    enum act act;
};
struct act_ops {
    int (*plan)(struct backend *, const struct act_desc *, struct tensor *out, struct op_plan *,
                struct err *);
    /* y may be x when act_from_output(act), or when no backward follows. */
    int (*forward)(const struct op_plan *, const struct op_context *, const void *x, void *y);
    /* x may be NULL when act_from_output(act), y when not. gx may be gy when add is 0. */
    int (*backward)(const struct op_plan *, const struct op_context *, const void *x, const void *y,
                    const void *gy, void *gx, int add);
};

#endif
