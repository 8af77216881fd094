#include "mix.h"
#include <stddef.h>
#include <string.h>
#include "core/rng.h"

enum draw { DRAW_WHETHER, DRAW_KIND, DRAW_W, DRAW_H, DRAW_X, DRAW_Y };

/* Both included. */
static int between(uint64_t key, enum draw d, int a, int b)
{
    return a + (int)rng_below(key, d, (uint64_t)(b - a) + 1);
}

static void cover(struct mixture *m, int i, int left, int top, int right, int bottom)
{
    m->at[i].left = left;
    m->at[i].top = top;
    m->at[i].right = right;
    m->at[i].bottom = bottom;
}

static void choose_cut(struct mixture *m, uint64_t key, int w, int h)
{
    int cw = between(key, DRAW_W, 3 * w / 10, 8 * w / 10), ch = between(key, DRAW_H, 3 * h / 10, 8 * h / 10);
    int left = between(key, DRAW_X, 0, w - cw - 1), top = between(key, DRAW_Y, 0, h - ch - 1);
    m->parts = 2;
    cover(m, 1, left, top, left + cw, top + ch);
}

static void choose_mosaic(struct mixture *m, uint64_t key, int w, int h)
{
    int x = between(key, DRAW_X, 2 * w / 10, 8 * w / 10), y = between(key, DRAW_Y, 2 * h / 10, 8 * h / 10);
    m->parts = 4;
    cover(m, 1, x, 0, w, y);
    cover(m, 2, 0, y, x, h);
    cover(m, 3, x, y, w, h);
}

struct mixture mix_choose(enum mix mix, uint64_t key, int w, int h)
{
    struct mixture m = { .parts = 1, .share = { 1 } };
    if (mix == MIX_NONE || rng_uniform(key, DRAW_WHETHER) < .5) return m;
    if (mix == MIX_CUT_OR_MOSAIC) mix = rng_uniform(key, DRAW_KIND) < .5 ? MIX_CUT : MIX_MOSAIC;
    if (mix == MIX_UP) return (struct mixture){ .parts = 2, .blend = 1, .share = { .5f, .5f } };
    if (mix == MIX_CUT)
        choose_cut(&m, key, w, h);
    else
        choose_mosaic(&m, key, w, h);
    for (int i = 1; i < m.parts; i++) {
        double area = (double)(m.at[i].right - m.at[i].left) * (m.at[i].bottom - m.at[i].top);
        m.share[i] = (float)(area / w / h);
        m.share[0] -= m.share[i];
    }
    return m;
}

void mix_add(const struct mixture *m, int i, const float *part, float *x, int c, int h, int w)
{
    size_t n = (size_t)c * (size_t)h * (size_t)w;
    for (size_t k = 0; m->blend && k < n; k++) x[k] = (x[k] + part[k]) / 2;
    for (int row = 0; !m->blend && row < c * h; row++) {
        int inside = row % h >= m->at[i].top && row % h < m->at[i].bottom;
        size_t from = (size_t)row * (size_t)w + (size_t)m->at[i].left;
        if (inside) memcpy(x + from, part + from, (size_t)(m->at[i].right - m->at[i].left) * sizeof *x);
    }
}

int mixed_main(const struct mixed_label *l)
{
    int most = 0;
    double share[MIXED] = { 0 };
    for (int i = 0; i < MIXED; i++) {
        for (int k = 0; k < MIXED; k++) share[i] += l->label[k] == l->label[i] ? (double)l->share[k] : 0;
        if (share[i] > share[most]) most = i;
    }
    return l->label[most];
}
