/* Where an element of a tensor lies in memory, and copies from one memory format to another. */
#ifndef BACKEND_CPU_MEMORY_FORMAT_H
#define BACKEND_CPU_MEMORY_FORMAT_H
#include "onednn.h"
#include "share.h"

/* Tensors: channels are stored in groups of `block` next to one another, as in oneDNN's nChw16c, and the last
 * group is padded with zeros; ALL_CHANNELS is NHWC. */
enum { ALL_CHANNELS = -1 };
struct layout {
    int block;
    const_memory_desc_t weights; /* of packed weights, instead of block */
};

/* Element (n, c, pixel p) lies at n*row + (c/block)*hw*block + p*block + c%block. Dense has block 1. */
struct memory_format {
    size_t c, hw, block, blocks, row;
};
struct memory_format format_of(struct shape, const struct layout *);
static inline size_t format_at(const struct memory_format *f, size_t n, size_t c, size_t p)
{
    return n * f->row + (c / f->block * f->hw + p) * f->block + c % f->block;
}

/* The layout of a tensor of this shape with blocks of 1, 8, 16 or ALL_CHANNELS; NULL where that is the same
 * as dense. */
const struct layout *format_layout(struct shape, int block);
/* Sets layout and bytes of a tensor whose shape is set. */
int format_tensor(struct tensor *, const struct layout *, struct err *);
/* Nonzero if tensors of this shape have the same bytes in both layouts. */
int format_same(struct shape, const struct layout *, const struct layout *);

/* The channels of a tensor from channel `at` on. */
struct view {
    struct memory_format format;
    size_t at;
    float *data;
};
/* to = from, or to += from, for so many rows and channels; padding is not written. */
void format_copy(const struct cpu *, const struct view *to, const struct view *from, size_t rows,
                 size_t channels, int add);
/* y = x, or y += x, for whole rows of the same number of channels. */
void format_reorder(const struct cpu *, size_t rows, const struct memory_format *from, const float *x,
                    const struct memory_format *to, float *y, int add);
/* Zeroes what pads the last block of channels. */
void format_pad(const struct cpu *, const struct memory_format *, size_t rows, float *data);

/* out[c] = the sum of x over rows and pixels, or += (the gradient of a bias). */
void format_channel_sums(const struct cpu *, size_t rows, const struct memory_format *, const float *x,
                         float *out, int add);

#endif
