/* A locally connected map, output pixel by output pixel: its windows, one for each row, are the rows of a
 * matrix, which is multiplied by its weights. */
#include "backend/ops/local.h"
#include <string.h>
#include "backend/ref/ref.h"
#include "core/mem.h"
#include "dnn.h"

struct local {
    const struct cpu *cpu;
    struct linear_desc desc;
    struct shape in_shape, out_shape;
    struct operand x, gx;
    struct memory_format in, out; /* in float */
    size_t rows, rows_back, taps; /* cells of a window, in all channels */
    size_t at_windows;            /* in scratch: rows x taps */
    size_t at_product;            /* in scratch: rows x out.c */
};

static int plan(struct backend *be, const struct linear_desc *d, struct tensor *out, struct op_plan *p,
                struct err *e)
{
    TRY(op_plan_init(p, sizeof(struct local), e));
    TRY(format_tensor(out, NULL, e));
    struct local *s = p->self;
    *s = (struct local){ .cpu = cpu_of(be),
                         .desc = *d,
                         .in_shape = d->in->shape,
                         .out_shape = out->shape,
                         .x = operand_float(d->in, out->shape.n, &p->scratch_bytes),
                         .gx = operand_float(d->in, d->rows_back, &p->scratch_bytes),
                         .out = format_of(out->shape, NULL),
                         .rows = (size_t)out->shape.n,
                         .rows_back = (size_t)d->rows_back,
                         .taps = (size_t)d->in->shape.c * (size_t)d->size * (size_t)d->size };
    s->in = s->x.want;
    if (mem_mul(s->out.row, s->taps, &p->weight_bytes) ||
        mem_mul(p->weight_bytes, sizeof(float), &p->weight_bytes))
        return fail(e, E_MEM, "%zu x %zu weights do not fit into memory", s->out.row, s->taps);
    p->fused = !d->train;
    s->at_windows = scratch_reserve(&p->scratch_bytes, s->rows * s->taps * sizeof(float));
    s->at_product = scratch_reserve(&p->scratch_bytes, s->rows * s->out.c * sizeof(float));
    return OK;
}

/* The windows of one output pixel. */
struct windows {
    const struct local *s;
    size_t pixel;
    float *x; /* all rows; read by gather, added to by scatter */
    float *matrix;
};

/* Does cell (k, row, column) of the window lie inside? Then *at is its pixel. */
static int pixel_of(const struct windows *k, int row, int column, size_t *at)
{
    const struct local *s = k->s;
    int y = (int)(k->pixel / (size_t)s->out_shape.w) * s->desc.stride_y + row - s->desc.pad,
        x = (int)(k->pixel % (size_t)s->out_shape.w) * s->desc.stride_x + column - s->desc.pad;
    *at = (size_t)y * (size_t)s->in_shape.w + (size_t)x;
    return y >= 0 && y < s->in_shape.h && x >= 0 && x < s->in_shape.w;
}

static void gather(void *ctx, size_t first, size_t last)
{
    const struct windows *k = ctx;
    const struct local *s = k->s;
    float *to = k->matrix + first * s->taps;
    for (size_t n = first; n < last; n++)
        for (size_t c = 0; c < s->in.c; c++)
            for (int i = 0; i < s->desc.size; i++)
                for (int j = 0; j < s->desc.size; j++) {
                    size_t at;
                    *to++ = pixel_of(k, i, j, &at) ? k->x[format_at(&s->in, n, c, at)] : 0;
                }
}

static void scatter(void *ctx, size_t first, size_t last)
{
    const struct windows *k = ctx;
    const struct local *s = k->s;
    const float *from = k->matrix + first * s->taps;
    for (size_t n = first; n < last; n++)
        for (size_t c = 0; c < s->in.c; c++)
            for (int i = 0; i < s->desc.size; i++)
                for (int j = 0; j < s->desc.size; j++, from++) {
                    size_t at;
                    if (pixel_of(k, i, j, &at)) k->x[format_at(&s->in, n, c, at)] += *from;
                }
}

static int forward(const struct op_plan *p, const struct op_context *context, const void *x, const void *w,
                   const real *bias, void *y)
{
    const struct local *s = p->self;
    enum act act = s->desc.train ? ACT_LINEAR : s->desc.act;
    struct windows k = { s, 0, (float *)operand_get(s->cpu, &s->x, x, context->scratch),
                         scratch_at(context->scratch, s->at_windows) };
    float *product = scratch_at(context->scratch, s->at_product);
    for (; k.pixel < s->out.hw; k.pixel++) {
        const float *weights = (const float *)w + k.pixel * s->out.c * s->taps;
        parallel_for(s->cpu, s->rows, 1, gather, &k);
        TRY(dnn_gemm(s->cpu, 0, 1, s->rows, s->out.c, s->taps, k.matrix, weights, 0, product));
        for (size_t i = 0; i < s->rows * s->out.c; i++) {
            size_t at = i % s->out.c * s->out.hw + k.pixel;
            ((float *)y)[i / s->out.c * s->out.row + at] = act_apply(act, product[i] + (bias ? bias[at] : 0));
        }
    }
    return OK;
}

/* Gradients at one output pixel, rows x out.c. */
static void gather_gradients(const struct local *s, size_t pixel, const float *gy, float *to)
{
    for (size_t i = 0; i < s->rows_back * s->out.c; i++)
        to[i] = gy[i / s->out.c * s->out.row + i % s->out.c * s->out.hw + pixel];
}

static int backward(const struct op_plan *p, const struct op_context *context, const void *x, const void *w,
                    const void *gy, void *gx, void *gw, real *gbias)
{
    const struct local *s = p->self;
    float *matrix = scratch_at(context->scratch, s->at_windows),
          *g = scratch_at(context->scratch, s->at_product);
    float *from = gw ? (float *)operand_get(s->cpu, &s->x, x, context->scratch) : NULL,
          *to = operand_place(&s->gx, gx, context->scratch);
    if (gx && !operand_adds(&s->gx, s->desc.add_gx)) memset(to, 0, s->rows_back * s->in.row * sizeof(float));
    for (size_t pixel = 0; pixel < s->out.hw; pixel++) {
        size_t weights = pixel * s->out.c * s->taps;
        gather_gradients(s, pixel, gy, g);
        if (gw) {
            struct windows k = { s, pixel, from, matrix };
            parallel_for(s->cpu, s->rows_back, 1, gather, &k);
            TRY(dnn_gemm(s->cpu, 1, 0, s->out.c, s->taps, s->rows_back, g, matrix, context->add ? 1 : 0,
                         (float *)gw + weights));
        }
        if (gx) {
            struct windows k = { s, pixel, to, matrix };
            TRY(dnn_gemm(s->cpu, 0, 0, s->rows_back, s->taps, s->out.c, g, (const float *)w + weights, 0,
                         matrix));
            parallel_for(s->cpu, s->rows_back, 1, scatter, &k);
        }
    }
    operand_put(s->cpu, &s->gx, gx, context->scratch, s->desc.add_gx);
    if (gbias && !context->add) memset(gbias, 0, s->out.row * sizeof *gbias);
    for (size_t n = 0; gbias && n < s->rows_back; n++)
        accumulate(s->out.row, (const float *)gy + n * s->out.row, gbias);
    return OK;
}

const struct local_ops cpu_local = { { plan, ref_pack, ref_unpack, ref_unpack, forward, backward, NULL } };
