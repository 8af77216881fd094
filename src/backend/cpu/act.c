#include "backend/ops/act.h"
#include <string.h>
#include "backend/scalar.h"
#include "cpu.h"

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

static void activation_release(void *self)
{
    struct activation *s = self;
    op_drop(&s->run);
    op_drop(&s->back);
}

static int plan_ops(struct activation *s, const struct act_desc *d, struct op_plan *plan, struct err *e)
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
                           struct op_plan *plan, struct err *e)
{
    TRY(op_plan_init(plan, sizeof(struct activation), e));
    TRY(format_tensor(out, d->in->layout, e));
    struct activation *s = plan->self;
    plan->release = activation_release;
    s->cpu = cpu_of(be);
    s->act = d->act;
    s->format = format_of(d->in->shape, d->in->layout);
    s->rows = (size_t)d->in->shape.n;
    s->rows_back = (size_t)d->rows_back;
    return plan_ops(s, d, plan, e);
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

static int activation_forward(const struct op_plan *plan, const struct op_context *context, const void *x,
                              void *y)
{
    const struct activation *s = plan->self;
    struct elements k = { .act = s->act, .x = x, .to = y };
    if (s->run.primitive)
        TRY(op_run(&s->run, (const void *[]){ x, y }, context->scratch));
    else if (s->act != ACT_LINEAR || x != y)
        cpu_share(s->cpu, s->rows * s->format.row, PIECE, map_part, &k);
    if (act_apply(s->act, 0) != 0) format_pad(s->cpu, &s->format, s->rows, y);
    return OK;
}

static int activation_backward(const struct op_plan *plan, const struct op_context *context, const void *x,
                               const void *y, const void *gy, void *gx, int add)
{
    const struct activation *s = plan->self;
    size_t n = s->rows_back * s->format.row;
    struct elements k = { s->act, x, y, gy, gx, add };
    if (!s->back.primitive) {
        if (s->act != ACT_LINEAR || add || gx != gy) cpu_share(s->cpu, n, PIECE, grad_part, &k);
        return OK;
    }
    void *to = add ? cpu_at(context->scratch, s->at_sum) : gx;
    TRY(op_run(&s->back, (const void *[]){ act_from_output(s->act) ? y : x, gy, to }, context->scratch));
    if (add) cpu_accumulate(s->cpu, n, to, gx);
    return OK;
}

const struct act_ops cpu_act = {
    .plan = activation_plan,
    .forward = activation_forward,
    .backward = activation_backward,
};
