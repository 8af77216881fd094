/* What conv_winograd.c, winograd_products.c and winograd_transforms.c share. */
#ifndef BACKEND_CPU_WINOGRAD_H
#define BACKEND_CPU_WINOGRAD_H
#include "backend/activation.h"
#include "share.h"

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("fp-contract=fast") /* clang's default */
#endif
#define INLINE static inline __attribute__((always_inline)) /* into code for one instruction set */

/* Of tensors, BLOCK channels lie next to one another; of packed weights a block of BLOCK outputs and BLOCK
 * channels has MATRIX numbers for each tap. */
enum {
    BLOCK = 16,
    MATRIX = BLOCK * BLOCK,
    WINDOW = 6,
    POSITIONS = WINDOW * WINDOW,
    MOST_TAPS = 5 * 5,
    WIDTH = 2 /* blocks of outputs that are multiplied together */
};

typedef float lanes __attribute__((vector_size(4 * BLOCK), aligned(4), may_alias));

/* A tensor in nChw16c. */
struct map {
    size_t channels, blocks, h, w;
};
/* Channels of a block that are not padding. */
static inline size_t block_channels(const struct map *m, size_t block)
{
    return min_size(BLOCK, m->channels - block * BLOCK);
}

/* `count` tiles of size x size pixels from `first` on, numbered by image, row and column; down x across are
 * an image. */
struct tiles {
    size_t size, down, across, first, count;
    size_t capacity; /* tiles that transformed numbers have room for */
};

/* Where transformed numbers begin: they lie as [block][position][tile][channel]. */
static inline size_t transformed(const struct tiles *t, size_t block, size_t position)
{
    return (block * POSITIONS + position) * t->capacity * BLOCK;
}

/* The windows of 6x6 pixels that the tiles of the result see. */
void read_windows(const struct map *, const float *x, const struct tiles *, size_t pad, float *to);
/* Gradients of tiles. */
void read_gradients(const struct map *, const float *gy, const struct tiles *, float *to);

struct finish {
    const float *bias; /* or NULL */
    enum act act;
};
/* Back to tiles of the result: `count` blocks from `first` on, of which alone `from` has numbers. */
void write_tiles(const struct map *, size_t first, size_t count, const float *from, const struct tiles *,
                 const struct finish *, float *y);

/* Adds what is for the pixels of 6x6 windows to them: the adjoint of read_windows. */
void add_windows(const struct map *, size_t first, size_t count, const float *from, const struct tiles *,
                 size_t pad, float *x);

/* A block of size x size weights; exchanged: outputs and channels are. From
 * channel to channel u has `step` vectors, from position to position `apart`. */
void transform_weights(const float *w, size_t size, int exchanged, float *u, size_t step, size_t apart);
/* Their gradient, zero behind so many channels, from sums that lie so in several parts, `far` numbers from
 * one another. */
void gather_weights(const float *sums, size_t size, size_t channels, size_t step, size_t apart, size_t parts,
                    size_t far, int add, float *gw);

/* For `width` blocks of outputs, all tiles and one position. u: [channel][output]. */
void multiply_tiles(const struct tiles *, size_t width, size_t channels, const float *v, const float *u,
                    float *m);
/* For `width` blocks of outputs, so many channels and one position. to: [channel][output]; what pads the last
 * block of channels is not written. */
void sum_tiles(const struct tiles *, size_t width, size_t channels, const float *v, const float *g, int add,
               float *to);

#endif
