/* Pooling: a thread takes V channels of a pixel. */
#include "backend/ops/pool.h"
#include "kernel.h"

struct pool {
    const struct cuda *cu;
    struct pool_desc desc;
    int bf16;
    unsigned V;
    struct shape in, out;
    int offset; /* windows start at i * stride - offset */
    int narrow; /* places in a window fit in 8 bits; else they take 32 */
};

/* Places within windows, V of them from number i on: a byte each, or 32 bits. */
DEVICE void put_places(unsigned V, int narrow, void *p, size_t i, const unsigned *at)
{
    if (!narrow)
        for (unsigned k = 0; k < V; k++) ((uint32_t *)p)[i + k] = at[k];
    else if (V == 1)
        ((uint8_t *)p)[i] = (uint8_t)at[0];
    else
        for (unsigned k = 0; k < V; k += 4)
            ((uint32_t *)p)[(i + k) / 4] = at[k] | at[k + 1] << 8 | at[k + 2] << 16 | at[k + 3] << 24;
}

DEVICE void get_places(unsigned V, int narrow, const void *p, size_t i, unsigned *at)
{
    if (!narrow)
        for (unsigned k = 0; k < V; k++) at[k] = ((const uint32_t *)p)[i + k];
    else if (V == 1)
        at[0] = ((const uint8_t *)p)[i];
    else
        for (unsigned k = 0; k < V; k++) at[k] = ((const uint32_t *)p)[(i + k) / 4] >> k % 4 * 8 & 255;
}

/* Keeps what is larger than the best so far; the first cell of a window starts it. */
DEVICE void keep_larger(unsigned V, const float *f, unsigned place, int start, float *best, unsigned *at)
{
    for (unsigned k = 0; k < V; k++)
        if (start || f[k] > best[k]) best[k] = f[k], at[k] = place;
}

/* Maxima of the window at (y0, x0) of the map that begins at element `map`, at channel c. */
DEVICE void window_max(int bf16, unsigned V, const struct pool *m, const void *x, size_t map, int y0, int x0,
                       float *best, unsigned *at)
{
    const int top = y0 < 0 ? -y0 : 0, left = x0 < 0 ? -x0 : 0;
    for (int i = top; i < m->desc.size && y0 + i < m->in.h; i++)
        for (int j = left; j < m->desc.size && x0 + j < m->in.w; j++) {
            float f[8];
            load(bf16, V, x, map + (size_t)((y0 + i) * m->in.w + x0 + j) * (unsigned)m->in.c, f);
            keep_larger(V, f, i * m->desc.size + j, i == top && j == left, best, at);
        }
}

/* where: for each output, the place of its maximum in its window, in row order; or NULL. */
template <int bf16, unsigned V>
KERNEL(pool_max, struct pool m, const void *x, void *y, void *where, size_t items)
{
    PHASE GRID_LOOP(i, items)
    {
        const unsigned groups = m.in.c / V, pixel = (unsigned)i / groups, c = (unsigned)i % groups * V;
        const unsigned row = pixel / (m.out.h * m.out.w), oy = pixel / m.out.w % m.out.h,
                       ox = pixel % m.out.w;
        const size_t map = (size_t)row * (unsigned)(m.in.h * m.in.w * m.in.c) + c;
        float best[8] = { 0 };
        unsigned at[8] = { 0 };
        window_max(bf16, V, &m, x, map, (int)oy * m.desc.stride_y - m.offset,
                   (int)ox * m.desc.stride_x - m.offset, best, at);
        store(bf16, V, y, i * V, best);
        if (where) put_places(V, m.narrow, where, i * V, at);
    }
}

/* The first and the last window along an axis that cover cell p. */
DEVICE int first_window(const struct pool *m, int stride, int p)
{
    const int behind = p + m->offset - m->desc.size; /* the last start that does not reach p */
    return behind < 0 ? 0 : behind / stride + 1;
}
DEVICE int last_window(const struct pool *m, int stride, int p, int windows)
{
    const int last = (p + m->offset) / stride;
    return last < windows ? last : windows - 1;
}

/* Adds what cell (dy, dx) of the window at (y0, x0), with output o, gets of the gradients of V channels: of a
 * maximum all where it was, else its weight. */
DEVICE void take(int bf16, unsigned V, const struct pool *m, const void *where, const void *gy, size_t o,
                 int y0, int x0, int dy, int dx, float *sum)
{
    float g[8];
    unsigned at[8];
    load(bf16, V, gy, o, g);
    if (m->desc.kind == POOL_MAX) {
        get_places(V, m->narrow, where, o, at);
        for (unsigned k = 0; k < V; k++)
            if (at[k] == (unsigned)(dy * m->desc.size + dx)) sum[k] += g[k];
    } else {
        const float w = pool_weight(&m->desc, y0, m->in.h, dy) * pool_weight(&m->desc, x0, m->in.w, dx);
        for (unsigned k = 0; k < V; k++) sum[k] += w * g[k];
    }
}

/* Cell (y, x) collects from the windows that cover it; outputs of its map begin at element `map`. */
DEVICE void collect(int bf16, unsigned V, const struct pool *m, const void *where, const void *gy, size_t map,
                    int y, int x, float *sum)
{
    const int sy = m->desc.stride_y, sx = m->desc.stride_x;
    const int bottom = last_window(m, sy, y, m->out.h), right = last_window(m, sx, x, m->out.w);
    for (int i = first_window(m, sy, y); i <= bottom; i++)
        for (int j = first_window(m, sx, x); j <= right; j++) {
            const int y0 = i * sy - m->offset, x0 = j * sx - m->offset;
            const size_t o = map + (size_t)(i * m->out.w + j) * (unsigned)m->out.c;
            take(bf16, V, m, where, gy, o, y0, x0, y - y0, x - x0, sum);
        }
}

template <int bf16, unsigned V>
KERNEL(pool_back, struct pool m, const void *where, const void *gy, void *gx, size_t items, int add)
{
    PHASE GRID_LOOP(i, items)
    {
        const unsigned groups = m.in.c / V, pixel = (unsigned)i / groups, c = (unsigned)i % groups * V;
        const unsigned row = pixel / (m.in.h * m.in.w), y = pixel / m.in.w % m.in.h, x = pixel % m.in.w;
        float sum[8] = { 0 };
        collect(bf16, V, &m, where, gy, (size_t)row * (unsigned)(m.out.h * m.out.w * m.out.c) + c, y, x, sum);
        put(bf16, V, gx, i * V, sum, add);
    }
}

/* Weighted sums over windows. */
template <int bf16, unsigned V> KERNEL(pool_sum, struct pool m, const void *x, void *y, size_t items)
{
    PHASE GRID_LOOP(i, items)
    {
        const unsigned groups = m.in.c / V, pixel = (unsigned)i / groups, c = (unsigned)i % groups * V;
        const unsigned row = pixel / (m.out.h * m.out.w);
        const int y0 = (int)(pixel / m.out.w % m.out.h) * m.desc.stride_y - m.offset,
                  x0 = (int)(pixel % m.out.w) * m.desc.stride_x - m.offset;
        const size_t map = (size_t)row * (unsigned)(m.in.h * m.in.w * m.in.c) + c;
        float f[8], sum[8] = { 0 };
        for (int a = y0 < 0 ? -y0 : 0; a < m.desc.size && y0 + a < m.in.h; a++)
            for (int b = x0 < 0 ? -x0 : 0; b < m.desc.size && x0 + b < m.in.w; b++) {
                const float w = pool_weight(&m.desc, y0, m.in.h, a) * pool_weight(&m.desc, x0, m.in.w, b);
                load(bf16, V, x, map + (size_t)((y0 + a) * m.in.w + x0 + b) * (unsigned)m.in.c, f);
                for (unsigned k = 0; k < V; k++) sum[k] += w * f[k];
            }
        store(bf16, V, y, i * V, sum);
    }
}

/* A block takes COLUMNS groups of V channels of a row; LANES threads share the pixels of each. */
enum { LANES = 8, COLUMNS = THREADS / LANES };

template <int bf16, unsigned V> KERNEL(pool_average, const void *x, void *y, unsigned pixels, unsigned c)
{
    SHARED(float, sum, THREADS * 8);
    const size_t first = (size_t)blockIdx.x * pixels * c;
    PHASE
    {
        const unsigned at = (blockIdx.y * COLUMNS + threadIdx.x % COLUMNS) * V;
        float s[8] = { 0 }, f[8];
        for (unsigned p = threadIdx.x / COLUMNS; at < c && p < pixels; p += LANES) {
            load(bf16, V, x, first + (size_t)p * c + at, f);
            for (unsigned k = 0; k < V; k++) s[k] += f[k];
        }
        for (unsigned k = 0; k < V; k++) sum[threadIdx.x * V + k] = s[k];
    }
    BLOCK_SUM(sum, LANES, (int)(COLUMNS * V));
    PHASE
    {
        const unsigned at = (blockIdx.y * COLUMNS + threadIdx.x) * V;
        float f[8];
        if (threadIdx.x >= COLUMNS || at >= c) continue;
        for (unsigned k = 0; k < V; k++) f[k] = sum[threadIdx.x * V + k] / (float)pixels;
        store(bf16, V, y, (size_t)blockIdx.x * c + at, f);
    }
}

template <int bf16, unsigned V>
KERNEL(pool_average_back, const void *gy, void *gx, unsigned pixels, unsigned c, size_t items, int add)
{
    PHASE GRID_LOOP(i, items)
    {
        const unsigned groups = c / V, row = (unsigned)i / groups / pixels;
        float g[8];
        load(bf16, V, gy, (size_t)row * c + (unsigned)i % groups * V, g);
        for (unsigned k = 0; k < V; k++) g[k] /= (float)pixels;
        put(bf16, V, gx, i * V, g, add);
    }
}

static int plan(struct backend *be, const struct pool_desc *d, struct tensor *out, struct op_plan *p,
                struct err *e)
{
    TRY(op_plan_init(p, sizeof(struct pool), e));
    struct pool *s = (struct pool *)p->self;
    *s = (struct pool){ .cu = cuda_of(be),
                        .desc = *d,
                        .bf16 = cuda_is_bf16(d->in),
                        .V = cuda_vector(cuda_is_bf16(d->in), d->in->shape.c),
                        .in = d->in->shape,
                        .out = out->shape,
                        .offset = d->pad / 2,
                        .narrow = d->size <= 16 };
    if (d->kind == POOL_MAX && d->train)
        p->kept_bytes = shape_count(s->out) * (s->narrow ? 1 : sizeof(uint32_t));
    return cuda_tensor(out, s->bf16, e);
}

static int forward(const struct op_plan *p, const struct op_context *, const void *x, void *y, void *kept)
{
    const struct pool *s = (const struct pool *)p->self;
    const unsigned c = s->in.c, columns = (c / s->V + COLUMNS - 1) / COLUMNS;
    const size_t items = shape_count(s->out) / s->V;
    if (s->desc.kind == POOL_AVERAGE)
        LAUNCH_FOUR(s->cu, pool_average, s->bf16, s->V, s->in.n, columns, THREADS, x, y, s->in.h * s->in.w,
                    c);
    else if (s->desc.kind != POOL_MAX)
        LAUNCH_ITEMS(s->cu, pool_sum, s->bf16, s->V, items, *s, x, y, items);
    else
        LAUNCH_ITEMS(s->cu, pool_max, s->bf16, s->V, items, *s, x, y, kept, items);
    return OK;
}

static int backward(const struct op_plan *p, const struct op_context *, const void *kept, const void *gy,
                    void *gx, int add)
{
    const struct pool *s = (const struct pool *)p->self;
    const size_t items = (size_t)s->desc.rows_back * shape_row(s->in) / s->V;
    if (!gx) return OK;
    if (s->desc.kind == POOL_AVERAGE)
        LAUNCH_ITEMS(s->cu, pool_average_back, s->bf16, s->V, items, gy, gx, s->in.h * s->in.w, s->in.c,
                     items, add);
    else
        LAUNCH_ITEMS(s->cu, pool_back, s->bf16, s->V, items, *s, kept, gy, gx, items, add);
    return OK;
}

const struct pool_ops cuda_pool = { plan, forward, backward };
