/* Batch normalisation: how rows are dealt to blocks and threads, and sums over them. */
#ifndef CUDA_NORM_ROWS_CUH
#define CUDA_NORM_ROWS_CUH
#include "backend/ops/norm.h"
#include "kernel.h"

/* What a kernel computes: the activation by calling it; one of two half-lines that meet in 0, in place; or
 * that of the sum with an addend. */
enum norm_mode { NORM_ANY, NORM_RELU_LIKE, NORM_ADDED };

/* A tensor as rows of pixels, in splits with statistics of their own. */
struct norm_job {
    int bf16;
    enum norm_mode mode;
    enum act act;
    float below; /* slope of the left half-line, unless NORM_ANY */
    unsigned V, channels, splits;
    unsigned rows_s1, rows; /* pixels of the first of two splits, and of all */
    unsigned blocks;        /* for each split */
    struct share share;     /* of the images of a split, where statistics are of those of all processes */
};

enum { ROWS = 4 }; /* loads that a thread has under way */
/* Of a block that adds up what others gave: few such blocks, so many threads, to wait for memory once. */
enum { COLUMNS = 8, LANES = 128, ADDERS = COLUMNS * LANES };

DEVICE unsigned rows_of(const struct norm_job *j, unsigned split)
{
    return split ? j->rows - j->rows_s1 : j->splits == 2 ? j->rows_s1 : j->rows;
}

/* With those of the other processes. */
DEVICE double rows_of_all(const struct norm_job *j, unsigned split)
{
    return share_total(j->share, rows_of(j, split));
}

/* Vectors of channels that a block does at a time, from vector v on. */
DEVICE unsigned tile_at(const struct norm_job *j, unsigned V, unsigned v)
{
    const unsigned left = j->channels / V - v;
    return left < blockDim.x ? left : blockDim.x;
}

/* What a thread does of a tile: rows row, row + step, ... < rows of channels channel, ..., channel + V - 1.
 * Threads side by side read side by side, whatever the number of channels. */
struct walk {
    unsigned channel, row, step, rows;
    size_t from; /* number of the element in row 0 of the split */
};

DEVICE struct walk walk_of(const struct norm_job *j, unsigned V, unsigned v)
{
    const unsigned tile = tile_at(j, V, v), lanes = blockDim.x / tile, lane = threadIdx.x / tile;
    struct walk w;
    w.channel = (v + threadIdx.x % tile) * V;
    w.rows = rows_of(j, blockIdx.y);
    w.step = lanes * gridDim.x;
    w.row = lane < lanes ? blockIdx.x * lanes + lane : w.rows; /* what is left of the block: no rows */
    w.from = (blockIdx.y ? (size_t)j->rows_s1 * j->channels : 0) + w.channel;
    return w;
}

/* ---- sums over the rows ---- */

/* Two sums for each of V channels go to shared memory, s[lane][k][thread of the tile]. */
DEVICE void to_shared(unsigned V, unsigned tile, const float *sum, float *s)
{
    const unsigned lane = threadIdx.x / tile;
    for (unsigned k = 0; k < 2 * V && lane < blockDim.x / tile; k++)
        s[(lane * 2 * V + k) * tile + threadIdx.x % tile] = sum[k];
}

/* partial[split][block][which sum][channel] */
DEVICE void give(const struct norm_job *j, unsigned V, unsigned v, const float *s, float *partial)
{
    const unsigned tile = tile_at(j, V, v);
    float *to = partial + (size_t)(blockIdx.y * gridDim.x + blockIdx.x) * 2 * j->channels;
    for (unsigned i = threadIdx.x; i < 2 * V * tile; i += blockDim.x) {
        const unsigned k = i / tile, channel = (v + i % tile) * V + k % V;
        to[k / V * j->channels + channel] = s[i];
    }
}

/* Number k of a split's block: k / 2 is the split, k % 2 which sum. n: of all, 2 or 4. */
DEVICE void gather_all(unsigned n, const struct norm_job *j, const float *partial, double *s)
{
    const unsigned column = threadIdx.x % COLUMNS, lane = threadIdx.x / COLUMNS;
    const unsigned c = blockIdx.x * COLUMNS + column, blocks = c < j->channels ? j->blocks : 0;
    double sum[4] = { 0, 0, 0, 0 };
    UNROLL for (unsigned b = lane; b < blocks; b += LANES)
    {
        UNROLL for (unsigned k = 0; k < n; k++) sum[k] +=
            (double)partial[((size_t)(k / 2 * blocks + b) * 2 + k % 2) * j->channels + c];
    }
    for (unsigned k = 0; k < n; k++) s[(lane * n + k) * COLUMNS + column] = sum[k];
}

/* s[lane][split][which sum][column]: a lane adds up every LANES-th block. */
DEVICE void gather(const struct norm_job *j, const float *partial, double *s)
{
    if (j->splits == 1)
        gather_all(2, j, partial, s);
    else
        gather_all(4, j, partial, s);
}

/* ---- moments ---- */

/* Of channel c of a split: mean and biased variance from its sums. */
struct moments {
    double mean, var;
};

DEVICE struct moments moments_of(const struct norm_job *j, const void *x, unsigned split, unsigned c,
                                 const double *sum)
{
    const double n = rows_of(j, split), d = sum[0] / n, var = sum[COLUMNS] / n - d * d;
    float first;
    struct moments m;
    load(j->bf16, 1, x, (split ? (size_t)j->rows_s1 * j->channels : 0) + c, &first);
    m.mean = (double)first + d;
    m.var = var < 0 ? 0 : var; /* by rounding; not fmax, which would hide a NaN */
    return m;
}

DEVICE struct moments moments_of_all(const struct norm_job *j, const double *all, unsigned split, unsigned c)
{
    const double *sum = all + (size_t)split * 2 * j->channels + c;
    struct moments m = { sum[0], sum[j->channels] };
    norm_from_sums(&m.mean, &m.var);
    return m;
}

/* own[split][which sum][channel]: of gradients as they are, of x in a form that adds up over processes. */
KERNEL_WIDE(own_sums, struct norm_job j, const void *x, const float *partial, double *own)
{
    SHARED(double, s, ADDERS * 4);
    PHASE gather(&j, partial, s);
    BLOCK_SUM(s, LANES, (int)(2 * j.splits * COLUMNS));
    PHASE
    {
        const unsigned c = blockIdx.x * COLUMNS + threadIdx.x;
        if (threadIdx.x >= COLUMNS || c >= j.channels) continue;
        for (unsigned i = 0; i < j.splits; i++) {
            const double *sum = s + i * 2 * COLUMNS + threadIdx.x;
            struct moments m = { sum[0], sum[COLUMNS] };
            if (x) m = moments_of(&j, x, i, c, sum), norm_to_sums(j.share, &m.mean, &m.var);
            own[(size_t)i * 2 * j.channels + c] = m.mean;
            own[((size_t)i * 2 + 1) * j.channels + c] = m.var;
        }
    }
}

#endif
