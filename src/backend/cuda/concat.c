/* Concatenation: plans. */
#include "backend/ops/concat.h"
#include "cuda.h"

struct concat {
    const struct cuda *cu;
    int bf16;                          /* the output is */
    size_t rows, rows_back, pixels, c; /* pixels of a row, channels of the output */
    int nin;
    struct concat_part {
        size_t c;
        int bf16;
    } part[];
};

static int plan(struct backend *be, const struct concat_desc *d, struct tensor *out, struct op_plan *p,
                struct err *e)
{
    TRY(op_plan_init(p, sizeof(struct concat) + (size_t)d->nin * sizeof(struct concat_part), e));
    TRY(cuda_tensor(out, cuda_is_bf16(d->in[0]), e));
    struct concat *s = p->self;
    s->cu = cuda_of(be);
    s->bf16 = cuda_is_bf16(d->in[0]);
    s->rows = (size_t)out->shape.n;
    s->rows_back = (size_t)d->rows_back;
    s->nin = d->nin;
    s->c = (size_t)out->shape.c;
    s->pixels = (size_t)out->shape.h * (size_t)out->shape.w;
    for (int i = 0; i < d->nin; i++)
        s->part[i] = (struct concat_part){ (size_t)d->in[i]->shape.c, cuda_is_bf16(d->in[i]) };
    return OK;
}

static int forward(const struct op_plan *p, const struct op_context *context, const void *const *x, void *y)
{
    (void)context;
    const struct concat *s = p->self;
    size_t at = 0;
    for (int i = 0; i < s->nin; at += s->part[i++].c)
        TRY(kernel_channels(s->cu, s->part[i].bf16, x[i], s->part[i].c, 0, s->bf16, y, s->c, at, s->part[i].c,
                            s->rows * s->pixels, 0));
    return OK;
}

static int backward(const struct op_plan *p, const struct op_context *context, const void *gy,
                    void *const *gx, const int *add)
{
    (void)context;
    const struct concat *s = p->self;
    size_t at = 0;
    for (int i = 0; i < s->nin; at += s->part[i++].c)
        if (gx[i])
            TRY(kernel_channels(s->cu, s->bf16, gy, s->c, at, s->part[i].bf16, gx[i], s->part[i].c, 0,
                                s->part[i].c, s->rows_back * s->pixels, add[i]));
    return OK;
}

const struct concat_ops cuda_concat = { plan, forward, backward };
