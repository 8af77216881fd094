#include "image.h"
#include <string.h>
#include "core/mem.h"

int image_new(struct image *m, int c, int h, int w, struct err *e)
{
    memset(m, 0, sizeof *m);
    if (c < 1 || h < 1 || w < 1) return fail(e, E_ARG, "an image of %d x %d pixels, %d channels", w, h, c);
    size_t n;
    if (mem_mul((size_t)c, (size_t)h, &n) || mem_mul(n, (size_t)w, &n) ||
        !(m->x = mem_alloc(n, sizeof *m->x)))
        return fail(e, E_MEM, "not enough memory for an image of %d x %d pixels, %d channels", w, h, c);
    m->c = c;
    m->h = h;
    m->w = w;
    return OK;
}

void image_free(struct image *m)
{
    mem_free(m->x);
    memset(m, 0, sizeof *m);
}

/* ---- resize ---- */

/* Where output i of `out` falls among `in` inputs: between *at and *at + 1, share *share of the latter. The
 * ends of both coincide; the last output is the last input, exactly (Darknet loses it to rounding at some
 * heights). */
static void place(int i, int in, int out, int *at, float *share)
{
    if (i == out - 1 || in == 1) {
        *at = in - 1;
        *share = 0;
        return;
    }
    float scale = (float)(in - 1) / (float)(out - 1), s = (float)i * scale;
    *at = (int)s;
    *share = s - (float)*at;
}

static size_t after(int at, int in) { return at + 1 < in ? 1 : 0; }

/* rows x in -> rows x out; rows few enough to stay in the cache while each output visits them all */
static void stretch_few(const float *from, size_t rows, int in, float *to, int out)
{
    for (int i = 0; i < out; i++) {
        int at;
        float share;
        place(i, in, out, &at, &share);
        const float *p = from + at;
        size_t next = after(at, in);
        for (size_t r = 0; r < rows; r++, p += in)
            to[r * (size_t)out + (size_t)i] = (1 - share) * p[0] + share * p[next];
    }
}

static void stretch_rows(const float *from, size_t rows, int in, float *to, int out)
{
    enum { FEW = 8 };
    for (size_t r = 0; r < rows; r += FEW)
        stretch_few(from + r * (size_t)in, rows - r < FEW ? rows - r : FEW, in, to + r * (size_t)out, out);
}

/* in x w -> out x w */
static void stretch_columns(const float *from, int in, size_t w, float *to, int out)
{
    for (int i = 0; i < out; i++) {
        int at;
        float share;
        place(i, in, out, &at, &share);
        const float *p = from + (size_t)at * w, *q = p + after(at, in) * w;
        float *row = to + (size_t)i * w;
        for (size_t x = 0; x < w; x++) row[x] = (1 - share) * p[x] + share * q[x];
    }
}

int image_resize(const struct image *from, int w, int h, struct image *to, struct err *e)
{
    struct image part;
    TRY(image_new(to, from->c, h, w, e));
    int rc = image_new(&part, from->c, from->h, w, e);
    if (rc) {
        image_free(to);
        return rc;
    }
    stretch_rows(from->x, (size_t)from->c * (size_t)from->h, from->w, part.x, w);
    for (int c = 0; c < from->c; c++)
        stretch_columns(part.x + (size_t)c * (size_t)from->h * (size_t)w, from->h, (size_t)w,
                        to->x + (size_t)c * (size_t)h * (size_t)w, h);
    image_free(&part);
    return OK;
}

/* A line is cut into in x out parts: an input has `out` of them, an output `in`. The parts of input s that
 * lie in output i: */
static uint64_t overlap(uint64_t s, uint64_t i, uint64_t in, uint64_t out)
{
    uint64_t from = s * out > i * in ? s * out : i * in;
    uint64_t to = (s + 1) * out < (i + 1) * in ? (s + 1) * out : (i + 1) * in;
    return to - from;
}

/* Output (x, y) of one plane. Sums stay below 255 x in_w x in_h. */
static uint8_t mean_of_area(const uint8_t *p, uint64_t iw, uint64_t ih, uint64_t x, uint64_t y, uint64_t w,
                            uint64_t h)
{
    uint64_t left = x * iw / w, right = ((x + 1) * iw - 1) / w, low = ((y + 1) * ih - 1) / h, sum = 0;
    for (uint64_t t = y * ih / h; t <= low; t++) {
        uint64_t row = 0;
        for (uint64_t s = left; s <= right; s++) row += overlap(s, x, iw, w) * p[t * iw + s];
        sum += overlap(t, y, ih, h) * row;
    }
    return (uint8_t)((2 * sum + iw * ih) / (2 * iw * ih));
}

void image_resize_area(const uint8_t *from, int c, int iw, int ih, uint8_t *to, int w, int h)
{
    for (int k = 0; k < c; k++, from += (size_t)iw * (size_t)ih)
        for (int y = 0; y < h; y++)
            for (int x = 0; x < w; x++)
                *to++ = mean_of_area(from, (uint64_t)iw, (uint64_t)ih, (uint64_t)x, (uint64_t)y, (uint64_t)w,
                                     (uint64_t)h);
}

/* ---- what validation and prediction see ---- */

/* The rectangle of w x h at (left, top) of c planes of iw x ih bytes, as floats. */
static void cut(const uint8_t *pixels, int c, int iw, int ih, int left, int top, int w, int h, float *x)
{
    for (int k = 0; k < c; k++)
        for (int y = 0; y < h; y++) {
            const uint8_t *row = pixels + ((size_t)k * (size_t)ih + (size_t)(top + y)) * (size_t)iw + left;
            for (int i = 0; i < w; i++) *x++ = (float)row[i] / 255.f;
        }
}

/* That rectangle (cw x ch) resized to w x h. */
static int cut_resized(const uint8_t *pixels, int c, int iw, int ih, int cw, int ch, int w, int h,
                       struct image *to, struct err *e)
{
    struct image part;
    TRY(image_new(&part, c, ch, cw, e));
    cut(pixels, c, iw, ih, (iw - cw) / 2, (ih - ch) / 2, cw, ch, part.x);
    int rc = image_resize(&part, w, h, to, e);
    image_free(&part);
    return rc;
}

/* a * b / c, at least 1 */
static int proportion(int a, int b, int c)
{
    int64_t v = (int64_t)a * b / c;
    return v > 1 ? (int)v : 1;
}

int image_center(const uint8_t *pixels, int c, int iw, int ih, int w, int h, float *x, struct err *e)
{
    if (iw == w && ih == h) {
        cut(pixels, c, iw, ih, 0, 0, w, h, x);
        return OK;
    }
    int wide = (int64_t)iw * h > (int64_t)ih * w;
    int cw = wide ? proportion(ih, w, h) : iw, ch = wide ? ih : proportion(iw, h, w);
    struct image to;
    TRY(cut_resized(pixels, c, iw, ih, cw, ch, w, h, &to, e));
    memcpy(x, to.x, (size_t)c * (size_t)w * (size_t)h * sizeof *x);
    image_free(&to);
    return OK;
}

int image_letterbox(const uint8_t *pixels, int c, int iw, int ih, int w, int h, float *x, struct err *e)
{
    int wide = (int64_t)w * ih < (int64_t)h * iw;
    int nw = wide ? w : proportion(iw, h, ih), nh = wide ? proportion(ih, w, iw) : h;
    struct image to;
    TRY(cut_resized(pixels, c, iw, ih, iw, ih, nw, nh, &to, e));
    size_t n = (size_t)c * (size_t)w * (size_t)h;
    for (size_t i = 0; i < n; i++) x[i] = .5f;
    for (int k = 0; k < c; k++)
        for (int y = 0; y < nh; y++)
            memcpy(x + ((size_t)k * (size_t)h + (size_t)(y + (h - nh) / 2)) * (size_t)w + (w - nw) / 2,
                   to.x + ((size_t)k * (size_t)nh + (size_t)y) * (size_t)nw, (size_t)nw * sizeof *x);
    image_free(&to);
    return OK;
}
