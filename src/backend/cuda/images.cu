/* Images of bytes, moved, mirrored and normalised: the arithmetic is data/augment.c's, so that the numbers
 * are. */
#include "kernel.h"

/* Number `i` of a row: pixel i / c, channel i % c. */
DEVICE float seen(const struct images_table *t, const struct crop *v, size_t i)
{
    const int k = (int)(i % (size_t)t->c), at = (int)(i / (size_t)t->c), x = at % t->w;
    const int col = (v->mirror ? t->w - 1 - x : x) + v->left, row = at / t->w + v->top;
    float f = 0;
    if (row >= 0 && row < t->h && col >= 0 && col < t->w)
        f = (float)t->pixels[(((size_t)v->image * (size_t)t->c + (size_t)k) * (size_t)t->h + (size_t)row) *
                                 (size_t)t->w +
                             (size_t)col] /
            255.f;
    return (f - t->mean[k]) * t->scale[k];
}

KERNEL(show, struct images_table t, const struct crop *move, int bf16, void *x, size_t count)
{
    PHASE
    {
        const size_t row = (size_t)t.c * (size_t)t.h * (size_t)t.w;
        GRID_LOOP(i, count)
        {
            float f = seen(&t, &move[i / row], i % row);
            store(bf16, 1, x, i, &f);
        }
    }
}

LAUNCHERS
int kernel_show(const struct cuda *cu, const struct images_table *t, const struct crop *move, int rows,
                int bf16, void *x)
{
    size_t count = (size_t)rows * (size_t)t->c * (size_t)t->h * (size_t)t->w;
    if (count) LAUNCH(cu, show, blocks_for(cu, count), 1, THREADS, *t, move, bf16, x, count);
    return OK;
}
LAUNCHERS_END
