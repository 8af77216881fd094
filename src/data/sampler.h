/* The order of training: which sample comes at which place. */
#ifndef DATA_SAMPLER_H
#define DATA_SAMPLER_H
#include <stdint.h>

struct dataset;

/* Number `i` (0, 1, ...) of lane `lane` among n samples: a permutation per epoch (keyed, so that no table is
 * stored: a format-preserving Feistel network with cycle walking), or independent draws with replacement. */
int sampler_at(uint64_t seed, int lane, uint64_t i, int n, int replacement);

/* The partner of `sample` for number `i` of lane 1 under PAIR_CLASS: uniform over the others of its class. */
int sampler_mate(uint64_t seed, uint64_t i, const struct dataset *, int sample);

#endif
