/* 3x3 and 5x5 convolutions with stride 1 by Winograd's F(4x4, 3x3) and F(2x2, 5x5): a tile of 4x4 (2x2)
 * output pixels costs 36 products for each pair of channels instead of 144 (100). Windows of 6x6 input
 * pixels, one for each tile, and the weights are transformed to 36 positions; at each position they are
 * multiplied as matrices, tiles x channels by channels x outputs; the result is transformed back. Backward is
 * the adjoint of each step: gradients of tiles are transformed to positions; for the gradient of the data,
 * multiplied with the weights, transformed to windows and added to the pixels; for that of the weights,
 * multiplied with the windows of the data, summed over tiles and transformed back. */
#include "dense.h"
#include "winograd.h"
#include <string.h>
#include "backend/scalar.h"
#include "core/mem.h"

/* Tiles that a thread works on together, so that their numbers stay in its second-level cache; blocks of
 * weights from which on threads divide outputs instead, and tiles a thread then. */
enum { GROUP = 28, LARGE = 16 * 16, LARGE_GROUP = 75 };

struct winograd {
    const struct cpu *cpu;
    struct memory_format in, blocked, out; /* of x, of x in blocks of channels, of y */
    struct map x, y;
    size_t size, taps, pad, rows, rows_back;
    int reorder; /* in and blocked differ */
    int add_gx;
    enum act act;
    size_t group;
    int large;                          /* threads divide outputs, not tiles */
    size_t parts;                       /* one a thread */
    size_t part, sums;                  /* numbers of a part; of them, those before the sums over tiles */
    size_t at_x, at_gx, at_u, at_parts; /* in scratch */
};

/* ---- weights: packed as O/16, C/16, tap, 16 channels, 16 outputs ---- */

static size_t packed_at(const struct winograd *s, size_t o, size_t c, size_t tap)
{
    return ((o / BLOCK * s->x.blocks + c / BLOCK) * s->taps + tap) * MATRIX + c % BLOCK * BLOCK + o % BLOCK;
}

static int pack(const struct op_plan *p, const real *host, void *w)
{
    const struct winograd *s = p->self;
    memset(w, 0, p->weight_bytes);
    for (size_t o = 0; o < s->y.channels; o++)
        for (size_t c = 0; c < s->x.channels; c++)
            for (size_t tap = 0; tap < s->taps; tap++) ((float *)w)[packed_at(s, o, c, tap)] = *host++;
    return OK;
}

static int unpack(const struct op_plan *p, const void *w, real *host)
{
    const struct winograd *s = p->self;
    for (size_t o = 0; o < s->y.channels; o++)
        for (size_t c = 0; c < s->x.channels; c++)
            for (size_t tap = 0; tap < s->taps; tap++) *host++ = ((const float *)w)[packed_at(s, o, c, tap)];
    return OK;
}

/* ---- passes ---- */

struct pass {
    const struct winograd *s;
    size_t rows;
    const float *x, *w, *gy;
    float *y, *gx, *gw; /* forward: y; backward: gx, gw or both */
    int add_gx, add_gw;
    struct finish finish;
    float *u;           /* in scratch: weights; threads divide outputs: windows, and gradients of tiles */
    float *parts;       /* behind them */
    struct tiles tiles; /* threads divide outputs: of the group that all work on */
};

/* Of a product: what is multiplied, and the result. */
static const struct map *from_map(const struct pass *k) { return k->y ? &k->s->x : &k->s->y; }
static const struct map *to_map(const struct pass *k) { return k->y ? &k->s->y : &k->s->x; }

static size_t pieces(size_t blocks) { return (blocks + WIDTH - 1) / WIDTH; }

/* Transformed weights lie as [`width` blocks of outputs][position][channel][output]. */
static void transform(const struct pass *k, size_t output, size_t channel, float *u)
{
    const struct winograd *s = k->s;
    size_t to = to_map(k)->blocks, channels = from_map(k)->blocks, width = min_size(WIDTH, to - output);
    for (size_t i = 0; i < width; i++) {
        size_t block = k->gx ? channel * to + output + i : (output + i) * channels + channel;
        transform_weights(k->w + block * s->taps * MATRIX, s->size, k->gx != NULL,
                          u + channel * width * MATRIX + i * BLOCK, width, width * channels * BLOCK);
    }
}

static void transform_all(void *ctx, size_t from, size_t to)
{
    const struct pass *k = ctx;
    size_t channels = from_map(k)->blocks;
    for (size_t i = from; i < to; i++) {
        size_t output = i / channels * WIDTH;
        transform(k, output, i % channels, k->u + output * POSITIONS * channels * MATRIX);
    }
}

/* The tiles of y, or of its gradient. */
static struct tiles tiles_of(const struct winograd *s)
{
    size_t size = WINDOW + 1 - s->size;
    return (struct tiles){ .size = size,
                           .down = (s->y.h + size - 1) / size,
                           .across = (s->y.w + size - 1) / size,
                           .capacity = s->group };
}

/* From group to group of tiles first..end-1; 0 behind the last. Starts from count = 0. */
static int next_group(struct tiles *t, size_t first, size_t end)
{
    t->first = t->count ? t->first + t->count : first;
    if (t->first >= end) return 0;
    size_t left = end - t->first, groups = (left + t->capacity - 1) / t->capacity;
    t->count = (left + groups - 1) / groups;
    return 1;
}

static void clear_images(void *ctx, size_t from, size_t to)
{
    const struct pass *k = ctx;
    size_t image = k->s->x.blocks * k->s->x.h * k->s->x.w * BLOCK;
    memset(k->gx + from * image, 0, (to - from) * image * sizeof *k->gx);
}

/* Threads divide images, since windows overlap, and transform, multiply and transform back a group of tiles
 * after the other. */
static void multiply_group(const struct pass *k, const struct tiles *t, const float *v, float *m)
{
    const struct map *from = from_map(k), *to = to_map(k);
    for (size_t p = 0; p < POSITIONS; p++)
        for (size_t o = 0; o < to->blocks; o += WIDTH) {
            size_t width = min_size(WIDTH, to->blocks - o);
            multiply_tiles(t, width, from->channels, v + transformed(t, 0, p),
                           k->u + (o * POSITIONS + p * width) * from->blocks * MATRIX,
                           m + transformed(t, o, p));
        }
}

static void sum_group(const struct pass *k, const struct tiles *t, const float *v, const float *g, int add,
                      float *sums)
{
    const struct map *x = &k->s->x, *y = &k->s->y;
    for (size_t p = 0; p < POSITIONS; p++)
        for (size_t o = 0; o < y->blocks; o += WIDTH) {
            size_t width = min_size(WIDTH, y->blocks - o);
            sum_tiles(t, width, x->channels, v + transformed(t, 0, p), g + transformed(t, o, p), add,
                      sums + (o * POSITIONS + p * width) * x->blocks * MATRIX);
        }
}

static void forward_images(void *ctx, size_t part, size_t end)
{
    const struct pass *k = ctx;
    const struct winograd *s = k->s;
    for (; part < end; part++) {
        struct tiles t = tiles_of(s);
        size_t image = t.down * t.across;
        float *v = k->parts + part * s->part, *m = v + transformed(&t, s->x.blocks, 0);
        while (next_group(&t, k->rows * part / s->parts * image, k->rows * (part + 1) / s->parts * image)) {
            read_windows(&s->x, k->x, &t, s->pad, v);
            multiply_group(k, &t, v, m);
            write_tiles(&s->y, 0, s->y.blocks, m, &t, &k->finish, k->y);
        }
    }
}

static void backward_images(void *ctx, size_t part, size_t end)
{
    const struct pass *k = ctx;
    const struct winograd *s = k->s;
    for (; part < end; part++) {
        struct tiles t = tiles_of(s);
        size_t image = t.down * t.across, cleared = k->rows * part / s->parts,
               last = k->rows * (part + 1) / s->parts;
        float *g = k->parts + part * s->part, *v = g + transformed(&t, s->y.blocks, 0), *sums = g + s->sums;
        int add = 0;
        for (size_t first = cleared; next_group(&t, first * image, last * image); add = 1) {
            read_gradients(&s->y, k->gy, &t, g);
            if (k->gx) {
                size_t seen = (t.first + t.count + image - 1) / image;
                multiply_group(k, &t, g, v);
                if (!k->add_gx) clear_images(ctx, cleared, seen); /* group by group: they stay in the cache */
                cleared = seen;
                add_windows(&s->x, 0, s->x.blocks, v, &t, s->pad, k->gx);
            }
            if (k->gw) {
                read_windows(&s->x, k->x, &t, s->pad, v);
                sum_group(k, &t, v, g, add, sums);
            }
        }
        if (k->gw && !add) memset(sums, 0, POSITIONS * s->x.blocks * s->y.blocks * MATRIX * sizeof *sums);
    }
}

static void gather_parts(void *ctx, size_t from, size_t to)
{
    const struct pass *k = ctx;
    const struct winograd *s = k->s;
    size_t channels = s->x.blocks;
    for (size_t i = from; i < to; i++) {
        size_t o = i / channels, first = o / WIDTH * WIDTH, width = min_size(WIDTH, s->y.blocks - first);
        const float *sums = k->parts + s->sums +
                            (first * POSITIONS * channels + i % channels * width) * MATRIX +
                            (o - first) * BLOCK;
        gather_weights(sums, s->size, block_channels(&s->x, i % channels), width, width * channels * BLOCK,
                       s->parts, s->part, k->add_gw, k->gw + i * s->taps * MATRIX);
    }
}

/* Threads divide outputs. All numbers of a group are transformed first, each block of weights when its turn
 * comes. */
static void read_part(void *ctx, size_t from, size_t to)
{
    const struct pass *k = ctx;
    const struct winograd *s = k->s;
    struct tiles t = k->tiles;
    t.first += from;
    t.count = to - from;
    if (k->y || k->gw) read_windows(&s->x, k->x, &t, s->pad, k->u + from * BLOCK);
    if (!k->y) read_gradients(&s->y, k->gy, &t, k->u + transformed(&t, s->x.blocks, 0) + from * BLOCK);
}

static void multiply_outputs(void *ctx, size_t part, size_t end)
{
    const struct pass *k = ctx;
    const struct winograd *s = k->s;
    const struct tiles *t = &k->tiles;
    const struct map *from = from_map(k), *to = to_map(k);
    const float *v = k->u + (k->y ? 0 : transformed(t, s->x.blocks, 0));
    for (; part < end; part++) {
        float *u = k->parts + part * s->part, *m = u + POSITIONS * WIDTH * from->blocks * MATRIX;
        size_t n = pieces(to->blocks);
        for (size_t i = n * part / s->parts; i < n * (part + 1) / s->parts; i++) {
            size_t o = i * WIDTH, width = min_size(WIDTH, to->blocks - o);
            for (size_t c = 0; c < from->blocks; c++) transform(k, o, c, u);
            for (size_t p = 0; p < POSITIONS; p++)
                multiply_tiles(t, width, from->channels, v + transformed(t, 0, p),
                               u + p * width * from->blocks * MATRIX, m + transformed(t, 0, p));
            if (k->y)
                write_tiles(to, o, width, m, t, &k->finish, k->y);
            else
                add_windows(to, o, width, m, t, s->pad, k->gx);
        }
    }
}

static void sum_outputs(void *ctx, size_t part, size_t end)
{
    const struct pass *k = ctx;
    const struct winograd *s = k->s;
    const struct tiles *t = &k->tiles;
    enum { RANGE = 8 };
    size_t channels = s->x.blocks, ranges = (channels + RANGE - 1) / RANGE, n = pieces(s->y.blocks) * ranges;
    for (; part < end; part++) {
        float *sums = k->parts + part * s->part;
        for (size_t i = n * part / s->parts; i < n * (part + 1) / s->parts; i++) {
            size_t o = i / ranges * WIDTH, width = min_size(WIDTH, s->y.blocks - o), c = i % ranges * RANGE,
                   count = min_size(RANGE, channels - c);
            for (size_t p = 0; p < POSITIONS; p++)
                sum_tiles(t, width, min_size(count * BLOCK, s->x.channels - c * BLOCK),
                          k->u + transformed(t, c, p), k->u + transformed(t, channels + o, p), 0,
                          sums + p * width * count * MATRIX);
            for (size_t a = 0; a < count; a++)
                for (size_t b = 0; b < width; b++)
                    gather_weights(sums + a * width * MATRIX + b * BLOCK, s->size,
                                   block_channels(&s->x, c + a), width, width * count * BLOCK, 1, 0,
                                   k->add_gw || t->first,
                                   k->gw + ((o + b) * channels + c + a) * s->taps * MATRIX);
        }
    }
}

static void run_outputs(struct pass *k)
{
    const struct winograd *s = k->s;
    k->tiles = tiles_of(s);
    if (k->gx && !k->add_gx) parallel_for(s->cpu, k->rows, 1, clear_images, k);
    while (next_group(&k->tiles, 0, k->rows * k->tiles.down * k->tiles.across)) {
        parallel_for(s->cpu, k->tiles.count, 1, read_part, k);
        if (k->y || k->gx) parallel_for(s->cpu, s->parts, 1, multiply_outputs, k);
        if (k->gw) parallel_for(s->cpu, s->parts, 1, sum_outputs, k);
    }
}

static void run(struct pass *k)
{
    const struct winograd *s = k->s;
    if (s->large) {
        run_outputs(k);
        return;
    }
    if (k->y || k->gx)
        parallel_for(s->cpu, pieces(to_map(k)->blocks) * from_map(k)->blocks, 1, transform_all, k);
    parallel_for(s->cpu, s->parts, 1, k->y ? forward_images : backward_images, k);
    if (k->gw) parallel_for(s->cpu, s->x.blocks * s->y.blocks, 1, gather_parts, k);
}

static struct pass pass_of(const struct winograd *s, size_t rows, const void *w, void *scratch)
{
    return (struct pass){ .s = s,
                          .rows = rows,
                          .w = w,
                          .u = scratch_at(scratch, s->at_u),
                          .parts = scratch_at(scratch, s->at_parts) };
}

/* x in blocks of channels. */
static const float *blocked(const struct winograd *s, size_t rows, const void *x, void *scratch)
{
    if (!s->reorder) return x;
    float *to = scratch_at(scratch, s->at_x);
    format_reorder(s->cpu, rows, &s->in, x, &s->blocked, to, 0);
    return to;
}

static int forward(const struct op_plan *p, const struct op_context *context, const void *x, const void *w,
                   const real *bias, void *y)
{
    const struct winograd *s = p->self;
    struct pass k = pass_of(s, s->rows, w, context->scratch);
    k.x = blocked(s, s->rows, x, context->scratch);
    k.y = y;
    k.finish = (struct finish){ bias, s->act };
    run(&k);
    if (act_apply(s->act, 0) != 0) format_pad(s->cpu, &s->out, s->rows, y);
    return OK;
}

static int backward(const struct op_plan *p, const struct op_context *context, const void *x, const void *w,
                    const void *gy, void *gx, void *gw, real *gbias)
{
    const struct winograd *s = p->self;
    struct pass k = pass_of(s, s->rows_back, w, context->scratch);
    k.gy = gy;
    if (gx) k.gx = s->reorder ? scratch_at(context->scratch, s->at_gx) : gx;
    k.add_gx = s->add_gx && !s->reorder;
    if (gw) k.x = blocked(s, s->rows_back, x, context->scratch);
    k.gw = gw;
    k.add_gw = context->add;
    if (gx || gw) run(&k);
    if (gx && s->reorder) format_reorder(s->cpu, s->rows_back, &s->blocked, k.gx, &s->in, gx, s->add_gx);
    if (gbias) format_channel_sums(s->cpu, s->rows_back, &s->out, gy, gbias, context->add);
    return OK;
}

/* ---- plan ---- */

/* What a pass needs besides its tensors: x and its gradient in blocks of channels, what all threads share,
 * and a part for each thread. */
static void reserve(struct winograd *s, int train, size_t *scratch)
{
    const size_t x = s->x.blocks, y = s->y.blocks, tiles = POSITIONS * s->group * BLOCK,
                 weights = POSITIONS * x * y * MATRIX;
    s->sums = s->large ? 0 : (x + y) * tiles;
    s->part =
        s->large ? WIDTH * (POSITIONS * max_size(x, y) * MATRIX + tiles) : s->sums + (train ? weights : 0);
    if (s->reorder) {
        s->at_x = scratch_reserve(scratch, s->rows * s->blocked.row * sizeof(float));
        s->at_gx = scratch_reserve(scratch, s->rows_back * s->blocked.row * sizeof(float));
    }
    s->at_u = scratch_reserve(scratch, (s->large ? (x + y) * tiles : weights) * sizeof(float));
    s->at_parts = scratch_reserve(scratch, s->parts * s->part * sizeof(float));
}

/* Compilers turn vectors of 16 numbers into poor code for anything smaller: with AVX2 this takes 2.7 times as
 * long as oneDNN's direct code. */
static int suits_processor(void)
{
#if defined(__x86_64__) && defined(__GNUC__)
    return __builtin_cpu_supports("avx512f") != 0;
#else
    return 0;
#endif
}

static struct map map_of(struct shape s)
{
    size_t channels = (size_t)s.c;
    return (struct map){ channels, (channels + BLOCK - 1) / BLOCK, (size_t)s.h, (size_t)s.w };
}

/* Are there so many weights that threads divide outputs instead of tiles? */
static int large(struct shape in, struct shape out)
{
    return map_of(in).blocks * map_of(out).blocks >= LARGE;
}

int conv_winograd_fits(const struct linear_desc *d, const struct tensor *out)
{
    struct shape in = d->in->shape, to = out->shape;
    if (d->dilation != 1 || d->stride_y != 1 || d->stride_x != 1 || d->pad >= d->size || d->groups != 1 ||
        !suits_processor())
        return 0;
    if (d->size == 3) return in.c >= 64;
    return d->size == 5 && in.c >= 16 && to.c >= 16 && in.c + to.c >= 64 && to.h >= 4 && to.w >= 4 &&
           !large(in, to);
}

static int plan(struct backend *be, const struct linear_desc *d, struct tensor *out, struct op_plan *p,
                struct err *e)
{
    static const struct layout blocks = { .block = BLOCK };
    struct shape in = d->in->shape;
    TRY(op_plan_init(p, sizeof(struct winograd), e));
    TRY(format_tensor(out, format_layout(out->shape, BLOCK, 0), e));
    struct winograd *s = p->self;
    *s = (struct winograd){ .cpu = cpu_of(be),
                            .in = format_of(in, d->in->layout),
                            .blocked = format_of(in, &blocks),
                            .out = format_of(out->shape, &blocks),
                            .reorder = !format_same(in, d->in->layout, &blocks),
                            .x = map_of(in),
                            .y = map_of(out->shape),
                            .size = (size_t)d->size,
                            .taps = (size_t)(d->size * d->size),
                            .pad = (size_t)d->pad,
                            .rows = (size_t)in.n,
                            .rows_back = d->train ? (size_t)d->rows_back : 0,
                            .add_gx = d->add_gx,
                            .act = d->train ? ACT_LINEAR : d->act,
                            .parts = (size_t)cpu_of(be)->threads };
    size_t x = s->x.blocks, y = s->y.blocks, bytes;
    if (mem_mul(x * y, (s->parts + 1) * POSITIONS * MATRIX * sizeof(float), &bytes))
        return fail(e, E_MEM, "%d x %d x %d x %d weights do not fit into memory", out->shape.c, in.c, d->size,
                    d->size);
    s->large = large(in, out->shape);
    s->group = s->large ? LARGE_GROUP * s->parts : GROUP;
    p->fused = s->act == d->act;
    p->weight_bytes = s->taps * x * y * MATRIX * sizeof(float);
    reserve(s, d->train, &p->scratch_bytes);
    return OK;
}

const struct linear_ops conv_winograd = { plan, pack, unpack, unpack, forward, backward, NULL };
