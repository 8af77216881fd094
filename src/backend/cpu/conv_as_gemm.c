/* 3x3 convolutions, stride 1, of maps of at most 2x2 pixels (the end of a VGG for 32x32 images). Every output
 * pixel sees every input pixel, so the whole is a dense map from C*H*W to O*H*W numbers: one matrix product a
 * pass. The matrix holds a weight once for each pair of pixels that it joins, up to 4 times; the window's
 * other taps would only meet the padding, which direct code partly, and Winograd wholly, computes with.
 *
 * 512 -> 512 channels, 2x2, 150 images, 2 threads, ms forward, data, weights: Winograd 17.4 17.0 17.5,
 * this 7.4 7.6 6.8, of which making the matrix, or taking its gradient apart, 2. */
#include "cpu.h"
#include <string.h>
#include "core/mem.h"

enum { BLOCK = 16, SIZE = 3, TAPS = SIZE * SIZE, MOST = 2 };

/* Weights are packed as O, C/16, tap, 16. */
struct conv_as_gemm {
    const struct cpu *cpu;
    struct tensor in, blocked; /* as the input comes, and as it is multiplied: nChw16c, as the output */
    struct shape out;
    size_t hw, inputs, outputs; /* pixels; columns and rows of the matrix */
    size_t rows, rows_back;
    int add_gx, copies; /* the input comes in another order */
    enum act act;
    struct layout layout;
    size_t at_x; /* in scratch, behind the matrix */
};

int small_fits(const struct linear_desc *d, const struct tensor *out)
{
    struct shape s = d->in->shape;
    return d->size == SIZE && d->stride == 1 && d->pad == 1 && d->groups == 1 && s.h <= MOST && s.w <= MOST &&
           s.c % BLOCK == 0 && out->shape.c % BLOCK == 0;
}

int conv_as_gemm_plan(struct conv_as_gemm **to, const struct cpu *cpu, const struct linear_desc *d,
                      struct tensor *out, struct op_plan *plan, struct err *e)
{
    static const struct layout blocks = { .block = BLOCK };
    struct shape in = d->in->shape;
    struct conv_as_gemm *s = *to = mem_alloc(1, sizeof *s);
    if (!s) return fail(e, E_MEM, "no memory to plan a convolution");
    *s = (struct conv_as_gemm){ .cpu = cpu,
                                .in = *d->in,
                                .blocked = { .shape = in },
                                .out = out->shape,
                                .hw = (size_t)in.h * (size_t)in.w,
                                .inputs = shape_row(in),
                                .outputs = shape_row(out->shape),
                                .rows = (size_t)in.n,
                                .rows_back = (size_t)d->rows_back,
                                .add_gx = d->add_gx,
                                .act = d->train ? ACT_LINEAR : d->act };
    int known;
    TRY(format_tensor(&s->blocked, format_layout(in, BLOCK, &known), e));
    TRY(format_tensor(out, format_layout(out->shape, BLOCK, &known), e));
    s->copies = !order_same(in, d->in->layout, &blocks);
    size_t matrix;
    if (mem_mul(s->inputs, s->outputs, &matrix) || mem_mul(matrix, sizeof(float), &matrix))
        return fail(e, E_MEM, "a convolution from %zu to %zu numbers does not fit into memory", s->inputs,
                    s->outputs);
    size_t end = matrix;
    s->at_x = cpu_carve(&end, s->copies ? s->blocked.bytes : 0);
    plan->weights = &s->layout;
    plan->weight_bytes = (size_t)out->shape.c * (size_t)in.c * TAPS * sizeof(float);
    plan->scratch_bytes = end;
    plan->fused = s->act == d->act;
    return OK;
}

/* ---- weights ---- */

static size_t packed_at(const struct conv_as_gemm *s, size_t o, size_t c, size_t tap)
{
    return ((o * (size_t)s->in.shape.c + c / BLOCK * BLOCK) * TAPS) + tap * BLOCK + c % BLOCK;
}

void conv_as_gemm_pack(const struct conv_as_gemm *s, const real *host, float *w)
{
    for (size_t o = 0; o < (size_t)s->out.c; o++)
        for (size_t c = 0; c < (size_t)s->in.shape.c; c++)
            for (size_t tap = 0; tap < TAPS; tap++) w[packed_at(s, o, c, tap)] = *host++;
}

void conv_as_gemm_unpack(const struct conv_as_gemm *s, const float *w, real *host)
{
    for (size_t o = 0; o < (size_t)s->out.c; o++)
        for (size_t c = 0; c < (size_t)s->in.shape.c; c++)
            for (size_t tap = 0; tap < TAPS; tap++) *host++ = w[packed_at(s, o, c, tap)];
}

/* The tap through which output pixel p sees input pixel q. */
static size_t tap_of(const struct conv_as_gemm *s, size_t p, size_t q)
{
    size_t w = (size_t)s->out.w;
    return (q / w + 1 - p / w) * SIZE + q % w + 1 - p % w;
}

/* The place in the matrix of output channel o at pixel p: its row. */
static float *row_of(const struct conv_as_gemm *s, float *matrix, size_t o, size_t p)
{
    return matrix + ((o / BLOCK * s->hw + p) * BLOCK + o % BLOCK) * s->inputs;
}

struct share {
    const struct conv_as_gemm *s;
    const float *w; /* of spread */
    float *gw;      /* of gather */
    float *matrix;
    int add;
};

/* Weights of output channels first..last-1 to their rows of the matrix. */
static void spread(void *ctx, size_t first, size_t last)
{
    const struct share *k = ctx;
    const struct conv_as_gemm *s = k->s;
    for (size_t o = first; o < last; o++)
        for (size_t p = 0; p < s->hw; p++) {
            float *row = row_of(s, k->matrix, o, p);
            for (size_t c = 0; c < (size_t)s->in.shape.c; c += BLOCK)
                for (size_t q = 0; q < s->hw; q++, row += BLOCK)
                    memcpy(row, k->w + packed_at(s, o, c, tap_of(s, p, q)), BLOCK * sizeof *row);
        }
}

/* And the gradients back: each weight has the sum over its places. */
CPU_CLONES static void gather(void *ctx, size_t first, size_t last)
{
    const struct share *k = ctx;
    const struct conv_as_gemm *s = k->s;
    for (size_t o = first; o < last; o++)
        for (size_t c = 0; c < (size_t)s->in.shape.c; c += BLOCK) {
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
    struct share k = { s, w, NULL, scratch, 0 };
    cpu_share(s->cpu, (size_t)s->out.c, 1, spread, &k);
}

/* ---- passes ---- */

static struct view view_of(const struct conv_as_gemm *s, const struct layout *l, const void *data)
{
    return (struct view){ format_of(s->in.shape, l), 0, (float *)data };
}

static const float *bring(const struct conv_as_gemm *s, const void *x, size_t rows, void *scratch)
{
    if (!s->copies) return x;
    struct view from = view_of(s, s->in.layout, x),
                to = view_of(s, s->blocked.layout, cpu_at(scratch, s->at_x));
    format_copy(s->cpu, &to, &from, rows, from.format.c, 0);
    return to.data;
}

struct finish {
    const struct conv_as_gemm *s;
    const float *bias;
    float *y;
};

static void finish_rows(void *ctx, size_t first, size_t last)
{
    const struct finish *k = ctx;
    const struct conv_as_gemm *s = k->s;
    for (size_t r = first; r < last; r++) {
        float *y = k->y + r * s->outputs, *at = y;
        for (size_t o = 0; o < (size_t)s->out.c && k->bias; o += BLOCK)
            for (size_t p = 0; p < s->hw; p++, at += BLOCK)
                for (size_t i = 0; i < BLOCK; i++) at[i] += k->bias[o + i];
        act_map(s->act, s->outputs, y, y);
    }
}

int conv_as_gemm_forward(const struct conv_as_gemm *s, const void *x, const void *w, const real *bias,
                         void *y, void *scratch)
{
    x = bring(s, x, s->rows, scratch);
    make_matrix(s, w, scratch);
    TRY(dnn_gemm(s->cpu, 0, 1, s->rows, s->outputs, s->inputs, x, scratch, 0, y));
    struct finish k = { s, bias, y };
    if (bias || s->act != ACT_LINEAR) cpu_share(s->cpu, s->rows, 1, finish_rows, &k);
    return OK;
}

int conv_as_gemm_backward_x(const struct conv_as_gemm *s, const void *w, const void *gy, void *gx,
                            void *scratch)
{
    float *to = s->copies ? cpu_at(scratch, s->at_x) : gx;
    make_matrix(s, w, scratch);
    TRY(dnn_gemm(s->cpu, 0, 0, s->rows_back, s->inputs, s->outputs, gy, scratch, !s->copies && s->add_gx,
                 to));
    if (!s->copies) return OK;
    struct view from = view_of(s, s->blocked.layout, to), back = view_of(s, s->in.layout, gx);
    format_copy(s->cpu, &back, &from, s->rows_back, from.format.c, s->add_gx);
    return OK;
}

int conv_as_gemm_backward_w(const struct conv_as_gemm *s, const void *x, const void *gy, void *gw, int add,
                            void *scratch)
{
    x = bring(s, x, s->rows_back, scratch);
    TRY(dnn_gemm(s->cpu, 1, 0, s->outputs, s->inputs, s->rows_back, gy, x, 0, scratch));
    struct share k = { s, NULL, gw, scratch, add };
    cpu_share(s->cpu, (size_t)s->out.c, 1, gather, &k);
    return OK;
}
