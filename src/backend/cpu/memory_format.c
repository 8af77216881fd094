#include "cpu.h"
#include <string.h>
#include "core/mem.h"

static const struct layout blocks_of_8 = { .block = 8 }, blocks_of_16 = { .block = 16 },
                           channels_last = { .block = ALL_CHANNELS };

struct memory_format format_of(struct shape s, const struct layout *l)
{
    struct memory_format o = { .c = (size_t)s.c, .hw = (size_t)s.h * (size_t)s.w, .block = 1 };
    if (l) o.block = l->block == ALL_CHANNELS ? o.c : (size_t)l->block;
    o.blocks = (o.c + o.block - 1) / o.block;
    o.row = o.blocks * o.block * o.hw;
    return o;
}

const struct layout *format_layout(struct shape s, int block, int *known)
{
    *known = block == 1 || block == 8 || block == 16 || block == ALL_CHANNELS;
    const struct layout *l = block == 8 ? &blocks_of_8 : block == 16 ? &blocks_of_16 : &channels_last;
    if (!*known || block == 1) return NULL;
    struct memory_format o = format_of(s, l);
    int dense = o.block == 1 || (o.hw == 1 && o.c % o.block == 0);
    return dense ? NULL : l;
}

int format_tensor(struct tensor *t, const struct layout *l, struct err *e)
{
    struct shape s = t->shape;
    size_t padded = (size_t)s.c + 16, n; /* the largest padding: the sums in format_of cannot wrap */
    if (mem_mul(padded, (size_t)s.h, &n) || mem_mul(n, (size_t)s.w, &n) || mem_mul(n, (size_t)s.n, &n) ||
        mem_mul(n, sizeof(float), &n))
        return fail(e, E_MEM, "a tensor of %d x %d x %d x %d numbers does not fit into memory", s.n, s.c, s.h,
                    s.w);
    t->layout = l;
    t->bytes = format_of(s, l).row * (size_t)s.n * sizeof(float);
    return OK;
}

int order_same(struct shape s, const struct layout *a, const struct layout *b)
{
    int known;
    return format_layout(s, a ? a->block : 1, &known) == format_layout(s, b ? b->block : 1, &known);
}

struct copy {
    const struct view *to, *from;
    size_t channels;
    int add;
};

/* Both sides whole blocks of the same size: one run of memory. */
static void copy_run(float *to, const float *from, size_t n, int add)
{
    if (!add) {
        memcpy(to, from, n * sizeof *to);
        return;
    }
#pragma omp simd
    for (size_t i = 0; i < n; i++) to[i] += from[i];
}

static void copy_strided(float *to, size_t to_step, const float *from, size_t from_step, size_t n, int add)
{
    if (add)
        for (size_t i = 0; i < n; i++) to[i * to_step] += from[i * from_step];
    else
        for (size_t i = 0; i < n; i++) to[i * to_step] = from[i * from_step];
}

/* Between different blocks: pixels in pieces, so that the lines of memory that the channels share stay in the
 * cache. */
static void copy_row(const struct copy *k, size_t n)
{
    enum { PIECE = 64 };
    const struct memory_format *to = &k->to->format, *from = &k->from->format;
    for (size_t p = 0; p < to->hw; p += PIECE) {
        size_t len = to->hw - p < PIECE ? to->hw - p : PIECE;
        for (size_t c = 0; c < k->channels; c++)
            copy_strided(k->to->data + format_at(to, n, k->to->at + c, p), to->block,
                         k->from->data + format_at(from, n, k->from->at + c, p), from->block, len, k->add);
    }
}

static void copy_rows(void *ctx, size_t first, size_t last)
{
    const struct copy *k = ctx;
    const struct view *to = k->to, *from = k->from;
    size_t block = to->format.block, whole = 0;
    /* The last block may be copied whole, padding included, when both sides end with it. */
    if (block == from->format.block && to->at % block == 0 && from->at % block == 0 &&
        (k->channels % block == 0 ||
         (to->at + k->channels == to->format.c && from->at + k->channels == from->format.c)))
        whole = (k->channels + block - 1) / block * block * to->format.hw;
    for (size_t n = first; n < last; n++) {
        if (whole)
            copy_run(to->data + format_at(&to->format, n, to->at, 0),
                     from->data + format_at(&from->format, n, from->at, 0), whole, k->add);
        else
            copy_row(k, n);
    }
}

void format_copy(const struct cpu *cpu, const struct view *to, const struct view *from, size_t rows,
                 size_t channels, int add)
{
    struct copy k = { to, from, channels, add };
    cpu_share(cpu, rows, 1, copy_rows, &k);
}

struct padding {
    const struct memory_format *format;
    float *data;
};

static void pad_rows(void *ctx, size_t first, size_t last)
{
    const struct padding *k = ctx;
    const struct memory_format *o = k->format;
    size_t used = o->c % o->block;
    for (size_t n = first; n < last; n++) {
        float *at = k->data + format_at(o, n, o->c - used, 0);
        for (size_t p = 0; p < o->hw; p++, at += o->block)
            memset(at + used, 0, (o->block - used) * sizeof *at);
    }
}

void format_pad(const struct cpu *cpu, const struct memory_format *o, size_t rows, float *data)
{
    struct padding k = { o, data };
    if (o->c % o->block) cpu_share(cpu, rows, 1, pad_rows, &k);
}

struct sums {
    struct memory_format format;
    size_t rows, width, parts; /* channels summed together; such parts in a block */
    const float *x;
    float *out;
    int add;
};

enum { WIDTH = 16, PIXELS = 256 };

/* sum[] += the pixels of one row, in float over short runs: rounding stays that of short sums. */
static void sum_pixels(const struct memory_format *o, const float *x, size_t width, double *sum)
{
    for (size_t p = 0; p < o->hw; p += PIXELS) {
        size_t len = o->hw - p < PIXELS ? o->hw - p : PIXELS;
        float part[WIDTH] = { 0 };
        for (size_t i = 0; i < len; i++)
            for (size_t c = 0; c < width; c++) part[c] += x[(p + i) * o->block + c];
        for (size_t c = 0; c < width; c++) sum[c] += (double)part[c];
    }
}

static void sum_parts(void *ctx, size_t first, size_t last)
{
    const struct sums *k = ctx;
    for (size_t i = first; i < last; i++) {
        size_t c = i / k->parts * k->format.block + i % k->parts * k->width,
               end = (i / k->parts + 1) * k->format.block;
        if (end > k->format.c) end = k->format.c;
        size_t width = c >= end ? 0 : end - c < k->width ? end - c : k->width;
        double sum[WIDTH] = { 0 };
        for (size_t n = 0; n < k->rows && width; n++)
            sum_pixels(&k->format, k->x + format_at(&k->format, n, c, 0), width, sum);
        for (size_t j = 0; j < width; j++) k->out[c + j] = (float)sum[j] + (k->add ? k->out[c + j] : 0);
    }
}

void order_sums(const struct cpu *cpu, struct shape s, const struct layout *l, const float *x, float *out,
                int add)
{
    struct sums k = {
        format_of(s, !l && s.h * s.w == 1 ? &channels_last : l), (size_t)s.n, WIDTH, 1, x, out, add
    };
    if (k.format.block < WIDTH) k.width = k.format.block;
    k.parts = (k.format.block + k.width - 1) / k.width;
    cpu_share(cpu, k.format.blocks * k.parts, 1, sum_parts, &k);
}
