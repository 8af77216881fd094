#include "backend/ops/conv.h"
#include "core/mem.h"
#include "dense.h"
#include "dnn.h"

struct pass {
    struct primitive run;     /* not made where the pass is not wanted */
    struct operand a, b;      /* forward: x; data: gy and gx; weights: x and gy */
    struct layout weights;    /* as the primitive wants them, or makes their gradient */
    struct primitive reorder; /* of packed weights to these, or back; not made where they are the same */
    size_t at_weights;        /* in scratch: these weights, if reordered */
};

struct conv {
    const struct cpu *cpu;
    const struct linear_ops *own; /* code of ours instead of oneDNN's and all below, or NULL */
    struct op_plan own_plan;
    struct tensor in, out; /* shapes and layouts */
    int rows_back, add_gx, bf16;
    struct layout packed; /* w and gw */
    float *no_bias;       /* zeros: the primitive always adds a bias */
    struct pass forward, data, grad;
    size_t at_gw; /* in scratch: gw as packed, to be added */
};

/* ---- plan ---- */

/* Argument `arg` of the primitive is so many rows of t. */
static int bind(struct operand *o, struct tensor t, int rows, const struct primitive *p, int arg, int bf16,
                struct err *e)
{
    const struct layout *want;
    t.shape.n = rows;
    TRY(primitive_layout(p, arg, t.shape, bf16, &want, e));
    *o = operand_of(&t, rows, want);
    return OK;
}

static int bind_pass(struct conv *s, struct pass *p, int bf16, struct err *e)
{
    const struct primitive *run = &p->run;
    if (p == &s->data) {
        TRY(bind(&p->a, s->out, s->rows_back, run, 0, bf16, e));
        return bind(&p->b, s->in, s->rows_back, run, 2, bf16, e);
    }
    if (p == &s->grad) {
        TRY(bind(&p->a, s->in, s->rows_back, run, 0, bf16, e));
        return bind(&p->b, s->out, s->rows_back, run, 1, bf16, e);
    }
    TRY(primitive_layout(run, 3, s->out.shape, bf16, &s->out.layout, e));
    return bind(&p->a, s->in, s->in.shape.n, run, 0, bf16, e);
}

/* Makes the primitive, in the layouts that suit oneDNN best if memory_format.h has them. */
static int make_as(struct conv *s, struct pass *p, struct dnn_conv c, enum pass_kind kind, struct err *e)
{
    int rc = OK;
    for (c.any = 1; c.any >= 0; c.any--) {
        rc = dnn_conv(&p->run, s->cpu, &c, kind, p == &s->forward ? NULL : &s->forward.run, e);
        if (rc == OK) rc = bind_pass(s, p, c.bf16, e);
        if (rc == OK) p->weights = primitive_weights(&p->run, kind == PASS_WEIGHTS ? 2 : 1);
        if (rc == OK) return OK;
        primitive_destroy(&p->run);
        if (rc == E_MEM) return rc;
    }
    return rc;
}

/* For some shapes oneDNN has no code of their own in bfloat16. It multiplies matrices for the gradient of
 * weights of one channel (20 ms in LeNet, where .7 in float), and version 3.2 takes code for dense maps for
 * the gradient of data through depthwise strides (MobileNetV2: 158 images/s, and 269 without). These passes
 * work in float, on copies. */
static int make_pass(struct conv *s, struct pass *p, struct dnn_conv c, enum pass_kind kind, struct err *e)
{
    TRY(make_as(s, p, c, kind, e));
    if (!c.bf16 || kind == PASS_FORWARD || primitive_suits(&p->run, c.groups > 1 && c.groups == c.in.c))
        return OK;
    primitive_destroy(&p->run);
    c.bf16 = 0;
    return make_as(s, p, c, kind, e);
}

static int plan_forward(struct conv *s, struct dnn_conv c, const struct linear_desc *d, struct op_plan *p,
                        struct err *e)
{
    c.act = !d->train && dnn_fusible(d->act) ? d->act : ACT_LINEAR;
    int rc = make_pass(s, &s->forward, c, PASS_FORWARD, e);
    if (rc && rc != E_MEM && c.act != ACT_LINEAR) {
        c.act = ACT_LINEAR;
        rc = make_pass(s, &s->forward, c, PASS_FORWARD, e);
    }
    TRY(rc);
    p->fused = c.act == d->act;
    s->no_bias = mem_alloc((size_t)c.out.c, sizeof *s->no_bias);
    return s->no_bias ? OK : fail(e, E_MEM, "no memory for a convolution");
}

static int plan_backward(struct conv *s, struct dnn_conv c, const struct linear_desc *d, struct err *e)
{
    c.in.n = c.out.n = d->rows_back;
    c.weights = NULL;
    TRY(make_pass(s, &s->grad, c, PASS_WEIGHTS, e));
    if (!d->need_gx) return OK;
    TRY(make_pass(s, &s->data, c, PASS_DATA, e));
    s->data.b.reorder |= d->add_gx; /* the primitive does not add */
    return OK;
}

/* Packed weights lie as forward wants them; but where they are trained beside bf16, as their gradient: in
 * float. */
static int plan_weights(struct conv *s, const struct linear_desc *d, struct err *e)
{
    s->packed = s->forward.weights;
    if (s->bf16 && d->train) s->packed = s->grad.weights;
    if (s->bf16 && d->weights) s->packed = *d->weights;
    if (!dnn_same_weights(&s->packed, &s->forward.weights))
        TRY(dnn_reorder(&s->forward.reorder, s->cpu, &s->packed, &s->forward.weights, e));
    if (s->grad.run.handle && !dnn_same_weights(&s->grad.weights, &s->packed))
        TRY(dnn_reorder(&s->grad.reorder, s->cpu, &s->grad.weights, &s->packed, e));
    if (s->data.run.handle && !dnn_same_weights(&s->packed, &s->data.weights))
        TRY(dnn_reorder(&s->data.reorder, s->cpu, &s->packed, &s->data.weights, e));
    return OK;
}

/* Passes run one after another, and so do the primitives of a pass: each uses scratch from its start. */
static size_t reserve_pass(struct pass *p)
{
    size_t end = 0;
    scratch_reserve(&end, max_size(p->run.scratch_bytes, p->reorder.scratch_bytes));
    operand_reserve(&p->a, &end);
    operand_reserve(&p->b, &end);
    if (p->reorder.handle) p->at_weights = scratch_reserve(&end, dnn_weight_bytes(&p->weights));
    return end;
}

static void destroy_pass(struct pass *p)
{
    primitive_destroy(&p->run);
    primitive_destroy(&p->reorder);
}

static void release(void *self)
{
    struct conv *s = self;
    destroy_pass(&s->forward);
    destroy_pass(&s->data);
    destroy_pass(&s->grad);
    mem_free(s->no_bias);
    op_destroy(&s->own_plan);
}

static int plan_own(struct conv *s, struct backend *be, const struct linear_desc *d, struct tensor *out,
                    struct op_plan *p, struct err *e)
{
    TRY(s->own->plan(be, d, out, &s->own_plan, e));
    p->scratch_bytes = s->own_plan.scratch_bytes;
    p->weight_bytes = s->own_plan.weight_bytes;
    p->fused = s->own_plan.fused;
    return OK;
}

/* oneDNN's code computes directly; version 2 has Winograd's algorithm as well, version 3 no longer. The
 * choice may not depend on timing: results would change from run to run. Two cores of a Zen 4, fp32, 150
 * images, GFLOP/s of the passes forward, data and weights, counted as if direct:
 *
 *   3x3 on      conv_winograd   2.6, Winograd   2.6, direct
 *   64x32x32    514 514 537     556 555 433     238 238 197
 *   128x16x16   612 615 620     593 591 414     249 249 223
 *   256x8x8     599 595 607     635 626 613     269 265 228
 *   512x4x4     649 646 655     631 624 590     327 309 218
 *
 * With fewer than 64 channels, as in a first layer, transforming costs more than it saves. Training steps of
 * two 5x5 convolutions, ms an image: 32 to 32 channels on 14x14 .23 and direct .31, 64 to 96 on 8x8 .31 and
 * .42, 128 to 128 on 7x7 .71 and .83; 16 to 32 on 16x16 .18 and .18, 16 to 16 on 28x28 .34 and .31. */
static const struct linear_ops *own(const struct linear_desc *d, const struct tensor *out)
{
    if (conv_as_gemm_fits(d, out)) return &conv_as_gemm;
    return conv_winograd_fits(d, out) ? &conv_winograd : NULL;
}

static int plan(struct backend *be, const struct linear_desc *d, struct tensor *out, struct op_plan *p,
                struct err *e)
{
    struct dnn_conv c = { .in = d->in->shape,
                          .out = out->shape,
                          .size = d->size,
                          .dilation = d->dilation,
                          .stride_y = d->stride_y,
                          .stride_x = d->stride_x,
                          .pad = d->pad,
                          .groups = d->groups,
                          .bf16 = be->precision == PRECISION_BF16,
                          .weights = be->precision == PRECISION_BF16 ? NULL : d->weights };
    TRY(op_plan_init(p, sizeof(struct conv), e));
    struct conv *s = p->self;
    p->release = release;
    s->own = c.bf16 ? NULL : own(d, out);
    if (s->own) return plan_own(s, be, d, out, p, e);
    s->cpu = cpu_of(be);
    s->in = *d->in;
    s->out = *out;
    s->rows_back = d->rows_back;
    s->add_gx = d->add_gx;
    s->bf16 = c.bf16;
    TRY(plan_forward(s, c, d, p, e));
    TRY(format_tensor(out, s->out.layout, e));
    if (d->train) TRY(plan_backward(s, c, d, e));
    TRY(plan_weights(s, d, e));
    p->weights = &s->packed;
    p->weight_bytes = dnn_weight_bytes(p->weights);
    size_t grad = reserve_pass(&s->grad);
    if (d->train) s->at_gw = scratch_reserve(&grad, p->weight_bytes);
    p->scratch_bytes = max_size(reserve_pass(&s->forward), max_size(reserve_pass(&s->data), grad));
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

static int pack(const struct op_plan *p, const real *host, void *w)
{
    const struct conv *s = p->self;
    if (s->own) return s->own->pack(&s->own_plan, host, w);
    return reorder_weights(s->cpu, NULL, host, p->weights, w);
}

static int unpack(const struct op_plan *p, const void *w, real *host)
{
    const struct conv *s = p->self;
    if (s->own) return s->own->unpack(&s->own_plan, w, host);
    return reorder_weights(s->cpu, p->weights, w, NULL, host);
}

/* The packed weights as the primitive of this pass wants them. */
static int weights_for(const struct pass *p, const void **w, void *scratch)
{
    if (!p->reorder.handle) return OK;
    void *reordered = scratch_at(scratch, p->at_weights);
    TRY(primitive_run(&p->reorder, (const void *[]){ *w, reordered }, scratch));
    *w = reordered;
    return OK;
}

static int forward(const struct op_plan *p, const struct op_context *context, const void *x, const void *w,
                   const real *bias, void *y)
{
    const struct conv *s = p->self;
    if (s->own) return s->own->forward(&s->own_plan, context, x, w, bias, y);
    TRY(weights_for(&s->forward, &w, context->scratch));
    x = operand_get(s->cpu, &s->forward.a, x, context->scratch);
    return primitive_run(&s->forward.run, (const void *[]){ x, w, bias ? bias : s->no_bias, y },
                         context->scratch);
}

static int backward_x(const struct conv *s, const void *w, const void *gy, void *gx, void *scratch)
{
    const struct pass *p = &s->data;
    TRY(weights_for(p, &w, scratch));
    gy = operand_get(s->cpu, &p->a, gy, scratch);
    TRY(primitive_run(&p->run, (const void *[]){ gy, w, operand_place(&p->b, gx, scratch) }, scratch));
    operand_put(s->cpu, &p->b, gx, scratch, s->add_gx);
    return OK;
}

static int backward_w(const struct conv *s, const void *x, const void *gy, void *gw, int add, size_t bytes,
                      void *scratch)
{
    const struct pass *p = &s->grad;
    x = operand_get(s->cpu, &p->a, x, scratch);
    gy = operand_get(s->cpu, &p->b, gy, scratch);
    void *packed = add ? scratch_at(scratch, s->at_gw) : gw;
    void *to = p->reorder.handle ? scratch_at(scratch, p->at_weights) : packed;
    TRY(primitive_run(&p->run, (const void *[]){ x, gy, to }, scratch));
    if (p->reorder.handle) TRY(primitive_run(&p->reorder, (const void *[]){ to, packed }, scratch));
    if (add) accumulate_all(s->cpu, bytes / sizeof(float), packed, gw);
    return OK;
}

static int backward(const struct op_plan *p, const struct op_context *context, const void *x, const void *w,
                    const void *gy, void *gx, void *gw, real *gbias)
{
    const struct conv *s = p->self;
    if (s->own) return s->own->backward(&s->own_plan, context, x, w, gy, gx, gw, gbias);
    if (gx) TRY(backward_x(s, w, gy, gx, context->scratch));
    if (gw) TRY(backward_w(s, x, gy, gw, context->add, p->weight_bytes, context->scratch));
    if (gbias) {
        struct memory_format f = format_of(s->out.shape, s->out.layout);
        format_channel_sums(s->cpu, (size_t)s->rows_back, &f, gy, gbias, context->add);
    }
    return OK;
}

const struct conv_ops cpu_conv = { { plan, pack, unpack, unpack, forward, backward, NULL } };
