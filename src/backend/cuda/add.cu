/* Addition: a thread takes V channels of a pixel. */
#include "backend/ops/add.h"
#include "kernel.h"

struct add_map {
    unsigned ac, ah, aw, bc, bh, bw; /* channels and maps */
    unsigned up, down;               /* b is scattered by up and strided by down; one of them is 1 */
    int same;                        /* a and b have one shape */
    int b_bf16;
    enum act act;
    float alpha, beta;
};

struct add {
    const struct cuda *cu;
    int bf16; /* the output is */
    size_t rows, rows_back;
    struct add_map map;
    int add_a, add_b;
};

/* b may be of the other type: only where V is 1. */
DEVICE int type_of_b(int bf16, unsigned V, const struct add_map *m) { return V > 1 ? bf16 : m->b_bf16; }

/* The element of b that meets channel c of pixel p of a (pixels of all rows are counted through), or -1. */
DEVICE int64_t partner_of_a(const struct add_map *m, unsigned p, unsigned c)
{
    if (m->same) return (int64_t)p * m->ac + c;
    const unsigned row = p / (m->ah * m->aw), y = p / m->aw % m->ah, x = p % m->aw;
    if (c >= m->bc || y % m->up || x % m->up) return -1;
    return ((int64_t)(row * m->bh + y / m->up * m->down) * m->bw + x / m->up * m->down) * m->bc + c;
}

/* And the other way round. */
DEVICE int64_t partner_of_b(const struct add_map *m, unsigned p, unsigned c)
{
    const unsigned row = p / (m->bh * m->bw), y = p / m->bw % m->bh, x = p % m->bw;
    if (c >= m->ac || y % m->down || x % m->down) return -1;
    return ((int64_t)(row * m->ah + y / m->down * m->up) * m->aw + x / m->down * m->up) * m->ac + c;
}

DEVICE void add_b(int bf16, unsigned V, struct add_map m, const void *a, const void *b, void *out,
                  size_t items)
{
    PHASE GRID_LOOP(i, items)
    {
        const unsigned groups = m.ac / V;
        const int64_t at = partner_of_a(&m, (unsigned)i / groups, (unsigned)i % groups * V);
        float f[8], g[8];
        load(bf16, V, a, i * V, f);
        if (at >= 0) load(type_of_b(bf16, V, &m), V, b, (size_t)at, g);
        for (unsigned k = 0; k < V; k++)
            f[k] = act_apply(m.act, at < 0 ? f[k] : m.alpha * f[k] + m.beta * g[k]);
        store(bf16, V, out, i * V, f);
    }
}
FOUR_KERNELS(add_b, LIST(struct add_map m, const void *a, const void *b, void *out, size_t items),
             LIST(m, a, b, out, items))

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
DEVICE void add_back_a(int bf16, unsigned V, struct add_map m, const void *y, const void *gy, void *ga,
                       int add_a, void *gb, int add_b, size_t items)
{
    PHASE GRID_LOOP(i, items)
    {
        const unsigned groups = m.ac / V;
        float g[8];
        gradient(bf16, V, m.act, y, gy, i * V, g);
        int64_t at = partner_of_a(&m, (unsigned)i / groups, (unsigned)i % groups * V);
        if (ga) put_times(bf16, V, ga, i * V, g, at < 0 ? 1 : m.alpha, add_a);
        if (gb) put_times(type_of_b(bf16, V, &m), V, gb, i * V, g, m.beta, add_b);
    }
}
FOUR_KERNELS(add_back_a,
             LIST(struct add_map m, const void *y, const void *gy, void *ga, int add_a, void *gb, int add_b,
                  size_t items),
             LIST(m, y, gy, ga, add_a, gb, add_b, items))

/* Over the elements of b, of another shape than a. */
DEVICE void add_back_b(int bf16, unsigned V, struct add_map m, const void *y, const void *gy, void *gb,
                       int add_b, size_t items)
{
    PHASE GRID_LOOP(i, items)
    {
        const unsigned groups = m.bc / V;
        const int64_t at = partner_of_b(&m, (unsigned)i / groups, (unsigned)i % groups * V);
        float g[8] = { 0 };
        if (at >= 0) gradient(bf16, V, m.act, y, gy, (size_t)at, g);
        put_times(type_of_b(bf16, V, &m), V, gb, i * V, g, m.beta, add_b);
    }
}
FOUR_KERNELS(add_back_b,
             LIST(struct add_map m, const void *y, const void *gy, void *gb, int add_b, size_t items),
             LIST(m, y, gy, gb, add_b, items))

static unsigned width(const struct add *s)
{
    const unsigned V = cuda_vector(s->bf16, s->map.ac);
    return s->bf16 == s->map.b_bf16 && cuda_vector(s->bf16, s->map.bc) > 1 ? V : 1;
}

static int plan(struct backend *be, const struct add_desc *d, struct tensor *out, struct op_plan *p,
                struct err *e)
{
    const struct shape a = d->a->shape, b = d->b->shape;
    int up, down;
    TRY(op_plan_init(p, sizeof(struct add), e));
    if (!add_factors(a, b, &up, &down))
        return fail(e, E_ARG,
                    "cannot add maps of %dx%d and %dx%d: one size must be a whole multiple of the other", a.w,
                    a.h, b.w, b.h);
    TRY(cuda_tensor(out, cuda_is_bf16(d->a), e));
    *(struct add *)p->self = (struct add){
        .cu = cuda_of(be),
        .bf16 = cuda_is_bf16(d->a),
        .rows = (size_t)a.n,
        .rows_back = (size_t)d->rows_back,
        .map = { .ac = (unsigned)a.c,
                 .ah = (unsigned)a.h,
                 .aw = (unsigned)a.w,
                 .bc = (unsigned)b.c,
                 .bh = (unsigned)b.h,
                 .bw = (unsigned)b.w,
                 .up = (unsigned)up,
                 .down = (unsigned)down,
                 .same = a.c == b.c && a.w == b.w,
                 .b_bf16 = cuda_is_bf16(d->b),
                 .act = d->act,
                 .alpha = (float)d->alpha,
                 .beta = (float)d->beta },
        .add_a = d->add_a,
        .add_b = d->add_b,
    };
    p->fused = 1;
    return OK;
}

static int forward(const struct op_plan *p, const struct op_context *context, const void *a, const void *b,
                   void *y)
{
    (void)context;
    const struct add *s = (const struct add *)p->self;
    const struct add_map *m = &s->map;
    const unsigned V = width(s);
    const size_t items = s->rows * m->ah * m->aw * (m->ac / V);
    LAUNCH_ITEMS(s->cu, add_b, s->bf16, V, items, *m, a, b, y, items);
    return OK;
}

static int backward(const struct op_plan *p, const struct op_context *context, const void *y, const void *gy,
                    void *ga, void *gb)
{
    (void)context;
    const struct add *s = (const struct add *)p->self;
    const struct add_map *m = &s->map;
    const unsigned V = width(s);
    const size_t a = s->rows_back * m->ah * m->aw * (m->ac / V),
                 b = s->rows_back * m->bh * m->bw * (m->bc / V);
    void *both = m->same ? gb : NULL;
    if (ga || both)
        LAUNCH_ITEMS(s->cu, add_back_a, s->bf16, V, a, *m, y, gy, ga, s->add_a, both, s->add_b, a);
    if (gb && !both) LAUNCH_ITEMS(s->cu, add_back_b, s->bf16, V, b, *m, y, gy, gb, s->add_b, b);
    return OK;
}

const struct add_ops cuda_add = { plan, forward, backward };
