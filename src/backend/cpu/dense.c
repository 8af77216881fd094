#include "backend/ops/dense.h"
#include "act.h"
#include "backend/ref/ref.h"
#include "core/mem.h"
#include "dense.h"
#include "dnn.h"

/* ---- products ---- */

void dense_init(struct dense *s, const struct cpu *cpu, const struct linear_desc *d,
                const struct layout *product, const struct memory_format *out, struct op_plan *plan)
{
    struct shape in = d->in->shape;
    *s = (struct dense){ .cpu = cpu,
                         .in = format_of(in, d->in->layout),
                         .product = format_of(in, product),
                         .out = *out,
                         .reorder = !format_same(in, d->in->layout, product),
                         .rows = (size_t)in.n,
                         .rows_back = (size_t)d->rows_back,
                         .add_gx = d->add_gx,
                         .act = d->train ? ACT_LINEAR : d->act };
    if (s->reorder) s->at_x = scratch_reserve(&plan->scratch_bytes, s->rows * s->product.row * sizeof(float));
    plan->fused = s->act == d->act;
}

int dense_bytes(size_t outputs, size_t inputs, size_t *bytes, struct err *e)
{
    if (mem_mul(inputs, outputs, bytes) || mem_mul(*bytes, sizeof(float), bytes))
        return fail(e, E_MEM, "a matrix of %zu x %zu weights does not fit into memory", outputs, inputs);
    return OK;
}

static const float *as_multiplied(const struct dense *s, const void *x, size_t rows, void *scratch)
{
    if (!s->reorder) return x;
    float *reordered = scratch_at(scratch, s->at_x);
    format_reorder(s->cpu, rows, &s->in, x, &s->product, reordered, 0);
    return reordered;
}

int dense_product(const struct dense *s, const void *x, const void *w, const real *bias, void *y,
                  void *scratch)
{
    x = as_multiplied(s, x, s->rows, scratch);
    TRY(dnn_gemm(s->cpu, 0, 1, s->rows, s->out.row, s->product.row, x, w, 0, y));
    act_bias(s->cpu, s->act, &s->out, s->rows, bias, y);
    return OK;
}

int dense_product_gx(const struct dense *s, const void *w, const void *gy, void *gx, void *scratch)
{
    float *to = s->reorder ? scratch_at(scratch, s->at_x) : gx, beta = !s->reorder && s->add_gx;
    TRY(dnn_gemm(s->cpu, 0, 0, s->rows_back, s->product.row, s->out.row, gy, w, beta, to));
    if (s->reorder) format_reorder(s->cpu, s->rows_back, &s->product, to, &s->in, gx, s->add_gx);
    return OK;
}

int dense_product_gw(const struct dense *s, const void *x, const void *gy, void *gw, int add, void *scratch)
{
    x = as_multiplied(s, x, s->rows_back, scratch);
    return dnn_gemm(s->cpu, 1, 0, s->out.row, s->product.row, s->rows_back, gy, x, add ? 1 : 0, gw);
}

/* ---- the operation ---- */

/* Weights stay as the host has them, O x (C*H*W). Activations are small beside them, so an input in blocks of
 * channels is reordered to C,H,W; else the weights would have to follow each input's layout. */
static int plan(struct backend *be, const struct linear_desc *d, struct tensor *out, struct op_plan *p,
                struct err *e)
{
    static const struct layout one_block = { .block = ALL_CHANNELS }; /* the fastest for sums */
    struct memory_format format = format_of(out->shape, &one_block);
    TRY(op_plan_init(p, sizeof(struct dense), e));
    TRY(format_tensor(out, NULL, e));
    dense_init(p->self, cpu_of(be), d, NULL, &format, p);
    return dense_bytes(format.row, shape_row(d->in->shape), &p->weight_bytes, e);
}

static int forward(const struct op_plan *p, const struct op_context *context, const void *x, const void *w,
                   const real *bias, void *y)
{
    return dense_product(p->self, x, w, bias, y, context->scratch);
}

static int backward(const struct op_plan *p, const struct op_context *context, const void *x, const void *w,
                    const void *gy, void *gx, void *gw, real *gbias)
{
    const struct dense *s = p->self;
    if (gw) TRY(dense_product_gw(s, x, gy, gw, context->add, context->scratch));
    if (gbias) format_channel_sums(s->cpu, s->rows_back, &s->out, gy, gbias, context->add);
    return gx ? dense_product_gx(s, w, gy, gx, context->scratch) : OK;
}

const struct dense_ops cpu_dense = { { plan, ref_pack, ref_unpack, ref_unpack, forward, backward, NULL } };
