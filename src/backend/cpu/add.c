#include "backend/ops/add.h"
#include <string.h>
#include "backend/scalar.h"
#include "cpu.h"

struct add {
    const struct cpu *cpu;
    size_t rows, rows_back;
    enum act act;
    float alpha, beta;
    int add_a, add_b;
    struct shape a, b;
    int up, down;                    /* see add_factors */
    struct memory_format of_a, of_b; /* the result has that of a */
    int same, moved;                 /* shapes are equal; but the memory order of b is another */
    size_t at_b, at_g; /* in scratch: b or its gradient in a's order; the gradient before the activation */
};

enum { PIECE = 1024 }; /* numbers that stay in the nearest cache between two loops */

static size_t flat(const struct add *s, size_t rows) { return rows * s->of_a.row; }

/* ---- plan ---- */

static int add_plan(struct backend *be, const struct add_desc *d, struct tensor *out, struct op_plan *plan,
                    struct err *e)
{
    TRY(op_plan_init(plan, sizeof(struct add), e));
    struct shape a = d->a->shape, b = d->b->shape;
    int up, down;
    if (!add_factors(a, b, &up, &down))
        return fail(e, E_ARG,
                    "cannot add maps of %dx%d and %dx%d: one size must be a whole multiple of the other", a.w,
                    a.h, b.w, b.h);
    TRY(format_tensor(out, d->a->layout, e));
    struct add *s = plan->self;
    *s = (struct add){ .cpu = cpu_of(be),
                       .rows = (size_t)a.n,
                       .rows_back = (size_t)d->rows_back,
                       .of_a = format_of(a, d->a->layout),
                       .act = d->act,
                       .alpha = (float)d->alpha,
                       .beta = (float)d->beta,
                       .add_a = d->add_a,
                       .add_b = d->add_b,
                       .a = a,
                       .b = b,
                       .up = up,
                       .down = down,
                       .of_b = format_of(b, d->b->layout) };
    s->same = a.c == b.c && a.h == b.h && a.w == b.w;
    s->moved = s->same && !order_same(a, d->a->layout, d->b->layout);
    if (s->moved) s->at_b = cpu_carve(&plan->scratch_bytes, flat(s, s->rows) * sizeof(float));
    if (!s->same && d->train && d->act != ACT_LINEAR)
        s->at_g = cpu_carve(&plan->scratch_bytes, flat(s, s->rows_back) * sizeof(float));
    plan->fused = 1;
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
    const float *a, *b, *y, *g;
    float *to, *gb;
    int add_b;
};

static void add_part(void *ctx, size_t from, size_t to)
{
    const struct elements *k = ctx;
    const struct add *s = k->s;
    for (size_t at = from; at < to; at += PIECE) {
        size_t n = to - at < PIECE ? to - at : PIECE;
        add_scaled(n, s->alpha, k->a + at, s->beta, k->b + at, k->to + at);
        act_map(s->act, n, k->to + at, k->to + at);
    }
}

static void add_back_part(void *ctx, size_t from, size_t to)
{
    const struct elements *k = ctx;
    const struct add *s = k->s;
    float piece[PIECE];
    for (size_t at = from; at < to; at += PIECE) {
        size_t n = to - at < PIECE ? to - at : PIECE;
        act_grad(s->act, n, NULL, k->y + at, k->g + at, piece);
        if (k->to) put_scaled(n, s->alpha, piece, k->to + at, s->add_a);
        if (k->gb) put_scaled(n, s->beta, piece, k->gb + at, k->add_b);
    }
}

static int forward_same(const struct add *s, const void *a, const void *b, void *y, void *scratch)
{
    struct elements k = { .s = s, .a = a, .b = b, .to = y };
    if (s->moved) {
        struct view from = { s->of_b, 0, (float *)b }, to = { s->of_a, 0, cpu_at(scratch, s->at_b) };
        format_copy(s->cpu, &to, &from, s->rows, s->of_a.c, 0);
        format_pad(s->cpu, &s->of_a, s->rows, to.data);
        k.b = to.data;
    }
    cpu_share(s->cpu, flat(s, s->rows), PIECE, add_part, &k);
    return OK;
}

static int backward_same(const struct add *s, const void *y, const void *gy, void *ga, void *gb,
                         void *scratch)
{
    int moved = s->moved && gb;
    struct elements k = { .s = s,
                          .y = y,
                          .g = gy,
                          .to = ga,
                          .gb = moved ? cpu_at(scratch, s->at_b) : gb,
                          .add_b = !moved && s->add_b };
    cpu_share(s->cpu, flat(s, s->rows_back), PIECE, add_back_part, &k);
    if (!moved) return OK;
    struct view from = { s->of_a, 0, k.gb }, to = { s->of_b, 0, gb };
    format_copy(s->cpu, &to, &from, s->rows_back, s->of_a.c, s->add_b);
    if (!s->add_b) format_pad(s->cpu, &s->of_b, s->rows_back, gb);
    return OK;
}

/* ---- addition on the overlap of unequal shapes ---- */

/* to = keep * to + factor * from, for the elements of a and b that meet. Either side is in a or in b. */
struct overlap {
    const struct add *s;
    float *to;
    const float *from;
    float keep, factor;
    int to_b, from_b;
};

static void overlap_rows(void *ctx, size_t first, size_t last)
{
    const struct overlap *k = ctx;
    const struct add *s = k->s;
    size_t up = (size_t)s->up, down = (size_t)s->down;
    size_t aw = (size_t)s->a.w, bw = (size_t)s->b.w, width = aw < bw ? aw : bw;
    size_t channels = s->of_a.c < s->of_b.c ? s->of_a.c : s->of_b.c,
           pixels = s->of_a.hw < s->of_b.hw ? s->of_a.hw : s->of_b.hw;
    for (size_t n = first; n < last; n++)
        for (size_t c = 0; c < channels; c++)
            for (size_t p = 0; p < pixels; p++) {
                size_t row = p / width, col = p % width;
                size_t a = format_at(&s->of_a, n, c, row * up * aw + col * up);
                size_t b = format_at(&s->of_b, n, c, row * down * bw + col * down);
                float *to = k->to + (k->to_b ? b : a);
                *to = k->keep * *to + k->factor * k->from[k->from_b ? b : a];
            }
}

static void map_part(void *ctx, size_t from, size_t to)
{
    const struct elements *k = ctx;
    act_map(k->s->act, to - from, k->to + from, k->to + from);
}

static void grad_part(void *ctx, size_t from, size_t to)
{
    const struct elements *k = ctx;
    act_grad(k->s->act, to - from, NULL, k->y + from, k->g + from, k->to + from);
}

static int forward_overlap(const struct add *s, const void *a, const void *b, float *y)
{
    struct overlap k = { s, y, b, s->alpha, s->beta, 0, 1 };
    struct elements all = { .s = s, .to = y };
    if (y != a) memcpy(y, a, flat(s, s->rows) * sizeof *y);
    cpu_share(s->cpu, s->rows, 1, overlap_rows, &k);
    if (s->act != ACT_LINEAR) cpu_share(s->cpu, flat(s, s->rows), PIECE, map_part, &all);
    return OK;
}

static int backward_overlap(const struct add *s, const void *y, const void *gy, void *ga, void *gb,
                            void *scratch)
{
    size_t n = flat(s, s->rows_back);
    const float *g = gy;
    if (s->act != ACT_LINEAR) {
        struct elements k = { .s = s, .y = y, .g = gy, .to = cpu_at(scratch, s->at_g) };
        cpu_share(s->cpu, n, PIECE, grad_part, &k);
        g = k.to;
    }
    if (ga) {
        struct overlap k = { s, ga, g, 1, s->alpha - 1, 0, 0 };
        if (s->add_a)
            cpu_accumulate(s->cpu, n, g, ga);
        else
            memcpy(ga, g, n * sizeof *g);
        if (s->alpha != 1) cpu_share(s->cpu, s->rows_back, 1, overlap_rows, &k);
    }
    if (gb) {
        struct overlap k = { s, gb, g, 1, s->beta, 1, 0 };
        if (!s->add_b) memset(gb, 0, s->rows_back * s->of_b.row * sizeof *g);
        cpu_share(s->cpu, s->rows_back, 1, overlap_rows, &k);
    }
    return OK;
}

static int add_forward(const struct op_plan *plan, const struct op_context *context, const void *a,
                       const void *b, void *y)
{
    const struct add *s = plan->self;
    TRY(s->same ? forward_same(s, a, b, y, context->scratch) : forward_overlap(s, a, b, y));
    if (act_apply(s->act, 0) != 0) format_pad(s->cpu, &s->of_a, s->rows, y);
    return OK;
}

static int add_backward(const struct op_plan *plan, const struct op_context *context, const void *y,
                        const void *gy, void *ga, void *gb)
{
    const struct add *s = plan->self;
    return s->same ? backward_same(s, y, gy, ga, gb, context->scratch)
                   : backward_overlap(s, y, gy, ga, gb, context->scratch);
}

const struct add_ops cpu_add = { .plan = add_plan, .forward = add_forward, .backward = add_backward };
