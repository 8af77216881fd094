#include "cpu.h"
#include <string.h>
#include "backend/scalar.h"
#include "core/mem.h"

/* Loops over an activation that is a constant to the compiler: the switch inside scalar.h disappears, and the
 * simple ones become vector code. The others call the C library for each number. */
#define SIMPLE_ACTS(X)                                                                                       \
    X(ACT_LINEAR)                                                                                            \
    X(ACT_RELU)                                                                                              \
    X(ACT_RELU6)                                                                                             \
    X(ACT_LEAKY) X(ACT_RELIE) X(ACT_RAMP) X(ACT_HARD_MISH) X(ACT_PLSE) X(ACT_HARDTAN) X(ACT_LHTAN)
#define OTHER_ACTS(X)                                                                                        \
    X(ACT_LOGISTIC)                                                                                          \
    X(ACT_LOGGY) X(ACT_TANH) X(ACT_ELU) X(ACT_SELU) X(ACT_GELU) X(ACT_SWISH) X(ACT_MISH) X(ACT_STAIR)

#define CASE(A, pragma, statement)                                                                           \
    case A:                                                                                                  \
        pragma for (size_t i = 0; i < n; i++) statement;                                                     \
        break;
#define SIMD            _Pragma("omp simd")
#define MAP(A)          CASE(A, SIMD, y[i] = act_apply(A, x[i]))
#define MAP_OTHER(A)    CASE(A, , y[i] = act_apply(A, x[i]))
#define GRAD_Y(A)       CASE(A, SIMD, gx[i] = gy[i] * act_slope_y(A, y[i]))
#define GRAD_Y_OTHER(A) CASE(A, , gx[i] = gy[i] * act_slope_y(A, y[i]))

CPU_CLONES static void map(enum act act, size_t n, const float *x, float *y)
{
    switch (act) {
        SIMPLE_ACTS(MAP)
        OTHER_ACTS(MAP_OTHER)
    case ACT_COUNT: break;
    }
}

CPU_CLONES static void grad_y(enum act act, size_t n, const float *y, const float *gy, float *gx)
{
    switch (act) {
        SIMPLE_ACTS(GRAD_Y)
        OTHER_ACTS(GRAD_Y_OTHER)
    case ACT_COUNT: break;
    }
}

/* For those whose output does not tell. Most of them have a primitive, see dnn_eltwise_known. */
static void grad_x(enum act act, size_t n, const float *x, const float *gy, float *gx)
{
    for (size_t i = 0; i < n; i++) gx[i] = gy[i] * act_slope_x(act, x[i]);
}

void act_map(enum act act, size_t n, const float *x, float *y)
{
    if (act != ACT_LINEAR || x != y) map(act, n, x, y);
}

void act_grad(enum act act, size_t n, const float *x, const float *y, const float *gy, float *gx)
{
    if (act_from_output(act))
        grad_y(act, n, y, gy, gx);
    else
        grad_x(act, n, x, gy, gx);
}

/* ---- activation ---- */

/* Elements do not care about memory order, so both ways run over flat memory, padding included; where f(0) is
 * not 0 the padding is put right afterwards. */
struct activation {
    const struct cpu *cpu;
    enum act act;
    struct memory_format format;
    size_t rows, rows_back;
    struct op run, back; /* not made: the loops above do it */
    size_t at_sum;       /* in scratch: the gradient before it is added */
};

static void activation_drop(struct act_plan *plan)
{
    struct activation *s = plan->self;
    if (!s) return;
    op_drop(&s->run);
    op_drop(&s->back);
    mem_free(s);
    plan->self = NULL;
}

static int plan_ops(struct activation *s, const struct act_desc *d, struct act_plan *plan, struct err *e)
{
    size_t row = s->format.row;
    if (dnn_eltwise_known(s->act)) {
        TRY(dnn_eltwise(&s->run, s->cpu, s->act, s->rows * row, PASS_TRAIN, e));
        if (d->train) TRY(dnn_eltwise(&s->back, s->cpu, s->act, s->rows_back * row, PASS_DATA, e));
    }
    size_t end = cpu_max(s->run.scratch_bytes, s->back.scratch_bytes);
    cpu_carve(&end, 0);
    if (s->back.primitive) s->at_sum = cpu_carve(&end, s->rows_back * row * sizeof(float));
    plan->scratch_bytes = end;
    return OK;
}

static int activation_plan(struct backend *be, const struct act_desc *d, struct tensor *out,
                           struct act_plan *plan, struct err *e)
{
    *plan = (struct act_plan){ 0 };
    TRY(format_tensor(out, d->in->layout, e));
    struct activation *s = mem_alloc(1, sizeof *s);
    if (!s) return fail(e, E_MEM, "no memory to plan an activation");
    plan->self = s;
    s->cpu = cpu_of(be);
    s->act = d->act;
    s->format = format_of(d->in->shape, d->in->layout);
    s->rows = (size_t)d->in->shape.n;
    s->rows_back = (size_t)d->rows_back;
    int rc = plan_ops(s, d, plan, e);
    if (rc) activation_drop(plan);
    return rc;
}

struct elements {
    enum act act;
    const float *x, *y, *gy;
    float *to;
    int add;
};

static void map_part(void *ctx, size_t from, size_t to)
{
    const struct elements *k = ctx;
    act_map(k->act, to - from, k->x + from, k->to + from);
}

enum { PIECE = 1024 }; /* numbers that stay in the nearest cache between two loops */

CPU_CLONES static void add_piece(size_t n, const float *x, float *y)
{
#pragma omp simd
    for (size_t i = 0; i < n; i++) y[i] += x[i];
}

static void grad_part(void *ctx, size_t from, size_t to)
{
    const struct elements *k = ctx;
    float piece[PIECE];
    for (size_t at = from; at < to; at += PIECE) {
        size_t n = to - at < PIECE ? to - at : PIECE;
        act_grad(k->act, n, k->x ? k->x + at : NULL, k->y ? k->y + at : NULL, k->gy + at,
                 k->add ? piece : k->to + at);
        if (k->add) add_piece(n, piece, k->to + at);
    }
}

static int activation_forward(const struct act_plan *plan, const void *x, void *y, void *scratch)
{
    const struct activation *s = plan->self;
    struct elements k = { .act = s->act, .x = x, .to = y };
    if (s->run.primitive)
        TRY(op_run(&s->run, (const void *[]){ x, y }, scratch));
    else if (s->act != ACT_LINEAR || x != y)
        cpu_share(s->cpu, s->rows * s->format.row, PIECE, map_part, &k);
    if (act_apply(s->act, 0) != 0) format_pad(s->cpu, &s->format, s->rows, y);
    return OK;
}

static int activation_backward(const struct act_plan *plan, const void *x, const void *y, const void *gy,
                               void *gx, int add, void *scratch)
{
    const struct activation *s = plan->self;
    size_t n = s->rows_back * s->format.row;
    struct elements k = { s->act, x, y, gy, gx, add };
    if (!s->back.primitive) {
        if (s->act != ACT_LINEAR || add || gx != gy) cpu_share(s->cpu, n, PIECE, grad_part, &k);
        return OK;
    }
    void *to = add ? cpu_at(scratch, s->at_sum) : gx;
    TRY(op_run(&s->back, (const void *[]){ act_from_output(s->act) ? y : x, gy, to }, scratch));
    if (add) cpu_add(s->cpu, n, to, gx);
    return OK;
}

const struct act_ops cpu_act = {
    .plan = activation_plan,
    .forward = activation_forward,
    .backward = activation_backward,
    .destroy = activation_drop,
};

/* ---- dropout ---- */

struct dropout {
    const struct cpu *cpu;
    struct memory_format format;
    size_t rows, rows_back;
    double probability;
    uint64_t key;
};

static int dropout_plan(struct backend *be, const struct dropout_desc *d, struct tensor *out,
                        struct dropout_plan *plan, struct err *e)
{
    *plan = (struct dropout_plan){ 0 };
    TRY(format_tensor(out, d->in->layout, e));
    struct dropout *s = mem_alloc(1, sizeof *s);
    if (!s) return fail(e, E_MEM, "no memory to plan a dropout");
    *s = (struct dropout){ cpu_of(be),
                           format_of(d->in->shape, d->in->layout),
                           (size_t)d->in->shape.n,
                           (size_t)d->rows_back,
                           d->probability,
                           d->key };
    plan->self = s;
    return OK;
}

struct mask {
    uint64_t key, step;
    double probability;
    float scale;
    int add;
};

/* y[i] = x[i] scaled, or 0, for n neighbours in memory whose logical numbers are e, e + step, ... */
CPU_CLONES static void mask_run(struct mask m, uint64_t e, size_t n, const float *x, float *y)
{
    if (m.add) {
#pragma omp simd
        for (size_t i = 0; i < n; i++)
            y[i] += dropout_keep(m.key, e + i * m.step, m.probability) ? x[i] * m.scale : 0;
    } else {
#pragma omp simd
        for (size_t i = 0; i < n; i++)
            y[i] = dropout_keep(m.key, e + i * m.step, m.probability) ? x[i] * m.scale : 0;
    }
}

struct masked {
    const struct memory_format *format;
    struct mask mask;
    const float *x;
    float *y;
};

/* Part i is block i % blocks of row i / blocks. A dense row is one part and one run. */
static void mask_parts(void *ctx, size_t first, size_t last)
{
    const struct masked *k = ctx;
    const struct memory_format *o = k->format;
    size_t part = o->block == 1 ? o->row : o->block * o->hw, blocks = o->row / part;
    for (size_t i = first; i < last; i++) {
        size_t c = i % blocks * o->block, used = o->c - c < o->block ? o->c - c : o->block;
        uint64_t e = (i / blocks * o->c + c) * o->hw;
        if (o->block == 1) {
            mask_run(k->mask, e, part, k->x + i * part, k->y + i * part);
            continue;
        }
        for (size_t p = 0; p < o->hw; p++)
            mask_run(k->mask, e + p, used, k->x + i * part + p * o->block, k->y + i * part + p * o->block);
    }
}

static int mask_all(const struct dropout *s, size_t rows, const struct step_state *now, const float *x,
                    float *y, int add)
{
    uint64_t key = rng_key(s->key, RNG_DROPOUT, now->step);
    struct masked k = { &s->format,
                        { key, s->format.block == 1 ? 1 : s->format.hw, s->probability,
                          (float)(1 / (1 - s->probability)), add },
                        x,
                        y };
    cpu_share(s->cpu, rows * (s->format.block == 1 ? 1 : s->format.blocks), 1, mask_parts, &k);
    if (!add) format_pad(s->cpu, &s->format, rows, y);
    return OK;
}

static int dropout_forward(const struct dropout_plan *plan, const struct step_state *now, const void *x,
                           void *y, void *scratch)
{
    const struct dropout *s = plan->self;
    (void)scratch;
    return mask_all(s, s->rows, now, x, y, 0);
}

static int dropout_backward(const struct dropout_plan *plan, const struct step_state *now, const void *gy,
                            void *gx, int add, void *scratch)
{
    const struct dropout *s = plan->self;
    (void)scratch;
    return mask_all(s, s->rows_back, now, gy, gx, add);
}

static void dropout_drop(struct dropout_plan *plan)
{
    mem_free(plan->self);
    plan->self = NULL;
}

const struct dropout_ops cpu_dropout = {
    .plan = dropout_plan,
    .forward = dropout_forward,
    .backward = dropout_backward,
    .destroy = dropout_drop,
};
