/* Convolution: up to three plans of cuDNN, one for each pass. */
#include "backend/ops/conv.h"
#include "dnn.h"
#include "linear.h"

enum { PASSES = 3 };

struct conv {
    struct linear linear;
    struct cudnn_plan *pass[PASSES]; /* by enum cudnn_pass; NULL where it is not wanted */
    size_t gradient; /* bytes of scratch in front of the workspace: a gradient of weights to be summed */
};

static void release(void *self)
{
    struct conv *s = self;
    for (int i = 0; i < PASSES; i++) cudnn_plan_drop(s->pass[i]);
}

struct cudnn_conv cuda_conv_pass(const struct linear_desc *d, struct shape out, enum cudnn_pass pass,
                                 int bf16, int tf32)
{
    return (struct cudnn_conv){ .pass = pass,
                                .bf16 = bf16,
                                .tf32 = tf32,
                                .n = pass == CUDNN_PASS_FORWARD ? d->in->shape.n : d->rows_back,
                                .c = cuda_channels(d->in),
                                .h = d->in->shape.h,
                                .w = d->in->shape.w,
                                .filters = out.c,
                                .oh = out.h,
                                .ow = out.w,
                                .size = d->size,
                                .dilation = d->dilation,
                                .stride_y = d->stride_y,
                                .stride_x = d->stride_x,
                                .pad = d->pad,
                                .groups = d->groups,
                                .add = pass == CUDNN_PASS_DATA && d->add_gx };
}

int cuda_conv_wants(const struct linear_desc *d, enum cudnn_pass pass)
{
    return pass == CUDNN_PASS_FORWARD || (d->train && (pass == CUDNN_PASS_WEIGHTS || d->need_gx));
}

static size_t larger(size_t a, size_t b) { return a > b ? a : b; }

/* Scratch: that of the passes, which follow one another, and of the gradient of the bias behind them. */
static int plan_passes(struct conv *s, struct backend *be, const struct linear_desc *d, struct shape out,
                       size_t *scratch, struct err *e)
{
    const struct linear *l = &s->linear;
    *scratch = cuda_linear_scratch(l);
    for (int i = 0; i < PASSES; i++) {
        struct cudnn_conv c = cuda_conv_pass(d, out, (enum cudnn_pass)i, l->bf16, l->tf32);
        size_t bytes = 0;
        if (!cuda_conv_wants(d, (enum cudnn_pass)i)) continue;
        TRY(cudnn_plan(&s->pass[i], l->cu->dnn, &c, be->deterministic, &bytes, e));
        if (i == CUDNN_PASS_WEIGHTS) {
            s->gradient = d->sum_gw ? (l->weights.count * cuda_element(l->bf16) + 255) / 256 * 256 : 0;
            bytes += s->gradient;
        }
        *scratch = larger(*scratch, bytes);
    }
    return OK;
}

static int plan(struct backend *be, const struct linear_desc *d, struct tensor *out, struct op_plan *p,
                struct err *e)
{
    TRY(op_plan_init(p, sizeof(struct conv), e));
    p->release = release;
    struct conv *s = p->self;
    TRY(cuda_linear_plan(&s->linear, be, d, out, (size_t)d->size * (size_t)d->size, p, e));
    s->linear.weights.bf16_gradient = s->linear.bf16 && !d->sum_gw;
    return plan_passes(s, be, d, out->shape, &p->scratch_bytes, e);
}

static int forward(const struct op_plan *p, const struct op_context *context, const void *x, const void *w,
                   const real *bias, void *y)
{
    const struct conv *s = p->self;
    TRY(cudnn_run(s->pass[CUDNN_PASS_FORWARD], x, cuda_weight_copy(&s->linear.weights, w), y,
                  context->scratch));
    return cuda_linear_finish(&s->linear, bias, y);
}

/* The pass overwrites, in the type of its inputs. What adds, or is bfloat16 but will be summed, goes by way
 * of scratch. */
static int back_weights(const struct conv *s, const void *x, const void *gy, void *gw, int add, char *scratch)
{
    const struct linear *l = &s->linear;
    const int apart = s->gradient && (l->bf16 || add);
    void *to = apart ? scratch : cuda_weight_gradient(&l->weights, gw);
    TRY(cudnn_run(s->pass[CUDNN_PASS_WEIGHTS], x, to, gy, scratch + s->gradient));
    return apart ? kernel_convert(l->cu, to, l->bf16, gw, 0, l->weights.count, add) : OK;
}

static int backward(const struct op_plan *p, const struct op_context *context, const void *x, const void *w,
                    const void *gy, void *gx, void *gw, real *gbias)
{
    const struct conv *s = p->self;
    const struct linear *l = &s->linear;
    if (gx)
        TRY(cudnn_run(s->pass[CUDNN_PASS_DATA], gx, cuda_weight_copy(&l->weights, w), gy, context->scratch));
    if (gw) TRY(back_weights(s, x, gy, gw, context->add, context->scratch));
    return gbias ? cuda_linear_back_bias(l, gy, gbias, context->add, context->scratch) : OK;
}

const struct conv_ops cuda_conv = { { plan, cuda_linear_pack, cuda_linear_unpack, cuda_linear_unpack_gradient,
                                      forward, backward, cuda_linear_back_act } };
