/* 3x3 convolutions, stride 1, of maps of at most 2x2 pixels (the end of a VGG for 32x32 images). Every output
 * pixel sees every input pixel, so the whole is a dense map from C*H*W to O*H*W numbers: one product of
 * matrices a pass. The matrix holds a weight once for each pair of pixels that it joins, up to 4 times; the
 * window's other taps would only meet the padding, on which direct code spends part of its time and Winograd
 * all of it.
 *
 * 512 -> 512 channels, 2x2, 150 images, 2 threads, ms forward, data, weights: Winograd 17.4 17.0 17.5,
 * this 7.4 7.6 6.8, of which making the matrix, or taking its gradient apart, is 2. */
#include "dense.h"
#include <string.h>

enum { BLOCK = 16, SIZE = 3, TAPS = SIZE * SIZE, MOST = 2 };

/* Weights are packed as O, C/16, tap, 16; the matrix is at the start of scratch. Its rows and columns are in
 * the order of nChw16c, to which x is reordered and which y has. */
struct conv_as_gemm {
    struct dense dense;
    size_t hw, width, inputs; /* pixels and columns of the map; columns of the matrix */
    size_t in_c, out_c;
};

int conv_as_gemm_fits(const struct linear_desc *d, const struct tensor *out)
{
    struct shape s = d->in->shape;
    return d->size == SIZE && d->dilation == 1 && d->stride_y == 1 && d->stride_x == 1 && d->pad == 1 &&
           d->groups == 1 && s.h <= MOST && s.w <= MOST && s.c % BLOCK == 0 && out->shape.c % BLOCK == 0;
}

static int plan(struct backend *be, const struct linear_desc *d, struct tensor *out, struct op_plan *p,
                struct err *e)
{
    static const struct layout blocks = { .block = BLOCK };
    struct shape in = d->in->shape;
    struct memory_format format = format_of(out->shape, &blocks);
    TRY(op_plan_init(p, sizeof(struct conv_as_gemm), e));
    TRY(format_tensor(out, format_layout(out->shape, BLOCK, 0), e));
    struct conv_as_gemm *s = p->self;
    *s = (struct conv_as_gemm){ .hw = (size_t)in.h * (size_t)in.w,
                                .width = (size_t)in.w,
                                .inputs = shape_row(in),
                                .in_c = (size_t)in.c,
                                .out_c = (size_t)out->shape.c };
    TRY(dense_bytes(format.row, s->inputs, &p->scratch_bytes, e));
    dense_init(&s->dense, cpu_of(be), d, &blocks, &format, p);
    p->weight_bytes = s->out_c * s->in_c * TAPS * sizeof(float);
    return OK;
}

/* ---- weights ---- */

static size_t packed_at(const struct conv_as_gemm *s, size_t o, size_t c, size_t tap)
{
    return (o * s->in_c + c / BLOCK * BLOCK) * TAPS + tap * BLOCK + c % BLOCK;
}

static int pack(const struct op_plan *p, const real *host, void *w)
{
    const struct conv_as_gemm *s = p->self;
    for (size_t o = 0; o < s->out_c; o++)
        for (size_t c = 0; c < s->in_c; c++)
            for (size_t tap = 0; tap < TAPS; tap++) ((float *)w)[packed_at(s, o, c, tap)] = *host++;
    return OK;
}

static int unpack(const struct op_plan *p, const void *w, real *host)
{
    const struct conv_as_gemm *s = p->self;
    for (size_t o = 0; o < s->out_c; o++)
        for (size_t c = 0; c < s->in_c; c++)
            for (size_t tap = 0; tap < TAPS; tap++) *host++ = ((const float *)w)[packed_at(s, o, c, tap)];
    return OK;
}

/* The tap through which output pixel p sees input pixel q. */
static size_t tap_of(const struct conv_as_gemm *s, size_t p, size_t q)
{
    size_t w = s->width;
    return (q / w + 1 - p / w) * SIZE + q % w + 1 - p % w;
}

/* The row of the matrix for output channel o at pixel p. */
static float *row_of(const struct conv_as_gemm *s, float *matrix, size_t o, size_t p)
{
    return matrix + ((o / BLOCK * s->hw + p) * BLOCK + o % BLOCK) * s->inputs;
}

struct weights {
    const struct conv_as_gemm *s;
    float *matrix;
    const float *w; /* spread: read */
    float *gw;      /* gather: written */
    int add;
};

/* Weights of output channels first..last-1 to their rows of the matrix. */
static void spread(void *ctx, size_t first, size_t last)
{
    const struct weights *k = ctx;
    const struct conv_as_gemm *s = k->s;
    for (size_t o = first; o < last; o++)
        for (size_t p = 0; p < s->hw; p++) {
            float *row = row_of(s, k->matrix, o, p);
            for (size_t c = 0; c < s->in_c; c += BLOCK)
                for (size_t q = 0; q < s->hw; q++, row += BLOCK)
                    memcpy(row, k->w + packed_at(s, o, c, tap_of(s, p, q)), BLOCK * sizeof *row);
        }
}

/* Gradients back from the matrix: that of a weight is the sum over its places. */
CPU_CLONES static void gather(void *ctx, size_t first, size_t last)
{
    const struct weights *k = ctx;
    const struct conv_as_gemm *s = k->s;
    for (size_t o = first; o < last; o++)
        for (size_t c = 0; c < s->in_c; c += BLOCK) {
            float *gw = k->gw + packed_at(s, o, c, 0);
            if (!k->add) memset(gw, 0, TAPS * BLOCK * sizeof *gw);
            for (size_t p = 0; p < s->hw; p++) {
                const float *row = row_of(s, k->matrix, o, p) + c * s->hw;
                for (size_t q = 0; q < s->hw; q++, row += BLOCK) {
                    float *to = gw + tap_of(s, p, q) * BLOCK;
#pragma omp simd
                    for (size_t i = 0; i < BLOCK; i++) to[i] += row[i];
                }
            }
        }
}

static void make_matrix(const struct conv_as_gemm *s, const float *w, void *scratch)
{
    struct weights k = { .s = s, .matrix = scratch, .w = w };
    parallel_for(s->dense.cpu, s->out_c, 1, spread, &k);
}

/* ---- passes ---- */

static int forward(const struct op_plan *p, const struct op_context *context, const void *x, const void *w,
                   const real *bias, void *y)
{
    const struct conv_as_gemm *s = p->self;
    make_matrix(s, w, context->scratch);
    return dense_product(&s->dense, x, context->scratch, bias, y, context->scratch);
}

static int backward(const struct op_plan *p, const struct op_context *context, const void *x, const void *w,
                    const void *gy, void *gx, void *gw, real *gbias)
{
    const struct conv_as_gemm *s = p->self;
    const struct dense *d = &s->dense;
    void *matrix = context->scratch;
    struct weights k = { .s = s, .matrix = matrix, .gw = gw, .add = context->add };
    if (gx) {
        make_matrix(s, w, matrix);
        TRY(dense_product_gx(d, matrix, gy, gx, matrix));
    }
    if (gw) {
        TRY(dense_product_gw(d, x, gy, matrix, 0, matrix));
        parallel_for(d->cpu, s->out_c, 1, gather, &k);
    }
    if (gbias) format_channel_sums(d->cpu, d->rows_back, &d->out, gy, gbias, context->add);
    return OK;
}

const struct linear_ops conv_as_gemm = { plan, pack, unpack, unpack, forward, backward, NULL };
