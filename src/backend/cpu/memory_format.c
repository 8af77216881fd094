#include "memory_format.h"
#include <string.h>
#include "core/mem.h"

static const struct layout layouts[2][4] = {
    { { .block = 1 }, { .block = 8 }, { .block = 16 }, { .block = ALL_CHANNELS } },
    { { .block = 1, .bf16 = 1 },
      { .block = 8, .bf16 = 1 },
      { .block = 16, .bf16 = 1 },
      { .block = ALL_CHANNELS, .bf16 = 1 } },
};

int format_block(const struct layout *l) { return l ? l->block : 1; }

int format_bf16(const struct layout *l) { return l && l->bf16; }

struct memory_format format_of(struct shape s, const struct layout *l)
{
    struct memory_format f = { .c = (size_t)s.c, .hw = (size_t)s.h * (size_t)s.w, .bf16 = format_bf16(l) };
    f.block = format_block(l) == ALL_CHANNELS ? f.c : (size_t)format_block(l);
    f.blocks = (f.c + f.block - 1) / f.block;
    f.row = f.blocks * f.block * f.hw;
    return f;
}

const struct layout *format_layout(struct shape s, int block, int bf16)
{
    int i = block == 8 ? 1 : block == 16 ? 2 : block == ALL_CHANNELS ? 3 : 0;
    struct memory_format f = format_of(s, &layouts[bf16][i]);
    if (f.block == 1 || (f.hw == 1 && f.c % f.block == 0)) i = 0;
    return i || bf16 ? &layouts[bf16][i] : NULL;
}

int format_tensor(struct tensor *t, const struct layout *l, struct err *e)
{
    struct shape s = t->shape;
    size_t padded = (size_t)s.c + 16, n; /* the largest padding: the sums in format_of cannot wrap */
    if (mem_mul(padded, (size_t)s.h, &n) || mem_mul(n, (size_t)s.w, &n) || mem_mul(n, (size_t)s.n, &n) ||
        mem_mul(n, sizeof(float), &n))
        return fail(e, E_MEM, "a tensor of %d x %d x %d x %d numbers does not fit into memory", s.n, s.c, s.h,
                    s.w);
    struct memory_format f = format_of(s, l);
    t->layout = l;
    t->bytes = format_bytes(&f, f.row * (size_t)s.n);
    return OK;
}

int format_same(struct shape s, const struct layout *a, const struct layout *b)
{
    return format_layout(s, format_block(a), format_bf16(a)) ==
           format_layout(s, format_block(b), format_bf16(b));
}

/* ---- copies ---- */

/* A run of numbers, `step` apart. */
struct run {
    void *to;
    const void *from;
    size_t to_at, to_step, from_at, from_step, n;
    int add;
};

INLINE void copy_number(const struct run *r, size_t to, int to_bf16, size_t from, int from_bf16)
{
    float f = element(r->from, from, from_bf16);
    put_element(r->to, to, to_bf16, r->add ? element(r->to, to, to_bf16) + f : f);
}

/* Compiled for each pair of types. */
INLINE void copy_typed(const struct run *r, int to_bf16, int from_bf16)
{
    const struct run k = *r; /* not written through k.to: known to the compiler */
    if (k.to_step != 1 || k.from_step != 1) {
        for (size_t i = 0; i < k.n; i++)
            copy_number(&k, k.to_at + i * k.to_step, to_bf16, k.from_at + i * k.from_step, from_bf16);
    } else if (k.add) {
#pragma omp simd
        for (size_t i = 0; i < k.n; i++) copy_number(&k, k.to_at + i, to_bf16, k.from_at + i, from_bf16);
    } else {
#pragma omp simd
        for (size_t i = 0; i < k.n; i++) copy_number(&k, k.to_at + i, to_bf16, k.from_at + i, from_bf16);
    }
}

CPU_CLONES static void copy_run(const struct run *r, int to_bf16, int from_bf16)
{
    if (to_bf16 && from_bf16)
        copy_typed(r, 1, 1);
    else if (to_bf16)
        copy_typed(r, 1, 0);
    else if (from_bf16)
        copy_typed(r, 0, 1);
    else
        copy_typed(r, 0, 0);
}

struct copy {
    const struct view *to, *from;
    size_t channels;
    int add;
};

/* Between different blocks: in runs of pixels, so that the cache lines that channels share are still there
 * for the next channel. */
static void copy_row(const struct copy *k, size_t n)
{
    enum { RUN = 64 };
    const struct memory_format *to = &k->to->format, *from = &k->from->format;
    for (size_t p = 0; p < to->hw; p += RUN)
        for (size_t c = 0; c < k->channels; c++) {
            struct run r = { .to = k->to->data,
                             .from = k->from->data,
                             .to_at = format_at(to, n, k->to->at + c, p),
                             .to_step = to->block,
                             .from_at = format_at(from, n, k->from->at + c, p),
                             .from_step = from->block,
                             .n = min_size(RUN, to->hw - p),
                             .add = k->add };
            copy_run(&r, to->bf16, from->bf16);
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
        struct run r = { .to = to->data,
                         .from = from->data,
                         .to_at = format_at(&to->format, n, to->at, 0),
                         .to_step = 1,
                         .from_at = format_at(&from->format, n, from->at, 0),
                         .from_step = 1,
                         .n = whole,
                         .add = k->add };
        if (!whole)
            copy_row(k, n);
        else if (to->format.bf16 == from->format.bf16 && !k->add)
            memcpy(format_data(&to->format, to->data, r.to_at),
                   format_data(&from->format, from->data, r.from_at), format_bytes(&to->format, whole));
        else
            copy_run(&r, to->format.bf16, from->format.bf16);
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
    void *data;
};

static void pad_rows(void *ctx, size_t first, size_t last)
{
    const struct padding *k = ctx;
    const struct memory_format *f = k->format;
    size_t used = f->c % f->block;
    for (size_t n = first; n < last; n++)
        for (size_t p = 0, at = format_at(f, n, f->c - used, 0); p < f->hw; p++, at += f->block)
            memset(format_data(f, k->data, at + used), 0, format_bytes(f, f->block - used));
}

void format_pad(const struct cpu *cpu, const struct memory_format *f, size_t rows, void *data)
{
    struct padding k = { f, data };
    if (f->c % f->block) parallel_for(cpu, rows, 1, pad_rows, &k);
}

void format_reorder(const struct cpu *cpu, size_t rows, const struct memory_format *from, const void *x,
                    const struct memory_format *to, void *y, int add)
{
    struct view source = { *from, 0, (void *)x }, target = { *to, 0, y };
    format_copy(cpu, &target, &source, rows, to->c, add);
    if (!add) format_pad(cpu, to, rows, y);
}

/* ---- operands ---- */

struct operand operand_of(const struct tensor *t, int rows, const struct layout *want)
{
    return (struct operand){ .have = format_of(t->shape, t->layout),
                             .want = format_of(t->shape, want),
                             .rows = (size_t)rows,
                             .reorder = !format_same(t->shape, t->layout, want) };
}

void operand_reserve(struct operand *o, size_t *scratch)
{
    if (o->reorder) o->at = scratch_reserve(scratch, format_bytes(&o->want, o->want.row * o->rows));
}

struct operand operand_float(const struct tensor *t, int rows, size_t *scratch)
{
    struct operand o = operand_of(t, rows, format_layout(t->shape, format_block(t->layout), 0));
    operand_reserve(&o, scratch);
    return o;
}

const void *operand_get(const struct cpu *cpu, const struct operand *o, const void *data, void *scratch)
{
    if (!o->reorder || !data) return data;
    format_reorder(cpu, o->rows, &o->have, data, &o->want, scratch_at(scratch, o->at), 0);
    return scratch_at(scratch, o->at);
}

void *operand_place(const struct operand *o, void *data, void *scratch)
{
    return o->reorder && data ? scratch_at(scratch, o->at) : data;
}

void operand_put(const struct cpu *cpu, const struct operand *o, void *data, void *scratch, int add)
{
    if (o->reorder && data)
        format_reorder(cpu, o->rows, &o->want, scratch_at(scratch, o->at), &o->have, data, add);
}

/* ---- pieces ---- */

CPU_CLONES static void widen(size_t n, const bfloat16 *restrict from, float *restrict to)
{
#pragma omp simd
    for (size_t i = 0; i < n; i++) to[i] = bf16_value(from[i]);
}

CPU_CLONES static void narrow(size_t n, const float *restrict from, bfloat16 *restrict to)
{
#pragma omp simd
    for (size_t i = 0; i < n; i++) to[i] = bf16_of(from[i]);
}

const float *piece_get(const void *data, size_t at, size_t n, int bf16, float *piece)
{
    if (!bf16) return (const float *)data + at;
    widen(n, (const bfloat16 *)data + at, piece);
    return piece;
}

void piece_put(void *data, size_t at, size_t n, int bf16, const float *piece)
{
    if (bf16) narrow(n, piece, (bfloat16 *)data + at);
}

/* ---- sums over rows and pixels ---- */

struct sums {
    struct memory_format format;
    size_t rows;
    size_t width, groups; /* channels summed together; such groups in a block */
    const void *x;
    float *out;
    int add;
};

enum { WIDTH = 16, PIXELS = 256 };

/* sum[] += the pixels of one row: short runs in float, which rounds little, and those in double. */
INLINE void sum_typed(const struct memory_format *f, const void *x, size_t at, size_t width, double *sum,
                      int bf16)
{
    for (size_t p = 0; p < f->hw; p += PIXELS) {
        size_t len = min_size(PIXELS, f->hw - p);
        float part[WIDTH] = { 0 };
        for (size_t i = 0; i < len; i++)
            for (size_t c = 0; c < width; c++) part[c] += element(x, at + (p + i) * f->block + c, bf16);
        for (size_t c = 0; c < width; c++) sum[c] += (double)part[c];
    }
}

static void sum_pixels(const struct memory_format *f, const void *x, size_t at, size_t width, double *sum)
{
    if (f->bf16)
        sum_typed(f, x, at, width, sum, 1);
    else
        sum_typed(f, x, at, width, sum, 0);
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
        for (size_t n = 0; n < k->rows && width; n++) sum_pixels(f, k->x, format_at(f, n, c, 0), width, sum);
        for (size_t j = 0; j < width; j++) k->out[c + j] = (float)sum[j] + (k->add ? k->out[c + j] : 0);
    }
}

void format_channel_sums(const struct cpu *cpu, size_t rows, const struct memory_format *format,
                         const void *x, float *out, int add)
{
    struct memory_format f = *format;
    if (f.hw == 1 && f.block == 1) f.block = f.c, f.blocks = 1; /* the same bytes in one block */
    size_t width = min_size(WIDTH, f.block), groups = (f.block + width - 1) / width;
    struct sums k = { f, rows, width, groups, x, out, add };
    parallel_for(cpu, f.blocks * groups, 1, sum_groups, &k);
}
