/* y = x W^T + b: a row of x is H,W,C, and so is a row of W. */
#include "backend/ops/dense.h"
#include "blas.h"
#include "linear.h"

struct dense {
    struct linear linear;
    size_t n, n_back, inputs; /* rows, forward and backward; numbers in a row of x */
    int add_gx;
};

static int plan(struct backend *be, const struct linear_desc *d, struct tensor *out, struct op_plan *p,
                struct err *e)
{
    const struct shape in = d->in->shape;
    TRY(op_plan_init(p, sizeof(struct dense), e));
    struct dense *s = p->self;
    TRY(cuda_linear_plan(&s->linear, be, d, out, (size_t)in.h * (size_t)in.w, p, e));
    s->n = (size_t)in.n;
    s->n_back = (size_t)d->rows_back;
    s->inputs = shape_row(in);
    s->add_gx = d->add_gx;
    p->scratch_bytes = cuda_linear_scratch(&s->linear);
    return OK;
}

static struct blas_product product(const struct dense *s, size_t m, size_t n, size_t k)
{
    const struct linear *l = &s->linear;
    return (
        struct blas_product){ .bf16 = l->bf16, .bf16_c = l->bf16, .tf32 = l->tf32, .m = m, .n = n, .k = k };
}

static int forward(const struct op_plan *p, const struct op_context *context, const void *x, const void *w,
                   const real *bias, void *y)
{
    (void)context;
    const struct dense *s = p->self;
    struct blas_product b = product(s, s->n, s->linear.outputs, s->inputs);
    b.tb = 1;
    TRY(blas_multiply(s->linear.cu->blas, &b, x, cuda_weight_copy(&s->linear.weights, w), y));
    return cuda_linear_finish(&s->linear, bias, y);
}

static int back_data(const struct dense *s, const void *w, const void *gy, void *gx)
{
    struct blas_product b = product(s, s->n_back, s->inputs, s->linear.outputs);
    b.beta = s->add_gx ? 1 : 0;
    return blas_multiply(s->linear.cu->blas, &b, gy, cuda_weight_copy(&s->linear.weights, w), gx);
}

static int back_weights(const struct dense *s, const void *x, const void *gy, void *gw, int add)
{
    struct blas_product b = product(s, s->linear.outputs, s->inputs, s->n_back);
    b.ta = 1;
    b.bf16_c = 0;
    b.beta = add ? 1 : 0;
    return blas_multiply(s->linear.cu->blas, &b, gy, x, gw);
}

static int backward(const struct op_plan *p, const struct op_context *context, const void *x, const void *w,
                    const void *gy, void *gx, void *gw, real *gbias)
{
    const struct dense *s = p->self;
    if (gx) TRY(back_data(s, w, gy, gx));
    if (gw) TRY(back_weights(s, x, gy, gw, context->add));
    return gbias ? cuda_linear_back_bias(&s->linear, gy, gbias, context->add, context->scratch) : OK;
}

const struct dense_ops cuda_dense = { { plan, cuda_linear_pack, cuda_linear_unpack,
                                        cuda_linear_unpack_gradient, forward, backward,
                                        cuda_linear_back_act } };
