/* Counter-based random numbers: a value is a function of (seed, stream, index), so nothing has to be stored,
 * threads cannot disturb one another, and a run resumes in the middle of an epoch from one integer.
 * The mixing is SplitMix64's finaliser (Steele, Lea, Flood 2014). Also compiled for devices. */
#ifndef CORE_RNG_H
#define CORE_RNG_H
#include <math.h>
#include <stdint.h>
#include "core/real.h"

/* What draws: one number per use, so that two uses never share a sequence. */
enum rng_stream {
    RNG_INIT = 1,      /* + ordinal of the layer among those that draw initial values */
    RNG_DROPOUT = 2,   /* + ordinal of the layer among the dropout layers */
    RNG_ORDER = 3,     /* + lane: the order of samples */
    RNG_AUGMENT = 4,   /* + lane: crop, flip, colours of a sample */
    RNG_RATE = 5,      /* policy=random */
    RNG_CROP = 6,      /* the [crop] layer */
    RNG_SAMPLE = 7,    /* fixed subsets, as for compactness */
    RNG_HOLDOUT = 8,   /* training samples that become the validation set */
    RNG_MIX = 10,      /* + lane: which images are mixed, and how */
    RNG_MISLABEL = 11, /* labels that label_noise= makes wrong */
    RNG_SPLIT = 9      /* which images of the user's folders validate */
};

SCALAR uint64_t rng_mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* A key for one sequence; `sub` tells apart layers, lanes, steps. Keys can be chained: rng_key(key, a, b). */
SCALAR uint64_t rng_key(uint64_t seed, uint64_t stream, uint64_t sub)
{
    return rng_mix(rng_mix(seed ^ 0x6a09e667f3bcc909u) + rng_mix(stream * 0x100000001b3u + 1) +
                   rng_mix(~sub));
}

/* 64 random bits: number `index` of the sequence `key`. */
SCALAR uint64_t rng_bits(uint64_t key, uint64_t index) { return rng_mix(key + rng_mix(index)); }

/* Uniform in [0, 1), 53 bits. */
SCALAR double rng_uniform(uint64_t key, uint64_t index)
{
    return (double)(rng_bits(key, index) >> 11) * 0x1p-53;
}

/* Uniform integer in [0, n), n > 0; the bias is below n / 2^64. */
SCALAR uint64_t rng_below(uint64_t key, uint64_t index, uint64_t n)
{
    /* (r * n) >> 64 without 128 bits */
    uint64_t r = rng_bits(key, index), hi = r >> 32, lo = r & 0xffffffffu;
    return n >> 32 ? r % n : (hi * n + ((lo * n) >> 32)) >> 32;
}

/* Standard normal (Box-Muller), a function of its index like the others. */
SCALAR double rng_normal(uint64_t key, uint64_t index)
{
    double u = rng_uniform(key, 2 * index), v = rng_uniform(key, 2 * index + 1);
    return sqrt(-2 * log(1 - u)) * cos(6.283185307179586 * v);
}

#endif
