/* What conv_winograd.c and winograd_transforms.c share. */
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
    SIZE = 3,
    TAPS = SIZE * SIZE,
    TILE = 4,
    WINDOW = 6,
    POSITIONS = WINDOW * WINDOW
};

typedef float lanes __attribute__((vector_size(4 * BLOCK), aligned(4), may_alias));

/* A tensor in nChw16c. */
struct map {
    size_t blocks, h, w;
};

/* `count` tiles from `first` on, numbered by image, row and column; down x across are an image. */
struct tiles {
    size_t down, across, first, count;
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
    int add; /* to what is there */
};
/* Back to tiles of the result: `count` blocks from `first` on, of which alone `from` has numbers. */
void write_tiles(const struct map *, size_t first, size_t count, const float *from, const struct tiles *,
                 const struct finish *, float *y);

/* A block of weights, or (turned) of the same with outputs and channels exchanged and taps turned round. From
 * channel to channel u has `step` vectors, from position to position `apart`. */
void transform_weights(const float *w, int turned, float *u, size_t step, size_t apart);
/* Their gradient from sums that lie so in several parts, `far` numbers from one another. */
void gather_weights(const float *sums, size_t step, size_t apart, size_t parts, size_t far, int add,
                    float *gw);

#endif
