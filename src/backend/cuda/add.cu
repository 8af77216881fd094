/* Addition: a thread takes V channels of a pixel. */
#include "kernel.h"

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

DEVICE void add(int bf16, unsigned V, struct add_map m, const void *a, const void *b, void *out, size_t items)
{
    PHASE GRID_LOOP(i, items)
    {
        const unsigned groups = m.ac / V;
        const int64_t at = partner_of_a(&m, (unsigned)i / groups, (unsigned)i % groups * V);
        float f[8], g[8];
        load(bf16, V, a, i * V, f);
        if (at >= 0) load(type_of_b(bf16, V, &m), V, b, (size_t)at, g);
        for (unsigned k = 0; k < V; k++)
            f[k] = act_apply((enum act)m.act, at < 0 ? f[k] : m.alpha * f[k] + m.beta * g[k]);
        store(bf16, V, out, i * V, f);
    }
}
FOUR_KERNELS(add, LIST(struct add_map m, const void *a, const void *b, void *out, size_t items),
             LIST(m, a, b, out, items))

/* V gradients before the activation. */
DEVICE void gradient(int bf16, unsigned V, int act, const void *y, const void *gy, size_t i, float *g)
{
    float f[8];
    load(bf16, V, gy, i, g);
    if (act == ACT_LINEAR) return; /* y may be NULL */
    load(bf16, V, y, i, f);
    for (unsigned k = 0; k < V; k++) g[k] *= act_slope_y((enum act)act, f[k]);
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

static unsigned width(int bf16, const struct add_map *m)
{
    return bf16 != m->b_bf16 || !cuda_is_wide(bf16, m->ac) || !cuda_is_wide(bf16, m->bc) ? 1 : bf16 ? 8 : 4;
}

LAUNCHERS
int kernel_add(const struct cuda *cu, int bf16, const struct add_map *m, const void *a, const void *b,
               void *out, size_t rows)
{
    const unsigned V = width(bf16, m);
    const size_t items = rows * m->ah * m->aw * (m->ac / V);
    LAUNCH_FOUR(cu, add, bf16, V > 1, blocks_for(cu, items), 1, THREADS, *m, a, b, out, items);
    return OK;
}

int kernel_add_back(const struct cuda *cu, int bf16, const struct add_map *m, const void *y, const void *gy,
                    void *ga, int add_a, void *gb, int add_b, size_t rows)
{
    const unsigned V = width(bf16, m);
    const size_t a = rows * m->ah * m->aw * (m->ac / V), b = rows * m->bh * m->bw * (m->bc / V);
    void *both = m->same ? gb : NULL;
    if (ga || both)
        LAUNCH_FOUR(cu, add_back_a, bf16, V > 1, blocks_for(cu, a), 1, THREADS, *m, y, gy, ga, add_a, both,
                    add_b, a);
    if (gb && !both)
        LAUNCH_FOUR(cu, add_back_b, bf16, V > 1, blocks_for(cu, b), 1, THREADS, *m, y, gy, gb, add_b, b);
    return OK;
}
LAUNCHERS_END
