/* Where an element of a tensor lies in memory and what it is made of, and copies from one memory format to
 * another. */
#ifndef BACKEND_CPU_MEMORY_FORMAT_H
#define BACKEND_CPU_MEMORY_FORMAT_H
#include "bf16.h"
#include "onednn.h"
#include "share.h"

/* Tensors: channels are stored in groups of `block` next to one another, as in oneDNN's nChw16c, and the last
 * group is padded with zeros; ALL_CHANNELS is NHWC. */
enum { ALL_CHANNELS = -1 };
struct layout {
    int block;
    int bf16;                    /* numbers are bfloat16 */
    const_memory_desc_t weights; /* of packed weights, instead of the others */
};

/* Element (n, c, pixel p) lies at n*row + (c/block)*hw*block + p*block + c%block. Dense has block 1. */
struct memory_format {
    size_t c, hw, block, blocks, row;
    int bf16;
};
struct memory_format format_of(struct shape, const struct layout *);
static inline size_t format_at(const struct memory_format *f, size_t n, size_t c, size_t p)
{
    return n * f->row + (c / f->block * f->hw + p) * f->block + c % f->block;
}

static inline size_t format_bytes(const struct memory_format *f, size_t numbers)
{
    return numbers * (f->bf16 ? sizeof(bfloat16) : sizeof(float));
}
static inline void *format_data(const struct memory_format *f, const void *data, size_t at)
{
    return (char *)data + format_bytes(f, at);
}

/* The layout of a tensor of this shape with blocks of 1, 8, 16 or ALL_CHANNELS; NULL where that is the same
 * as dense float. */
const struct layout *format_layout(struct shape, int block, int bf16);
int format_block(const struct layout *); /* 1: dense */
int format_bf16(const struct layout *);
/* Sets layout and bytes of a tensor whose shape is set. */
int format_tensor(struct tensor *, const struct layout *, struct err *);
/* Nonzero if tensors of this shape have the same bytes in both layouts. */
int format_same(struct shape, const struct layout *, const struct layout *);

/* The channels of a tensor from channel `at` on. */
struct view {
    struct memory_format format;
    size_t at;
    void *data;
};
/* to = from, or to += from, for so many rows and channels; padding is not written. */
void format_copy(const struct cpu *, const struct view *to, const struct view *from, size_t rows,
                 size_t channels, int add);
/* y = x, or y += x, for whole rows of the same number of channels. */
void format_reorder(const struct cpu *, size_t rows, const struct memory_format *from, const void *x,
                    const struct memory_format *to, void *y, int add);
/* Zeroes what pads the last block of channels. */
void format_pad(const struct cpu *, const struct memory_format *, size_t rows, void *data);

/* A tensor for code that wants it in another format: through a copy in scratch. */
struct operand {
    struct memory_format have, want; /* as it lies in memory, and as the code wants it */
    size_t rows;
    int reorder; /* they differ, or the code cannot add to what is there */
    size_t at;   /* in scratch */
};
/* So many rows of the tensor. */
struct operand operand_of(const struct tensor *, int rows, const struct layout *want);
void operand_reserve(struct operand *, size_t *scratch);
/* For code that works in float: in the tensor's own order; reserves the copy. */
struct operand operand_float(const struct tensor *, int rows, size_t *scratch);
/* As the code wants it: to read (NULL stays NULL); and where to write, until operand_put moves it to `data`.
 */
const void *operand_get(const struct cpu *, const struct operand *, const void *data, void *scratch);
void *operand_place(const struct operand *, void *data, void *scratch);
void operand_put(const struct cpu *, const struct operand *, void *data, void *scratch, int add);
/* Does the code itself add, or operand_put? */
static inline int operand_adds(const struct operand *o, int add) { return add && !o->reorder; }

/* n numbers from number `at` on, as float: where they are bfloat16, in `piece`, from where piece_put moves
 * them back. */
const float *piece_get(const void *data, size_t at, size_t n, int bf16, float *piece);
static inline float *piece_place(void *data, size_t at, int bf16, float *piece)
{
    return bf16 ? piece : (float *)data + at;
}
void piece_put(void *data, size_t at, size_t n, int bf16, const float *piece);

/* out[c] = the sum of x over rows and pixels, or += (the gradient of a bias). */
void format_channel_sums(const struct cpu *, size_t rows, const struct memory_format *, const void *x,
                         float *out, int add);

#endif
