#include "memory_format.h"
#include <string.h>
#include "core/mem.h"

static const struct layout blocks_of_8 = { .block = 8 }, blocks_of_16 = { .block = 16 },
                           channels_last = { .block = ALL_CHANNELS };

struct memory_format format_of(struct shape s, const struct layout *l)
{
    struct memory_format f = { .c = (size_t)s.c, .hw = (size_t)s.h * (size_t)s.w, .block = 1 };
    if (l) f.block = l->block == ALL_CHANNELS ? f.c : (size_t)l->block;
    f.blocks = (f.c + f.block - 1) / f.block;
    f.row = f.blocks * f.block * f.hw;
    return f;
}

const struct layout *format_layout(struct shape s, int block)
{
    const struct layout *l = block == 8              ? &blocks_of_8
                             : block == 16           ? &blocks_of_16
                             : block == ALL_CHANNELS ? &channels_last
                                                     : NULL;
    struct memory_format f = format_of(s, l);
    return f.block == 1 || (f.hw == 1 && f.c % f.block == 0) ? NULL : l;
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

int format_same(struct shape s, const struct layout *a, const struct layout *b)
{
    return format_layout(s, a ? a->block : 1) == format_layout(s, b ? b->block : 1);
}

struct copy {
    const struct view *to, *from;
    size_t channels;
    int add;
};

static void copy_strided(float *to, size_t to_step, const float *from, size_t from_step, size_t n, int add)
{
    if (add)
        for (size_t i = 0; i < n; i++) to[i * to_step] += from[i * from_step];
    else
        for (size_t i = 0; i < n; i++) to[i * to_step] = from[i * from_step];
}

/* Between different blocks: in runs of pixels, so that the cache lines that channels share are still there
 * for the next channel. */
static void copy_row(const struct copy *k, size_t n)
{
    enum { RUN = 64 };
    const struct memory_format *to = &k->to->format, *from = &k->from->format;
    for (size_t p = 0; p < to->hw; p += RUN) {
        size_t len = min_size(RUN, to->hw - p);
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
        float *y = to->data + format_at(&to->format, n, to->at, 0);
        const float *x = from->data + format_at(&from->format, n, from->at, 0);
        if (!whole)
            copy_row(k, n);
        else if (k->add)
            accumulate(whole, x, y);
        else
            memcpy(y, x, whole * sizeof *y);
    }
}

void format_copy(const struct cpu *cpu, const struct view *to, const struct view *from, size_t rows,
                 size_t channels, int add)
{
    struct copy k = { to, from, channels, add };
    parallel_for(cpu, rows, 1, copy_rows, &k);
}

struct padding {
    const struct memory_format *format;
    float *data;
};

static void pad_rows(void *ctx, size_t first, size_t last)
{
    const struct padding *k = ctx;
    const struct memory_format *f = k->format;
    size_t used = f->c % f->block;
    for (size_t n = first; n < last; n++) {
        float *at = k->data + format_at(f, n, f->c - used, 0);
        for (size_t p = 0; p < f->hw; p++, at += f->block)
            memset(at + used, 0, (f->block - used) * sizeof *at);
    }
}

void format_pad(const struct cpu *cpu, const struct memory_format *f, size_t rows, float *data)
{
    struct padding k = { f, data };
    if (f->c % f->block) parallel_for(cpu, rows, 1, pad_rows, &k);
}

void format_reorder(const struct cpu *cpu, size_t rows, const struct memory_format *from, const float *x,
                    const struct memory_format *to, float *y, int add)
{
    struct view source = { *from, 0, (float *)x }, target = { *to, 0, y };
    format_copy(cpu, &target, &source, rows, to->c, add);
    if (!add) format_pad(cpu, to, rows, y);
}

/* ---- sums over rows and pixels ---- */

struct sums {
    struct memory_format format;
    size_t rows;
    size_t width, groups; /* channels summed together; such groups in a block */
    const float *x;
    float *out;
    int add;
};

enum { WIDTH = 16, PIXELS = 256 };

/* sum[] += the pixels of one row: short runs in float, which rounds little, and those in double. */
static void sum_pixels(const struct memory_format *f, const float *x, size_t width, double *sum)
{
    for (size_t p = 0; p < f->hw; p += PIXELS) {
        size_t len = min_size(PIXELS, f->hw - p);
        float part[WIDTH] = { 0 };
        for (size_t i = 0; i < len; i++)
            for (size_t c = 0; c < width; c++) part[c] += x[(p + i) * f->block + c];
        for (size_t c = 0; c < width; c++) sum[c] += (double)part[c];
    }
}

static void sum_groups(void *ctx, size_t first, size_t last)
{
    const struct sums *k = ctx;
    const struct memory_format *f = &k->format;
    for (size_t i = first; i < last; i++) {
        size_t block = i / k->groups, c = block * f->block + i % k->groups * k->width,
               end = min_size((block + 1) * f->block, f->c);
        size_t width = c >= end ? 0 : min_size(end - c, k->width);
        double sum[WIDTH] = { 0 };
        for (size_t n = 0; n < k->rows && width; n++) sum_pixels(f, k->x + format_at(f, n, c, 0), width, sum);
        for (size_t j = 0; j < width; j++) k->out[c + j] = (float)sum[j] + (k->add ? k->out[c + j] : 0);
    }
}

void format_channel_sums(const struct cpu *cpu, size_t rows, const struct memory_format *format,
                         const float *x, float *out, int add)
{
    struct memory_format f = *format;
    if (f.hw == 1 && f.block == 1) f.block = f.c, f.blocks = 1; /* the same bytes in one block */
    size_t width = min_size(WIDTH, f.block), groups = (f.block + width - 1) / width;
    struct sums k = { f, rows, width, groups, x, out, add };
    parallel_for(cpu, f.blocks * groups, 1, sum_groups, &k);
}
