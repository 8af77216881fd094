/* The products of matrices of conv_winograd.c. */
#include "winograd.h"

/* Tiles and blocks of outputs that are in registers together; channels, and tiles, that are added up in one
 * go: sums of sums round less, and without them the gradients of ResNet-18 have twice the error. */
enum { MOST_TILES = 14, DEPTH = 32, SUM_DEPTH = 64 };

#define UNROLLED(i, n) _Pragma("GCC unroll 16") for (size_t i = 0; i < (n); i++)

/* m[width blocks][tiles] = or += the sum over channels of v[tiles] * u. apart: from block to block of v, m.
 */
INLINE void multiply(const size_t tiles, const size_t width, size_t channels, size_t apart, const float *v,
                     const float *u, int add, float *m)
{
    lanes sum[MOST_TILES][WIDTH], w[WIDTH];
    UNROLLED(t, tiles) { UNROLLED(k, width) sum[t][k] = (lanes){ 0 }; }
    for (size_t b = 0; b < channels; b += BLOCK, v += apart)
        for (size_t c = 0; c < min_size(BLOCK, channels - b); c++, u += width * BLOCK) {
            UNROLLED(k, width) w[k] = ((const lanes *)u)[k];
            UNROLLED(t, tiles) { UNROLLED(k, width) sum[t][k] += v[t * BLOCK + c] * w[k]; }
        }
    UNROLLED(t, tiles)
    {
        UNROLLED(k, width)
        {
            lanes *to = (lanes *)(m + k * apart) + t;
            if (add) sum[t][k] += *to;
            *to = sum[t][k];
        }
    }
}

#define CASE(tiles, width)                                                                                   \
    case tiles:                                                                                              \
        multiply(tiles, width, channels, apart, v, u, add, m);                                               \
        break;
#define CASES(width)                                                                                         \
    CASE(1, width)                                                                                           \
    CASE(2, width)                                                                                           \
    CASE(3, width)                                                                                           \
    CASE(4, width)                                                                                           \
    CASE(5, width)                                                                                           \
    CASE(6, width) CASE(7, width) CASE(8, width) CASE(9, width) CASE(10, width) CASE(11, width)              \
        CASE(12, width) CASE(13, width) CASE(14, width)

CPU_CLONES static void multiply_1(size_t tiles, size_t channels, size_t apart, const float *v, const float *u,
                                  int add, float *m)
{
    switch (tiles) {
        CASES(1)
    }
}

CPU_CLONES static void multiply_2(size_t tiles, size_t channels, size_t apart, const float *v, const float *u,
                                  int add, float *m)
{
    switch (tiles) {
        CASES(2)
    }
}

void multiply_tiles(const struct tiles *t, size_t width, size_t channels, const float *v, const float *u,
                    float *m)
{
    size_t pieces = (t->count + MOST_TILES - 1) / MOST_TILES, apart = transformed(t, 1, 0);
    for (size_t c = 0; c < channels; c += DEPTH)
        for (size_t i = 0; i < pieces; i++) {
            size_t from = t->count * i / pieces, to = t->count * (i + 1) / pieces;
            (width > 1 ? multiply_2 : multiply_1)(to - from, min_size(DEPTH, channels - c), apart,
                                                  v + c / BLOCK * apart + from * BLOCK, u + c * width * BLOCK,
                                                  c > 0, m + from * BLOCK);
        }
}

/* sum[channels][width] = or += the sum over tiles of v[channel] * g. */
INLINE void sum(const size_t channels, const size_t width, size_t tiles, const float *v, const float *g,
                size_t apart, int add, float *to)
{
    lanes total[8][WIDTH], w[WIDTH];
    UNROLLED(c, channels) { UNROLLED(k, width) total[c][k] = (lanes){ 0 }; }
    for (size_t t = 0; t < tiles; t++) {
        UNROLLED(k, width) w[k] = ((const lanes *)(g + k * apart))[t];
        UNROLLED(c, channels) { UNROLLED(k, width) total[c][k] += v[t * BLOCK + c] * w[k]; }
    }
    UNROLLED(c, channels)
    {
        UNROLLED(k, width)
        {
            lanes *at = (lanes *)to + c * width + k;
            if (add) total[c][k] += *at;
            *at = total[c][k];
        }
    }
}

CPU_CLONES static void sum_1(size_t channels, size_t tiles, const float *v, const float *g, size_t apart,
                             int add, float *to)
{
    for (size_t c = 0; c < channels; c += 4) sum(4, 1, tiles, v + c, g, apart, add, to + c * BLOCK);
}

CPU_CLONES static void sum_2(size_t channels, size_t tiles, const float *v, const float *g, size_t apart,
                             int add, float *to)
{
    for (size_t c = 0; c < channels; c += 8) sum(8, 2, tiles, v + c, g, apart, add, to + 2 * c * BLOCK);
}

void sum_tiles(const struct tiles *t, size_t width, size_t channels, const float *v, const float *g, int add,
               float *to)
{
    size_t apart = transformed(t, 1, 0);
    for (size_t i = 0; i < t->count; i += SUM_DEPTH)
        for (size_t c = 0; c < channels; c += BLOCK)
            (width > 1 ? sum_2 : sum_1)(min_size(BLOCK, channels - c), min_size(SUM_DEPTH, t->count - i),
                                        v + c / BLOCK * apart + i * BLOCK, g + i * BLOCK, apart, add || i,
                                        to + c * width * BLOCK);
}
