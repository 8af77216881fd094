#include "backend/ops/add.h"
#include <string.h>
#include "act.h"
#include "backend/scalar.h"

struct add {
    const struct cpu *cpu;
    struct add_desc desc;
    float alpha, beta;
    size_t rows, rows_back;
    size_t a_width, b_width;         /* columns of the maps */
    size_t up, down;                 /* see add_factors */
    struct memory_format of_a, of_b; /* the result has that of a */
    int same_shape;
    int reorder_b; /* shapes are the same, formats are not */
    size_t at_b;   /* in scratch: b, or its gradient, in a's format */
    size_t at_g;   /* in scratch: the gradient before the activation */
};

static size_t numbers(const struct add *s, size_t rows) { return rows * s->of_a.row; }

static int plan(struct backend *be, const struct add_desc *d, struct tensor *out, struct op_plan *p,
                struct err *e)
{
    struct shape a = d->a->shape, b = d->b->shape;
    int up, down;
    TRY(op_plan_init(p, sizeof(struct add), e));
    TRY(format_tensor(out, d->a->layout, e));
    add_factors(a, b, &up, &down);
    struct add *s = p->self;
    *s = (struct add){ .cpu = cpu_of(be),
                       .desc = *d,
                       .alpha = (float)d->alpha,
                       .beta = (float)d->beta,
                       .rows = (size_t)a.n,
                       .rows_back = (size_t)d->rows_back,
                       .a_width = (size_t)a.w,
                       .b_width = (size_t)b.w,
                       .up = (size_t)up,
                       .down = (size_t)down,
                       .of_a = format_of(a, d->a->layout),
                       .of_b = format_of(b, d->b->layout),
                       .same_shape = a.c == b.c && a.h == b.h && a.w == b.w };
    s->reorder_b = s->same_shape && !format_same(a, d->a->layout, d->b->layout);
    if (s->reorder_b)
        s->at_b = scratch_reserve(&p->scratch_bytes, format_bytes(&s->of_a, numbers(s, s->rows)));
    if (!s->same_shape && d->train && d->act != ACT_LINEAR)
        s->at_g = scratch_reserve(&p->scratch_bytes, format_bytes(&s->of_a, numbers(s, s->rows_back)));
    p->fused = 1;
    return OK;
}

/* ---- addition of equal shapes: one pass over memory ---- */

CPU_CLONES static void add_scaled(size_t n, float alpha, const float *a, float beta, const float *b, float *y)
{
#pragma omp simd
    for (size_t i = 0; i < n; i++) y[i] = alpha * a[i] + beta * b[i];
}

CPU_CLONES static void put_scaled(size_t n, float factor, const float *x, float *to, int add)
{
    if (add) {
#pragma omp simd
        for (size_t i = 0; i < n; i++) to[i] += factor * x[i];
    } else {
#pragma omp simd
        for (size_t i = 0; i < n; i++) to[i] = factor * x[i];
    }
}

struct elements {
    const struct add *s;
    const void *a, *b, *gy;
    void *y, *ga, *gb; /* y: written forward, read backward */
    int add_b;
};

static void forward_part(void *ctx, size_t from, size_t to)
{
    const struct elements *k = ctx;
    const struct add *s = k->s;
    int bf16 = s->of_a.bf16;
    float a[PIECE], b[PIECE], out[PIECE];
    for (size_t at = from; at < to; at += PIECE) {
        size_t n = min_size(PIECE, to - at);
        float *y = piece_place(k->y, at, bf16, out);
        add_scaled(n, s->alpha, piece_get(k->a, at, n, bf16, a), s->beta, piece_get(k->b, at, n, bf16, b), y);
        act_map(s->desc.act, n, y, y);
        piece_put(k->y, at, n, bf16, y);
    }
}

static void put_piece(void *to, size_t at, size_t n, int bf16, float factor, const float *g, int add)
{
    float piece[PIECE], *out = piece_place(to, at, bf16, piece);
    if (bf16 && add) piece_get(to, at, n, 1, piece);
    put_scaled(n, factor, g, out, add);
    piece_put(to, at, n, bf16, out);
}

static void backward_part(void *ctx, size_t from, size_t to)
{
    const struct elements *k = ctx;
    const struct add *s = k->s;
    int bf16 = s->of_a.bf16;
    float g[PIECE], y[PIECE], gy[PIECE];
    for (size_t at = from; at < to; at += PIECE) {
        size_t n = min_size(PIECE, to - at);
        act_grad(s->desc.act, n, piece_get(k->y, at, n, bf16, y), piece_get(k->gy, at, n, bf16, gy), g);
        if (k->ga) put_piece(k->ga, at, n, bf16, s->alpha, g, s->desc.add_a);
        if (k->gb) put_piece(k->gb, at, n, bf16, s->beta, g, k->add_b);
    }
}

static void forward_same(const struct add *s, const void *a, const void *b, void *y, void *scratch)
{
    void *reordered = scratch_at(scratch, s->at_b);
    struct elements k = { .s = s, .a = a, .b = s->reorder_b ? reordered : b, .y = y };
    if (s->reorder_b) format_reorder(s->cpu, s->rows, &s->of_b, b, &s->of_a, reordered, 0);
    parallel_for(s->cpu, numbers(s, s->rows), PIECE, forward_part, &k);
}

static void backward_same(const struct add *s, const void *y, const void *gy, void *ga, void *gb,
                          void *scratch)
{
    struct elements k = { .s = s, .y = (void *)y, .gy = gy, .ga = ga, .gb = gb, .add_b = s->desc.add_b };
    int reorder = s->reorder_b && gb;
    if (reorder) k.gb = scratch_at(scratch, s->at_b), k.add_b = 0;
    parallel_for(s->cpu, numbers(s, s->rows_back), PIECE, backward_part, &k);
    if (reorder) format_reorder(s->cpu, s->rows_back, &s->of_a, k.gb, &s->of_b, gb, s->desc.add_b);
}

/* ---- addition on the overlap of unequal shapes ---- */

/* to = keep * to + factor * from, for the elements of a and b that meet. */
struct overlap {
    const struct add *s;
    void *to;
    const void *from;
    float keep, factor;
    int to_b, from_b; /* whether that side is in b rather than in a */
};

static void overlap_rows(void *ctx, size_t first, size_t last)
{
    const struct overlap *k = ctx;
    const struct add *s = k->s;
    size_t width = min_size(s->a_width, s->b_width), channels = min_size(s->of_a.c, s->of_b.c),
           pixels = min_size(s->of_a.hw, s->of_b.hw);
    int to_bf16 = k->to_b ? s->of_b.bf16 : s->of_a.bf16, from_bf16 = k->from_b ? s->of_b.bf16 : s->of_a.bf16;
    for (size_t n = first; n < last; n++)
        for (size_t c = 0; c < channels; c++)
            for (size_t p = 0; p < pixels; p++) {
                size_t row = p / width, col = p % width;
                size_t a = format_at(&s->of_a, n, c, (row * s->a_width + col) * s->up);
                size_t b = format_at(&s->of_b, n, c, (row * s->b_width + col) * s->down);
                size_t to = k->to_b ? b : a;
                float f = element(k->from, k->from_b ? b : a, from_bf16);
                put_element(k->to, to, to_bf16, k->keep * element(k->to, to, to_bf16) + k->factor * f);
            }
}

static void forward_overlap(const struct add *s, const void *a, const void *b, void *y)
{
    struct overlap k = { s, y, b, s->alpha, s->beta, 0, 1 };
    if (y != a) memcpy(y, a, format_bytes(&s->of_a, numbers(s, s->rows)));
    parallel_for(s->cpu, s->rows, 1, overlap_rows, &k);
    act_map_all(s->cpu, s->desc.act, numbers(s, s->rows), s->of_a.bf16, y, y);
}

static void backward_overlap(const struct add *s, const void *y, const void *gy, void *ga, void *gb,
                             void *scratch)
{
    size_t n = numbers(s, s->rows_back);
    if (s->desc.act != ACT_LINEAR) {
        void *g = scratch_at(scratch, s->at_g);
        act_grad_all(s->cpu, s->desc.act, n, s->of_a.bf16, y, gy, g, 0);
        gy = g;
    }
    if (ga) {
        struct overlap k = { s, ga, gy, 1, s->alpha - 1, 0, 0 };
        format_reorder(s->cpu, s->rows_back, &s->of_a, gy, &s->of_a, ga, s->desc.add_a);
        if (s->alpha != 1) parallel_for(s->cpu, s->rows_back, 1, overlap_rows, &k);
    }
    if (gb) {
        struct overlap k = { s, gb, gy, 1, s->beta, 1, 0 };
        if (!s->desc.add_b) memset(gb, 0, format_bytes(&s->of_b, s->rows_back * s->of_b.row));
        parallel_for(s->cpu, s->rows_back, 1, overlap_rows, &k);
    }
}

static int forward(const struct op_plan *p, const struct op_context *context, const void *a, const void *b,
                   void *y)
{
    const struct add *s = p->self;
    if (s->same_shape)
        forward_same(s, a, b, y, context->scratch);
    else
        forward_overlap(s, a, b, y);
    if (act_apply(s->desc.act, 0) != 0) format_pad(s->cpu, &s->of_a, s->rows, y);
    return OK;
}

static int backward(const struct op_plan *p, const struct op_context *context, const void *y, const void *gy,
                    void *ga, void *gb)
{
    const struct add *s = p->self;
    if (s->same_shape)
        backward_same(s, y, gy, ga, gb, context->scratch);
    else
        backward_overlap(s, y, gy, ga, gb, context->scratch);
    return OK;
}

const struct add_ops cpu_add = { plan, forward, backward };
