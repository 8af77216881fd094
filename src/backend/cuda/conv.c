/* Convolution: up to three plans of cuDNN, one for each pass. */
#include "backend/ops/conv.h"
#include "dnn.h"
#include "linear.h"

enum { PASSES = 3 };

struct conv {
    struct linear linear;
    struct cudnn_plan *pass[PASSES]; /* by enum cudnn_pass; NULL where it is not wanted */
    /* Scratch: the workspace of forward or of the data's gradient, which takes `data` bytes; then the
     * gradient of the weights where it is to be summed, which takes `gradient`, and the workspace of that. */
    size_t data, gradient;
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
static size_t rounded(size_t bytes) { return (bytes + 255) / 256 * 256; }

/* *scratch: of what runs at the same time, the two gradients; all else follows one another. */
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
        if (i == CUDNN_PASS_DATA) s->data = rounded(bytes);
        if (i == CUDNN_PASS_WEIGHTS) {
            s->gradient = d->sum_gw ? rounded(l->weights.count * cuda_element(l->bf16)) : 0;
            bytes += s->data + s->gradient;
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
    const struct linear *l = &s->linear;
    TRY(cudnn_run(s->pass[CUDNN_PASS_FORWARD], l->cu->stream, x, cuda_weight_copy(&l->weights, w), y,
                  context->scratch));
    return cuda_linear_finish(l, bias, y);
}

static int back_data(const struct conv *s, const void *w, const void *gy, void *gx, void *scratch)
{
    const struct linear *l = &s->linear;
    return cudnn_run(s->pass[CUDNN_PASS_DATA], l->cu->stream, gx, cuda_weight_copy(&l->weights, w), gy,
                     scratch);
}

/* The pass overwrites, in the type of its inputs. What adds, or is bfloat16 but will be summed, goes by way
 * of scratch. */
static int back_weights(const struct conv *s, const struct cuda *cu, const void *x, const void *gy, void *gw,
                        int add, void *scratch)
{
    const struct linear *l = &s->linear;
    const int apart = s->gradient && (l->bf16 || add);
    char *own = (char *)scratch + s->data;
    void *to = apart ? own : cuda_weight_gradient(&l->weights, gw);
    TRY(cudnn_run(s->pass[CUDNN_PASS_WEIGHTS], cu->stream, x, to, gy, own + s->gradient));
    return apart ? kernel_convert(cu, to, l->bf16, gw, 0, l->weights.count, add) : OK;
}

/* Side by side: where maps are small, neither fills the device. */
static int back_both(const struct conv *s, const struct op_context *context, const void *x, const void *w,
                     const void *gy, void *gx, void *gw)
{
    const struct cuda *cu = s->linear.cu;
    struct cuda side;
    TRY(cuda_fork(cu, &side));
    int rc = back_weights(s, &side, x, gy, gw, context->add, context->scratch);
    if (!rc) rc = back_data(s, w, gy, gx, context->scratch);
    const int joined = cuda_join(cu); /* also after a failure: a recording ends in one stream */
    return rc ? rc : joined;
}

static int backward(const struct op_plan *p, const struct op_context *context, const void *x, const void *w,
                    const void *gy, void *gx, void *gw, real *gbias)
{
    const struct conv *s = p->self;
    const struct linear *l = &s->linear;
    if (gx && gw)
        TRY(back_both(s, context, x, w, gy, gx, gw));
    else if (gx)
        TRY(back_data(s, w, gy, gx, context->scratch));
    else if (gw)
        TRY(back_weights(s, l->cu, x, gy, gw, context->add, context->scratch));
    return gbias ? cuda_linear_back_bias(l, gy, gbias, context->add, context->scratch) : OK;
}

const struct conv_ops cuda_conv = { { plan, cuda_linear_pack, cuda_linear_unpack, cuda_linear_unpack_gradient,
                                      forward, backward, cuda_linear_back_act } };
