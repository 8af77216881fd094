/* A ring of losses that an asynchronous device writes into host memory, where the host reads them later.
 * Where a backend has none, operations have finished when they return. */
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
    /* Mark 0 or 1 stands behind all that was submitted so far, whatever it marked before; await waits until
     * the device has passed it. */
    int (*mark)(const struct op_plan *, int mark);
    int (*await)(const struct op_plan *, int mark);
    /* The record of a step, host memory, for who has awaited a mark behind it: n losses, and the stop. */
    const double *(*record)(const struct op_plan *, uint64_t step);
};

#endif
