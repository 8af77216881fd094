/* Which iterations of a training with [itra] have a second mini-batch. */
#ifndef CORE_PAIRING_H
#define CORE_PAIRING_H
#include <stdint.h>

/* iteration: from 1. every=k: each k-th. */
static inline int is_paired_iteration(uint64_t iteration, int every)
{
    return iteration % (uint64_t)every == 0;
}

#endif
