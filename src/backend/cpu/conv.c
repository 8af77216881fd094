#include "backend/ops/conv.h"
#include "conv_as_gemm.h"
#include "core/mem.h"
#include "dnn.h"

/* A tensor that a primitive reads or writes. */
struct operand {
    struct memory_format have, want; /* as it lies in memory, and as the primitive wants it */
    size_t rows;
    int reorder; /* through a copy in scratch */
    size_t at;   /* in scratch */
};

struct conv {
    const struct cpu *cpu;
    struct conv_as_gemm *gemm; /* instead of all primitives below; NULL: there is none */
    struct tensor in, out;     /* shapes and layouts */
    int rows_back, add_gx;
    struct layout host;                                /* of the host's weights */
    struct layout weights, data_weights, grad_weights; /* as forward, data and weights passes want them */
    float *no_bias;                                    /* zeros: the primitive always adds a bias */
    struct primitive run, data, grad;                  /* forward, gradient of x, gradient of w */
    struct primitive to_data, from_grad; /* reorders of weights; not made where there is nothing to do */
    struct operand run_x, data_gy, data_gx, grad_x, grad_gy;
    size_t at_data_w; /* in scratch: w as the data pass wants it */
    size_t at_grad;   /* in scratch: gw as the weights pass leaves it */
    size_t at_gw;     /* in scratch: gw as packed, to be added */
};

/* Winograd F(4x4, 3x3), where oneDNN has it, or its direct code? The choice may not depend on timing: results
 * would change from run to run. Two cores with AVX-512, oneDNN 2.6.3, fp32, batch 128, GFLOP/s of the passes
 * forward, data and weights, counted as if direct:
 *
 *   3x3 on      direct         Winograd
 *   128x16x16   371 376 366    744 724 674
 *   256x8x8     385 370 364    1072 1068 883
 *   64x32x32    297 348 347    525 527 365
 *
 * ResNet-18 (3x32x32), the whole step, images/s: direct 92, Winograd by this rule 149. With fewer than 64
 * channels, as in a first layer, transforming costs more than it saves. An F(4x4, 3x3) of our own, whose
 * products run at 95 % of the cores' peak, took 0.81 to 1.15 of its time by shape and pass, 0.97 in the mean:
 * not worth its code. */
static const struct rule {
    int size, stride, groups, least_channels, multiple;
} winograd_rule = { 3, 1, 1, 64, 16 };

static int winograd(const struct dnn_conv *c)
{
    const struct rule *r = &winograd_rule;
    return c->size == r->size && c->stride == r->stride && c->groups == r->groups &&
           c->in.c >= r->least_channels && c->in.c % r->multiple == 0 && c->out.c % r->multiple == 0;
}

/* ---- plan ---- */

/* Describes argument `arg` of the primitive, so many rows of t. 0: it wants an unknown layout. */
static int bind(struct operand *o, struct tensor t, int rows, const struct primitive *p, int arg)
{
    int known;
    t.shape.n = rows;
    const struct layout *want = primitive_layout(p, arg, t.shape, &known);
    *o = (struct operand){ .have = format_of(t.shape, t.layout),
                           .want = format_of(t.shape, want),
                           .rows = (size_t)rows,
                           .reorder = !format_same(t.shape, t.layout, want) };
    return known;
}

static int bind_pass(struct conv *s, enum pass_kind pass, const struct primitive *p)
{
    if (pass == PASS_DATA)
        return bind(&s->data_gy, s->out, s->rows_back, p, 0) && bind(&s->data_gx, s->in, s->rows_back, p, 2);
    if (pass == PASS_WEIGHTS)
        return bind(&s->grad_x, s->in, s->rows_back, p, 0) && bind(&s->grad_gy, s->out, s->rows_back, p, 1);
    int known;
    s->out.layout = primitive_layout(p, 3, s->out.shape, &known);
    return known && bind(&s->run_x, s->in, s->in.shape.n, p, 0);
}

/* Makes the primitive in the best way that oneDNN offers. */
static int make_pass(struct conv *s, struct primitive *p, struct dnn_conv c, enum pass_kind pass,
                     struct err *e)
{
    static const struct {
        int winograd, any;
    } ways[] = { { 1, 1 }, { 0, 1 }, { 0, 0 } };
    int rc = OK;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        c.winograd = ways[i].winograd;
        c.any = ways[i].any;
        if (c.winograd && !winograd(&c)) continue;
        rc = dnn_conv(p, s->cpu, &c, pass, p == &s->run ? NULL : &s->run, e);
        if (rc == OK && bind_pass(s, pass, p)) return OK;
        primitive_destroy(p);
        if (rc == E_MEM) return rc;
    }
    return rc ? rc : fail(e, E_DEVICE, "oneDNN wants an unknown memory format for this convolution");
}

static int plan_forward(struct conv *s, struct dnn_conv c, const struct linear_desc *d, struct op_plan *plan,
                        struct err *e)
{
    /* oneDNN's Winograd applies relu only: for another activation it would turn to direct code. */
    int fuse = !d->train && dnn_fusible(d->act) && (d->act == ACT_RELU || !winograd(&c));
    c.act = fuse ? d->act : ACT_LINEAR;
    int rc = make_pass(s, &s->run, c, d->train ? PASS_TRAIN : PASS_INFER, e);
    if (rc && rc != E_MEM && c.act != ACT_LINEAR) {
        c.act = ACT_LINEAR;
        rc = make_pass(s, &s->run, c, PASS_INFER, e);
    }
    TRY(rc);
    plan->fused = c.act == d->act;
    s->weights = primitive_weights(&s->run, 1);
    s->host = dnn_host_weights(&c);
    s->no_bias = mem_alloc((size_t)c.out.c, sizeof *s->no_bias);
    return s->no_bias ? OK : fail(e, E_MEM, "no memory for a convolution");
}

static int plan_backward(struct conv *s, struct dnn_conv c, const struct linear_desc *d, struct err *e)
{
    c.act = ACT_LINEAR;
    c.in.n = c.out.n = d->rows_back;
    c.weights = NULL;
    TRY(make_pass(s, &s->grad, c, PASS_WEIGHTS, e));
    s->grad_weights = primitive_weights(&s->grad, 2);
    if (!dnn_same_weights(&s->grad_weights, &s->weights))
        TRY(dnn_reorder(&s->from_grad, s->cpu, &s->grad_weights, &s->weights, e));
    if (!d->need_gx) return OK;
    TRY(make_pass(s, &s->data, c, PASS_DATA, e));
    if (d->add_gx) s->data_gx.reorder = 1;
    s->data_weights = primitive_weights(&s->data, 1);
    if (!dnn_same_weights(&s->data_weights, &s->weights))
        TRY(dnn_reorder(&s->to_data, s->cpu, &s->weights, &s->data_weights, e));
    return OK;
}

static void reserve_operand(struct operand *o, size_t *end)
{
    if (o->reorder) o->at = scratch_reserve(end, o->want.row * o->rows * sizeof(float));
}

/* Passes run one after another, and so do the primitives of a pass: each uses scratch from its start. */
static size_t plan_scratch(struct conv *s)
{
    size_t run = 0, grad = 0, data = 0;
    scratch_reserve(&run, s->run.scratch_bytes);
    reserve_operand(&s->run_x, &run);
    if (s->grad.handle) {
        scratch_reserve(&grad, max_size(s->grad.scratch_bytes, s->from_grad.scratch_bytes));
        reserve_operand(&s->grad_x, &grad);
        reserve_operand(&s->grad_gy, &grad);
        if (s->from_grad.handle) s->at_grad = scratch_reserve(&grad, dnn_weight_bytes(&s->grad_weights));
        s->at_gw = scratch_reserve(&grad, dnn_weight_bytes(&s->weights));
    }
    if (s->data.handle) {
        scratch_reserve(&data, max_size(s->data.scratch_bytes, s->to_data.scratch_bytes));
        if (s->to_data.handle) s->at_data_w = scratch_reserve(&data, dnn_weight_bytes(&s->data_weights));
        reserve_operand(&s->data_gy, &data);
        reserve_operand(&s->data_gx, &data);
    }
    return max_size(run, max_size(grad, data));
}

static void conv_release(void *self)
{
    struct conv *s = self;
    primitive_destroy(&s->run);
    primitive_destroy(&s->data);
    primitive_destroy(&s->grad);
    primitive_destroy(&s->to_data);
    primitive_destroy(&s->from_grad);
    mem_free(s->no_bias);
    mem_free(s->gemm);
}

static int conv_plan(struct backend *be, const struct linear_desc *d, struct tensor *out,
                     struct op_plan *plan, struct err *e)
{
    struct dnn_conv c = { .in = d->in->shape,
                          .out = out->shape,
                          .size = d->size,
                          .stride = d->stride,
                          .pad = d->pad,
                          .groups = d->groups,
                          .weights = d->weights };
    TRY(op_plan_init(plan, sizeof(struct conv), e));
    struct conv *s = plan->self;
    plan->release = conv_release;
    s->cpu = cpu_of(be);
    s->in = *d->in;
    s->out = *out;
    s->rows_back = d->rows_back;
    s->add_gx = d->add_gx;
    if (conv_as_gemm_fits(d, out)) {
        TRY(conv_as_gemm_plan(&s->gemm, s->cpu, d, out, plan, e));
        s->out = *out;
        return OK;
    }
    TRY(plan_forward(s, c, d, plan, e));
    TRY(format_tensor(out, s->out.layout, e));
    if (d->train) TRY(plan_backward(s, c, d, e));
    plan->scratch_bytes = plan_scratch(s);
    plan->weight_bytes = dnn_weight_bytes(&s->weights);
    plan->weights = &s->weights;
    return OK;
}

/* ---- run ---- */

/* Runs once at load or save, so the reorder is not kept. */
static int reorder_weights(const struct cpu *cpu, const struct layout *from, const void *x,
                           const struct layout *to, void *y)
{
    struct primitive p;
    TRY(dnn_reorder(&p, cpu, from, to, NULL));
    void *scratch = mem_alloc(p.scratch_bytes, 1);
    int rc = scratch ? primitive_run(&p, (const void *[]){ x, y }, scratch) : E_MEM;
    mem_free(scratch);
    primitive_destroy(&p);
    return rc;
}

static int conv_pack(const struct op_plan *plan, const real *host, void *w)
{
    const struct conv *s = plan->self;
    if (!s->gemm) return reorder_weights(s->cpu, &s->host, host, &s->weights, w);
    conv_as_gemm_pack(s->gemm, host, w);
    return OK;
}

static int conv_unpack(const struct op_plan *plan, const void *w, real *host)
{
    const struct conv *s = plan->self;
    if (!s->gemm) return reorder_weights(s->cpu, &s->weights, w, &s->host, host);
    conv_as_gemm_unpack(s->gemm, w, host);
    return OK;
}

/* An input as the primitive wants it. */
static const void *operand_in(const struct conv *s, const struct operand *o, const void *data, void *scratch)
{
    if (!o->reorder) return data;
    format_reorder(s->cpu, o->rows, &o->have, data, &o->want, scratch_at(scratch, o->at), 0);
    return scratch_at(scratch, o->at);
}

static int conv_forward(const struct op_plan *plan, const struct op_context *context, const void *x,
                        const void *w, const real *bias, void *y)
{
    const struct conv *s = plan->self;
    void *scratch = context->scratch;
    if (s->gemm) return conv_as_gemm_forward(s->gemm, x, w, bias, y, scratch);
    x = operand_in(s, &s->run_x, x, scratch);
    return primitive_run(&s->run, (const void *[]){ x, w, bias ? bias : s->no_bias, y }, scratch);
}

static int backward_x(const struct conv *s, const void *w, const void *gy, void *gx, void *scratch)
{
    const struct operand *o = &s->data_gx;
    if (s->gemm) return conv_as_gemm_backward_x(s->gemm, w, gy, gx, scratch);
    if (s->to_data.handle) {
        void *reordered = scratch_at(scratch, s->at_data_w);
        TRY(primitive_run(&s->to_data, (const void *[]){ w, reordered }, scratch));
        w = reordered;
    }
    gy = operand_in(s, &s->data_gy, gy, scratch);
    void *to = o->reorder ? scratch_at(scratch, o->at) : gx;
    TRY(primitive_run(&s->data, (const void *[]){ gy, w, to }, scratch));
    if (o->reorder) format_reorder(s->cpu, o->rows, &o->want, to, &o->have, gx, s->add_gx);
    return OK;
}

static int backward_w(const struct conv *s, const void *x, const void *gy, void *gw, int add, void *scratch)
{
    if (s->gemm) return conv_as_gemm_backward_w(s->gemm, x, gy, gw, add, scratch);
    x = operand_in(s, &s->grad_x, x, scratch);
    gy = operand_in(s, &s->grad_gy, gy, scratch);
    void *packed = add ? scratch_at(scratch, s->at_gw) : gw;
    void *to = s->from_grad.handle ? scratch_at(scratch, s->at_grad) : packed;
    TRY(primitive_run(&s->grad, (const void *[]){ x, gy, to }, scratch));
    if (s->from_grad.handle) TRY(primitive_run(&s->from_grad, (const void *[]){ to, packed }, scratch));
    if (add) accumulate_all(s->cpu, dnn_weight_bytes(&s->weights) / sizeof(float), packed, gw);
    return OK;
}

static int conv_backward(const struct op_plan *plan, const struct op_context *context, const void *x,
                         const void *w, const void *gy, void *gx, void *gw, real *gbias)
{
    const struct conv *s = plan->self;
    void *scratch = context->scratch;
    if (gx) TRY(backward_x(s, w, gy, gx, scratch));
    if (gw) TRY(backward_w(s, x, gy, gw, context->add, scratch));
    if (gbias) {
        struct memory_format f = format_of(s->out.shape, s->out.layout);
        format_channel_sums(s->cpu, (size_t)s->rows_back, &f, gy, gbias, context->add);
    }
    return OK;
}

const struct conv_ops cpu_conv = { {
    .plan = conv_plan,
    .pack = conv_pack,
    .unpack = conv_unpack,
    .forward = conv_forward,
    .backward = conv_backward,
} };
