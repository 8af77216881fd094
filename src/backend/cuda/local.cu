/* A locally connected map: a thread takes a number of the result. Weights are packed as pixel, I, H, W, O, so
 * that threads side by side, which take the outputs of a pixel, read weights side by side. */
#include "backend/ops/local.h"
#include "kernel.h"
#include "linear.h"

struct window_map {
    int bf16, size, stride_y, stride_x, pad;
    struct shape in, out;
    enum act act;
};

struct local {
    struct linear linear; /* first: its pack swaps the outputs of a pixel with the cells of its window */
    struct window_map map;
    size_t rows_back;
    int add_gx;
};

/* Where cell k of the window of output pixel i of row n lies in the input; its pixel is outside: 0. */
DEVICE int cell_of(const struct window_map *m, size_t n, unsigned i, unsigned k, size_t *at)
{
    const int y = (int)(i / m->out.w) * m->stride_y + (int)(k / m->size % m->size) - m->pad,
              x = (int)(i % m->out.w) * m->stride_x + (int)(k % m->size) - m->pad;
    *at = ((n * m->in.h + (size_t)y) * m->in.w + (size_t)x) * m->in.c + k / m->size / m->size;
    return y >= 0 && y < m->in.h && x >= 0 && x < m->in.w;
}

KERNEL(windows, struct window_map m, const void *x, const void *w, const float *bias, void *y, size_t n)
{
    PHASE GRID_LOOP(i, n)
    {
        const unsigned outs = m.out.c, o = (unsigned)(i % outs), pixels = m.out.h * m.out.w,
                       pixel = (unsigned)(i / outs % pixels), taps = m.in.c * m.size * m.size;
        float a, b, sum = bias ? bias[(size_t)o * pixels + pixel] : 0;
        for (unsigned k = 0; k < taps; k++) {
            size_t at;
            if (!cell_of(&m, i / outs / pixels, pixel, k, &at)) continue;
            load(m.bf16, 1, x, at, &a);
            load(m.bf16, 1, w, ((size_t)pixel * taps + k) * outs + o, &b);
            sum += a * b;
        }
        sum = act_apply(m.act, sum);
        store(m.bf16, 1, y, i, &sum);
    }
}

/* What the window of an output pixel gives back to its cell k. */
DEVICE float from_window(const struct window_map *m, const void *w, const void *gy, size_t n, unsigned pixel,
                         unsigned k)
{
    const unsigned outs = m->out.c, pixels = m->out.h * m->out.w, taps = m->in.c * m->size * m->size;
    float g, b, sum = 0;
    for (unsigned o = 0; o < outs; o++) {
        load(m->bf16, 1, gy, (n * pixels + pixel) * outs + o, &g);
        load(m->bf16, 1, w, ((size_t)pixel * taps + k) * outs + o, &b);
        sum += g * b;
    }
    return sum;
}

KERNEL(windows_back, struct window_map m, const void *w, const void *gy, void *gx, size_t n, int add)
{
    PHASE GRID_LOOP(i, n)
    {
        const unsigned c = (unsigned)(i % m.in.c), pixel = (unsigned)(i / m.in.c % ((size_t)m.in.h * m.in.w));
        const int y = (int)(pixel / m.in.w) + m.pad, x = (int)(pixel % m.in.w) + m.pad;
        const size_t row = i / m.in.c / ((size_t)m.in.h * m.in.w);
        float sum = 0;
        for (int a = 0; a < m.size; a++)
            for (int b = 0; b < m.size; b++) {
                const int oy = (y - a) / m.stride_y, ox = (x - b) / m.stride_x;
                if (y < a || x < b || oy * m.stride_y != y - a || ox * m.stride_x != x - b) continue;
                if (oy >= m.out.h || ox >= m.out.w) continue;
                sum += from_window(&m, w, gy, row, oy * m.out.w + ox, (c * m.size + a) * m.size + b);
            }
        put(m.bf16, 1, gx, i, &sum, add);
    }
}

KERNEL(windows_weights, struct window_map m, const void *x, const void *gy, float *gw, size_t n, size_t rows,
       int add)
{
    PHASE GRID_LOOP(i, n)
    {
        const unsigned outs = m.out.c, o = (unsigned)(i % outs), taps = m.in.c * m.size * m.size,
                       k = (unsigned)(i / outs % taps), pixel = (unsigned)(i / outs / taps);
        float a, g, sum = 0;
        for (size_t r = 0; r < rows; r++) {
            size_t at;
            if (!cell_of(&m, r, pixel, k, &at)) break;
            load(m.bf16, 1, x, at, &a);
            load(m.bf16, 1, gy, (r * (unsigned)(m.out.h * m.out.w) + pixel) * outs + o, &g);
            sum += a * g;
        }
        put(0, 1, gw, i, &sum, add);
    }
}

/* gbias is in the host's order. */
KERNEL(windows_bias, struct window_map m, const void *gy, float *gbias, size_t n, size_t rows, int add)
{
    PHASE GRID_LOOP(i, n)
    {
        const size_t pixels = (size_t)m.out.h * m.out.w;
        float g, sum = 0;
        for (size_t r = 0; r < rows; r++) {
            load(m.bf16, 1, gy, (r * pixels + i % pixels) * m.out.c + i / pixels, &g);
            sum += g;
        }
        put(0, 1, gbias, i, &sum, add);
    }
}

/* To struct linear a pixel is an output, an output an input, and a cell of the window a tap. */
static int plan(struct backend *be, const struct linear_desc *d, struct tensor *out, struct op_plan *p,
                struct err *e)
{
    struct tensor in = *d->in, pixels = { .shape = { out->shape.n, out->shape.h * out->shape.w, 1, 1 } };
    struct linear_desc swapped = *d;
    size_t taps = (size_t)in.shape.c * (size_t)d->size * (size_t)d->size;
    TRY(op_plan_init(p, sizeof(struct local), e));
    struct local *s = (struct local *)p->self;
    in.shape.c = out->shape.c;
    swapped.in = &in;
    if (d->train) swapped.act = ACT_LINEAR;
    TRY(cuda_linear_plan(&s->linear, be, &swapped, &pixels, taps, p, e));
    s->map = (struct window_map){ .bf16 = s->linear.bf16,
                                  .size = d->size,
                                  .stride_y = d->stride_y,
                                  .stride_x = d->stride_x,
                                  .pad = d->pad,
                                  .in = d->in->shape,
                                  .out = out->shape,
                                  .act = s->linear.act };
    s->rows_back = (size_t)d->rows_back;
    s->add_gx = d->add_gx;
    return cuda_tensor(out, s->map.bf16, e);
}

static int forward(const struct op_plan *p, const struct op_context *, const void *x, const void *w,
                   const real *bias, void *y)
{
    const struct local *s = (const struct local *)p->self;
    const struct cuda *cu = s->linear.cu;
    const size_t n = shape_count(s->map.out);
    const void *weights = cuda_weight_copy(&s->linear.weights, w);
    LAUNCH(cu, windows, blocks_for(cu, n), 1, THREADS, s->map, x, weights, bias, y, n);
    return OK;
}

static int backward(const struct op_plan *p, const struct op_context *context, const void *x, const void *w,
                    const void *gy, void *gx, void *gw, real *gbias)
{
    const struct local *s = (const struct local *)p->self;
    const struct cuda *cu = s->linear.cu;
    const size_t inputs = s->rows_back * shape_row(s->map.in), count = s->linear.weights.count,
                 outputs = shape_row(s->map.out);
    const void *weights = cuda_weight_copy(&s->linear.weights, w);
    if (gx)
        LAUNCH(cu, windows_back, blocks_for(cu, inputs), 1, THREADS, s->map, weights, gy, gx, inputs,
               s->add_gx);
    if (gw)
        LAUNCH(cu, windows_weights, blocks_for(cu, count), 1, THREADS, s->map, x, gy, (float *)gw, count,
               s->rows_back, context->add);
    if (gbias)
        LAUNCH(cu, windows_bias, blocks_for(cu, outputs), 1, THREADS, s->map, gy, gbias, outputs,
               s->rows_back, context->add);
    return OK;
}

const struct local_ops cuda_local = { { plan, cuda_linear_pack, cuda_linear_unpack,
                                        cuda_linear_unpack_gradient, forward, backward, NULL } };
