/* Batch normalisation with its activation. A row is a pixel; a split is a run of rows with statistics of its
 * own (blockIdx.y). A thread owns V neighbouring channels of every so-many-th row.
 *
 * With e = x - mean, inv = 1 / sqrt(var + EPS), a = scale * inv and g = dLoss/dz, over the N rows of a split:
 *   z = a * e + bias,  y = act(z)
 *   gx = a * (g - sum(g) / N - e * inv * inv * sum(g * e) / N),  gscale = inv * sum(g * e),  gbias = sum(g)
 *
 * Sums are float within a block; what the blocks give is added in double, in the order of the blocks. */
#include "norm.h"
#include "kernel.h"

/* The rows are dealt to as many blocks as the device holds: one that found no place would run alone. */
#undef ONE_OF_FOUR
#define ONE_OF_FOUR KERNEL_TOGETHER

/* One kernel for each mode, from a function name(bf16, V, mode, ...). */
#define MODE_KERNELS(name, PARAMS, ARGS)                                                                     \
    FOUR_KERNELS_OF(name##_any, name, LIST(PARAMS), LIST(NORM_ANY, ARGS))                                    \
    FOUR_KERNELS_OF(name##_relu_like, name, LIST(PARAMS), LIST(NORM_RELU_LIKE, ARGS))                        \
    FOUR_KERNELS_OF(name##_added, name, LIST(PARAMS), LIST(NORM_ADDED, ARGS))
#define LAUNCH_NORM(cu, name, j, ...)                                                                        \
    LAUNCH_FOUR(cu, name, (j)->bf16, (j)->V, (j)->blocks, (j)->splits, THREADS, *(j), __VA_ARGS__)
#define LAUNCH_MODE(cu, name, j, ...)                                                                        \
    do {                                                                                                     \
        if ((j)->mode == NORM_ANY) LAUNCH_NORM(cu, name##_any, j, __VA_ARGS__);                              \
        if ((j)->mode == NORM_RELU_LIKE) LAUNCH_NORM(cu, name##_relu_like, j, __VA_ARGS__);                  \
        if ((j)->mode == NORM_ADDED) LAUNCH_NORM(cu, name##_added, j, __VA_ARGS__);                          \
    } while (0)

#define EPS 1e-5

enum { ROWS = 4 };                               /* loads that a thread has under way */
enum { COLUMNS = 8, LANES = THREADS / COLUMNS }; /* of a block that adds up what others gave */

DEVICE unsigned rows_of(const struct norm_job *j, unsigned split)
{
    return split ? j->rows - j->rows_s1 : j->splits == 2 ? j->rows_s1 : j->rows;
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
DEVICE void share(unsigned V, unsigned tile, const float *sum, float *s)
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

/* d and d * d, d about the first row of the split: a large mean costs no digits. */
DEVICE void add_x(int bf16, unsigned V, unsigned n, const void *x, size_t at, size_t step, const float *first,
                  float *sum)
{
    float f[ROWS][8];
    UNROLL for (unsigned r = 0; r < n; r++) load(bf16, V, x, at + r * step, f[r]);
    UNROLL for (unsigned r = 0; r < n; r++) UNROLL for (unsigned k = 0; k < V; k++)
    {
        const float d = f[r][k] - first[k];
        sum[k] += d;
        sum[V + k] += d * d;
    }
}

DEVICE void walk_x(int bf16, unsigned V, const struct norm_job *j, struct walk w, const void *x, float *sum)
{
    const size_t c = j->channels;
    float first[8];
    load(bf16, V, x, w.from, first);
    for (unsigned k = 0; k < 2 * V; k++) sum[k] = 0;
    for (; w.row + (ROWS - 1) * w.step < w.rows; w.row += ROWS * w.step)
        add_x(bf16, V, ROWS, x, w.from + w.row * c, w.step * c, first, sum);
    for (; w.row < w.rows; w.row += w.step) add_x(bf16, V, 1, x, w.from + w.row * c, 0, first, sum);
}

/* Was nothing of var ever updated? By the first block of a launch; another one then writes var. */
DEVICE void look(const float *var, unsigned channels, int *fresh)
{
    PHASE if (threadIdx.x == 0) *fresh = 1;
    PHASE for (unsigned c = threadIdx.x; c < channels; c += blockDim.x)
    {
        if (var[c] != 0) *fresh = 0;
    }
}

DEVICE void measure(int bf16, unsigned V, struct norm_job j, const void *x, float *partial, const float *var,
                    int *fresh)
{
    SHARED(float, s, THREADS * 16);
    if (blockIdx.x == 0 && blockIdx.y == 0) look(var, j.channels, fresh);
    for (unsigned v = 0; v < j.channels / V; v += blockDim.x) {
        const unsigned tile = tile_at(&j, V, v);
        PHASE
        {
            float sum[16];
            walk_x(bf16, V, &j, walk_of(&j, V, v), x, sum);
            share(V, tile, sum, s);
        }
        BLOCK_SUM(s, (int)(blockDim.x / tile), (int)(2 * V * tile));
        PHASE give(&j, V, v, s, partial);
    }
}
FOUR_KERNELS(measure, LIST(struct norm_job j, const void *x, float *partial, const float *var, int *fresh),
             LIST(j, x, partial, var, fresh))

/* s[lane][split][which sum][column]: a lane adds up every LANES-th block. */
DEVICE void gather(const struct norm_job *j, const float *partial, double *s)
{
    const unsigned column = threadIdx.x % COLUMNS, lane = threadIdx.x / COLUMNS;
    const unsigned c = blockIdx.x * COLUMNS + column;
    for (unsigned k = 0; k < 2 * j->splits; k++) {
        double sum = 0;
        for (unsigned b = lane; b < j->blocks && c < j->channels; b += LANES)
            sum += (double)partial[((size_t)(k / 2 * j->blocks + b) * 2 + k % 2) * j->channels + c];
        s[(lane * 2 * j->splits + k) * COLUMNS + column] = sum;
    }
}

/* ---- statistics ---- */

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

/* stats: [split][mean, inv][channel], then the bias, which backward wants too. */
KERNEL(finish, struct norm_job j, const void *x, const float *partial, const int *fresh, const float *bias,
       float *mean, float *var, double bn_momentum, float *stats)
{
    SHARED(double, s, THREADS * 4);
    PHASE gather(&j, partial, s);
    BLOCK_SUM(s, LANES, (int)(2 * j.splits * COLUMNS));
    PHASE
    {
        const unsigned c = blockIdx.x * COLUMNS + threadIdx.x;
        const double step = *fresh ? 1 : bn_momentum;
        double m = 0, v = 0;
        if (threadIdx.x >= COLUMNS || c >= j.channels) continue;
        for (unsigned i = 0; i < j.splits; i++) {
            const struct moments at = moments_of(&j, x, i, c, s + i * 2 * COLUMNS + threadIdx.x);
            const double n = rows_of(&j, i), unbias = n > 1 ? n / (n - 1) : 1;
            stats[2 * i * j.channels + c] = (float)at.mean;
            stats[(2 * i + 1) * j.channels + c] = (float)(1 / sqrt(at.var + EPS));
            m += at.mean / j.splits;
            v += at.var * unbias / j.splits;
        }
        stats[2 * j.splits * j.channels + c] = bias[c];
        if (!isfinite(m) || !isfinite(v)) continue; /* a net that blows up keeps what it had */
        mean[c] = (float)(mean[c] + step * (m - mean[c]));
        var[c] = (float)(var[c] + step * (v - var[c]));
    }
}

/* ---- normalisation ---- */

/* What a thread needs of its channels. */
struct folded {
    float mean[8], a[8], bias[8];
};

/* stats of the split; infer: they hold variances in place of inv. */
DEVICE struct folded fold(unsigned V, const struct norm_at *at, unsigned channels, unsigned c)
{
    const size_t split = (size_t)blockIdx.y * 2 * channels;
    struct folded f;
    for (unsigned k = 0; k < V; k++) {
        const float t = at->inv[split + c + k];
        f.mean[k] = at->mean[split + c + k];
        f.a[k] = at->scale[c + k] * (at->infer ? (float)(1 / sqrt((double)t + EPS)) : t);
        f.bias[k] = at->bias[c + k];
    }
    return f;
}

/* Activations of two half-lines through 0 get kernels of their own, which have several rows under way. All
 * others are long, and seldom follow a normalisation: they are called. */
DEVICE_APART float any_act(enum act act, float z) { return act_apply(act, z); }
/* From the output as it was before it was stored: near a kink a bfloat16 could be on the other side. */
DEVICE_APART float any_slope(enum act act, float z) { return act_slope_y(act, any_act(act, z)); }

DEVICE float activate(enum norm_mode mode, const struct norm_job *j, float z)
{
    return mode == NORM_ANY ? any_act(j->act, z) : z > 0 ? z : j->below * z;
}

DEVICE float slope(enum norm_mode mode, const struct norm_job *j, float z)
{
    return mode == NORM_ANY ? any_slope(j->act, z) : z > 0 ? 1 : j->below;
}

DEVICE void apply_rows(int bf16, unsigned V, enum norm_mode mode, unsigned n, const struct norm_job *j,
                       const struct folded *f, const void *x, const void *addend, void *y, size_t at,
                       size_t step)
{
    float t[ROWS][8], b[ROWS][8];
    UNROLL for (unsigned r = 0; r < n; r++)
    {
        load(bf16, V, x, at - r * step, t[r]);
        if (mode == NORM_ADDED) load(bf16, V, addend, at - r * step, b[r]);
    }
    UNROLL for (unsigned r = 0; r < n; r++)
    {
        UNROLL for (unsigned k = 0; k < V; k++)
        {
            const float z = f->a[k] * (t[r][k] - f->mean[k]) + f->bias[k];
            t[r][k] = activate(mode, j, mode == NORM_ADDED ? z + b[r][k] : z);
        }
        store(bf16, V, y, at - r * step, t[r]);
    }
}

/* From the last row to the first: what was read last is still in the cache. */
DEVICE void apply(int bf16, unsigned V, enum norm_mode mode, struct norm_job j, struct norm_at at,
                  const void *x, const void *addend, void *y)
{
    const unsigned n = mode == NORM_ANY ? 1 : mode == NORM_ADDED ? ROWS / 2 : ROWS; /* two tensors are read */
    const size_t c = j.channels;
    PHASE for (unsigned v = 0; v < j.channels / V; v += blockDim.x)
    {
        struct walk w = walk_of(&j, V, v);
        const struct folded f = fold(V, &at, j.channels, w.channel);
        const size_t last = w.from + (w.rows - 1) * c;
        for (; w.row + (n - 1) * w.step < w.rows; w.row += n * w.step)
            apply_rows(bf16, V, mode, n, &j, &f, x, addend, y, last - w.row * c, w.step * c);
        for (; w.row < w.rows; w.row += w.step)
            apply_rows(bf16, V, mode, 1, &j, &f, x, addend, y, last - w.row * c, 0);
    }
}
MODE_KERNELS(apply, LIST(struct norm_job j, struct norm_at at, const void *x, const void *addend, void *y),
             LIST(j, at, x, addend, y))

/* ---- gradients ---- */

/* In: x and gy; y behind an addend, where only it tells the slope. Out: e and g. */
DEVICE void differ(unsigned V, enum norm_mode mode, const struct norm_job *j, const struct folded *f,
                   float *x, const float *y, float *g)
{
    UNROLL for (unsigned k = 0; k < V; k++)
    {
        x[k] -= f->mean[k];
        g[k] *= slope(mode, j, mode == NORM_ADDED ? y[k] : f->a[k] * x[k] + f->bias[k]);
    }
}

/* Behind an addend g is stored: the addend's gradient, and what `back` goes by. */
DEVICE void add_g(int bf16, unsigned V, enum norm_mode mode, unsigned n, const struct norm_job *j,
                  const struct folded *f, const void *x, const void *y, const void *gy, void *to, size_t at,
                  size_t step, float *sum)
{
    float e[ROWS][8], z[ROWS][8], g[ROWS][8];
    UNROLL for (unsigned r = 0; r < n; r++)
    {
        load(bf16, V, x, at + r * step, e[r]);
        if (mode == NORM_ADDED) load(bf16, V, y, at + r * step, z[r]);
        load(bf16, V, gy, at + r * step, g[r]);
    }
    UNROLL for (unsigned r = 0; r < n; r++)
    {
        differ(V, mode, j, f, e[r], z[r], g[r]);
        if (mode == NORM_ADDED) store(bf16, V, to, at + r * step, g[r]);
        UNROLL for (unsigned k = 0; k < V; k++)
        {
            if (mode == NORM_ADDED) g[r][k] = rounded(bf16, g[r][k]); /* the numbers that `back` will read */
            sum[k] += g[r][k];
            sum[V + k] += g[r][k] * e[r][k];
        }
    }
}

DEVICE void walk_g(int bf16, unsigned V, enum norm_mode mode, const struct norm_job *j,
                   const struct norm_at *at, struct walk w, const void *x, const void *y, const void *gy,
                   void *to, float *sum)
{
    const unsigned n = mode == NORM_RELU_LIKE ? ROWS / 2 : 1; /* two tensors are read */
    const size_t c = j->channels;
    const struct folded f = fold(V, at, j->channels, w.channel);
    for (unsigned k = 0; k < 2 * V; k++) sum[k] = 0;
    for (; w.row + (n - 1) * w.step < w.rows; w.row += n * w.step)
        add_g(bf16, V, mode, n, j, &f, x, y, gy, to, w.from + w.row * c, w.step * c, sum);
    for (; w.row < w.rows; w.row += w.step)
        add_g(bf16, V, mode, 1, j, &f, x, y, gy, to, w.from + w.row * c, 0, sum);
}

DEVICE void sums(int bf16, unsigned V, enum norm_mode mode, struct norm_job j, struct norm_at at,
                 const void *x, const void *y, const void *gy, void *g, float *partial)
{
    SHARED(float, s, THREADS * 16);
    for (unsigned v = 0; v < j.channels / V; v += blockDim.x) {
        const unsigned tile = tile_at(&j, V, v);
        PHASE
        {
            float sum[16];
            walk_g(bf16, V, mode, &j, &at, walk_of(&j, V, v), x, y, gy, g, sum);
            share(V, tile, sum, s);
        }
        BLOCK_SUM(s, (int)(blockDim.x / tile), (int)(2 * V * tile));
        PHASE give(&j, V, v, s, partial);
    }
}
MODE_KERNELS(sums,
             LIST(struct norm_job j, struct norm_at at, const void *x, const void *y, const void *gy, void *g,
                  float *partial),
             LIST(j, at, x, y, gy, g, partial))

/* means: [split][sum(g) / N, inv * inv * sum(g * e) / N][channel] */
KERNEL(back_finish, struct norm_job j, const float *partial, const float *inv, float *gscale, float *gbias,
       int add, float *means)
{
    SHARED(double, s, THREADS * 4);
    PHASE gather(&j, partial, s);
    BLOCK_SUM(s, LANES, (int)(2 * j.splits * COLUMNS));
    PHASE
    {
        const unsigned c = blockIdx.x * COLUMNS + threadIdx.x;
        double all[2] = { 0, 0 };
        if (threadIdx.x >= COLUMNS || c >= j.channels) continue;
        for (unsigned i = 0; i < j.splits; i++) {
            const double *sum = s + i * 2 * COLUMNS + threadIdx.x;
            const double n = rows_of(&j, i), t = inv[2 * i * j.channels + c];
            means[2 * i * j.channels + c] = (float)(sum[0] / n);
            means[(2 * i + 1) * j.channels + c] = (float)(t * t * sum[COLUMNS] / n);
            all[0] += t * sum[COLUMNS];
            all[1] += sum[0];
        }
        gscale[c] = (float)(all[0] + (double)(add ? gscale[c] : 0));
        gbias[c] = (float)(all[1] + (double)(add ? gbias[c] : 0));
    }
}

DEVICE void back_rows(int bf16, unsigned V, enum norm_mode mode, unsigned n, const struct norm_job *j,
                      const struct folded *f, const float *mean_g, const float *mean_ge, const void *x,
                      const void *gy, void *gx, size_t at, size_t step)
{
    float e[ROWS][8], g[ROWS][8];
    UNROLL for (unsigned r = 0; r < n; r++)
    {
        load(bf16, V, x, at - r * step, e[r]);
        load(bf16, V, gy, at - r * step, g[r]);
    }
    UNROLL for (unsigned r = 0; r < n; r++)
    {
        differ(V, mode, j, f, e[r], NULL, g[r]);
        UNROLL for (unsigned k = 0; k < V; k++) g[r][k] =
            f->a[k] * (g[r][k] - mean_g[k] - e[r][k] * mean_ge[k]);
        store(bf16, V, gx, at - r * step, g[r]);
    }
}

/* gx may be gy: a thread reads what it writes, and nobody else does. Backwards, as `apply`. */
DEVICE void back(int bf16, unsigned V, enum norm_mode mode, struct norm_job j, struct norm_at at,
                 const float *means, const void *x, const void *gy, void *gx)
{
    const unsigned n = mode == NORM_ANY ? 1 : ROWS / 2;
    const size_t c = j.channels;
    PHASE for (unsigned v = 0; v < j.channels / V; v += blockDim.x)
    {
        struct walk w = walk_of(&j, V, v);
        const struct folded f = fold(V, &at, j.channels, w.channel);
        const size_t last = w.from + (w.rows - 1) * c;
        const float *from = means + (size_t)blockIdx.y * 2 * c + w.channel;
        float mean_g[8], mean_ge[8];
        for (unsigned k = 0; k < V; k++) mean_g[k] = from[k], mean_ge[k] = from[c + k];
        for (; w.row + (n - 1) * w.step < w.rows; w.row += n * w.step)
            back_rows(bf16, V, mode, n, &j, &f, mean_g, mean_ge, x, gy, gx, last - w.row * c, w.step * c);
        for (; w.row < w.rows; w.row += w.step)
            back_rows(bf16, V, mode, 1, &j, &f, mean_g, mean_ge, x, gy, gx, last - w.row * c, 0);
    }
}
#define BACK_PARAMS                                                                                          \
    struct norm_job j, struct norm_at at, const float *means, const void *x, const void *gy, void *gx
FOUR_KERNELS_OF(back_relu_like, back, LIST(BACK_PARAMS), LIST(NORM_RELU_LIKE, j, at, means, x, gy, gx))
FOUR_KERNELS_OF(back_any, back, LIST(BACK_PARAMS), LIST(NORM_ANY, j, at, means, x, gy, gx))

LAUNCHERS
unsigned kernel_norm_blocks(const struct cuda *cu, const struct norm_job *j)
{
    const unsigned vectors = j->channels / j->V;
    const unsigned lanes = vectors < THREADS ? THREADS / vectors : 1;
    const unsigned want = (j->rows + lanes * ROWS - 1) / (lanes * ROWS);
    const unsigned most = (unsigned)cu->info.processors * TOGETHER / j->splits;
    return want < most ? want : most;
}

static unsigned finish_blocks(const struct norm_job *j) { return (j->channels + COLUMNS - 1) / COLUMNS; }

int kernel_norm_stats(const struct cuda *cu, const struct norm_job *j, const void *x, const float *bias,
                      float *mean, float *var, double bn_momentum, float *stats, float *partial, int *fresh)
{
    LAUNCH_NORM(cu, measure, j, x, partial, var, fresh);
    LAUNCH(cu, finish, finish_blocks(j), 1, THREADS, *j, x, partial, fresh, bias, mean, var, bn_momentum,
           stats);
    return OK;
}

int kernel_norm_apply(const struct cuda *cu, const struct norm_job *j, const struct norm_at *at,
                      const void *x, const void *addend, void *y)
{
    LAUNCH_MODE(cu, apply, j, *at, x, addend, y);
    return OK;
}

int kernel_norm_sums(const struct cuda *cu, const struct norm_job *j, const struct norm_at *at, const void *x,
                     const void *y, const void *gy, void *g, float *gscale, float *gbias, int add,
                     float *partial, float *means)
{
    LAUNCH_MODE(cu, sums, j, *at, x, y, gy, g, partial);
    LAUNCH(cu, back_finish, finish_blocks(j), 1, THREADS, *j, partial, at->inv, gscale, gbias, add, means);
    return OK;
}

int kernel_norm_back(const struct cuda *cu, const struct norm_job *j, const struct norm_at *at,
                     const float *means, const void *x, const void *g, void *gx)
{
    struct norm_job slopeless = *j; /* g has the slope in it already */
    slopeless.below = 1;
    if (j->mode == NORM_ADDED) j = &slopeless;
    if (j->mode == NORM_ANY)
        LAUNCH_NORM(cu, back_any, j, *at, means, x, g, gx);
    else
        LAUNCH_NORM(cu, back_relu_like, j, *at, means, x, g, gx);
    return OK;
}
LAUNCHERS_END
