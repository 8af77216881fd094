/* 3x3 and 5x5 convolutions with stride 1 by Winograd's F(4x4, 3x3) and F(2x2, 5x5): a tile of 4x4 (2x2)
 * output pixels costs 36 products for each pair of channels instead of 144 (100). Windows of 6x6 input
 * pixels, one for each tile, and the weights are transformed to 36 positions; at each position they are
 * multiplied as matrices, tiles x channels by channels x outputs; the result is transformed back. The
 * gradient of the weights is the adjoint: gradients of tiles are transformed by the adjoint of the last step,
 * multiplied with the windows, summed over tiles and transformed back. The gradient of the data is, for 3x3,
 * the same as forward with the weights turned round; for 5x5 it is the adjoint too, from tiles to windows
 * that overlap: turned round, the windows would be 36/16 as many in LeNet. */
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
    int scatter; /* the gradient of the data goes from tiles to windows */
    int reorder; /* in and blocked differ */
    int add_gx;
    enum act act;
    size_t group;
    int large;                   /* threads divide outputs, not tiles */
    size_t parts;                /* one a thread */
    size_t at_x, at_u, at_parts; /* in scratch */
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
    struct map from, to;
    size_t pad, rows;
    const float *x, *w, *gy;
    float *y, *gw;
    int exchanged; /* the gradient of the data: outputs and channels of the weights are */
    int add;
    struct finish finish;
    struct tiles tiles; /* threads divide outputs: of the group that all work on */
    float *u;           /* weights; threads divide outputs: windows, and gradients of tiles */
    float *parts;
    size_t part; /* numbers that a part has there */
};

/* Transformed weights lie as [`width` blocks of outputs][position][channel][output]. */
static void transform(const struct pass *k, size_t output, size_t channel, float *u)
{
    size_t width = min_size(WIDTH, k->to.blocks - output), channels = k->from.blocks;
    for (size_t i = 0; i < width; i++) {
        size_t block = k->exchanged ? channel * k->to.blocks + output + i : (output + i) * channels + channel;
        transform_weights(k->w + block * k->s->taps * MATRIX, k->s->size, k->exchanged,
                          k->exchanged && !k->s->scatter, u + channel * width * MATRIX + i * BLOCK, width,
                          width * channels * BLOCK);
    }
}

static void transform_all(void *ctx, size_t from, size_t to)
{
    const struct pass *k = ctx;
    for (size_t i = from; i < to; i++) {
        size_t output = i / k->from.blocks * WIDTH;
        transform(k, output, i % k->from.blocks, k->u + output * POSITIONS * k->from.blocks * MATRIX);
    }
}

static struct tiles tiles_of(const struct winograd *s, const struct map *m)
{
    size_t size = WINDOW + 1 - s->size;
    return (struct tiles){ .size = size,
                           .down = (m->h + size - 1) / size,
                           .across = (m->w + size - 1) / size,
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

static void clear_images(const struct map *m, size_t first, size_t last, float *y)
{
    size_t image = m->blocks * m->h * m->w * BLOCK;
    memset(y + first * image, 0, (last - first) * image * sizeof *y);
}

/* Threads divide tiles, all of `rows` images; a part begins with its windows. */
static void run_tiles(void *ctx, size_t part, size_t end)
{
    const struct pass *k = ctx;
    const struct winograd *s = k->s;
    int scatter = k->exchanged && s->scatter;
    for (; part < end; part++) {
        struct tiles t = tiles_of(s, scatter ? &k->from : &k->to);
        /* Windows overlap: threads divide images then. */
        size_t piece = scatter ? t.down * t.across : 1, all = k->rows * t.down * t.across / piece,
               first = all * part / s->parts, last = all * (part + 1) / s->parts;
        float *v = k->parts + part * k->part, *m = v + transformed(&t, k->from.blocks, 0);
        if (scatter && !k->finish.add) clear_images(&k->to, first, last, k->y);
        while (next_group(&t, first * piece, last * piece)) {
            if (scatter)
                read_gradients(&k->from, k->x, &t, v);
            else
                read_windows(&k->from, k->x, &t, k->pad, v);
            for (size_t p = 0; p < POSITIONS; p++)
                for (size_t o = 0; o < k->to.blocks; o += WIDTH) {
                    size_t width = min_size(WIDTH, k->to.blocks - o);
                    multiply_tiles(&t, width, k->from.channels, v + transformed(&t, 0, p),
                                   k->u + (o * POSITIONS + p * width) * k->from.blocks * MATRIX,
                                   m + transformed(&t, o, p));
                }
            if (scatter)
                add_windows(&k->to, m, &t, k->pad, k->y);
            else
                write_tiles(&k->to, 0, k->to.blocks, m, &t, &k->finish, k->y);
        }
    }
}

static void sum_parts(void *ctx, size_t part, size_t end)
{
    const struct pass *k = ctx;
    const struct winograd *s = k->s;
    for (; part < end; part++) {
        struct tiles t = tiles_of(s, &k->to);
        size_t all = k->rows * t.down * t.across, channels = k->from.blocks;
        float *v = k->parts + part * k->part, *g = v + transformed(&t, channels, 0),
              *sums = g + transformed(&t, k->to.blocks, 0);
        int add = 0;
        for (; next_group(&t, all * part / s->parts, all * (part + 1) / s->parts); add = 1) {
            read_windows(&k->from, k->x, &t, k->pad, v);
            read_gradients(&k->to, k->gy, &t, g);
            for (size_t p = 0; p < POSITIONS; p++)
                for (size_t o = 0; o < k->to.blocks; o += WIDTH) {
                    size_t width = min_size(WIDTH, k->to.blocks - o);
                    sum_tiles(&t, width, k->from.channels, v + transformed(&t, 0, p),
                              g + transformed(&t, o, p), add,
                              sums + (o * POSITIONS + p * width) * channels * MATRIX);
                }
        }
        if (!add) memset(sums, 0, POSITIONS * k->to.blocks * channels * MATRIX * sizeof *sums);
    }
}

static void gather_parts(void *ctx, size_t from, size_t to)
{
    const struct pass *k = ctx;
    const struct winograd *s = k->s;
    size_t channels = k->from.blocks;
    for (size_t i = from; i < to; i++) {
        size_t o = i / channels, first = o / WIDTH * WIDTH, width = min_size(WIDTH, k->to.blocks - first);
        const float *sums = k->parts + (channels + k->to.blocks) * POSITIONS * s->group * BLOCK +
                            (first * POSITIONS * channels + i % channels * width) * MATRIX +
                            (o - first) * BLOCK;
        gather_weights(sums, s->size, block_channels(&k->from, i % channels), width, width * channels * BLOCK,
                       s->parts, k->part, k->add, k->gw + i * s->taps * MATRIX);
    }
}

/* Threads divide outputs. All numbers of a group are transformed first, each block of weights when its turn
 * comes. */
static void read_part(void *ctx, size_t from, size_t to)
{
    const struct pass *k = ctx;
    struct tiles t = k->tiles;
    t.first += from;
    t.count = to - from;
    read_windows(&k->from, k->x, &t, k->pad, k->u + from * BLOCK);
    if (k->gy) read_gradients(&k->to, k->gy, &t, k->u + transformed(&t, k->from.blocks, 0) + from * BLOCK);
}

static void run_outputs(void *ctx, size_t part, size_t end)
{
    const struct pass *k = ctx;
    const struct winograd *s = k->s;
    size_t channels = k->from.blocks, pieces = (k->to.blocks + WIDTH - 1) / WIDTH;
    for (; part < end; part++) {
        float *u = k->parts + part * k->part, *m = u + POSITIONS * WIDTH * channels * MATRIX;
        for (size_t i = pieces * part / s->parts; i < pieces * (part + 1) / s->parts; i++) {
            size_t o = i * WIDTH, width = min_size(WIDTH, k->to.blocks - o);
            for (size_t c = 0; c < channels; c++) transform(k, o, c, u);
            for (size_t p = 0; p < POSITIONS; p++)
                multiply_tiles(&k->tiles, width, k->from.channels, k->u + transformed(&k->tiles, 0, p),
                               u + p * width * channels * MATRIX, m + transformed(&k->tiles, 0, p));
            write_tiles(&k->to, o, width, m, &k->tiles, &k->finish, k->y);
        }
    }
}

static void sum_outputs(void *ctx, size_t part, size_t end)
{
    const struct pass *k = ctx;
    const struct winograd *s = k->s;
    const struct tiles *t = &k->tiles;
    enum { RANGE = 8 };
    size_t channels = k->from.blocks, ranges = (channels + RANGE - 1) / RANGE,
           pieces = (k->to.blocks + WIDTH - 1) / WIDTH * ranges;
    for (; part < end; part++) {
        float *sums = k->parts + part * k->part;
        for (size_t i = pieces * part / s->parts; i < pieces * (part + 1) / s->parts; i++) {
            size_t o = i / ranges * WIDTH, width = min_size(WIDTH, k->to.blocks - o), c = i % ranges * RANGE,
                   n = min_size(RANGE, channels - c);
            for (size_t p = 0; p < POSITIONS; p++)
                sum_tiles(t, width, min_size(n * BLOCK, k->from.channels - c * BLOCK),
                          k->u + transformed(t, c, p), k->u + transformed(t, channels + o, p), 0,
                          sums + p * width * n * MATRIX);
            for (size_t a = 0; a < n; a++)
                for (size_t b = 0; b < width; b++)
                    gather_weights(sums + a * width * MATRIX + b * BLOCK, s->size,
                                   block_channels(&k->from, c + a), width, width * n * BLOCK, 1, 0,
                                   k->add || t->first,
                                   k->gw + ((o + b) * channels + c + a) * s->taps * MATRIX);
        }
    }
}

static void run(struct pass *k)
{
    const struct winograd *s = k->s;
    size_t pieces = (k->to.blocks + WIDTH - 1) / WIDTH;
    k->tiles = tiles_of(s, &k->to);
    if (s->large) {
        while (next_group(&k->tiles, 0, k->rows * k->tiles.down * k->tiles.across)) {
            parallel_for(s->cpu, k->tiles.count, 1, read_part, k);
            parallel_for(s->cpu, s->parts, 1, k->gy ? sum_outputs : run_outputs, k);
        }
    } else if (k->gy) {
        parallel_for(s->cpu, s->parts, 1, sum_parts, k);
        parallel_for(s->cpu, k->from.blocks * k->to.blocks, 1, gather_parts, k);
    } else {
        parallel_for(s->cpu, pieces * k->from.blocks, 1, transform_all, k);
        parallel_for(s->cpu, s->parts, 1, run_tiles, k);
    }
}

/* x in blocks of channels. */
static const float *blocked(const struct winograd *s, size_t rows, const void *x, void *scratch)
{
    if (!s->reorder) return x;
    float *to = scratch_at(scratch, s->at_x);
    format_reorder(s->cpu, rows, &s->in, x, &s->blocked, to, 0);
    return to;
}

static struct pass pass_of(const struct winograd *s, size_t rows, void *scratch)
{
    struct pass k = { .s = s,
                      .from = s->x,
                      .to = s->y,
                      .pad = s->pad,
                      .rows = rows,
                      .u = scratch_at(scratch, s->at_u),
                      .parts = scratch_at(scratch, s->at_parts) };
    return k;
}

/* Numbers of a part, and before the parts. */
static size_t part_of(const struct winograd *s, size_t from, size_t to, int gradient)
{
    size_t tiles = POSITIONS * s->group * BLOCK;
    if (!s->large) return (from + to) * tiles + (gradient ? POSITIONS * from * to * MATRIX : 0);
    return WIDTH * (POSITIONS * from * MATRIX + (gradient ? 0 : tiles));
}

static int forward(const struct op_plan *p, const struct op_context *context, const void *x, const void *w,
                   const real *bias, void *y)
{
    const struct winograd *s = p->self;
    struct pass k = pass_of(s, s->rows, context->scratch);
    k.x = blocked(s, s->rows, x, context->scratch);
    k.w = w;
    k.y = y;
    k.finish = (struct finish){ bias, s->act, 0 };
    k.part = part_of(s, k.from.blocks, k.to.blocks, 0);
    run(&k);
    if (act_apply(s->act, 0) != 0) format_pad(s->cpu, &s->out, s->rows, y);
    return OK;
}

static void backward_x(const struct winograd *s, const void *w, const void *gy, void *gx, void *scratch)
{
    struct pass k = pass_of(s, s->rows_back, scratch);
    k.from = s->y;
    k.to = s->x;
    if (!s->scatter) k.pad = s->size - 1 - s->pad;
    k.x = gy;
    k.w = w;
    k.exchanged = 1;
    k.y = s->reorder ? scratch_at(scratch, s->at_x) : gx;
    k.finish.add = s->add_gx && !s->reorder;
    k.part = part_of(s, k.from.blocks, k.to.blocks, 0);
    run(&k);
    if (s->reorder) format_reorder(s->cpu, s->rows_back, &s->blocked, k.y, &s->in, gx, s->add_gx);
}

static void backward_w(const struct winograd *s, const void *x, const void *gy, void *gw, int add,
                       void *scratch)
{
    struct pass k = pass_of(s, s->rows_back, scratch);
    k.x = blocked(s, s->rows_back, x, scratch);
    k.gy = gy;
    k.gw = gw;
    k.add = add;
    k.part = part_of(s, k.from.blocks, k.to.blocks, 1);
    run(&k);
}

static int backward(const struct op_plan *p, const struct op_context *context, const void *x, const void *w,
                    const void *gy, void *gx, void *gw, real *gbias)
{
    const struct winograd *s = p->self;
    if (gx) backward_x(s, w, gy, gx, context->scratch);
    if (gw) backward_w(s, x, gy, gw, context->add, context->scratch);
    if (gbias) format_channel_sums(s->cpu, s->rows_back, &s->out, gy, gbias, context->add);
    return OK;
}

/* ---- plan ---- */

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
                            .scatter = d->size == 5,
                            .pad = (size_t)d->pad,
                            .rows = (size_t)in.n,
                            .rows_back = d->train ? (size_t)d->rows_back : 0,
                            .add_gx = d->add_gx,
                            .act = d->train ? ACT_LINEAR : d->act,
                            .parts = (size_t)cpu_of(be)->threads };
    size_t x = s->x.blocks, y = s->y.blocks, most = max_size(x, y), bytes;
    if (mem_mul(x * y, (s->parts + 1) * POSITIONS * MATRIX * sizeof(float), &bytes))
        return fail(e, E_MEM, "%d x %d x %d x %d weights do not fit into memory", out->shape.c, in.c, d->size,
                    d->size);
    s->large = large(in, out->shape);
    s->group = s->large ? LARGE_GROUP * s->parts : GROUP;
    p->fused = s->act == d->act;
    p->weight_bytes = s->taps * x * y * MATRIX * sizeof(float);
    if (s->reorder) s->at_x = scratch_reserve(&p->scratch_bytes, s->rows * s->blocked.row * sizeof(float));
    size_t shared = s->large ? (x + y) * s->group * BLOCK : x * y * MATRIX;
    s->at_u = scratch_reserve(&p->scratch_bytes, POSITIONS * shared * sizeof(float));
    size_t part = max_size(part_of(s, x, y, 1), part_of(s, most, most, 0));
    s->at_parts = scratch_reserve(&p->scratch_bytes, s->parts * part * sizeof(float));
    return OK;
}

const struct linear_ops conv_winograd = { plan, pack, unpack, forward, backward };
