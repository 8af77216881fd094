/* How close together the features of one class are, compared with all features, over a sample of the rows. */
#ifndef TRAIN_COMPACTNESS_H
#define TRAIN_COMPACTNESS_H
#include "core/err.h"
#include "core/real.h"
#include <stddef.h>
#include <stdint.h>

struct group;

/* A fixed random subset of rows, chosen on the way through `total` candidates. */
struct sample {
    real *x; /* capacity x size */
    int *label;
    int n, capacity; /* rows kept; wanted */
    size_t size;     /* numbers a row */
    uint64_t key;
    int asked, chosen, total;
};
int sample_open(struct sample *, int total, size_t size, uint64_t seed, struct err *);
void sample_close(struct sample *);
int sample_wants(struct sample *); /* is the next candidate in it? */
/* The rows that each process has added, brought together in the order of the processes. */
int sample_join(struct sample *, struct group *, struct err *);
void sample_add(struct sample *, int label, const real *row);
/* Mean distance of the pairs of one class (-1: there is none) and of all pairs. */
int sample_distances(const struct sample *, int threads, double *same, double *all, struct err *);

#endif
