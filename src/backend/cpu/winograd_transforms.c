/* The transforms of conv_winograd.c. */
#include "winograd.h"
#include <string.h>
#include "act.h"

/* ---- transforms of 1 dimension; the points are 0, A, -A, B, -B and infinity ---- */

/* With these points results are several times as exact as with 1 and 2; products of them are exact. */
#define A  0.625F
#define B  1.5F
#define A2 (A * A)
#define B2 (B * B)
#define N0 (1 / (A2 * B2))
#define NA (1 / (2 * A2 * (A2 - B2)))
#define NB (1 / (2 * B2 * (B2 - A2)))

INLINE void input_6(const lanes *d, size_t apart, lanes *to, size_t step)
{
    lanes d0 = d[0], d1 = d[apart], d2 = d[2 * apart], d3 = d[3 * apart], d4 = d[4 * apart],
          d5 = d[5 * apart];
    lanes even_a = d4 - B2 * d2, odd_a = d3 - B2 * d1, even_b = d4 - A2 * d2, odd_b = d3 - A2 * d1;
    to[0] = d4 + (A2 * B2 * d0 - (A2 + B2) * d2);
    to[step] = even_a + A * odd_a;
    to[2 * step] = even_a - A * odd_a;
    to[3 * step] = even_b + B * odd_b;
    to[4 * step] = even_b - B * odd_b;
    to[5 * step] = d5 + (A2 * B2 * d1 - (A2 + B2) * d3);
}

/* 6 -> 4 */
INLINE void output_4(const lanes *m, size_t apart, lanes *to, size_t step)
{
    lanes m0 = m[0], m1 = m[apart], m2 = m[2 * apart], m3 = m[3 * apart], m4 = m[4 * apart],
          m5 = m[5 * apart];
    lanes even_a = m1 + m2, odd_a = m1 - m2, even_b = m3 + m4, odd_b = m3 - m4;
    to[0] = m0 + even_a + even_b;
    to[step] = A * odd_a + B * odd_b;
    to[2 * step] = A2 * even_a + B2 * even_b;
    to[3 * step] = A2 * A * odd_a + (B2 * B * odd_b + m5);
}

/* The adjoint of output_4: 4 -> 6 */
INLINE void gradient_6(const lanes *g, size_t apart, lanes *to, size_t step)
{
    lanes g0 = g[0], g1 = g[apart], g2 = g[2 * apart], g3 = g[3 * apart];
    lanes even_a = g0 + A2 * g2, odd_a = g1 + A2 * g3, even_b = g0 + B2 * g2, odd_b = g1 + B2 * g3;
    to[0] = g0;
    to[step] = even_a + A * odd_a;
    to[2 * step] = even_a - A * odd_a;
    to[3 * step] = even_b + B * odd_b;
    to[4 * step] = even_b - B * odd_b;
    to[5 * step] = g3;
}

/* 3 -> 6 */
INLINE void weights_6(const lanes *w, size_t apart, lanes *to, size_t step)
{
    lanes w0 = w[0], w1 = w[apart], w2 = w[2 * apart];
    lanes even_a = NA * (w0 + A2 * w2), odd_a = NA * A * w1, even_b = NB * (w0 + B2 * w2),
          odd_b = NB * B * w1;
    to[0] = N0 * w0;
    to[step] = even_a + odd_a;
    to[2 * step] = even_a - odd_a;
    to[3 * step] = even_b + odd_b;
    to[4 * step] = even_b - odd_b;
    to[5 * step] = w2;
}

/* The adjoint of weights_6: 6 -> 3 */
INLINE void weights_3(const lanes *m, size_t apart, lanes *to, size_t step)
{
    lanes m0 = m[0], m1 = m[apart], m2 = m[2 * apart], m3 = m[3 * apart], m4 = m[4 * apart],
          m5 = m[5 * apart];
    lanes even_a = NA * (m1 + m2), odd_a = NA * (m1 - m2), even_b = NB * (m3 + m4), odd_b = NB * (m3 - m4);
    to[0] = N0 * m0 + even_a + even_b;
    to[step] = A * odd_a + B * odd_b;
    to[2 * step] = A2 * even_a + (B2 * even_b + m5);
}

/* ---- tiles ---- */

struct place {
    size_t n, y, x;
};

INLINE struct place place_of(const struct tiles *t, size_t i)
{
    i += t->first;
    size_t per = t->down * t->across;
    return (struct place){ i / per, i % per / t->across * TILE, i % t->across * TILE };
}

INLINE const float *image_of(const struct map *m, const float *data, size_t n, size_t block)
{
    return data + (n * m->blocks + block) * m->h * m->w * BLOCK;
}

/* Windows of 6x6 pixels, or (gradient) 4x4, to 36 positions; pixels outside are zero. */
INLINE void read_tiles(const struct map *m, const float *data, const struct tiles *t, size_t pad,
                       const size_t size, float *to)
{
    static const float zeros[WINDOW * BLOCK];
    for (size_t block = 0; block < m->blocks; block++)
        for (size_t i = 0; i < t->count; i++) {
            struct place p = place_of(t, i);
            const float *image = image_of(m, data, p.n, block), *row[WINDOW];
            lanes half[WINDOW][WINDOW], *out = (lanes *)(to + transformed(t, block, 0)) + i;
            /* Columns first..last-1 of the window lie in the image. */
            size_t first = p.x < pad ? pad - p.x : 0, last = min_size(size, m->w + pad - p.x);
            for (size_t r = 0; r < size; r++) {
                size_t y = p.y + r - pad; /* wraps round above the image */
                row[r] = y < m->h ? image + (y * m->w + p.x + first - pad) * BLOCK : zeros;
            }
            if (first || last < size) memset(half, 0, sizeof half);
            for (size_t c = first; c < last; c++) {
                lanes column[WINDOW];
                for (size_t r = 0; r < size; r++) column[r] = *(const lanes *)(row[r] + (c - first) * BLOCK);
                if (size == WINDOW)
                    input_6(column, 1, &half[0][c], WINDOW);
                else
                    gradient_6(column, 1, &half[0][c], WINDOW);
            }
            for (size_t r = 0; r < WINDOW; r++) {
                lanes *at = out + r * WINDOW * t->capacity;
                if (size == WINDOW)
                    input_6(half[r], 1, at, t->capacity);
                else
                    gradient_6(half[r], 1, at, t->capacity);
            }
        }
}

CPU_CLONES static void windows(const struct map *m, const float *data, const struct tiles *t, size_t pad,
                               float *to)
{
    read_tiles(m, data, t, pad, WINDOW, to);
}

CPU_CLONES static void gradients(const struct map *m, const float *data, const struct tiles *t, float *to)
{
    read_tiles(m, data, t, 0, TILE, to);
}

CPU_CLONES static void write(const struct map *m, size_t first, size_t count, const float *from,
                             const struct tiles *t, const struct finish *f, float *data)
{
    for (size_t block = first; block < first + count; block++) {
        lanes bias = { 0 };
        if (f->bias) bias = *(const lanes *)(f->bias + block * BLOCK);
        for (size_t i = 0; i < t->count; i++) {
            struct place p = place_of(t, i);
            const lanes *in = (const lanes *)(from + transformed(t, block - first, 0)) + i;
            lanes half[WINDOW][TILE], out[TILE][TILE];
            for (size_t r = 0; r < WINDOW; r++)
                output_4(in + r * WINDOW * t->capacity, t->capacity, half[r], 1);
            for (size_t c = 0; c < TILE; c++) output_4(&half[0][c], TILE, &out[0][c], TILE);
            size_t h = min_size(TILE, m->h - p.y), w = min_size(TILE, m->w - p.x);
            float *image = (float *)image_of(m, data, p.n, block);
            for (size_t r = 0; r < h; r++) {
                float *y = image + ((p.y + r) * m->w + p.x) * BLOCK;
                for (size_t c = 0; c < w; c++) {
                    lanes *pixel = (lanes *)y + c;
                    *pixel = out[r][c] + (f->add ? *pixel : bias);
                }
                act_map(f->act, w * BLOCK, y, y);
            }
        }
    }
}

void read_windows(const struct map *m, const float *x, const struct tiles *t, size_t pad, float *to)
{
    windows(m, x, t, pad, to);
}

void read_gradients(const struct map *m, const float *gy, const struct tiles *t, float *to)
{
    gradients(m, gy, t, to);
}

void write_tiles(const struct map *m, size_t first, size_t count, const float *from, const struct tiles *t,
                 const struct finish *f, float *y)
{
    write(m, first, count, from, t, f, y);
}

/* ---- weights ---- */

CPU_CLONES static void spread(const float *w, float *u, size_t step, size_t apart)
{
    for (size_t c = 0; c < BLOCK; c++) {
        const lanes *in = (const lanes *)w + c;
        lanes half[SIZE][WINDOW], *out = (lanes *)u + c * step;
        for (size_t r = 0; r < SIZE; r++) weights_6(in + r * SIZE * BLOCK, BLOCK, half[r], 1);
        for (size_t i = 0; i < WINDOW; i++) weights_6(&half[0][i], WINDOW, out + i * apart, WINDOW * apart);
    }
}

CPU_CLONES static void gather(const float *sums, size_t step, size_t apart, size_t parts, size_t far, int add,
                              float *gw)
{
    for (size_t c = 0; c < BLOCK; c++) {
        lanes sum[POSITIONS], half[WINDOW][SIZE], out[TAPS], *to = (lanes *)gw + c;
        for (size_t p = 0; p < POSITIONS; p++) {
            const float *part = sums + (c * step + p * apart) * BLOCK;
            sum[p] = *(const lanes *)part;
            for (size_t i = 1; i < parts; i++) sum[p] += *(const lanes *)(part + i * far);
        }
        for (size_t r = 0; r < WINDOW; r++) weights_3(sum + r * WINDOW, 1, half[r], 1);
        for (size_t i = 0; i < SIZE; i++) weights_3(&half[0][i], SIZE, out + i, SIZE);
        for (size_t tap = 0; tap < TAPS; tap++) {
            if (add) out[tap] += to[tap * BLOCK];
            to[tap * BLOCK] = out[tap];
        }
    }
}

#define MERGE(a, b, i)                                                                                       \
    __builtin_shufflevector(a, b, i, i + 16, i + 1, i + 17, i + 2, i + 18, i + 3, i + 19, i + 4, i + 20,     \
                            i + 5, i + 21, i + 6, i + 22, i + 7, i + 23)

/* The other way round: merging row i with row i + 8, element by element, four times over transposes 16x16. */
CPU_CLONES static void turn(const float *w, float *to)
{
    for (size_t tap = 0; tap < TAPS; tap++) {
        lanes rows[2][BLOCK];
        memcpy(rows[0], w + (TAPS - 1 - tap) * MATRIX, sizeof *rows);
        for (size_t round = 0; round < 4; round++)
            for (size_t i = 0; i < BLOCK / 2; i++) {
                lanes a = rows[round % 2][i], b = rows[round % 2][i + BLOCK / 2],
                      *out = rows[1 - round % 2] + 2 * i;
                out[0] = MERGE(a, b, 0);
                out[1] = MERGE(a, b, 8);
            }
        memcpy(to + tap * MATRIX, rows[0], sizeof *rows);
    }
}

void transform_weights(const float *w, int turned, float *u, size_t step, size_t apart)
{
    float other[TAPS * MATRIX];
    if (turned) turn(w, other);
    spread(turned ? other : w, u, step, apart);
}

void gather_weights(const float *sums, size_t step, size_t apart, size_t parts, size_t far, int add,
                    float *gw)
{
    gather(sums, step, apart, parts, far, add, gw);
}
