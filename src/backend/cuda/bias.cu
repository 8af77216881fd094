/* What a linear map needs beside the product: its bias and activation, and the gradient of the bias. */
#include "kernel.h"

/* In place, y = act(y + bias of the channel); bias may be NULL. */
DEVICE void finish(int bf16, unsigned V, int a, const float *bias, void *y, size_t n, size_t c)
{
    PHASE GRID_LOOP(i, n / V)
    {
        float f[8];
        load(bf16, V, y, i * V, f);
        for (unsigned k = 0; k < V; k++)
            f[k] = act_apply((enum act)a, bias ? f[k] + bias[i * V % c + k] : f[k]);
        store(bf16, V, y, i * V, f);
    }
}
FOUR_KERNELS(finish, LIST(int a, const float *bias, void *y, size_t n, size_t c), LIST(a, bias, y, n, c))

/* Sums over rows of a rows x c matrix. Block x sums every gridDim.x-th set of rows, for the columns of block
 * y, into row x of `to`; `across` threads side by side, the rest of the block below one another. */
DEVICE void sum(int bf16, unsigned V, const void *x, size_t rows, size_t c, unsigned across, float *to,
                int add)
{
    SHARED(float, s, THREADS * 8);
    const unsigned deep = blockDim.x / across, wide = across * V;
    const size_t left = (size_t)blockIdx.y * wide;
    PHASE
    {
        const unsigned row = threadIdx.x / across, column = threadIdx.x % across * V;
        float f[8], all[8] = { 0 };
        if (row >= deep) continue;
        for (size_t r = (size_t)blockIdx.x * deep + row; r < rows && left + column < c;
             r += (size_t)gridDim.x * deep) {
            load(bf16, V, x, r * c + left + column, f);
            for (unsigned k = 0; k < V; k++) all[k] += f[k];
        }
        for (unsigned k = 0; k < V; k++) s[row * wide + column + k] = all[k];
    }
    BLOCK_SUM(s, (int)deep, (int)wide);
    PHASE for (unsigned i = threadIdx.x; i < wide && left + i < c; i += blockDim.x)
    {
        float *at = &to[blockIdx.x * c + left + i];
        *at = add ? *at + s[i] : s[i];
    }
}
FOUR_KERNELS(sum, LIST(const void *x, size_t rows, size_t c, unsigned across, float *to, int add),
             LIST(x, rows, c, across, to, add))

/* How a matrix is cut into blocks. */
struct cut {
    int wide;
    unsigned across, columns, slices; /* threads side by side; blocks along the columns, along the rows */
};

static struct cut cut_of(const struct cuda *cu, int bf16, size_t rows, size_t c)
{
    struct cut t;
    t.wide = cuda_is_wide(bf16, c);
    size_t threads = t.wide ? c / (bf16 ? 8 : 4) : c; /* for a row */
    t.across = (unsigned)(threads < 32 ? threads : 32);
    t.columns = (unsigned)((threads + t.across - 1) / t.across);
    /* Slices that a block reads in four goes, until the device is full twice. */
    size_t goes = (size_t)(THREADS / t.across) * 4, slices = (rows + goes - 1) / goes,
           most = (size_t)cu->info.processors * 2 / t.columns;
    if (most < 1) most = 1;
    t.slices = (unsigned)(slices < most ? slices : most);
    return t;
}

static int sums(const struct cuda *cu, struct cut t, int bf16, const void *x, size_t rows, size_t c,
                float *to, int add)
{
    LAUNCH_FOUR(cu, sum, bf16, t.wide, t.slices, t.columns, THREADS, x, rows, c, t.across, to, add);
    return OK;
}

LAUNCHERS
int kernel_bias(const struct cuda *cu, enum act a, int bf16, const float *bias, void *y, size_t n, size_t c)
{
    int wide = cuda_is_wide(bf16, c);
    size_t items = wide ? n / (bf16 ? 8 : 4) : n;
    if (bias || a != ACT_LINEAR)
        LAUNCH_FOUR(cu, finish, bf16, wide, blocks_for(cu, items), 1, THREADS, (int)a, bias, y, n, c);
    return OK;
}

size_t kernel_sums_bytes(const struct cuda *cu, int bf16, size_t rows, size_t c)
{
    struct cut t = cut_of(cu, bf16, rows, c);
    return t.slices > 1 ? t.slices * c * sizeof(float) : 0;
}

/* In two stages where there are several slices: their sums into scratch, then the sum of those. */
int kernel_sums(const struct cuda *cu, int bf16, const void *x, size_t rows, size_t c, float *to, int add,
                void *scratch)
{
    struct cut first = cut_of(cu, bf16, rows, c), second = cut_of(cu, 0, 1, c);
    if (first.slices == 1) return sums(cu, first, bf16, x, rows, c, to, add);
    TRY(sums(cu, first, bf16, x, rows, c, (float *)scratch, 0));
    return sums(cu, second, 0, scratch, first.slices, c, to, add);
}
LAUNCHERS_END
