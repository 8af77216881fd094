#include "sampler.h"
#include "core/rng.h"
#include "data/dataset.h"

enum { ROUNDS = 8 };

/* Where `x` goes in a keyed permutation of 0..n-1: a balanced Feistel network on the least even number of
 * bits that holds n (at least 6: with fewer the permutations repeat too soon), walked until it lands below n:
 * at most 4 steps on average for n > 16. */
static uint64_t permute(uint64_t key, uint64_t x, uint64_t n)
{
    unsigned half = 3;
    while ((n - 1) >> (2 * half)) half++;
    uint64_t mask = ((uint64_t)1 << half) - 1;
    do {
        uint64_t l = x >> half, r = x & mask;
        for (unsigned i = 0; i < ROUNDS; i++) {
            uint64_t t = l ^ (rng_bits(key + i, r) & mask);
            l = r;
            r = t;
        }
        x = l << half | r;
    } while (x >= n);
    return x;
}

int sampler_at(uint64_t seed, int lane, uint64_t i, int n, int replacement)
{
    uint64_t key = rng_key(seed, RNG_ORDER, (uint64_t)lane), size = (uint64_t)n;
    if (replacement) return (int)rng_below(key, i, size);
    return (int)permute(rng_key(key, 0, i / size), i % size, size);
}

int sampler_mate(uint64_t seed, uint64_t i, const struct dataset *d, int sample)
{
    int k = d->label[sample], n = d->count[k];
    const int *member = d->of_class + d->start[k];
    if (n == 1) return sample;
    /* One of the first n - 1 members; whoever draws the sample itself takes the last instead: uniform over
     * the rest. */
    int mate = member[rng_below(rng_key(seed, RNG_ORDER, 1), i, (uint64_t)n - 1)];
    return mate == sample ? member[n - 1] : mate;
}
