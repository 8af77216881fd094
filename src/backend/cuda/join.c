/* Addition and concatenation: plans. */
#include "cuda.h"
#include "core/mem.h"

struct join {
    const struct cuda *cu;
    int bf16; /* the output is */
    size_t rows, rows_back;
    struct join_map add; /* addition */
    int adds[2];
    /* concatenation: channels of the inputs and their types; nin = 0 for addition */
    int nin;
    size_t pixels, c; /* of a row; channels of the output */
    struct join_part {
        size_t c;
        int bf16;
    } part[];
};

static int plan_add(struct backend *be, const struct add_desc *d, struct tensor *out, struct join_plan *p,
                    struct err *e)
{
    *p = (struct join_plan){ 0 };
    const struct shape a = d->a->shape, b = d->b->shape;
    int up = a.w > b.w ? a.w / b.w : 1, down = b.w > a.w ? b.w / a.w : 1;
    if (a.w * down != b.w * up || (int64_t)a.h * down != (int64_t)b.h * up)
        return fail(e, E_ARG,
                    "addition of maps of %d x %d and %d x %d: one size must be a whole multiple of the other",
                    a.w, a.h, b.w, b.h);
    TRY(cuda_tensor(out, cuda_is_bf16(d->a), e));
    TRY(cuda_self(&p->self, sizeof(struct join), e));
    *(struct join *)p->self = (struct join){
        .cu = cuda_of(be),
        .bf16 = cuda_is_bf16(d->a),
        .rows = (size_t)a.n,
        .rows_back = (size_t)d->rows_back,
        .add = { .ac = (unsigned)a.c,
                 .ah = (unsigned)a.h,
                 .aw = (unsigned)a.w,
                 .bc = (unsigned)b.c,
                 .bh = (unsigned)b.h,
                 .bw = (unsigned)b.w,
                 .up = (unsigned)up,
                 .down = (unsigned)down,
                 .same = a.c == b.c && a.w == b.w,
                 .b_bf16 = cuda_is_bf16(d->b),
                 .act = (int)d->act,
                 .alpha = (float)d->alpha,
                 .beta = (float)d->beta },
        .adds = { d->add_a, d->add_b },
    };
    p->fused = 1;
    return OK;
}

static int plan_concat(struct backend *be, const struct concat_desc *d, struct tensor *out,
                       struct join_plan *p, struct err *e)
{
    *p = (struct join_plan){ 0 };
    TRY(cuda_tensor(out, cuda_is_bf16(d->in[0]), e));
    TRY(cuda_self(&p->self, sizeof(struct join) + (size_t)d->nin * sizeof(struct join_part), e));
    struct join *s = p->self;
    s->cu = cuda_of(be);
    s->bf16 = cuda_is_bf16(d->in[0]);
    s->rows = (size_t)out->shape.n;
    s->rows_back = (size_t)d->rows_back;
    s->nin = d->nin;
    s->c = (size_t)out->shape.c;
    s->pixels = (size_t)out->shape.h * (size_t)out->shape.w;
    for (int i = 0; i < d->nin; i++)
        s->part[i] = (struct join_part){ (size_t)d->in[i]->shape.c, cuda_is_bf16(d->in[i]) };
    return OK;
}

static int forward(const struct join_plan *p, const void *const *x, void *y, void *scratch)
{
    (void)scratch;
    const struct join *s = p->self;
    if (!s->nin) return kernel_add(s->cu, s->bf16, &s->add, x[0], x[1], y, s->rows);
    size_t at = 0;
    for (int i = 0; i < s->nin; at += s->part[i++].c)
        TRY(kernel_channels(s->cu, s->part[i].bf16, x[i], s->part[i].c, 0, s->bf16, y, s->c, at, s->part[i].c,
                            s->rows * s->pixels, 0));
    return OK;
}

static int backward(const struct join_plan *p, const void *y, const void *gy, void *const *gx, const int *add,
                    void *scratch)
{
    (void)scratch;
    const struct join *s = p->self;
    if (!s->nin) return kernel_add_back(s->cu, s->bf16, &s->add, y, gy, gx, s->adds, s->rows_back);
    size_t at = 0;
    for (int i = 0; i < s->nin; at += s->part[i++].c)
        if (gx[i])
            TRY(kernel_channels(s->cu, s->bf16, gy, s->c, at, s->part[i].bf16, gx[i], s->part[i].c, 0,
                                s->part[i].c, s->rows_back * s->pixels, add[i]));
    return OK;
}

static void destroy(struct join_plan *p)
{
    mem_free(p->self);
    p->self = NULL;
}

const struct join_ops cuda_join = { plan_add, plan_concat, forward, backward, destroy };
