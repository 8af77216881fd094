/* A ring of losses on an asynchronous device, so that the host can read them later. Where a backend
 * has none, operations have finished when they return. */
#ifndef BACKEND_OPS_LOSS_RING_H
#define BACKEND_OPS_LOSS_RING_H
#include "backend/backend.h"

struct loss_ring_desc {
    const double *const *loss; /* backend memory: n losses of a step */
    const int *is_ce;          /* n flags: this loss is the sum of the cross-entropies over the scored rows */
    int n;
    int capacity;  /* records that are kept */
    int scored;    /* rows */
    int parts;     /* sub-mini-batches of an iteration */
    double chance; /* where the running mean of the CE begins: ln K */
};
struct loss_ring_ops {
    int (*plan)(struct backend *, const struct loss_ring_desc *, struct op_plan *, struct err *);
    /* Keeps the losses of this step, and whether there is a stop, as record step % capacity; follows the CE
     * as running_ce of scalar.h does; stops where a loss is not finite. last: the iteration ends with it. */
    int (*push)(const struct op_plan *, struct step_state *, int last);
    /* All records, capacity x (n + 1) numbers: the losses, and the stop. Waits. */
    int (*pull)(const struct op_plan *, double *host);
};

#endif
