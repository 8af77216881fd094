/* What the processes that train one net together (struct backend, group) make of the numbers and rows that
 * each of them has in backend memory. All call the same of these, in the same order. */
#ifndef BACKEND_OPS_SUM_H
#define BACKEND_OPS_SUM_H
#include "backend/backend.h"

struct sum_ops {
    const char *(*version)(void); /* of the library that does it; NULL: src/group does */
    /* Connects the devices, once, before the rest. NULL: nothing to do. */
    int (*open)(struct backend *, struct err *);
    void (*close)(struct backend *); /* for the backend's own close, whether open was called or not */
    /* Each of the n numbers at x becomes its sum over the processes, in the background:
     * until `end`, which waits for all that were begun, nobody else may touch them. */
    int (*begin)(struct backend *, real *x, size_t n);
    int (*end)(struct backend *);
    /* As begin, but the mean, weighted by the rows of each share. */
    int (*begin_mean)(struct backend *, struct share, real *x, size_t n);
    /* The same at once: in order with what is computed before and after it. */
    int (*add)(struct backend *, double *x, size_t n);
    /* Also at once: of share.all rows of so many bytes, each process has its share at `own`, which may be its
     * place in `all`; `all` gets all. */
    int (*join)(struct backend *, struct share, const void *own, size_t bytes, void *all);
};

#endif
