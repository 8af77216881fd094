#include "backend/ops/pool.h"
#include <string.h>
#include "dnn.h"

struct pool {
    const struct cpu *cpu;
    struct pool_desc desc;
    struct shape in_shape, out_shape;
    struct memory_format in;               /* as it is worked on */
    struct operand x, y, gy, gx, gx_added; /* gx_added: where gx is added to */
    size_t rows, rows_back;
    struct primitive run, back; /* maxima */
};

static void release(void *self)
{
    struct pool *s = self;
    primitive_destroy(&s->run);
    primitive_destroy(&s->back);
}

/* Sums and averages are worked on in float, and so are maxima of windows so large that their mask has words:
 * with these oneDNN 2.6 and 3.2 return wrong gradients in bfloat16. */
static const struct layout *worked_on(const struct pool_desc *d, const struct layout *l, struct shape s)
{
    int native = d->kind == POOL_MAX && d->size * d->size <= UINT8_MAX;
    return format_layout(s, format_block(l), native && format_bf16(l));
}

/* Backward may be over fewer rows: the mask begins with theirs. */
static int plan_max(struct pool *s, const struct pool_desc *d, const struct tensor *out, struct op_plan *p,
                    struct err *e)
{
    struct dnn_pool c = { .train = d->train,
                          .in = d->in->shape,
                          .out = out->shape,
                          .layout = worked_on(d, d->in->layout, d->in->shape),
                          .size = d->size,
                          .stride_y = d->stride_y,
                          .stride_x = d->stride_x,
                          .before = d->pad / 2 };
    TRY(dnn_pool(&s->run, s->cpu, &c, PASS_FORWARD, e));
    if (d->train) {
        p->kept_bytes = primitive_arg_bytes(&s->run, 2);
        c.in.n = c.out.n = d->rows_back;
        TRY(dnn_pool(&s->back, s->cpu, &c, PASS_DATA, e));
    }
    scratch_reserve(&p->scratch_bytes, max_size(s->run.scratch_bytes, s->back.scratch_bytes));
    return OK;
}

static int plan(struct backend *be, const struct pool_desc *d, struct tensor *out, struct op_plan *p,
                struct err *e)
{
    struct shape in = d->in->shape;
    const struct layout *input = worked_on(d, d->in->layout, in);
    TRY(op_plan_init(p, sizeof(struct pool), e));
    TRY(format_tensor(out, d->kind == POOL_AVERAGE ? NULL : d->in->layout, e));
    const struct layout *output = worked_on(d, out->layout, out->shape);
    struct pool *s = p->self;
    p->release = release;
    *s = (struct pool){ .cpu = cpu_of(be),
                        .desc = *d,
                        .in_shape = in,
                        .out_shape = out->shape,
                        .in = format_of(in, input),
                        .x = operand_of(d->in, in.n, input),
                        .y = operand_of(out, in.n, output),
                        .gy = operand_of(out, d->rows_back, output),
                        .gx = operand_of(d->in, d->rows_back, input),
                        .gx_added = operand_of(d->in, d->rows_back, input),
                        .rows = (size_t)in.n,
                        .rows_back = (size_t)d->rows_back };
    if (d->kind == POOL_MAX) TRY(plan_max(s, d, out, p, e));
    operand_reserve(&s->x, &p->scratch_bytes);
    operand_reserve(&s->y, &p->scratch_bytes);
    if (!d->train) return OK;
    operand_reserve(&s->gy, &p->scratch_bytes);
    s->gx_added.reorder |= d->kind == POOL_MAX; /* the primitive does not add */
    operand_reserve(&s->gx_added, &p->scratch_bytes);
    s->gx.at = s->gx_added.at;
    return OK;
}

/* ---- weighted sums over windows: a plane is the block of channels that lies at each pixel ---- */

struct sums {
    const struct pool *s;
    float *x, *y;
    int back;
};

/* to += w * from, for the channels of a block. */
CPU_CLONES static void add_scaled(size_t n, float w, const float *restrict from, float *restrict to)
{
#pragma omp simd
    for (size_t i = 0; i < n; i++) to[i] += w * from[i];
}

/* Window (oy, ox): y += weights * x, or x += weights * y. */
static void add_window(const struct pool *s, int oy, int ox, float *x, float *y, int back)
{
    const struct pool_desc *d = &s->desc;
    const struct shape in = s->in_shape;
    const int top = oy * d->stride_y - d->pad / 2, left = ox * d->stride_x - d->pad / 2;
    for (int i = top < 0 ? -top : 0; i < d->size && top + i < in.h; i++)
        for (int j = left < 0 ? -left : 0; j < d->size && left + j < in.w; j++) {
            float w = pool_weight(d, top, in.h, i) * pool_weight(d, left, in.w, j),
                  *cell = x + ((size_t)(top + i) * (size_t)in.w + (size_t)(left + j)) * s->in.block;
            add_scaled(s->in.block, w, back ? y : cell, back ? cell : y);
        }
}

static void sum_planes(void *ctx, size_t first, size_t last)
{
    const struct sums *k = ctx;
    const struct pool *s = k->s;
    const size_t block = s->in.block, plane = shape_row(s->out_shape) / (size_t)s->out_shape.c * block;
    for (size_t p = first; p < last; p++) {
        float *x = k->x + p * s->in.hw * block, *y = k->y + p * plane;
        if (!k->back) memset(y, 0, plane * sizeof *y);
        for (int i = 0; i < s->out_shape.h; i++)
            for (int j = 0; j < s->out_shape.w; j++, y += block) add_window(s, i, j, x, y, k->back);
    }
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
    void *scratch = context->scratch;
    const void *from = operand_get(s->cpu, &s->x, x, scratch);
    void *to = operand_place(&s->y, y, scratch);
    if (s->desc.kind == POOL_MAX) {
        TRY(primitive_run(&s->run, (const void *[]){ from, to, kept }, scratch));
    } else if (s->desc.kind == POOL_AVERAGE) {
        struct average k = { &s->in, from, to, 0 };
        parallel_for(s->cpu, s->rows, 1, average_rows, &k);
    } else {
        struct sums k = { s, (float *)from, to, 0 };
        parallel_for(s->cpu, s->rows * s->in.blocks, 1, sum_planes, &k);
    }
    operand_put(s->cpu, &s->y, y, scratch, 0);
    return OK;
}

static int backward(const struct op_plan *p, const struct op_context *context, const void *kept,
                    const void *gy, void *gx, int add)
{
    const struct pool *s = p->self;
    const struct operand *o = add ? &s->gx_added : &s->gx;
    void *scratch = context->scratch;
    const void *from = operand_get(s->cpu, &s->gy, gy, scratch);
    void *to = operand_place(o, gx, scratch);
    int adds = operand_adds(o, add);
    if (s->desc.kind == POOL_MAX) {
        TRY(primitive_run(&s->back, (const void *[]){ from, to, kept }, scratch));
    } else if (s->desc.kind == POOL_AVERAGE) {
        struct average k = { &s->in, from, to, adds };
        parallel_for(s->cpu, s->rows_back, 1, spread_rows, &k);
    } else {
        struct sums k = { s, to, (float *)from, 1 };
        if (!adds) memset(to, 0, s->rows_back * s->in.row * sizeof(float));
        parallel_for(s->cpu, s->rows_back * s->in.blocks, 1, sum_planes, &k);
    }
    operand_put(s->cpu, o, gx, scratch, add);
    if (!add && s->desc.kind == POOL_AVERAGE) format_pad(s->cpu, &o->have, s->rows_back, gx);
    return OK;
}

const struct pool_ops cpu_pool = { plan, forward, backward };
