/* Weighted sums, element by element. The gradients of the weights: each block adds up a part of the pixels
 * for some channels, then one block for each weight of an input adds the parts. */
#include "backend/ops/mix.h"
#include "kernel.h"

struct mix_input {
    const void *x;
    int bf16;
    unsigned c;
};

struct mix {
    const struct cuda *cu;
    struct mix_desc desc;
    int bf16; /* the output is */
    unsigned c;
    size_t pixels, pixels_back; /* of all rows */
    unsigned parts;
    struct mix_input in[MIX_MOST];
};

enum { LANES = 8, COLUMNS = THREADS / LANES, MOST_PARTS = 64 };

KERNEL(mix_forward, struct mix m, const float *w, void *y, size_t n)
{
    PHASE GRID_LOOP(i, n)
    {
        const unsigned c = (unsigned)(i % m.c);
        float sum = 0, f;
        for (int k = 0; k < m.desc.nin; k++) {
            if (c >= m.in[k].c) continue;
            load(m.in[k].bf16, 1, m.in[k].x, i / m.c * m.in[k].c + c, &f);
            sum += mix_factor(&m.desc, w, k, (int)c) * f;
        }
        sum = act_apply(m.desc.act, sum);
        store(m.bf16, 1, y, i, &sum);
    }
}

/* The gradient before the activation. */
DEVICE float before(const struct mix *m, const void *y, const void *gy, size_t i)
{
    float f, g;
    load(m->bf16, 1, gy, i, &g);
    if (m->desc.act == ACT_LINEAR) return g; /* y may be NULL */
    load(m->bf16, 1, y, i, &f);
    return g * act_slope_y(m->desc.act, f);
}

KERNEL(mix_back, struct mix m, int k, const float *w, const void *y, const void *gy, void *gx, size_t n)
{
    PHASE GRID_LOOP(i, n)
    {
        const unsigned c = (unsigned)(i % m.in[k].c);
        float g = 0;
        if (c < m.c) g = mix_factor(&m.desc, w, k, (int)c) * before(&m, y, gy, i / m.in[k].c * m.c + c);
        put(m.in[k].bf16, 1, gx, i, &g, m.desc.add[k]);
    }
}

/* part[k][blockIdx.y][channel] */
KERNEL(mix_parts, struct mix m, int k, const void *y, const void *gy, float *part)
{
    SHARED(float, sum, THREADS);
    PHASE
    {
        const unsigned c = blockIdx.x * COLUMNS + threadIdx.x % COLUMNS;
        float s = 0, f;
        for (size_t p = blockIdx.y * LANES + threadIdx.x / COLUMNS;
             c < m.c && c < m.in[k].c && p < m.pixels_back; p += m.parts * LANES) {
            load(m.in[k].bf16, 1, m.in[k].x, p * m.in[k].c + c, &f);
            s += f * before(&m, y, gy, p * m.c + c);
        }
        sum[threadIdx.x] = s;
    }
    BLOCK_SUM(sum, LANES, COLUMNS);
    PHASE
    {
        const unsigned c = blockIdx.x * COLUMNS + threadIdx.x;
        if (threadIdx.x < COLUMNS && c < m.c)
            part[((size_t)k * m.parts + blockIdx.y) * m.c + c] = sum[threadIdx.x];
    }
}

/* A block for each weight of an input: number blockIdx.x. */
KERNEL(mix_weights, struct mix m, const float *w, const float *part, float *gw, int add)
{
    SHARED(float, sum, THREADS);
    SHARED(float, g, MIX_MOST);
    const unsigned terms = m.desc.weights > 1 ? m.parts : m.parts * m.c;
    for (int k = 0; k < m.desc.nin; k++) {
        PHASE
        {
            float s = 0;
            for (unsigned t = threadIdx.x; t < terms; t += THREADS) {
                const size_t at = m.desc.weights > 1 ? (size_t)t * m.c + blockIdx.x : t;
                s += part[(size_t)k * m.parts * m.c + at];
            }
            sum[threadIdx.x] = s;
        }
        BLOCK_SUM(sum, THREADS, 1);
        PHASE if (threadIdx.x == 0) g[k] = sum[0];
    }
    PHASE
    {
        const int k = (int)threadIdx.x;
        if (k >= m.desc.nin) continue;
        float *to = &gw[k * m.desc.weights + (int)blockIdx.x];
        *to = mix_slope(&m.desc, w, k, (int)blockIdx.x, g) + (add ? *to : 0);
    }
}

static int plan(struct backend *be, const struct mix_desc *d, struct tensor *out, struct op_plan *p,
                struct err *e)
{
    TRY(op_plan_init(p, sizeof(struct mix), e));
    TRY(cuda_tensor(out, cuda_is_bf16(d->in[0]), e));
    struct mix *s = (struct mix *)p->self;
    s->cu = cuda_of(be);
    s->desc = *d;
    s->bf16 = cuda_is_bf16(d->in[0]);
    s->c = out->shape.c;
    s->pixels = shape_count(out->shape) / s->c;
    s->pixels_back = s->pixels / out->shape.n * d->rows_back;
    const size_t parts = (s->pixels_back + 16 * LANES - 1) / (16 * LANES);
    s->parts = (unsigned)(parts < MOST_PARTS ? parts : (size_t)MOST_PARTS);
    for (int k = 0; k < d->nin; k++)
        s->in[k] = (struct mix_input){ NULL, cuda_is_bf16(d->in[k]), (unsigned)d->in[k]->shape.c };
    if (d->train) p->scratch_bytes = (size_t)d->nin * s->parts * s->c * sizeof(float);
    return OK;
}

static struct mix with(const struct op_plan *p, const void *const *x)
{
    struct mix m = *(const struct mix *)p->self;
    for (int k = 0; k < m.desc.nin; k++) m.in[k].x = x[k];
    return m;
}

static int forward(const struct op_plan *p, const struct op_context *, const void *const *x, const real *w,
                   void *y)
{
    const struct mix m = with(p, x);
    const size_t n = m.pixels * m.c;
    LAUNCH(m.cu, mix_forward, blocks_for(m.cu, n), 1, THREADS, m, w, y, n);
    return OK;
}

static int backward(const struct op_plan *p, const struct op_context *context, const void *const *x,
                    const real *w, const void *y, const void *gy, void *const *gx, real *gw)
{
    const struct mix m = with(p, x);
    float *part = (float *)context->scratch;
    for (int k = 0; k < m.desc.nin; k++) {
        const size_t n = m.pixels_back * m.in[k].c;
        if (gw) LAUNCH(m.cu, mix_parts, (m.c + COLUMNS - 1) / COLUMNS, m.parts, THREADS, m, k, y, gy, part);
        if (gx[k]) LAUNCH(m.cu, mix_back, blocks_for(m.cu, n), 1, THREADS, m, k, w, y, gy, gx[k], n);
    }
    if (gw) LAUNCH(m.cu, mix_weights, m.desc.weights, 1, THREADS, m, w, part, gw, context->add);
    return OK;
}

const struct mix_ops cuda_mix = { plan, forward, backward };
