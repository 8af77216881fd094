/* Addition: a thread takes V channels of a pixel. */
#include "backend/ops/add.h"
#include "kernel.h"

struct add {
    const struct cuda *cu;
    struct add_desc desc;
    int bf16, b_bf16; /* the output and a are; b is */
    struct shape a, b;
    int up, down; /* b is scattered by up and strided by down; one of them is 1 */
    int same;     /* a and b have one shape */
    float alpha, beta;
};

/* b may be of the other type: only where V is 1. */
DEVICE int type_of_b(int bf16, unsigned V, const struct add *m) { return V > 1 ? bf16 : m->b_bf16; }

/* The element of b that meets channel c of pixel p of a (pixels of all rows are counted through), or -1. */
DEVICE int64_t partner_of_a(const struct add *m, unsigned p, unsigned c)
{
    const struct shape a = m->a, b = m->b;
    if (m->same) return (int64_t)p * a.c + c;
    const unsigned row = p / (a.h * a.w), y = p / a.w % a.h, x = p % a.w;
    if (c >= (unsigned)b.c || y % m->up || x % m->up) return -1;
    return ((int64_t)(row * b.h + y / m->up * m->down) * b.w + x / m->up * m->down) * b.c + c;
}

/* And the other way round. */
DEVICE int64_t partner_of_b(const struct add *m, unsigned p, unsigned c)
{
    const struct shape a = m->a, b = m->b;
    const unsigned row = p / (b.h * b.w), y = p / b.w % b.h, x = p % b.w;
    if (c >= (unsigned)a.c || y % m->down || x % m->down) return -1;
    return ((int64_t)(row * a.h + y / m->down * m->up) * a.w + x / m->down * m->up) * a.c + c;
}

template <int bf16, unsigned V>
KERNEL(add_b, struct add m, const void *a, const void *b, void *out, size_t items)
{
    PHASE GRID_LOOP(i, items)
    {
        const unsigned groups = m.a.c / V;
        const int64_t at = partner_of_a(&m, (unsigned)i / groups, (unsigned)i % groups * V);
        float f[8], g[8];
        load(bf16, V, a, i * V, f);
        if (at >= 0) load(type_of_b(bf16, V, &m), V, b, at, g);
        for (unsigned k = 0; k < V; k++)
            f[k] = act_apply(m.desc.act, at < 0 ? f[k] : m.alpha * f[k] + m.beta * g[k]);
        store(bf16, V, out, i * V, f);
    }
}

/* V gradients before the activation. */
DEVICE void gradient(int bf16, unsigned V, enum act act, const void *y, const void *gy, size_t i, float *g)
{
    float f[8];
    load(bf16, V, gy, i, g);
    if (act == ACT_LINEAR) return; /* y may be NULL */
    load(bf16, V, y, i, f);
    for (unsigned k = 0; k < V; k++) g[k] *= act_slope_y(act, f[k]);
}

DEVICE void put_times(int bf16, unsigned V, void *p, size_t i, const float *g, float factor, int add)
{
    float f[8];
    for (unsigned k = 0; k < V; k++) f[k] = factor * g[k];
    put(bf16, V, p, i, f, add);
}

/* Over the elements of a. gb is given only where a and b have one shape; it may be ga, which comes first. */
template <int bf16, unsigned V>
KERNEL(add_back_a, struct add m, const void *y, const void *gy, void *ga, void *gb, size_t items)
{
    PHASE GRID_LOOP(i, items)
    {
        const unsigned groups = m.a.c / V;
        const int64_t at = partner_of_a(&m, (unsigned)i / groups, (unsigned)i % groups * V);
        float g[8];
        gradient(bf16, V, m.desc.act, y, gy, i * V, g);
        if (ga) put_times(bf16, V, ga, i * V, g, at < 0 ? 1 : m.alpha, m.desc.add_a);
        if (gb) put_times(type_of_b(bf16, V, &m), V, gb, i * V, g, m.beta, m.desc.add_b);
    }
}

/* Over the elements of b, of another shape than a. */
template <int bf16, unsigned V>
KERNEL(add_back_b, struct add m, const void *y, const void *gy, void *gb, size_t items)
{
    PHASE GRID_LOOP(i, items)
    {
        const unsigned groups = m.b.c / V;
        const int64_t at = partner_of_b(&m, (unsigned)i / groups, (unsigned)i % groups * V);
        float g[8] = { 0 };
        if (at >= 0) gradient(bf16, V, m.desc.act, y, gy, at, g);
        put_times(type_of_b(bf16, V, &m), V, gb, i * V, g, m.beta, m.desc.add_b);
    }
}

static unsigned width(const struct add *s)
{
    const unsigned V = cuda_vector(s->bf16, s->a.c);
    return s->bf16 == s->b_bf16 && cuda_vector(s->bf16, s->b.c) > 1 ? V : 1;
}

static int plan(struct backend *be, const struct add_desc *d, struct tensor *out, struct op_plan *p,
                struct err *e)
{
    const struct shape a = d->a->shape, b = d->b->shape;
    TRY(op_plan_init(p, sizeof(struct add), e));
    struct add *s = (struct add *)p->self;
    *s = (struct add){ .cu = cuda_of(be),
                       .desc = *d,
                       .bf16 = cuda_is_bf16(d->a),
                       .b_bf16 = cuda_is_bf16(d->b),
                       .a = a,
                       .b = b,
                       .same = a.c == b.c && a.w == b.w,
                       .alpha = (float)d->alpha,
                       .beta = (float)d->beta };
    add_factors(a, b, &s->up, &s->down);
    p->fused = 1;
    return cuda_tensor(out, s->bf16, e);
}

static int forward(const struct op_plan *p, const struct op_context *, const void *a, const void *b, void *y)
{
    const struct add *s = (const struct add *)p->self;
    const unsigned V = width(s);
    const size_t items = shape_count(s->a) / V;
    LAUNCH_ITEMS(s->cu, add_b, s->bf16, V, items, *s, a, b, y, items);
    return OK;
}

static int backward(const struct op_plan *p, const struct op_context *, const void *y, const void *gy,
                    void *ga, void *gb)
{
    const struct add *s = (const struct add *)p->self;
    const unsigned V = width(s);
    const size_t a = (size_t)s->desc.rows_back * shape_row(s->a) / V,
                 b = (size_t)s->desc.rows_back * shape_row(s->b) / V;
    void *both = s->same ? gb : NULL;
    if (ga || both) LAUNCH_ITEMS(s->cu, add_back_a, s->bf16, V, a, *s, y, gy, ga, both, a);
    if (gb && !both) LAUNCH_ITEMS(s->cu, add_back_b, s->bf16, V, b, *s, y, gy, gb, b);
    return OK;
}

const struct add_ops cuda_add = { plan, forward, backward };
