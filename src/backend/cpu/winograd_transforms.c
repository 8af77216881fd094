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

/* The adjoint of input_6. */
INLINE void window_6(const lanes *m, size_t apart, lanes *to, size_t step)
{
    lanes m0 = m[0], m1 = m[apart], m2 = m[2 * apart], m3 = m[3 * apart], m4 = m[4 * apart],
          m5 = m[5 * apart];
    lanes even_a = m1 + m2, odd_a = A * (m1 - m2), even_b = m3 + m4, odd_b = B * (m3 - m4);
    to[0] = A2 * B2 * m0;
    to[step] = A2 * B2 * m5 - B2 * odd_a - A2 * odd_b;
    to[2 * step] = -(A2 + B2) * m0 - B2 * even_a - A2 * even_b;
    to[3 * step] = odd_a + odd_b - (A2 + B2) * m5;
    to[4 * step] = m0 + even_a + even_b;
    to[5 * step] = m5;
}

/* The values at the points of a polynomial with n <= 5 coefficients, times n0 at 0, na at A and -A, nb at B
 * and -B: n -> 6. */
INLINE void values(const size_t n, const lanes *g, size_t apart, const float n0, const float na,
                   const float nb, lanes *to, size_t step)
{
    lanes even_a = g[0], odd_a = g[apart], even_b = even_a, odd_b = odd_a;
    if (n > 2) even_a += A2 * g[2 * apart], even_b += B2 * g[2 * apart];
    if (n > 3) odd_a += A2 * g[3 * apart], odd_b += B2 * g[3 * apart];
    if (n > 4) even_a += A2 * A2 * g[4 * apart], even_b += B2 * B2 * g[4 * apart];
    even_a *= na, odd_a *= na * A, even_b *= nb, odd_b *= nb * B;
    to[0] = n0 * g[0];
    to[step] = even_a + odd_a;
    to[2 * step] = even_a - odd_a;
    to[3 * step] = even_b + odd_b;
    to[4 * step] = even_b - odd_b;
    to[5 * step] = g[(n - 1) * apart];
}

/* The adjoint: 6 -> n */
INLINE void coefficients(const size_t n, const lanes *m, size_t apart, const float n0, const float na,
                         const float nb, lanes *to, size_t step)
{
    lanes m1 = m[apart], m2 = m[2 * apart], m3 = m[3 * apart], m4 = m[4 * apart], m5 = m[5 * apart];
    lanes even_a = na * (m1 + m2), odd_a = na * A * (m1 - m2), even_b = nb * (m3 + m4),
          odd_b = nb * B * (m3 - m4), last = n % 2 ? even_b : odd_b;
    to[0] = n0 * m[0] + even_a + even_b;
    if (n > 2) to[step] = odd_a + odd_b;
    if (n > 3) to[2 * step] = A2 * even_a + B2 * even_b;
    if (n > 4) to[3 * step] = A2 * odd_a + B2 * odd_b;
    to[(n - 1) * step] = (n > 4   ? A2 * A2
                          : n > 2 ? A2
                                  : 1) *
                             (n % 2 ? even_a : odd_a) +
                         ((n > 4   ? B2 * B2
                           : n > 2 ? B2
                                   : 1) *
                              last +
                          m5);
}

/* ---- tiles ---- */

struct place {
    size_t n, y, x;
};

INLINE struct place place_of(const struct tiles *t, size_t i)
{
    i += t->first;
    size_t per = t->down * t->across;
    return (struct place){ i / per, i % per / t->across * t->size, i % t->across * t->size };
}

INLINE const float *image_of(const struct map *m, const float *data, size_t n, size_t block)
{
    return data + (n * m->blocks + block) * m->h * m->w * BLOCK;
}

/* Asks for what the window of a tile to come sees and those before it do not: the processor does not foresee
 * so many short rows, and waiting for them took most of the time. */
INLINE void fetch_tile(const struct map *m, const float *data, const struct tiles *t, size_t block, size_t i,
                       size_t pad, size_t size)
{
    enum { AHEAD = 4 };
    i += AHEAD;
    if (i >= t->count) i -= t->count, block++;
    if (i >= t->count || block == m->blocks) return;
    struct place p = place_of(t, i);
    const float *image = image_of(m, data, p.n, block);
    for (size_t r = size - t->size; r < size; r++)
        for (size_t c = size - t->size; c < size; c++) {
            size_t y = p.y + r - pad, x = p.x + c - pad;
            if (y < m->h && x < m->w) __builtin_prefetch(image + (y * m->w + x) * BLOCK);
        }
}

/* Windows of 6x6 pixels, or gradients of tiles, to 36 positions; pixels outside are zero. */
INLINE void read_tiles(const struct map *m, const float *data, const struct tiles *t, size_t pad,
                       const size_t size, float *to)
{
    static const float zeros[WINDOW * BLOCK];
    for (size_t block = 0; block < m->blocks; block++)
        for (size_t i = 0; i < t->count; i++) {
            fetch_tile(m, data, t, block, i, pad, size);
            struct place p = place_of(t, i);
            const float *image = image_of(m, data, p.n, block), *row[WINDOW];
            lanes half[WINDOW][WINDOW], *out = (lanes *)(to + transformed(t, block, 0)) + i;
            /* Columns first..last-1 of the window lie in the image. */
            size_t first = p.x < pad ? pad - p.x : 0, last = min_size(size, m->w + pad - p.x);
            for (size_t r = 0; r < size; r++) {
                size_t y = p.y + r - pad; /* wraps round above the image */
                row[r] = y < m->h ? image + (y * m->w + p.x + first - pad) * BLOCK : zeros;
            }
            for (size_t c = 0; c < size; c++) {
                if (c < first || c >= last) {
                    for (size_t r = 0; r < WINDOW; r++) half[r][c] = (lanes){ 0 };
                    continue;
                }
                lanes column[WINDOW];
                for (size_t r = 0; r < size; r++) column[r] = *(const lanes *)(row[r] + (c - first) * BLOCK);
                if (size == WINDOW)
                    input_6(column, 1, &half[0][c], WINDOW);
                else
                    values(size, column, 1, 1, 1, 1, &half[0][c], WINDOW);
            }
            for (size_t r = 0; r < WINDOW; r++) {
                lanes *at = out + r * WINDOW * t->capacity;
                if (size == WINDOW)
                    input_6(half[r], 1, at, t->capacity);
                else
                    values(size, half[r], 1, 1, 1, 1, at, t->capacity);
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
    if (t->size == 4)
        read_tiles(m, data, t, 0, 4, to);
    else
        read_tiles(m, data, t, 0, 2, to);
}

INLINE void write_size(const struct map *m, size_t first, size_t count, const float *from,
                       const struct tiles *t, const size_t size, const struct finish *f, float *data)
{
    for (size_t block = first; block < first + count; block++) {
        lanes bias = { 0 };
        if (f->bias) memcpy(&bias, f->bias + block * BLOCK, block_channels(m, block) * sizeof *f->bias);
        for (size_t i = 0; i < t->count; i++) {
            struct place p = place_of(t, i);
            const lanes *in = (const lanes *)(from + transformed(t, block - first, 0)) + i;
            lanes half[WINDOW][WINDOW], out[WINDOW][WINDOW];
            for (size_t r = 0; r < WINDOW; r++)
                coefficients(size, in + r * WINDOW * t->capacity, t->capacity, 1, 1, 1, half[r], 1);
            for (size_t c = 0; c < size; c++)
                coefficients(size, &half[0][c], WINDOW, 1, 1, 1, &out[0][c], WINDOW);
            size_t h = min_size(size, m->h - p.y), w = min_size(size, m->w - p.x);
            float *image = (float *)image_of(m, data, p.n, block);
            for (size_t r = 0; r < h; r++) {
                float *y = image + ((p.y + r) * m->w + p.x) * BLOCK;
                for (size_t c = 0; c < w; c++) {
                    lanes *pixel = (lanes *)y + c;
                    *pixel = out[r][c] + bias;
                }
                act_map(f->act, w * BLOCK, y, y);
            }
        }
    }
}

CPU_CLONES static void write(const struct map *m, size_t first, size_t count, const float *from,
                             const struct tiles *t, const struct finish *f, float *data)
{
    if (t->size == 4)
        write_size(m, first, count, from, t, 4, f, data);
    else
        write_size(m, first, count, from, t, 2, f, data);
}

CPU_CLONES static void scatter(const struct map *m, size_t first_block, size_t count, const float *from,
                               const struct tiles *t, size_t pad, float *data)
{
    for (size_t block = first_block; block < first_block + count; block++)
        for (size_t i = 0; i < t->count; i++) {
            struct place p = place_of(t, i);
            const lanes *in = (const lanes *)(from + transformed(t, block - first_block, 0)) + i;
            lanes half[WINDOW][WINDOW], out[WINDOW][WINDOW];
            for (size_t r = 0; r < WINDOW; r++)
                window_6(in + r * WINDOW * t->capacity, t->capacity, half[r], 1);
            for (size_t c = 0; c < WINDOW; c++) window_6(&half[0][c], WINDOW, &out[0][c], WINDOW);
            float *image = (float *)image_of(m, data, p.n, block);
            size_t first = p.x < pad ? pad - p.x : 0, last = min_size(WINDOW, m->w + pad - p.x);
            for (size_t r = 0; r < WINDOW; r++) {
                size_t y = p.y + r - pad; /* wraps round above the image */
                if (y >= m->h) continue;
                lanes *pixel = (lanes *)image + (y * m->w + p.x + first - pad);
                for (size_t c = first; c < last; c++) pixel[c - first] += out[r][c];
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

void add_windows(const struct map *m, size_t first, size_t count, const float *from, const struct tiles *t,
                 size_t pad, float *x)
{
    scatter(m, first, count, from, t, pad, x);
}

void write_tiles(const struct map *m, size_t first, size_t count, const float *from, const struct tiles *t,
                 const struct finish *f, float *y)
{
    write(m, first, count, from, t, f, y);
}

/* ---- weights ---- */

INLINE void spread_size(const float *w, const size_t size, float *u, size_t step, size_t apart)
{
    for (size_t c = 0; c < BLOCK; c++) {
        const lanes *in = (const lanes *)w + c;
        lanes half[WINDOW][WINDOW], *out = (lanes *)u + c * step;
        for (size_t r = 0; r < size; r++) values(size, in + r * size * BLOCK, BLOCK, N0, NA, NB, half[r], 1);
        for (size_t i = 0; i < WINDOW; i++)
            values(size, &half[0][i], WINDOW, N0, NA, NB, out + i * apart, WINDOW * apart);
    }
}

CPU_CLONES static void spread(const float *w, size_t size, float *u, size_t step, size_t apart)
{
    if (size == 3)
        spread_size(w, 3, u, step, apart);
    else
        spread_size(w, 5, u, step, apart);
}

INLINE void gather_size(const float *sums, const size_t size, size_t channels, size_t step, size_t apart,
                        size_t parts, size_t far, int add, float *gw)
{
    for (size_t c = 0; c < channels; c++) {
        lanes sum[POSITIONS], half[WINDOW][WINDOW], out[MOST_TAPS], *to = (lanes *)gw + c;
        for (size_t p = 0; p < POSITIONS; p++) {
            const float *part = sums + (c * step + p * apart) * BLOCK;
            sum[p] = *(const lanes *)part;
            for (size_t i = 1; i < parts; i++) sum[p] += *(const lanes *)(part + i * far);
        }
        for (size_t r = 0; r < WINDOW; r++) coefficients(size, sum + r * WINDOW, 1, N0, NA, NB, half[r], 1);
        for (size_t i = 0; i < size; i++) coefficients(size, &half[0][i], WINDOW, N0, NA, NB, out + i, size);
        for (size_t tap = 0; tap < size * size; tap++) {
            if (add) out[tap] += to[tap * BLOCK];
            to[tap * BLOCK] = out[tap];
        }
    }
    for (size_t tap = 0; tap < size * size && !add; tap++)
        memset(gw + tap * MATRIX + channels * BLOCK, 0, (BLOCK - channels) * BLOCK * sizeof *gw);
}

CPU_CLONES static void gather(const float *sums, size_t size, size_t channels, size_t step, size_t apart,
                              size_t parts, size_t far, int add, float *gw)
{
    if (size == 3)
        gather_size(sums, 3, channels, step, apart, parts, far, add, gw);
    else
        gather_size(sums, 5, channels, step, apart, parts, far, add, gw);
}

#define MERGE(a, b, i)                                                                                       \
    __builtin_shufflevector(a, b, i, i + 16, i + 1, i + 17, i + 2, i + 18, i + 3, i + 19, i + 4, i + 20,     \
                            i + 5, i + 21, i + 6, i + 22, i + 7, i + 23)

/* Outputs and channels exchanged: merging row i with row i + 8, element by element, four times over
 * transposes 16x16. */
CPU_CLONES static void exchange(const float *w, size_t taps, float *to)
{
    for (size_t tap = 0; tap < taps; tap++) {
        lanes rows[2][BLOCK];
        memcpy(rows[0], w + tap * MATRIX, sizeof *rows);
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

void transform_weights(const float *w, size_t size, int exchanged, float *u, size_t step, size_t apart)
{
    float other[MOST_TAPS * MATRIX];
    if (exchanged) exchange(w, size * size, other);
    spread(exchanged ? other : w, size, u, step, apart);
}

void gather_weights(const float *sums, size_t size, size_t channels, size_t step, size_t apart, size_t parts,
                    size_t far, int add, float *gw)
{
    gather(sums, size, channels, step, apart, parts, far, add, gw);
}
