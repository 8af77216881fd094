/* Dropout, element by element. What is kept is decided by scalar.h. */
#include "kernel.h"

/* Element i lies at pixel p of channel c; the draw goes by its place in N,C,H,W order. */
KERNEL(dropout, int bf16, uint64_t key, const struct step_state *state, double probability, const void *x,
       void *y, size_t n, size_t c, size_t hw, int add)
{
    PHASE
    {
        const uint64_t step_key = rng_key(key, RNG_DROPOUT, state->step);
        const float scale = (float)(1 / (1 - probability));
        GRID_LOOP(i, n)
        {
            size_t at = (i / (c * hw) * c + i % c) * hw + i / c % hw;
            float f;
            load(bf16, 1, x, i, &f);
            f = dropout_keep(step_key, at, probability) ? f * scale : 0;
            put(bf16, 1, y, i, &f, add);
        }
    }
}

LAUNCHERS
int kernel_dropout(const struct cuda *cu, int bf16, uint64_t key, const struct step_state *state,
                   double probability, const void *x, void *y, size_t n, size_t c, size_t hw, int add)
{
    if (n)
        LAUNCH(cu, dropout, blocks_for(cu, n), 1, THREADS, bf16, key, state, probability, x, y, n, c, hw,
               add);
    return OK;
}
LAUNCHERS_END
