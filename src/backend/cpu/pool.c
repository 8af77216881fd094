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

/* Where the arguments stand: see dnn_pool. */
enum { TRAIN_MASK = 2 };

static void pool_release(void *self)
{
    struct pool *s = self;
    primitive_destroy(&s->run);
    primitive_destroy(&s->back);
}

/* The backward pass over fewer rows needs a forward primitive of that many rows to be made from; the
 * workspace of the real one begins with the same rows. */
static int plan_back(struct pool *s, struct dnn_pool p, int rows_back, struct err *e)
{
    struct primitive hint;
    p.in.n = p.out.n = rows_back;
    TRY(dnn_pool(&hint, s->cpu, &p, PASS_TRAIN, NULL, e));
    int rc = dnn_pool(&s->back, s->cpu, &p, PASS_DATA, &hint, e);
    primitive_destroy(&hint);
    return rc;
}

static int plan_max(struct pool *s, const struct pool_desc *d, const struct tensor *out, struct op_plan *plan,
                    struct err *e)
{
    struct dnn_pool p = { d->in->shape, out->shape, d->in->layout, d->size, d->stride, d->pad / 2 };
    TRY(dnn_pool(&s->run, s->cpu, &p, d->train ? PASS_TRAIN : PASS_INFER, NULL, e));
    if (!d->train) {
        plan->scratch_bytes = s->run.scratch_bytes;
        return OK;
    }
    plan->kept_bytes = primitive_arg_bytes(&s->run, TRAIN_MASK);
    TRY(plan_back(s, p, d->rows_back, e));
    scratch_reserve(&plan->scratch_bytes, max_size(s->run.scratch_bytes, s->back.scratch_bytes));
    s->at_gx = scratch_reserve(&plan->scratch_bytes, s->rows_back * s->in.row * sizeof(float));
    return OK;
}

static int pool_plan(struct backend *be, const struct pool_desc *d, struct tensor *out, struct op_plan *plan,
                     struct err *e)
{
    TRY(op_plan_init(plan, sizeof(struct pool), e));
    TRY(format_tensor(out, d->kind == POOL_MAX ? d->in->layout : NULL, e));
    struct pool *s = plan->self;
    plan->release = pool_release;
    s->cpu = cpu_of(be);
    s->kind = d->kind;
    s->in = format_of(d->in->shape, d->in->layout);
    s->rows = (size_t)d->in->shape.n;
    s->rows_back = (size_t)d->rows_back;
    return d->kind == POOL_MAX ? plan_max(s, d, out, plan, e) : OK;
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

static int pool_forward(const struct op_plan *plan, const struct op_context *context, const void *x, void *y,
                        void *kept)
{
    const struct pool *s = plan->self;
    if (s->kind == POOL_MAX) return primitive_run(&s->run, (const void *[]){ x, y, kept }, context->scratch);
    struct average k = { &s->in, x, y, 0 };
    parallel_for(s->cpu, s->rows, 1, average_rows, &k);
    return OK;
}

static int pool_backward(const struct op_plan *plan, const struct op_context *context, const void *kept,
                         const void *gy, void *gx, int add)
{
    const struct pool *s = plan->self;
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

const struct pool_ops cpu_pool = {
    .plan = pool_plan,
    .forward = pool_forward,
    .backward = pool_backward,
};
