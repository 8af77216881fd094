/* Lifetimes to offsets: tensors that are never alive at the same time share memory. */
#ifndef NET_PLAN_H
#define NET_PLAN_H
#include <stddef.h>

struct plan_item {
    size_t bytes;    /* 0: needs no place */
    int first, last; /* steps of the schedule, both included */
    size_t at;       /* result */
};

/* Places n items, each aligned to 64 bytes, so that no two that are alive at the same time overlap: largest
 * first, each into the smallest gap that holds it. *total gets the size of the arena. Nonzero: overflow or
 * out of memory. */
int plan_arena(struct plan_item *, int n, size_t *total);

#endif
