/* Products with what may be smaller: a thread takes V channels of a pixel. */
#include "backend/ops/mul.h"
#include "kernel.h"

struct mul {
    const struct cuda *cu;
    int bf16, b_bf16; /* the output and a are; b is */
    size_t rows_back;
    struct shape a, b;
    int per_channel, per_pixel; /* b has a's channels; a's pixels */
    enum act act;
    int add_a, add_b;
};

/* The factors of V channels from channel c on of pixel p of a (pixels of all rows are counted through). */
DEVICE void factors(int bf16, unsigned V, const struct mul *m, const void *b, unsigned p, unsigned c,
                    float *f)
{
    const size_t q = m->per_pixel ? p : p / (m->a.h * m->a.w);
    if (m->per_channel) {
        load(V > 1 ? bf16 : m->b_bf16, V, b, q * m->a.c + c, f);
        return;
    }
    load(m->b_bf16, 1, b, q, f);
    for (unsigned k = 1; k < V; k++) f[k] = f[0];
}

/* Gradients before the activation. */
DEVICE void before(int bf16, unsigned V, enum act act, const void *y, const void *gy, size_t i, float *g)
{
    float f[8];
    load(bf16, V, gy, i, g);
    if (act == ACT_LINEAR) return; /* y may be NULL */
    load(bf16, V, y, i, f);
    for (unsigned k = 0; k < V; k++) g[k] *= act_slope_y(act, f[k]);
}

template <int bf16, unsigned V>
KERNEL(mul_all, struct mul m, const void *a, const void *b, void *y, size_t items)
{
    PHASE GRID_LOOP(i, items)
    {
        const unsigned groups = m.a.c / V;
        float f[8], g[8];
        factors(bf16, V, &m, b, (unsigned)i / groups, (unsigned)i % groups * V, g);
        load(bf16, V, a, i * V, f);
        for (unsigned k = 0; k < V; k++) f[k] = act_apply(m.act, f[k] * g[k]);
        store(bf16, V, y, i * V, f);
    }
}

template <int bf16, unsigned V>
KERNEL(mul_back_a, struct mul m, const void *b, const void *y, const void *gy, void *ga, size_t items)
{
    PHASE GRID_LOOP(i, items)
    {
        const unsigned groups = m.a.c / V;
        float f[8], g[8];
        factors(bf16, V, &m, b, (unsigned)i / groups, (unsigned)i % groups * V, f);
        before(bf16, V, m.act, y, gy, i * V, g);
        for (unsigned k = 0; k < V; k++) g[k] *= f[k];
        put(bf16, V, ga, i * V, g, m.add_a);
    }
}

/* A block takes COLUMNS factors; LANES threads share the elements of a, `terms` of them, that each meets. */
enum { LANES = 8, COLUMNS = THREADS / LANES };

KERNEL(mul_back_b, struct mul m, const void *a, const void *y, const void *gy, void *gb, size_t n,
       unsigned terms)
{
    SHARED(float, sum, THREADS);
    const size_t first = (size_t)blockIdx.x * COLUMNS;
    PHASE
    {
        const size_t o = first + threadIdx.x % COLUMNS, c = m.a.c;
        float s = 0;
        for (unsigned t = threadIdx.x / COLUMNS; o < n && t < terms; t += LANES) {
            const size_t at = m.per_channel ? (o / c * terms + t) * c + o % c : o * terms + t;
            float f, g;
            load(m.bf16, 1, a, at, &f);
            before(m.bf16, 1, m.act, y, gy, at, &g);
            s += f * g;
        }
        sum[threadIdx.x] = s;
    }
    BLOCK_SUM(sum, LANES, COLUMNS);
    PHASE
    {
        const size_t o = first + threadIdx.x;
        if (threadIdx.x < COLUMNS && o < n) put(m.b_bf16, 1, gb, o, &sum[threadIdx.x], m.add_b);
    }
}

static unsigned width(const struct mul *s)
{
    return s->per_channel && s->bf16 != s->b_bf16 ? 1 : cuda_vector(s->bf16, s->a.c);
}

static int plan(struct backend *be, const struct mul_desc *d, struct tensor *out, struct op_plan *p,
                struct err *e)
{
    const struct shape a = d->a->shape, b = d->b->shape;
    TRY(op_plan_init(p, sizeof(struct mul), e));
    *(struct mul *)p->self = (struct mul){ .cu = cuda_of(be),
                                           .bf16 = cuda_is_bf16(d->a),
                                           .b_bf16 = cuda_is_bf16(d->b),
                                           .rows_back = (size_t)d->rows_back,
                                           .a = a,
                                           .b = b,
                                           .per_channel = b.c == a.c,
                                           .per_pixel = b.h == a.h && b.w == a.w,
                                           .act = d->act,
                                           .add_a = d->add_a,
                                           .add_b = d->add_b };
    return cuda_tensor(out, cuda_is_bf16(d->a), e);
}

static int forward(const struct op_plan *p, const struct op_context *, const void *a, const void *b, void *y)
{
    const struct mul *s = (const struct mul *)p->self;
    const unsigned V = width(s);
    const size_t items = shape_count(s->a) / V;
    LAUNCH_ITEMS(s->cu, mul_all, s->bf16, V, items, *s, a, b, y, items);
    return OK;
}

static int backward(const struct op_plan *p, const struct op_context *, const void *a, const void *b,
                    const void *y, const void *gy, void *ga, void *gb)
{
    const struct mul *s = (const struct mul *)p->self;
    const unsigned V = width(s);
    const size_t row = shape_row(s->a), items = s->rows_back * row / V, n = s->rows_back * shape_row(s->b);
    if (ga) LAUNCH_ITEMS(s->cu, mul_back_a, s->bf16, V, items, *s, b, y, gy, ga, items);
    if (gb)
        LAUNCH(s->cu, mul_back_b, (n + COLUMNS - 1) / COLUMNS, 1, THREADS, *s, a, y, gy, gb, n,
               (unsigned)(row / shape_row(s->b)));
    return OK;
}

const struct mul_ops cuda_mul = { plan, forward, backward };
