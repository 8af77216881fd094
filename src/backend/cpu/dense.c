#include "backend/ops/dense.h"
#include <string.h>
#include "core/mem.h"
#include "cpu.h"

/* Weights stay as the host has them, O x (C*H*W): one matrix product each for y = x w^T, gx = gy w and gw =
 * gy^T x, which adds to what is there for nothing. Activations are small beside the weights, so an input in
 * blocks of channels is put into C,H,W order first; it would be the weights' order otherwise that had to
 * follow each input's layout. */
struct dense {
    const struct cpu *cpu;
    struct tensor in;
    size_t inputs, outputs, rows, rows_back;
    int flat; /* the input is dense already */
    int add_gx;
    enum act act;         /* applied by forward */
    struct layout layout; /* of the weights; carries nothing */
};

static int dense_plan(struct backend *be, const struct linear_desc *d, struct tensor *out,
                      struct op_plan *plan, struct err *e)
{
    TRY(op_plan_init(plan, sizeof(struct dense), e));
    TRY(format_tensor(out, NULL, e));
    size_t inputs = shape_row(d->in->shape), bytes;
    if (mem_mul(inputs, (size_t)out->shape.c, &bytes) || mem_mul(bytes, sizeof(float), &bytes))
        return fail(e, E_MEM, "weights of %zu x %d numbers do not fit into memory", inputs, out->shape.c);
    struct dense *s = plan->self;
    *s = (struct dense){ .cpu = cpu_of(be),
                         .in = *d->in,
                         .inputs = inputs,
                         .outputs = (size_t)out->shape.c,
                         .rows = (size_t)d->in->shape.n,
                         .rows_back = (size_t)d->rows_back,
                         .add_gx = d->add_gx };
    s->flat = order_same(d->in->shape, d->in->layout, NULL);
    plan->weights = &s->layout;
    plan->weight_bytes = bytes;
    plan->scratch_bytes = s->flat ? 0 : s->rows * inputs * sizeof(float);
    s->act = d->train ? ACT_LINEAR : d->act;
    plan->fused = s->act == d->act;
    return OK;
}

static int copy_bytes(const struct op_plan *plan, const void *from, void *to)
{
    memcpy(to, from, plan->weight_bytes);
    return OK;
}

static int dense_pack(const struct op_plan *plan, const real *host, void *w)
{
    return copy_bytes(plan, host, w);
}
static int dense_unpack(const struct op_plan *plan, const void *w, real *host)
{
    return copy_bytes(plan, w, host);
}

static const float *flatten(const struct dense *s, const void *x, size_t rows, void *scratch)
{
    if (s->flat) return x;
    struct view from = { format_of(s->in.shape, s->in.layout), 0, (float *)x };
    struct view to = { format_of(s->in.shape, NULL), 0, scratch };
    format_copy(s->cpu, &to, &from, rows, from.format.c, 0);
    return scratch;
}

struct finish {
    const struct dense *s;
    const float *bias;
    float *y;
};

static void finish_rows(void *ctx, size_t first, size_t last)
{
    const struct finish *k = ctx;
    size_t n = k->s->outputs;
    for (size_t r = first; r < last; r++) {
        float *y = k->y + r * n;
        for (size_t o = 0; o < n && k->bias; o++) y[o] += k->bias[o];
        act_map(k->s->act, n, y, y);
    }
}

static int dense_forward(const struct op_plan *plan, const struct op_context *context, const void *x,
                         const void *w, const real *bias, void *y)
{
    const struct dense *s = plan->self;
    x = flatten(s, x, s->rows, context->scratch);
    TRY(dnn_gemm(s->cpu, 0, 1, s->rows, s->outputs, s->inputs, x, w, 0, y));
    struct finish k = { s, bias, y };
    if (bias || s->act != ACT_LINEAR) cpu_share(s->cpu, s->rows, 1, finish_rows, &k);
    return OK;
}

static int backward_x(const struct dense *s, const void *w, const void *gy, void *gx, void *scratch)
{
    float *to = s->flat ? gx : scratch;
    TRY(dnn_gemm(s->cpu, 0, 0, s->rows_back, s->inputs, s->outputs, gy, w, s->flat && s->add_gx ? 1 : 0, to));
    if (s->flat) return OK;
    struct view from = { format_of(s->in.shape, NULL), 0, to };
    struct view back = { format_of(s->in.shape, s->in.layout), 0, gx };
    format_copy(s->cpu, &back, &from, s->rows_back, from.format.c, s->add_gx);
    if (!s->add_gx) format_pad(s->cpu, &back.format, s->rows_back, gx);
    return OK;
}

static int dense_backward(const struct op_plan *plan, const struct op_context *context, const void *x,
                          const void *w, const void *gy, void *gx, void *gw, real *gbias)
{
    const struct dense *s = plan->self;
    struct shape out = { (int)s->rows_back, (int)s->outputs, 1, 1 };
    if (gw) {
        x = flatten(s, x, s->rows_back, context->scratch);
        TRY(dnn_gemm(s->cpu, 1, 0, s->outputs, s->inputs, s->rows_back, gy, x, context->add ? 1 : 0, gw));
    }
    if (gbias) order_sums(s->cpu, out, NULL, gy, gbias, context->add);
    return gx ? backward_x(s, w, gy, gx, context->scratch) : OK;
}

const struct dense_ops cpu_dense = { {
    .plan = dense_plan,
    .pack = dense_pack,
    .unpack = dense_unpack,
    .forward = dense_forward,
    .backward = dense_backward,
} };
