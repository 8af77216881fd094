/* Batch normalisation with its activation. A row is a pixel; a split is a run of rows with statistics of its
 * own (blockIdx.y). A thread owns V neighbouring channels of every so-many-th row.
 *
 * With e = x - mean, inv = 1 / sqrt(var + NORM_EPSILON), a = scale * inv and g = dLoss/dz, over the N rows of
 * a split:
 *
 *   z = a * e + bias,  y = act(z)
 *
 *   gx = a * (g - sum(g) / N - e * inv * inv * sum(g * e) / N),  gscale = inv * sum(g * e),  gbias = sum(g)
 *
 * Sums are float within a block; what the blocks give is added in double, in the order of the blocks. */
#include "backend/ops/norm.h"
#include "backend/ops/sum.h"
#include "norm_rows.cuh"

/* Arrays of numbers a channel. mean and inv: 2 * channels further on for the second split. */
struct norm_at {
    const float *mean, *inv; /* inv: 1 / sqrt(var + NORM_EPSILON); infer: var itself */
    const float *scale, *bias;
    int infer;
};

/* ---- statistics ---- */

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

template <int bf16, unsigned V>
KERNEL_TOGETHER(measure, struct norm_job j, const void *x, float *partial, const float *var, int *fresh)
{
    SHARED(float, s, THREADS * 16);
    if (blockIdx.x == 0 && blockIdx.y == 0) look(var, j.channels, fresh);
    for (unsigned v = 0; v < j.channels / V; v += blockDim.x) {
        const unsigned tile = tile_at(&j, V, v);
        PHASE
        {
            float sum[16];
            walk_x(bf16, V, &j, walk_of(&j, V, v), x, sum);
            to_shared(V, tile, sum, s);
        }
        BLOCK_SUM(s, (int)(blockDim.x / tile), (int)(2 * V * tile));
        PHASE give(&j, V, v, s, partial);
    }
}

/* stats: [split][mean, inv][channel], then the bias, which backward wants too. */
KERNEL_WIDE(finish, struct norm_job j, const void *x, const float *partial, const double *all,
            const int *fresh, const float *bias, float *mean, float *var, double bn_momentum, float *stats)
{
    SHARED(double, s, ADDERS * 4);
    PHASE gather(&j, partial, s);
    BLOCK_SUM(s, LANES, (int)(2 * j.splits * COLUMNS));
    PHASE
    {
        const unsigned c = blockIdx.x * COLUMNS + threadIdx.x;
        const double step = *fresh ? 1 : bn_momentum;
        double m = 0, v = 0;
        if (threadIdx.x >= COLUMNS || c >= j.channels) continue;
        for (unsigned i = 0; i < j.splits; i++) {
            const struct moments at = all ? moments_of_all(&j, all, i, c)
                                          : moments_of(&j, x, i, c, s + i * 2 * COLUMNS + threadIdx.x);
            const double n = rows_of_all(&j, i), unbias = n > 1 ? n / (n - 1) : 1;
            stats[2 * i * j.channels + c] = (float)at.mean;
            stats[(2 * i + 1) * j.channels + c] = (float)(1 / sqrt(at.var + NORM_EPSILON));
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
    const size_t split = (size_t)blockIdx.y * 2 * channels + c;
    struct folded f;
    float inv[8];
    read_channels(V, at->inv, split, inv);
    read_channels(V, at->mean, split, f.mean);
    read_channels(V, at->scale, c, f.a);
    read_channels(V, at->bias, c, f.bias);
    for (unsigned k = 0; k < V; k++)
        f.a[k] *= at->infer ? (float)(1 / sqrt((double)inv[k] + NORM_EPSILON)) : inv[k];
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
template <int bf16, unsigned V, enum norm_mode mode>
KERNEL_TOGETHER(apply, struct norm_job j, struct norm_at at, const void *x, const void *addend, void *y)
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

template <int bf16, unsigned V, enum norm_mode mode>
KERNEL_TOGETHER(sums, struct norm_job j, struct norm_at at, const void *x, const void *y, const void *gy,
                void *g, float *partial)
{
    SHARED(float, s, THREADS * 16);
    for (unsigned v = 0; v < j.channels / V; v += blockDim.x) {
        const unsigned tile = tile_at(&j, V, v);
        PHASE
        {
            float sum[16];
            walk_g(bf16, V, mode, &j, &at, walk_of(&j, V, v), x, y, gy, g, sum);
            to_shared(V, tile, sum, s);
        }
        BLOCK_SUM(s, (int)(blockDim.x / tile), (int)(2 * V * tile));
        PHASE give(&j, V, v, s, partial);
    }
}

/* means: [split][sum(g) / N, inv * inv * sum(g * e) / N][channel] */
KERNEL_WIDE(back_finish, struct norm_job j, const float *partial, const double *all_sums, const float *inv,
            float *gscale, float *gbias, int add, float *means)
{
    SHARED(double, s, ADDERS * 4);
    PHASE gather(&j, partial, s);
    BLOCK_SUM(s, LANES, (int)(2 * j.splits * COLUMNS));
    PHASE
    {
        const unsigned c = blockIdx.x * COLUMNS + threadIdx.x;
        double all[2] = { 0, 0 };
        if (threadIdx.x >= COLUMNS || c >= j.channels) continue;
        for (unsigned i = 0; i < j.splits; i++) {
            const double *sum = s + i * 2 * COLUMNS + threadIdx.x;
            const double n = rows_of_all(&j, i), t = inv[2 * i * j.channels + c];
            const size_t to = 2 * i * j.channels + c;
            means[to] = (float)((all_sums ? all_sums[to] : sum[0]) / n);
            means[to + j.channels] =
                (float)(t * t * (all_sums ? all_sums[to + j.channels] : sum[COLUMNS]) / n);
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
template <int bf16, unsigned V, enum norm_mode mode>
KERNEL_TOGETHER(back, struct norm_job j, struct norm_at at, const float *means, const void *x, const void *gy,
                void *gx)
{
    const unsigned n = mode == NORM_ANY ? 1 : ROWS / 2;
    const size_t c = j.channels;
    PHASE for (unsigned v = 0; v < j.channels / V; v += blockDim.x)
    {
        struct walk w = walk_of(&j, V, v);
        const struct folded f = fold(V, &at, j.channels, w.channel);
        const size_t last = w.from + (w.rows - 1) * c;
        const size_t from = (size_t)blockIdx.y * 2 * c + w.channel;
        float mean_g[8], mean_ge[8];
        read_channels(V, means, from, mean_g);
        read_channels(V, means, from + c, mean_ge);
        for (; w.row + (n - 1) * w.step < w.rows; w.row += n * w.step)
            back_rows(bf16, V, mode, n, &j, &f, mean_g, mean_ge, x, gy, gx, last - w.row * c, w.step * c);
        for (; w.row < w.rows; w.row += w.step)
            back_rows(bf16, V, mode, 1, &j, &f, mean_g, mean_ge, x, gy, gx, last - w.row * c, 0);
    }
}

/* ---- plans ---- */

/* Kept from forward to backward: mean and inv of each split, and the bias. In scratch: what the blocks added
 * up, then what one kernel leaves for the next, then what all processes add up. */
struct norm {
    struct backend *be;
    const struct cuda *cu;
    struct norm_job job, back; /* forward; backward, which may be of the first split only */
    int train;
};

/* Numbers in scratch: what the blocks added up; behind that the means that backward takes, or one flag. */
static size_t partials(const struct norm_job *j) { return (size_t)j->splits * j->blocks * 2 * j->channels; }
static size_t means(const struct norm_job *j) { return (size_t)j->splits * 2 * j->channels; }

/* Where in scratch the sums over all processes begin. */
static size_t sums_at(const struct norm *s)
{
    const size_t sums = partials(&s->job), back = partials(&s->back);
    return (((sums > back ? sums : back) + means(&s->job)) * sizeof(float) + 15) / 16 * 16;
}

/* Two half-lines that meet in 0. */
static int is_relu_like(enum act a)
{
    return a == ACT_LINEAR || a == ACT_RELU || a == ACT_LEAKY || a == ACT_RELIE;
}

/* The rows are dealt to as many blocks as the device holds: one that found no place would run alone. */
static unsigned blocks_of(const struct cuda *cu, const struct norm_job *j)
{
    const unsigned vectors = j->channels / j->V;
    const unsigned lanes = vectors < THREADS ? THREADS / vectors : 1;
    const unsigned want = (j->rows + lanes * ROWS - 1) / (lanes * ROWS);
    const unsigned most = (unsigned)cu->info.processors * TOGETHER / j->splits;
    return want < most ? want : most;
}

static int plan(struct backend *be, const struct norm_desc *d, struct tensor *out, struct op_plan *p,
                struct err *e)
{
    const struct shape in = d->in->shape;
    const unsigned pixels = in.h * in.w;
    const int relu_like = is_relu_like(d->act);
    TRY(op_plan_init(p, sizeof(struct norm), e));
    struct norm *s = (struct norm *)p->self;
    TRY(cuda_tensor(out, cuda_is_bf16(d->in), e));
    s->be = be;
    s->cu = cuda_of(be);
    s->train = d->train;
    s->job.bf16 = cuda_is_bf16(d->in);
    s->job.mode = d->addend ? NORM_ADDED : relu_like ? NORM_RELU_LIKE : NORM_ANY;
    s->job.act = d->act;
    s->job.below = relu_like ? act_slope_y(d->act, -1) : 0;
    s->job.V = cuda_vector(s->job.bf16, in.c);
    s->job.channels = in.c;
    s->job.splits = d->splits;
    s->job.rows_s1 = d->splits == 2 ? d->rows_s1 * pixels : 0;
    s->job.rows = in.n * pixels;
    s->job.share = d->share;
    s->job.blocks = blocks_of(s->cu, &s->job);
    s->back = s->job;
    if (d->splits == 2 && d->rows_back < in.n) {
        s->back.splits = 1;
        s->back.rows = s->job.rows_s1;
        s->back.rows_s1 = 0;
        s->back.blocks = blocks_of(s->cu, &s->back);
    }
    p->fused = 1;
    if (!d->train) return OK;
    p->kept_bytes = (means(&s->job) + s->job.channels) * sizeof(float);
    p->scratch_bytes = sums_at(s) + (s->job.share.all ? means(&s->job) * sizeof(double) : 0);
    return OK;
}

#define OF_MODE(name, j, mode) OF_FOUR(name, (j)->bf16, (j)->V, mode)
#define LAUNCH_NORM(cu, kernel, j, ...)                                                                      \
    LAUNCH(cu, kernel, (j)->blocks, (j)->splits, THREADS, *(j), __VA_ARGS__)
#define LAUNCH_MODE(cu, name, j, ...)                                                                        \
    LAUNCH_NORM(cu,                                                                                          \
                (j)->mode == NORM_ANY     ? OF_MODE(name, j, NORM_ANY)                                       \
                : (j)->mode == NORM_ADDED ? OF_MODE(name, j, NORM_ADDED)                                     \
                                          : OF_MODE(name, j, NORM_RELU_LIKE),                                \
                j, __VA_ARGS__)
/* Of what gathers: a block for COLUMNS channels. */
#define LAUNCH_FINISH(cu, name, j, ...)                                                                      \
    LAUNCH(cu, name, ((j)->channels + COLUMNS - 1) / COLUMNS, 1, ADDERS, *(j), __VA_ARGS__)

static struct norm_at kept_at(const struct norm *s, const float *stats, const float *scale)
{
    return (struct norm_at){ stats, stats + s->job.channels, scale, stats + means(&s->job), 0 };
}

/* Where statistics are of the rows of all processes: their sums, [split][which sum][channel]; else NULL. */
static int add_up(const struct norm *s, const struct norm_job *j, const void *x, const float *partial,
                  void *scratch, double **all)
{
    *all = NULL;
    if (!j->share.all) return OK;
    *all = (double *)(void *)((char *)scratch + sums_at(s));
    LAUNCH_FINISH(s->cu, own_sums, j, x, partial, *all);
    return s->be->ops->sum->add(s->be, *all, means(j));
}

static int forward(const struct op_plan *p, const struct op_context *context, const void *x,
                   const void *addend, const real *scale, const real *bias, real *mean, real *var,
                   double bn_momentum, void *kept, void *y)
{
    const struct norm *s = (const struct norm *)p->self;
    const struct norm_job *j = &s->job;
    struct norm_at at = { mean, var, scale, bias, 1 };
    if (s->train) {
        float *partial = (float *)context->scratch, *stats = (float *)kept;
        int *fresh = (int *)(void *)(partial + partials(j));
        LAUNCH_NORM(s->cu, OF_FOUR(measure, j->bf16, j->V), j, x, partial, var, fresh);
        double *all;
        TRY(add_up(s, j, x, partial, context->scratch, &all));
        LAUNCH_FINISH(s->cu, finish, j, x, partial, all, fresh, bias, mean, var, bn_momentum, stats);
        at = kept_at(s, stats, scale);
    }
    LAUNCH_MODE(s->cu, apply, j, at, x, addend, y);
    return OK;
}

static int backward(const struct op_plan *p, const struct op_context *context, const void *x, const void *y,
                    const real *scale, const void *kept, const void *gy, void *gx, void *gaddend,
                    real *gscale, real *gbias)
{
    const struct norm *s = (const struct norm *)p->self;
    const struct norm_at at = kept_at(s, (const float *)kept, scale);
    struct norm_job j = s->back;
    float *partial = (float *)context->scratch, *mean_g = partial + partials(&j);
    void *g = gaddend ? gaddend : gx; /* NORM_ADDED: where gy times the slope goes */
    LAUNCH_MODE(s->cu, sums, &j, at, x, y, gy, g, partial);
    double *all;
    TRY(add_up(s, &j, NULL, partial, context->scratch, &all));
    LAUNCH_FINISH(s->cu, back_finish, &j, partial, all, at.inv, gscale, gbias, context->add, mean_g);
    if (!gx) return OK;
    if (j.mode == NORM_ANY) {
        LAUNCH_NORM(s->cu, OF_MODE(back, &j, NORM_ANY), &j, at, mean_g, x, gy, gx);
    } else {
        if (j.mode == NORM_ADDED) gy = g, j.below = 1; /* the slope is in g already */
        LAUNCH_NORM(s->cu, OF_MODE(back, &j, NORM_RELU_LIKE), &j, at, mean_g, x, gy, gx);
    }
    return OK;
}

const struct norm_ops cuda_norm = { plan, forward, backward, is_relu_like };
