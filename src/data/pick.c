#include "pick.h"
#include "core/rng.h"

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

int sampler_mate(uint64_t seed, uint64_t i, const int *member, int n, int sample)
{
    if (n == 1) return sample;
    /* One of the first n - 1 members; whoever draws the sample itself takes the last instead: uniform over
     * the rest. */
    int mate = member[rng_below(rng_key(seed, RNG_ORDER, 1), i, (uint64_t)n - 1)];
    return mate == sample ? member[n - 1] : mate;
}

/* ---- parts ---- */

/* Selection sampling (Knuth, TAOCP 2, 3.4.2, algorithm S): every subset of that size is equally likely. */
int pick_takes(uint64_t key, int i, int left, int open)
{
    return rng_uniform(key, (uint64_t)i) * left < open;
}

int pick_open(struct pick *p, int total, const char *path, struct err *e)
{
    if (p->holdout && p->holdout >= total)
        return fail_at(e, E_FORMAT, path, 0, "has %d images: holdout=%d leaves none of them to train on",
                       total, p->holdout);
    p->total = total;
    p->asked = p->out = p->taken = 0;
    p->n = p->held ? p->holdout : total - p->holdout;
    if (p->limit && p->limit < p->n) p->n = p->limit;
    return OK;
}

int pick_next(struct pick *p)
{
    int left = p->total - p->asked, open = p->holdout - p->out;
    int held = p->holdout && pick_takes(rng_key(p->seed, RNG_HOLDOUT, 0), p->asked, left, open);
    p->asked++;
    p->out += held;
    if (held != p->held || p->taken == p->n) return 0;
    p->taken++;
    return 1;
}
