#include "backend/ops/act.h"
#include "act.h"
#include "backend/scalar.h"
#include "dnn.h"

/* One loop for each activation, which is then a constant to the compiler: the switch in scalar.h disappears,
 * and the simple ones become vector code. The others call the C library for each number. */
#define EACH_ACT(X)                                                                                          \
    X(ACT_LINEAR)                                                                                            \
    X(ACT_RELU)                                                                                              \
    X(ACT_RELU6)                                                                                             \
    X(ACT_LEAKY)                                                                                             \
    X(ACT_RELIE)                                                                                             \
    X(ACT_RAMP)                                                                                              \
    X(ACT_LOGISTIC)                                                                                          \
    X(ACT_LOGGY)                                                                                             \
    X(ACT_TANH)                                                                                              \
    X(ACT_ELU) X(ACT_SELU) X(ACT_GELU) X(ACT_SWISH) X(ACT_MISH) X(ACT_HARD_MISH) X(ACT_PLSE) X(ACT_HARDTAN)  \
        X(ACT_LHTAN) X(ACT_STAIR)
#define CASE(A, statement)                                                                                   \
    case A:                                                                                                  \
        _Pragma("omp simd") for (size_t i = 0; i < n; i++) statement;                                        \
        break;
#define MAP(A)    CASE(A, y[i] = act_apply(A, x[i]))
#define GRAD_Y(A) CASE(A, gx[i] = gy[i] * act_slope_y(A, y[i]))

CPU_CLONES static void map(enum act act, size_t n, const float *x, float *y)
{
    switch (act) {
        EACH_ACT(MAP)
    case ACT_COUNT: break;
    }
}

CPU_CLONES static void grad_y(enum act act, size_t n, const float *y, const float *gy, float *gx)
{
    switch (act) {
        EACH_ACT(GRAD_Y)
    case ACT_COUNT: break;
    }
}

/* Not vectorised: most activations that need x have a primitive, see dnn_eltwise_known. */
static void grad_x(enum act act, size_t n, const float *x, const float *gy, float *gx)
{
    for (size_t i = 0; i < n; i++) gx[i] = gy[i] * act_slope_x(act, x[i]);
}

void act_map(enum act act, size_t n, const float *x, float *y)
{
    if (act != ACT_LINEAR || x != y) map(act, n, x, y);
}

void act_grad(enum act act, size_t n, const float *z, const float *gy, float *gx)
{
    if (act_from_output(act))
        grad_y(act, n, z, gy, gx);
    else
        grad_x(act, n, z, gy, gx);
}

/* ---- by all threads ---- */

struct elements {
    enum act act;
    int bf16;
    const void *from, *gy;
    void *to;
    int add;
};

static void map_part(void *ctx, size_t from, size_t to)
{
    const struct elements *k = ctx;
    float in[PIECE], out[PIECE];
    for (size_t at = from; at < to; at += PIECE) {
        size_t n = min_size(PIECE, to - at);
        float *y = piece_place(k->to, at, k->bf16, out);
        act_map(k->act, n, piece_get(k->from, at, n, k->bf16, in), y);
        piece_put(k->to, at, n, k->bf16, y);
    }
}

void act_map_all(const struct cpu *cpu, enum act act, size_t n, int bf16, const void *x, void *y)
{
    struct elements k = { .act = act, .bf16 = bf16, .from = x, .to = y };
    if (act != ACT_LINEAR || x != y) parallel_for(cpu, n, PIECE, map_part, &k);
}

static void grad_part(void *ctx, size_t from, size_t to)
{
    const struct elements *k = ctx;
    float z[PIECE], gy[PIECE], gx[PIECE], piece[PIECE];
    for (size_t at = from; at < to; at += PIECE) {
        size_t n = min_size(PIECE, to - at);
        float *out = piece_place(k->to, at, k->bf16, gx);
        act_grad(k->act, n, piece_get(k->from, at, n, k->bf16, z), piece_get(k->gy, at, n, k->bf16, gy),
                 k->add ? piece : out);
        if (k->add) {
            if (k->bf16) piece_get(k->to, at, n, 1, out);
            accumulate(n, piece, out);
        }
        piece_put(k->to, at, n, k->bf16, out);
    }
}

void act_grad_all(const struct cpu *cpu, enum act act, size_t n, int bf16, const void *z, const void *gy,
                  void *gx, int add)
{
    struct elements k = { act, bf16, z, gy, gx, add };
    if (act != ACT_LINEAR || add || gx != gy) parallel_for(cpu, n, PIECE, grad_part, &k);
}

struct biased {
    enum act act;
    const struct memory_format *format;
    const float *bias;
    float *y;
};

static void bias_rows(void *ctx, size_t first, size_t last)
{
    const struct biased *k = ctx;
    const struct memory_format *f = k->format;
    for (size_t n = first; n < last; n++) {
        float *y = k->y + n * f->row, *at = y;
        for (size_t c = 0; c < f->c && k->bias; c += f->block)
            for (size_t p = 0; p < f->hw; p++, at += f->block)
                for (size_t i = 0; i < f->block; i++) at[i] += k->bias[c + i];
        act_map(k->act, f->row, y, y);
    }
}

void act_bias(const struct cpu *cpu, enum act act, const struct memory_format *f, size_t rows,
              const float *bias, float *y)
{
    struct biased k = { act, f, bias, y };
    if (bias || act != ACT_LINEAR) parallel_for(cpu, rows, 1, bias_rows, &k);
}

/* ---- the operation ---- */

/* Both passes run over flat memory, whatever its format, padding included; where f(0) is not 0 the padding is
 * zeroed afterwards. */
struct activation {
    const struct cpu *cpu;
    enum act act;
    struct memory_format format;
    size_t rows, rows_back;
    struct primitive run, back; /* not made: the loops above do it */
    size_t at_gx;               /* in scratch: the gradient before it is added */
};

static void release(void *self)
{
    struct activation *s = self;
    primitive_destroy(&s->run);
    primitive_destroy(&s->back);
}

static int plan(struct backend *be, const struct act_desc *d, struct tensor *out, struct op_plan *p,
                struct err *e)
{
    TRY(op_plan_init(p, sizeof(struct activation), e));
    TRY(format_tensor(out, d->in->layout, e));
    struct activation *s = p->self;
    p->release = release;
    s->cpu = cpu_of(be);
    s->act = d->act;
    s->format = format_of(d->in->shape, d->in->layout);
    s->rows = (size_t)d->in->shape.n;
    s->rows_back = (size_t)d->rows_back;
    if (!dnn_eltwise_known(s->act)) return OK;
    size_t back = s->rows_back * s->format.row;
    int bf16 = s->format.bf16;
    TRY(dnn_eltwise(&s->run, s->cpu, s->act, s->rows * s->format.row, bf16, PASS_FORWARD, e));
    if (d->train) TRY(dnn_eltwise(&s->back, s->cpu, s->act, back, bf16, PASS_DATA, e));
    scratch_reserve(&p->scratch_bytes, max_size(s->run.scratch_bytes, s->back.scratch_bytes));
    if (d->train) s->at_gx = scratch_reserve(&p->scratch_bytes, format_bytes(&s->format, back));
    return OK;
}

static int forward(const struct op_plan *p, const struct op_context *context, const void *x, void *y)
{
    const struct activation *s = p->self;
    if (s->run.handle)
        TRY(primitive_run(&s->run, (const void *[]){ x, y }, context->scratch));
    else
        act_map_all(s->cpu, s->act, s->rows * s->format.row, s->format.bf16, x, y);
    if (act_apply(s->act, 0) != 0) format_pad(s->cpu, &s->format, s->rows, y);
    return OK;
}

static int backward(const struct op_plan *p, const struct op_context *context, const void *x, const void *y,
                    const void *gy, void *gx, int add)
{
    const struct activation *s = p->self;
    size_t n = s->rows_back * s->format.row;
    const void *z = act_from_output(s->act) ? y : x;
    if (!s->back.handle) {
        act_grad_all(s->cpu, s->act, n, s->format.bf16, z, gy, gx, add);
        return OK;
    }
    void *to = add ? scratch_at(context->scratch, s->at_gx) : gx;
    TRY(primitive_run(&s->back, (const void *[]){ z, gy, to }, context->scratch));
    if (add) format_reorder(s->cpu, s->rows_back, &s->format, to, &s->format, gx, 1);
    return OK;
}

const struct act_ops cpu_act = { plan, forward, backward };
