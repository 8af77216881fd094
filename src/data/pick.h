/* Which samples: their order in training, random subsets, and the part of a data set that is held out. */
#ifndef DATA_PICK_H
#define DATA_PICK_H
#include <stdint.h>
#include "core/err.h"

/* Number `i` (0, 1, ...) of lane `lane` among n samples: a permutation per epoch (keyed, so that no table is
 * stored: a format-preserving Feistel network with cycle walking), or independent draws with replacement. */
int sampler_at(uint64_t seed, int lane, uint64_t i, int n, int replacement);

/* The partner of `sample` for number `i` of lane 1 under PAIR_CLASS: uniform over the other members of its
 * class, of which there are n. */
int sampler_mate(uint64_t seed, uint64_t i, const int *member, int n, int sample);

/* A random subset in the order of the samples: is candidate i, with `left` from it on, one of the `open` that
 * are still wanted? */
int pick_takes(uint64_t key, int i, int left, int open);

/* A part of all samples, taken in their order: either the `holdout` that are held out, a random choice that
 * depends on `seed` and the number of all samples alone, or the rest; of these the first `limit`. */
struct pick {
    int holdout, held; /* held: those held out are meant, not the rest */
    uint64_t seed;
    int limit; /* 0: none */
    /* by pick_open: */
    int total, n;          /* all samples; those of this part */
    int asked, out, taken; /* so far: samples; those held out; those of this part */
};

/* An error that names `path` unless something is left to train on. */
int pick_open(struct pick *, int total, const char *path, struct err *);
int pick_next(struct pick *); /* whether the next sample belongs to this part */

#endif
