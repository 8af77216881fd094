#include "backend/ops/conv.h"
#include "core/mem.h"
#include "cpu.h"

/* An argument whose tensor lies in memory in one order while the primitive wants another. */
struct port {
    const struct tensor *have;
    const struct layout *want;
    int moved;
    size_t at; /* of its copy in scratch */
};

struct conv {
    const struct cpu *cpu;
    struct conv_as_gemm *gemm;                /* instead of all below but out_back; NULL: the primitives */
    struct tensor in, out, in_back, out_back; /* shapes and layouts; _back: of rows_back rows */
    struct layout host;                       /* weights as the host has them */
    struct layout weights, data_weights, grad_weights; /* as forward, data and weights passes want them */
    float *no_bias;                                    /* zeros: the primitive always adds a bias */
    int add_gx;
    struct op run, data, grad;    /* forward, gradient of x, gradient of w */
    struct op to_data, from_grad; /* changes of weight layout; not made where there is none */
    struct port run_x, data_gy, data_gx, grad_x, grad_gy;
    /* In scratch: reordered w; gw as computed; gw as packed, to be added. */
    size_t at_data_w, at_grad, at_sum;
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

static int bind(struct port *p, const struct tensor *have, const struct op *op, int arg)
{
    int known;
    p->have = have;
    p->want = op_tensor(op, arg, have->shape, &known);
    p->moved = !order_same(have->shape, have->layout, p->want);
    return known;
}

static int bind_pass(struct conv *s, enum pass_kind pass, const struct op *op)
{
    if (pass == PASS_DATA)
        return bind(&s->data_gy, &s->out_back, op, 0) && bind(&s->data_gx, &s->in_back, op, 2);
    if (pass == PASS_WEIGHTS)
        return bind(&s->grad_x, &s->in_back, op, 0) && bind(&s->grad_gy, &s->out_back, op, 1);
    int known;
    s->out.layout = op_tensor(op, 3, s->out.shape, &known);
    return known && bind(&s->run_x, &s->in, op, 0);
}

/* Makes the primitive in the best way that this library has. */
static int make_pass(struct conv *s, struct op *op, struct dnn_conv c, enum pass_kind pass, struct err *e)
{
    static const struct {
        int winograd, any;
    } ways[] = { { 1, 1 }, { 0, 1 }, { 0, 0 } };
    int rc = OK;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        c.winograd = ways[i].winograd;
        c.any = ways[i].any;
        if (c.winograd && !winograd(&c)) continue;
        rc = dnn_conv(op, s->cpu, &c, pass, op == &s->run ? NULL : &s->run, e);
        if (rc == OK && bind_pass(s, pass, op)) return OK;
        op_drop(op);
        if (rc == E_MEM) return rc;
    }
    return rc ? rc : fail(e, E_DEVICE, "oneDNN wants an unknown memory order for this convolution");
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
    op_weights(&s->run, 1, &s->weights);
    dnn_host_weights(&s->host, &c);
    s->no_bias = mem_alloc((size_t)c.out.c, sizeof *s->no_bias);
    return s->no_bias ? OK : fail(e, E_MEM, "no memory for a convolution");
}

static int plan_backward(struct conv *s, struct dnn_conv c, const struct linear_desc *d, struct err *e)
{
    c.act = ACT_LINEAR;
    c.in.n = c.out.n = d->rows_back;
    s->in_back = s->in;
    s->out_back = s->out;
    s->in_back.shape.n = s->out_back.shape.n = d->rows_back;
    TRY(format_tensor(&s->in_back, s->in.layout, e));
    TRY(format_tensor(&s->out_back, s->out.layout, e));
    c.weights = NULL;
    TRY(make_pass(s, &s->grad, c, PASS_WEIGHTS, e));
    op_weights(&s->grad, 2, &s->grad_weights);
    if (!layout_same_weights(&s->grad_weights, &s->weights))
        TRY(dnn_reorder(&s->from_grad, s->cpu, &s->grad_weights, &s->weights, e));
    if (!d->need_gx) return OK;
    TRY(make_pass(s, &s->data, c, PASS_DATA, e));
    op_weights(&s->data, 1, &s->data_weights);
    if (!layout_same_weights(&s->data_weights, &s->weights))
        TRY(dnn_reorder(&s->to_data, s->cpu, &s->weights, &s->data_weights, e));
    return OK;
}

static void carve_port(struct port *p, size_t *end)
{
    if (p->moved)
        p->at =
            cpu_carve(end, format_of(p->have->shape, p->want).row * (size_t)p->have->shape.n * sizeof(float));
}

/* The three primitives run one after the other: they share scratch. Each finds its own at offset 0. */
static size_t plan_scratch(struct conv *s)
{
    size_t end = s->run.scratch_bytes, all;
    cpu_carve(&end, 0);
    carve_port(&s->run_x, &end);
    all = end;
    if (s->grad.primitive) {
        end = cpu_max(s->grad.scratch_bytes, s->from_grad.scratch_bytes);
        cpu_carve(&end, 0);
        carve_port(&s->grad_x, &end);
        carve_port(&s->grad_gy, &end);
        if (s->from_grad.primitive) s->at_grad = cpu_carve(&end, layout_weight_bytes(&s->grad_weights));
        s->at_sum = cpu_carve(&end, layout_weight_bytes(&s->weights));
        all = cpu_max(all, end);
    }
    if (s->data.primitive) {
        end = cpu_max(s->data.scratch_bytes, s->to_data.scratch_bytes);
        cpu_carve(&end, 0);
        if (s->to_data.primitive) s->at_data_w = cpu_carve(&end, layout_weight_bytes(&s->data_weights));
        carve_port(&s->data_gy, &end);
        if (s->add_gx) s->data_gx.moved = 1;
        carve_port(&s->data_gx, &end);
        all = cpu_max(all, end);
    }
    return all;
}

static void conv_release(void *self)
{
    struct conv *s = self;
    op_drop(&s->run);
    op_drop(&s->data);
    op_drop(&s->grad);
    op_drop(&s->to_data);
    op_drop(&s->from_grad);
    mem_free(s->no_bias);
    mem_free(s->gemm);
}

static int plan_all(struct conv *s, const struct linear_desc *d, struct tensor *out, struct op_plan *plan,
                    struct err *e)
{
    struct dnn_conv c = { .in = d->in->shape,
                          .out = out->shape,
                          .size = d->size,
                          .stride = d->stride,
                          .pad = d->pad,
                          .groups = d->groups,
                          .weights = d->weights };
    if (small_fits(d, out)) {
        s->out_back = (struct tensor){ .shape = out->shape };
        s->out_back.shape.n = d->rows_back;
        TRY(conv_as_gemm_plan(&s->gemm, s->cpu, d, out, plan, e));
        s->out_back.layout = out->layout;
        return OK;
    }
    s->in = *d->in;
    s->out = *out;
    s->add_gx = d->add_gx;
    TRY(plan_forward(s, c, d, plan, e));
    TRY(format_tensor(&s->out, s->out.layout, e));
    if (d->train) TRY(plan_backward(s, c, d, e));
    plan->scratch_bytes = plan_scratch(s);
    plan->weight_bytes = layout_weight_bytes(&s->weights);
    plan->weights = &s->weights;
    out->layout = s->out.layout;
    out->bytes = s->out.bytes;
    return OK;
}

static int conv_plan(struct backend *be, const struct linear_desc *d, struct tensor *out,
                     struct op_plan *plan, struct err *e)
{
    TRY(op_plan_init(plan, sizeof(struct conv), e));
    struct conv *s = plan->self;
    plan->release = conv_release;
    s->cpu = cpu_of(be);
    return plan_all(s, d, out, plan, e);
}

/* ---- run ---- */

/* Once at load or save: the reorder is made for the occasion. */
static int move_weights(const struct cpu *cpu, const struct layout *from, const void *x,
                        const struct layout *to, void *y)
{
    struct op op;
    TRY(dnn_reorder(&op, cpu, from, to, NULL));
    void *scratch = mem_alloc(op.scratch_bytes, 1);
    int rc = scratch ? op_run(&op, (const void *[]){ x, y }, scratch) : E_MEM;
    mem_free(scratch);
    op_drop(&op);
    return rc;
}

static int conv_pack(const struct op_plan *plan, const real *host, void *w)
{
    const struct conv *s = plan->self;
    if (!s->gemm) return move_weights(s->cpu, &s->host, host, &s->weights, w);
    conv_as_gemm_pack(s->gemm, host, w);
    return OK;
}

static int conv_unpack(const struct op_plan *plan, const void *w, real *host)
{
    const struct conv *s = plan->self;
    if (!s->gemm) return move_weights(s->cpu, &s->weights, w, &s->host, host);
    conv_as_gemm_unpack(s->gemm, w, host);
    return OK;
}

static struct view port_view(const struct port *p, const struct layout *l, const void *data)
{
    return (struct view){ .format = format_of(p->have->shape, l), .data = (float *)data };
}

/* The argument as the primitive wants it. */
static const void *bring(const struct conv *s, const struct port *p, const void *data, void *scratch)
{
    if (!p->moved) return data;
    struct view from = port_view(p, p->have->layout, data),
                to = port_view(p, p->want, cpu_at(scratch, p->at));
    format_copy(s->cpu, &to, &from, (size_t)p->have->shape.n, from.format.c, 0);
    format_pad(s->cpu, &to.format, (size_t)p->have->shape.n, to.data);
    return to.data;
}

/* The result, which the primitive left in scratch, to where it belongs. */
static void take(const struct conv *s, const struct port *p, void *data, void *scratch, int add)
{
    size_t rows = (size_t)p->have->shape.n;
    struct view from = port_view(p, p->want, cpu_at(scratch, p->at)),
                to = port_view(p, p->have->layout, data);
    if (add && order_same(p->have->shape, p->have->layout, p->want)) {
        cpu_accumulate(s->cpu, rows * to.format.row, from.data, to.data);
        return;
    }
    format_copy(s->cpu, &to, &from, rows, to.format.c, add);
    if (!add) format_pad(s->cpu, &to.format, rows, to.data);
}

static int conv_forward(const struct op_plan *plan, const struct op_context *context, const void *x,
                        const void *w, const real *bias, void *y)
{
    const struct conv *s = plan->self;
    void *scratch = context->scratch;
    if (s->gemm) return conv_as_gemm_forward(s->gemm, x, w, bias, y, scratch);
    x = bring(s, &s->run_x, x, scratch);
    return op_run(&s->run, (const void *[]){ x, w, bias ? bias : s->no_bias, y }, scratch);
}

static int backward_x(const struct conv *s, const void *w, const void *gy, void *gx, void *scratch)
{
    if (s->gemm) return conv_as_gemm_backward_x(s->gemm, w, gy, gx, scratch);
    if (s->to_data.primitive) {
        void *reordered = cpu_at(scratch, s->at_data_w);
        TRY(op_run(&s->to_data, (const void *[]){ w, reordered }, scratch));
        w = reordered;
    }
    gy = bring(s, &s->data_gy, gy, scratch);
    void *to = s->data_gx.moved ? cpu_at(scratch, s->data_gx.at) : gx;
    TRY(op_run(&s->data, (const void *[]){ gy, w, to }, scratch));
    if (s->data_gx.moved) take(s, &s->data_gx, gx, scratch, s->add_gx);
    return OK;
}

static int backward_w(const struct conv *s, const void *x, const void *gy, void *gw, int add, void *scratch)
{
    if (s->gemm) return conv_as_gemm_backward_w(s->gemm, x, gy, gw, add, scratch);
    x = bring(s, &s->grad_x, x, scratch);
    gy = bring(s, &s->grad_gy, gy, scratch);
    void *packed = add ? cpu_at(scratch, s->at_sum) : gw;
    void *to = s->from_grad.primitive ? cpu_at(scratch, s->at_grad) : packed;
    TRY(op_run(&s->grad, (const void *[]){ x, gy, to }, scratch));
    if (s->from_grad.primitive) TRY(op_run(&s->from_grad, (const void *[]){ to, packed }, scratch));
    if (add) cpu_accumulate(s->cpu, layout_weight_bytes(&s->weights) / sizeof(float), packed, gw);
    return OK;
}

static int conv_backward(const struct op_plan *plan, const struct op_context *context, const void *x,
                         const void *w, const void *gy, void *gx, void *gw, real *gbias)
{
    const struct conv *s = plan->self;
    void *scratch = context->scratch;
    if (gx) TRY(backward_x(s, w, gy, gx, scratch));
    if (gw) TRY(backward_w(s, x, gy, gw, context->add, scratch));
    if (gbias) order_sums(s->cpu, s->out_back.shape, s->out_back.layout, gy, gbias, context->add);
    return OK;
}

const struct conv_ops cpu_conv = { {
    .plan = conv_plan,
    .pack = conv_pack,
    .unpack = conv_unpack,
    .forward = conv_forward,
    .backward = conv_backward,
} };
