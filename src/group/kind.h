/* Private to src/group: a way to connect processes; each is a file of its own. */
#ifndef GROUP_KIND_H
#define GROUP_KIND_H
#include "group/group.h"

struct group_kind {
    const char *(*version)(void); /* name and version */
    /* Sets rank, size, local_rank and self. A group of one is as good as none. */
    int (*open)(struct group *, struct err *);
    void (*close)(struct group *);   /* also after E_GROUP; not after a failed open */
    void (*abandon)(struct group *); /* close is not to wait for the other ranks */
    /* Rank r has filled in the bytes at[r]..at[r+1]-1 of `all`. */
    int (*gather)(struct group *, void *all, const size_t *at);
    int (*sum_begin)(struct group *, real *x, size_t n);
    int (*sum_end)(struct group *);
};

struct group {
    const struct group_kind *kind;
    const volatile sig_atomic_t *stop;
    int rank, size, local_rank;
    int agreed;    /* on a failure */
    int abandoned; /* by this rank */
    void *self;
    size_t *at;   /* size + 1 */
    double *each; /* size x capacity: numbers of each rank */
    size_t capacity;
};

#endif
