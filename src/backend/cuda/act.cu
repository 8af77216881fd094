/* Activations, element by element. The maths is in scalar.h. */
#include "kernel.h"

DEVICE void act(int bf16, unsigned V, int a, const void *x, void *y, size_t n)
{
    PHASE GRID_LOOP(i, n / V)
    {
        float f[8];
        load(bf16, V, x, i * V, f);
        for (unsigned k = 0; k < V; k++) f[k] = act_apply((enum act)a, f[k]);
        store(bf16, V, y, i * V, f);
    }
}
FOUR_KERNELS(act, LIST(int a, const void *x, void *y, size_t n), LIST(a, x, y, n))

/* z: the input or the output of the activation, whichever its slope is computed from. */
DEVICE void act_back(int bf16, unsigned V, int a, int from_output, const void *z, const void *gy, void *gx,
                     size_t n, int add)
{
    PHASE GRID_LOOP(i, n / V)
    {
        float f[8], g[8];
        load(bf16, V, z, i * V, f);
        load(bf16, V, gy, i * V, g);
        for (unsigned k = 0; k < V; k++)
            g[k] *= from_output ? act_slope_y((enum act)a, f[k]) : act_slope_x((enum act)a, f[k]);
        put(bf16, V, gx, i * V, g, add);
    }
}
FOUR_KERNELS(act_back,
             LIST(int a, int from_output, const void *z, const void *gy, void *gx, size_t n, int add),
             LIST(a, from_output, z, gy, gx, n, add))

LAUNCHERS
int kernel_act(const struct cuda *cu, enum act a, int bf16, const void *x, void *y, size_t n)
{
    int wide = cuda_is_wide(bf16, n);
    size_t items = wide ? n / (bf16 ? 8 : 4) : n;
    if (n) LAUNCH_FOUR(cu, act, bf16, wide, blocks_for(cu, items), 1, THREADS, (int)a, x, y, n);
    return OK;
}

int kernel_act_back(const struct cuda *cu, enum act a, int bf16, const void *x, const void *y, const void *gy,
                    void *gx, size_t n, int add)
{
    int wide = cuda_is_wide(bf16, n), from_output = act_from_output(a);
    size_t items = wide ? n / (bf16 ? 8 : 4) : n;
    const void *z = from_output ? y : x;
    if (a == ACT_LINEAR) z = gy; /* its slope is 1 whatever stands there */
    if (n)
        LAUNCH_FOUR(cu, act_back, bf16, wide, blocks_for(cu, items), 1, THREADS, (int)a, from_output, z, gy,
                    gx, n, add);
    return OK;
}
LAUNCHERS_END
