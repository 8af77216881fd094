"""The numbers that both sides start from: core/rng.h and the first lines of replay.c, in NumPy."""
import numpy

SEED = 1311
PARAMETER, INPUT, LABEL, SIGN = 200, 201, 202, 203
PROJECTIONS = 8


def mix(x):
    with numpy.errstate(over="ignore"):
        x = x + numpy.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
        return x ^ (x >> numpy.uint64(31))


def bits(stream, sub, n):
    """n words of 64 random bits: rng_bits(rng_key(SEED, stream, sub), 0..n-1)."""
    with numpy.errstate(over="ignore"):
        one = numpy.uint64(1)
        key = mix(mix(numpy.uint64(SEED) ^ numpy.uint64(0x6A09E667F3BCC909))
                  + mix(numpy.uint64(stream) * numpy.uint64(0x100000001B3) + one) + mix(~numpy.uint64(sub)))
        return mix(key + mix(numpy.arange(n, dtype=numpy.uint64)))


def uniform(stream, sub, n, low, high):
    """n numbers in [low, high), rounded to float so that float and double start from the same."""
    unit = (bits(stream, sub, n) >> numpy.uint64(11)).astype(numpy.float64) * 2.0 ** -53
    return (low + (high - low) * unit).astype(numpy.float32).astype(numpy.float64)


def project(x, sub):
    """PROJECTIONS sums of all numbers of x with random signs."""
    words = bits(SIGN, sub, x.size)
    signs = [words >> numpy.uint64(k) & numpy.uint64(1) for k in range(PROJECTIONS)]
    return numpy.array([numpy.where(sign, x, -x).sum() for sign in signs])
