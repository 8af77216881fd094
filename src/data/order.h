/* What a loader is to deliver, and which sample goes where: pure functions of the options, so that it does
 * not matter who asks, nor when. */
#ifndef DATA_ORDER_H
#define DATA_ORDER_H
#include <stdint.h>
#include "core/share.h"
#include "data/augment.h"
#include "data/dataset.h"

/* A second lane of as many rows, S2, with its own order. PAIR_CLASS: row i is a random training sample of the
 * class of row i of S1, never the same sample unless alone. */
enum pairing { PAIR_NONE, PAIR_RANDOM, PAIR_CLASS };

/* Where the images of mini-batches lie, if not in memory from mem_alloc. */
struct image_memory {
    int (*alloc)(void *ctx, size_t bytes, void **, struct err *); /* NULL: mem_alloc */
    void (*free)(void *ctx, void *);                              /* accepts NULL */
    void *ctx;
};

struct loader_options {
    uint64_t seed;
    int rows;           /* of a mini-batch: S1 */
    struct share share; /* training: which of them this loader is to deliver; all zero: all */
    int training;       /* 1: shuffled, augmented, endless; 0: in order, once, last batch short, a view */
    enum pairing pairing;
    int subdivisions, every; /* S2 comes with the batches of iterations n (= number / subdivisions + 1) with
                                n % every == 0 only. 0 counts as 1 */
    int replacement;         /* draw with replacement */
    enum view view;          /* validation: of each image */
    const int *only;         /* validation: these samples, in this order; NULL: all. Not copied */
    int only_n;
    uint64_t start; /* number of the first batch */
    int workers;    /* decoding threads, >= 1 */
    int moves;      /* training: instead of x say how the images are moved, where augment_only_moves holds */
    struct augment augment;
    struct image_memory memory;
};

/* A row: its batch, its lane (0: S1, 1: S2), and its number in that. */
struct place {
    uint64_t number;
    int lane, row;
};

int order_is_paired(const struct loader_options *, uint64_t number);
/* The first number from `number` on that is paired. */
uint64_t order_next_paired(const struct loader_options *, uint64_t number);

/* The sample of a part of a row (0: its own; 1..MIXED-1: what is mixed into it); in training, after so many
 * unreadable ones, what replaces them. -1: none left. */
int order_sample(const struct loader_options *, const struct dataset *, struct place, int part, int attempt);
/* What decides how that part is augmented, and how the parts are mixed. */
uint64_t order_augment_key(const struct loader_options *, struct place, int part);
uint64_t order_mix_key(const struct loader_options *, struct place);

#endif
