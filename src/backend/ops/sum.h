/* Gradients added up over the processes that train one net together (struct backend, group). */
#ifndef BACKEND_OPS_SUM_H
#define BACKEND_OPS_SUM_H
#include "backend/backend.h"

struct sum_ops {
    /* Each of the n numbers at x (backend memory) becomes its sum over the processes, in the background:
     * until `end`, which waits for all that were begun, nobody else may touch them. */
    int (*begin)(struct backend *, real *x, size_t n);
    int (*end)(struct backend *);
};

#endif
