#include "cpu.h"
#include <string.h>
#include "backend/scalar.h"
#include "core/mem.h"

struct join {
    const struct cpu *cpu;
    size_t rows, rows_back;
    struct memory_format out; /* of the result, and of the first input of an addition */
    /* addition */
    enum act act;
    float alpha, beta;
    int add[2];
    struct shape a, b;
    struct memory_format of_b;
    int same, moved;   /* shapes are equal; but the memory order of b is another */
    size_t at_b, at_g; /* in scratch: b or its gradient in a's order; the gradient before the activation */
    /* concatenation; nin = 0 for addition */
    int nin;
    struct memory_format in[];
};

enum { PIECE = 1024 }; /* numbers that stay in the nearest cache between two loops */

static size_t flat(const struct join *s, size_t rows) { return rows * s->out.row; }

/* ---- plan ---- */

static int plan_add(struct backend *be, const struct add_desc *d, struct tensor *out, struct join_plan *plan,
                    struct err *e)
{
    *plan = (struct join_plan){ 0 };
    struct shape a = d->a->shape, b = d->b->shape;
    int up = a.w > b.w ? a.w / b.w : 1, down = b.w > a.w ? b.w / a.w : 1;
    if ((size_t)a.w * (size_t)down != (size_t)b.w * (size_t)up ||
        (size_t)a.h * (size_t)down != (size_t)b.h * (size_t)up)
        return fail(e, E_ARG,
                    "maps of %d x %d and %d x %d cannot be added: one must be a whole multiple of the other",
                    a.w, a.h, b.w, b.h);
    TRY(format_tensor(out, d->a->layout, e));
    struct join *s = mem_alloc(1, sizeof *s);
    if (!s) return fail(e, E_MEM, "no memory to plan an addition");
    *s = (struct join){ .cpu = cpu_of(be),
                        .rows = (size_t)a.n,
                        .rows_back = (size_t)d->rows_back,
                        .out = format_of(a, d->a->layout),
                        .act = d->act,
                        .alpha = (float)d->alpha,
                        .beta = (float)d->beta,
                        .add = { d->add_a, d->add_b },
                        .a = a,
                        .b = b,
                        .of_b = format_of(b, d->b->layout) };
    s->same = a.c == b.c && a.h == b.h && a.w == b.w;
    s->moved = s->same && !order_same(a, d->a->layout, d->b->layout);
    if (s->moved) s->at_b = cpu_carve(&plan->scratch_bytes, flat(s, s->rows) * sizeof(float));
    if (!s->same && d->train && d->act != ACT_LINEAR)
        s->at_g = cpu_carve(&plan->scratch_bytes, flat(s, s->rows_back) * sizeof(float));
    plan->fused = 1;
    plan->self = s;
    return OK;
}

static int plan_concat(struct backend *be, const struct concat_desc *d, struct tensor *out,
                       struct join_plan *plan, struct err *e)
{
    *plan = (struct join_plan){ 0 };
    const struct layout *first = d->in[0]->layout;
    int known;
    TRY(format_tensor(out, format_layout(out->shape, first ? first->block : 1, &known), e));
    struct join *s = mem_alloc(1, sizeof *s + (size_t)d->nin * sizeof *s->in);
    if (!s) return fail(e, E_MEM, "no memory to plan a concatenation");
    s->cpu = cpu_of(be);
    s->rows = (size_t)out->shape.n;
    s->rows_back = (size_t)d->rows_back;
    s->out = format_of(out->shape, out->layout);
    s->nin = d->nin;
    for (int i = 0; i < d->nin; i++) s->in[i] = format_of(d->in[i]->shape, d->in[i]->layout);
    plan->self = s;
    return OK;
}

static void join_drop(struct join_plan *plan)
{
    mem_free(plan->self);
    plan->self = NULL;
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
    const struct join *s;
    const float *a, *b, *y, *g;
    float *to, *gb;
    int add_b;
};

static void add_part(void *ctx, size_t from, size_t to)
{
    const struct elements *k = ctx;
    const struct join *s = k->s;
    for (size_t at = from; at < to; at += PIECE) {
        size_t n = to - at < PIECE ? to - at : PIECE;
        add_scaled(n, s->alpha, k->a + at, s->beta, k->b + at, k->to + at);
        act_map(s->act, n, k->to + at, k->to + at);
    }
}

static void add_back_part(void *ctx, size_t from, size_t to)
{
    const struct elements *k = ctx;
    const struct join *s = k->s;
    float piece[PIECE];
    for (size_t at = from; at < to; at += PIECE) {
        size_t n = to - at < PIECE ? to - at : PIECE;
        act_grad(s->act, n, NULL, k->y + at, k->g + at, piece);
        if (k->to) put_scaled(n, s->alpha, piece, k->to + at, s->add[0]);
        if (k->gb) put_scaled(n, s->beta, piece, k->gb + at, k->add_b);
    }
}

static int forward_same(const struct join *s, const void *const *x, void *y, void *scratch)
{
    struct elements k = { .s = s, .a = x[0], .b = x[1], .to = y };
    if (s->moved) {
        struct view from = { s->of_b, 0, (float *)x[1] }, to = { s->out, 0, cpu_at(scratch, s->at_b) };
        format_copy(s->cpu, &to, &from, s->rows, s->out.c, 0);
        format_pad(s->cpu, &s->out, s->rows, to.data);
        k.b = to.data;
    }
    cpu_share(s->cpu, flat(s, s->rows), PIECE, add_part, &k);
    return OK;
}

static int backward_same(const struct join *s, const void *y, const void *gy, void *const *gx, void *scratch)
{
    int moved = s->moved && gx[1];
    struct elements k = { .s = s,
                          .y = y,
                          .g = gy,
                          .to = gx[0],
                          .gb = moved ? cpu_at(scratch, s->at_b) : gx[1],
                          .add_b = !moved && s->add[1] };
    cpu_share(s->cpu, flat(s, s->rows_back), PIECE, add_back_part, &k);
    if (!moved) return OK;
    struct view from = { s->out, 0, k.gb }, to = { s->of_b, 0, gx[1] };
    format_copy(s->cpu, &to, &from, s->rows_back, s->out.c, s->add[1]);
    if (!s->add[1]) format_pad(s->cpu, &s->of_b, s->rows_back, gx[1]);
    return OK;
}

/* ---- addition on the overlap of unequal shapes ---- */

/* to = keep * to + factor * from, for the elements of a and b that meet. Either side is in a or in b. */
struct overlap {
    const struct join *s;
    float *to;
    const float *from;
    float keep, factor;
    int to_b, from_b;
};

static void overlap_rows(void *ctx, size_t first, size_t last)
{
    const struct overlap *k = ctx;
    const struct join *s = k->s;
    size_t up = s->a.w > s->b.w ? (size_t)(s->a.w / s->b.w) : 1,
           down = s->b.w > s->a.w ? (size_t)(s->b.w / s->a.w) : 1;
    size_t aw = (size_t)s->a.w, bw = (size_t)s->b.w, width = aw < bw ? aw : bw;
    size_t channels = s->out.c < s->of_b.c ? s->out.c : s->of_b.c,
           pixels = s->out.hw < s->of_b.hw ? s->out.hw : s->of_b.hw;
    for (size_t n = first; n < last; n++)
        for (size_t c = 0; c < channels; c++)
            for (size_t p = 0; p < pixels; p++) {
                size_t row = p / width, col = p % width;
                size_t a = format_at(&s->out, n, c, row * up * aw + col * up);
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

static int forward_overlap(const struct join *s, const void *const *x, float *y)
{
    struct overlap k = { s, y, x[1], s->alpha, s->beta, 0, 1 };
    struct elements all = { .s = s, .to = y };
    if (y != x[0]) memcpy(y, x[0], flat(s, s->rows) * sizeof *y);
    cpu_share(s->cpu, s->rows, 1, overlap_rows, &k);
    if (s->act != ACT_LINEAR) cpu_share(s->cpu, flat(s, s->rows), PIECE, map_part, &all);
    return OK;
}

static int backward_overlap(const struct join *s, const void *y, const void *gy, void *const *gx,
                            void *scratch)
{
    size_t n = flat(s, s->rows_back);
    const float *g = gy;
    if (s->act != ACT_LINEAR) {
        struct elements k = { .s = s, .y = y, .g = gy, .to = cpu_at(scratch, s->at_g) };
        cpu_share(s->cpu, n, PIECE, grad_part, &k);
        g = k.to;
    }
    if (gx[0]) {
        struct overlap k = { s, gx[0], g, 1, s->alpha - 1, 0, 0 };
        if (s->add[0])
            cpu_add(s->cpu, n, g, gx[0]);
        else
            memcpy(gx[0], g, n * sizeof *g);
        if (s->alpha != 1) cpu_share(s->cpu, s->rows_back, 1, overlap_rows, &k);
    }
    if (gx[1]) {
        struct overlap k = { s, gx[1], g, 1, s->beta, 1, 0 };
        if (!s->add[1]) memset(gx[1], 0, s->rows_back * s->of_b.row * sizeof *g);
        cpu_share(s->cpu, s->rows_back, 1, overlap_rows, &k);
    }
    return OK;
}

/* ---- concatenation ---- */

static int forward_concat(const struct join *s, const void *const *x, void *y)
{
    struct view to = { s->out, 0, y };
    for (int i = 0; i < s->nin; to.at += s->in[i++].c) {
        struct view from = { s->in[i], 0, (float *)x[i] };
        format_copy(s->cpu, &to, &from, s->rows, s->in[i].c, 0);
    }
    format_pad(s->cpu, &s->out, s->rows, y);
    return OK;
}

static int backward_concat(const struct join *s, const void *gy, void *const *gx, const int *add)
{
    struct view from = { s->out, 0, (float *)gy };
    for (int i = 0; i < s->nin; from.at += s->in[i++].c) {
        struct view to = { s->in[i], 0, gx[i] };
        if (!gx[i]) continue;
        format_copy(s->cpu, &to, &from, s->rows_back, s->in[i].c, add[i]);
        if (!add[i]) format_pad(s->cpu, &s->in[i], s->rows_back, gx[i]);
    }
    return OK;
}

static int join_forward(const struct join_plan *plan, const void *const *x, void *y, void *scratch)
{
    const struct join *s = plan->self;
    if (s->nin) return forward_concat(s, x, y);
    TRY(s->same ? forward_same(s, x, y, scratch) : forward_overlap(s, x, y));
    if (act_apply(s->act, 0) != 0) format_pad(s->cpu, &s->out, s->rows, y);
    return OK;
}

static int join_backward(const struct join_plan *plan, const void *y, const void *gy, void *const *gx,
                         const int *add, void *scratch)
{
    const struct join *s = plan->self;
    if (s->nin) return backward_concat(s, gy, gx, add);
    return s->same ? backward_same(s, y, gy, gx, scratch) : backward_overlap(s, y, gy, gx, scratch);
}

const struct join_ops cpu_join = {
    .plan_add = plan_add,
    .plan_concat = plan_concat,
    .forward = join_forward,
    .backward = join_backward,
    .destroy = join_drop,
};
