#include "linear.h"
#include "core/mem.h"

int cuda_linear_plan(struct linear *s, struct backend *be, const struct linear_desc *d, struct tensor *out,
                     size_t taps, struct op_plan *p, struct err *e)
{
    const int bf16 = cuda_is_bf16(d->in);
    TRY(cuda_tensor(out, bf16, e));
    const size_t row = shape_row(out->shape), outputs = (size_t)out->shape.c;
    *s = (struct linear){ .cu = cuda_of(be),
                          .weights = { .bf16 = bf16 },
                          .bf16 = bf16,
                          .tf32 = !bf16 && be->precision == PRECISION_TF32,
                          .outputs = outputs,
                          .inputs = (size_t)(d->in->shape.c / d->groups),
                          .taps = taps,
                          .rows = (size_t)out->shape.n * (row / outputs),
                          .rows_back = (size_t)d->rows_back * (row / outputs),
                          .act = d->train ? ACT_LINEAR : d->act };
    size_t count;
    if (mem_mul(s->outputs, s->inputs, &count) || mem_mul(count, taps, &count) || count > INT32_MAX)
        return fail(e, E_ARG, "a linear map of %zu x %zu x %zu weights has 2^31 and more", s->outputs,
                    s->inputs, taps);
    s->weights.count = count;
    p->weight_bytes = cuda_weight_bytes(&s->weights);
    p->weights = &s->weights;
    p->fused = !d->train;
    return OK;
}

/* Where in the packed weights number i of the host's lies. */
static size_t place(const void *plan, size_t i)
{
    const struct linear *s = plan;
    size_t tap = i % s->taps, input = i / s->taps % s->inputs, output = i / s->taps / s->inputs;
    return (output * s->taps + tap) * s->inputs + input;
}

int cuda_linear_pack(const struct op_plan *p, const real *host, void *w)
{
    const struct linear *s = p->self;
    return cuda_pack(s->cu, &s->weights, host, w, place, s);
}

int cuda_linear_unpack(const struct op_plan *p, const void *w, real *host)
{
    const struct linear *s = p->self;
    return cuda_unpack(s->cu, &s->weights, w, host, place, s);
}

size_t cuda_linear_scratch(const struct linear *s)
{
    return kernel_sums_bytes(s->cu, s->bf16, s->rows_back, s->outputs);
}

int cuda_linear_finish(const struct linear *s, const real *bias, void *y)
{
    return kernel_bias(s->cu, s->act, s->bf16, bias, y, s->rows * s->outputs, s->outputs);
}

int cuda_linear_back_bias(const struct linear *s, const void *gy, real *gbias, int add, void *scratch)
{
    return kernel_sums(s->cu, s->bf16, gy, s->rows_back, s->outputs, gbias, add, scratch);
}
