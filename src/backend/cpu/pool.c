#include "backend/ops/pool.h"
#include "dnn.h"

struct pool {
    const struct cpu *cpu;
    enum pool_kind kind;
    struct memory_format in;
    size_t rows, rows_back;
    struct primitive run, back; /* maxima */
    size_t at_gx;               /* in scratch: the gradient before it is added */
};

static void release(void *self)
{
    struct pool *s = self;
    primitive_destroy(&s->run);
    primitive_destroy(&s->back);
}

/* Backward may be over fewer rows: the mask begins with theirs. */
static int plan_max(struct pool *s, const struct pool_desc *d, const struct tensor *out, struct op_plan *p,
                    struct err *e)
{
    struct dnn_pool c = { d->train, d->in->shape, out->shape, d->in->layout, d->size, d->stride, d->pad / 2 };
    TRY(dnn_pool(&s->run, s->cpu, &c, PASS_FORWARD, e));
    if (d->train) {
        p->kept_bytes = primitive_arg_bytes(&s->run, 2);
        c.in.n = c.out.n = d->rows_back;
        TRY(dnn_pool(&s->back, s->cpu, &c, PASS_DATA, e));
    }
    scratch_reserve(&p->scratch_bytes, max_size(s->run.scratch_bytes, s->back.scratch_bytes));
    if (d->train) s->at_gx = scratch_reserve(&p->scratch_bytes, s->rows_back * s->in.row * sizeof(float));
    return OK;
}

static int plan(struct backend *be, const struct pool_desc *d, struct tensor *out, struct op_plan *p,
                struct err *e)
{
    TRY(op_plan_init(p, sizeof(struct pool), e));
    TRY(format_tensor(out, d->kind == POOL_MAX ? d->in->layout : NULL, e));
    struct pool *s = p->self;
    p->release = release;
    *s = (struct pool){ .cpu = cpu_of(be),
                        .kind = d->kind,
                        .in = format_of(d->in->shape, d->in->layout),
                        .rows = (size_t)d->in->shape.n,
                        .rows_back = (size_t)d->rows_back };
    return d->kind == POOL_MAX ? plan_max(s, d, out, p, e) : OK;
}

/* ---- average over the map: dense n, c, 1, 1 on the other side ---- */

struct average {
    const struct memory_format *in;
    const float *from;
    float *to;
    int add;
};

enum { WIDTH = 16 };

/* out[0..width) = the means of channels that lie next to each other. */
static void mean_of(const struct memory_format *o, const float *x, size_t width, float *out)
{
    float sum[WIDTH] = { 0 };
    for (size_t p = 0; p < o->hw; p++)
        for (size_t j = 0; j < width; j++) sum[j] += x[p * o->block + j];
    for (size_t j = 0; j < width; j++) out[j] = sum[j] / (float)o->hw;
}

static size_t neighbours(const struct memory_format *o, size_t c)
{
    size_t n = o->block - c % o->block;
    if (n > WIDTH) n = WIDTH;
    return n < o->c - c ? n : o->c - c;
}

static void average_rows(void *ctx, size_t first, size_t last)
{
    const struct average *k = ctx;
    const struct memory_format *o = k->in;
    for (size_t n = first; n < last; n++)
        for (size_t c = 0; c < o->c; c += neighbours(o, c))
            mean_of(o, k->from + format_at(o, n, c, 0), neighbours(o, c), k->to + n * o->c + c);
}

static void spread_rows(void *ctx, size_t first, size_t last)
{
    const struct average *k = ctx;
    const struct memory_format *o = k->in;
    for (size_t n = first; n < last; n++)
        for (size_t c = 0; c < o->c; c++) {
            float g = k->from[n * o->c + c] / (float)o->hw, *to = k->to + format_at(o, n, c, 0);
            for (size_t p = 0; p < o->hw; p++) to[p * o->block] = g + (k->add ? to[p * o->block] : 0);
        }
}

static int forward(const struct op_plan *p, const struct op_context *context, const void *x, void *y,
                   void *kept)
{
    const struct pool *s = p->self;
    if (s->kind == POOL_MAX) return primitive_run(&s->run, (const void *[]){ x, y, kept }, context->scratch);
    struct average k = { &s->in, x, y, 0 };
    parallel_for(s->cpu, s->rows, 1, average_rows, &k);
    return OK;
}

static int backward(const struct op_plan *p, const struct op_context *context, const void *kept,
                    const void *gy, void *gx, int add)
{
    const struct pool *s = p->self;
    if (s->kind == POOL_AVERAGE) {
        struct average k = { &s->in, gy, gx, add };
        parallel_for(s->cpu, s->rows_back, 1, spread_rows, &k);
        if (!add) format_pad(s->cpu, &s->in, s->rows_back, gx);
        return OK;
    }
    void *to = add ? scratch_at(context->scratch, s->at_gx) : gx;
    TRY(primitive_run(&s->back, (const void *[]){ gy, to, kept }, context->scratch));
    if (add) accumulate_all(s->cpu, s->rows_back * s->in.row, to, gx);
    return OK;
}

const struct pool_ops cpu_pool = { plan, forward, backward };
