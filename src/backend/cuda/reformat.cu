/* Between memory orders and element types. */
#include "kernel.h"

/* c: channels of the shape; wide: those of a pixel in the memory of x. */
KERNEL(to_dense, int bf16, const void *x, float *dense, size_t count, size_t c, size_t wide, size_t hw)
{
    PHASE GRID_LOOP(i, count) load(bf16, 1, x, i / c * wide + i % c, &dense[dense_at(i, c, hw)]);
}

KERNEL(from_dense, int bf16, const float *dense, void *x, size_t count, size_t c, size_t wide, size_t hw,
       int add)
{
    PHASE GRID_LOOP(i, count)
    {
        const size_t k = i % wide;
        float f = k < c ? dense[dense_at(i / wide * c + k, c, hw)] : 0;
        put(bf16, 1, x, i, &f, add);
    }
}

KERNEL(convert, const void *from, int from_bf16, void *to, int to_bf16, size_t n, int add)
{
    PHASE GRID_LOOP(i, n)
    {
        float f;
        load(from_bf16, 1, from, i, &f);
        put(to_bf16, 1, to, i, &f, add);
    }
}

static void *row_at(const struct tensor *t, size_t row)
{
    return (char *)t->data + row * (t->bytes / t->shape.n);
}

int kernel_to_dense(const struct cuda *cu, const struct tensor *t, size_t row, size_t rows, float *dense)
{
    const size_t n = shape_row(t->shape), c = t->shape.c;
    LAUNCH(cu, to_dense, blocks_for(cu, rows * n), 1, THREADS, cuda_is_bf16(t), row_at(t, row), dense,
           rows * n, c, cuda_channels(t), n / c);
    return OK;
}

int kernel_from_dense(const struct cuda *cu, const float *dense, const struct tensor *t, size_t row,
                      size_t rows, int add)
{
    const size_t c = t->shape.c, wide = cuda_channels(t), hw = shape_row(t->shape) / c;
    LAUNCH(cu, from_dense, blocks_for(cu, rows * hw * wide), 1, THREADS, cuda_is_bf16(t), dense,
           row_at(t, row), rows * hw * wide, c, wide, hw, add);
    return OK;
}

int kernel_convert(const struct cuda *cu, const void *from, int from_bf16, void *to, int to_bf16, size_t n,
                   int add)
{
    LAUNCH(cu, convert, blocks_for(cu, n), 1, THREADS, from, from_bf16, to, to_bf16, n, add);
    return OK;
}
