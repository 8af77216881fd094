#include "image.h"
#include "core/mem.h"

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

/* Rows of bytes, whose values are looked up, to rows of w floats. Few rows at a time, which stay in the cache
 * while each output visits them all. */
static void stretch_rows(const float value[256], const uint8_t *from, struct area in, float *to, int w)
{
    enum { FEW = 8 };
    for (int first = 0; first < in.h; first += FEW)
        for (int i = 0; i < w; i++) {
            int at, end = in.h - first < FEW ? in.h : first + FEW;
            float share;
            place(i, in.w, w, &at, &share);
            size_t next = after(at, in.w);
            for (int r = first; r < end; r++) {
                const uint8_t *p = from + (size_t)r * in.row + at;
                to[(size_t)r * (size_t)w + (size_t)i] = (1 - share) * value[p[0]] + share * value[p[next]];
            }
        }
}

/* `in` rows as wide as the output, one below the other. */
static void stretch_columns(const float *from, int in, float *to, struct area out)
{
    size_t w = (size_t)out.w;
    for (int i = 0; i < out.h; i++, to += out.row) {
        int at;
        float share;
        place(i, in, out.h, &at, &share);
        const float *p = from + (size_t)at * w, *q = p + after(at, in) * w;
        for (size_t x = 0; x < w; x++) to[x] = (1 - share) * p[x] + share * q[x];
    }
}

int image_resize(const uint8_t *from, struct area in, int c, float unit, float *to, struct area out,
                 struct err *e)
{
    float value[256], *part = mem_alloc((size_t)in.h * (size_t)out.w, sizeof *part);
    if (!part)
        return fail(e, E_MEM, "not enough memory to resize %d x %d pixels to %d x %d", in.w, in.h, out.w,
                    out.h);
    for (int i = 0; i < 256; i++) value[i] = (float)i / unit;
    for (int k = 0; k < c; k++, from += in.plane, to += out.plane) {
        stretch_rows(value, from, in, part, out.w);
        stretch_columns(part, in.h, to, out);
    }
    mem_free(part);
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

/* a * b / c, at least 1 */
static int proportion(int a, int b, int c)
{
    int64_t v = (int64_t)a * b / c;
    return v > 1 ? (int)v : 1;
}

static int center(const uint8_t *pixels, int c, int iw, int ih, int w, int h, float *x, struct err *e)
{
    int wide = (int64_t)iw * h > (int64_t)ih * w;
    struct area in = area_whole(iw, ih);
    in.w = wide ? proportion(ih, w, h) : iw;
    in.h = wide ? ih : proportion(iw, h, w);
    const uint8_t *corner = pixels + (size_t)((ih - in.h) / 2) * in.row + (iw - in.w) / 2;
    return image_resize(corner, in, c, 255, x, area_whole(w, h), e);
}

static int letterbox(const uint8_t *pixels, int c, int iw, int ih, int w, int h, float *x, struct err *e)
{
    int wide = (int64_t)w * ih < (int64_t)h * iw;
    struct area out = area_whole(w, h);
    for (size_t i = 0; i < (size_t)c * out.plane; i++) x[i] = .5f;
    out.w = wide ? w : proportion(iw, h, ih);
    out.h = wide ? proportion(ih, w, iw) : h;
    float *corner = x + (size_t)((h - out.h) / 2) * out.row + (w - out.w) / 2;
    return image_resize(pixels, area_whole(iw, ih), c, 255, corner, out, e);
}

/* k: 0..4 a corner or the middle, 5..9 the same mirrored. */
static int crop(int k, const uint8_t *pixels, int c, int iw, int ih, int w, int h, float *x, struct err *e)
{
    static const uint8_t across[] = { 0, 2, 0, 2, 1 }, down[] = { 0, 0, 2, 2, 1 }; /* halves of the margin */
    const struct area large = area_whole(w + VIEW_MARGIN, h + VIEW_MARGIN);
    const size_t left = across[k % 5] * (size_t)VIEW_MARGIN / 2, top = down[k % 5] * (size_t)VIEW_MARGIN / 2;
    float *whole = mem_alloc((size_t)c * large.plane, sizeof *whole);
    if (!whole) return fail(e, E_MEM, "not enough memory for %d x %d pixels", large.w, large.h);
    int rc = image_resize(pixels, area_whole(iw, ih), c, 255, whole, large, e);
    for (size_t p = 0; p < (size_t)c; p++)
        for (size_t y = 0; y < (size_t)h; y++)
            for (size_t i = 0; i < (size_t)w; i++)
                *x++ =
                    whole[p * large.plane + (top + y) * large.row + left + (k < 5 ? i : (size_t)w - 1 - i)];
    mem_free(whole);
    return rc;
}

int image_view(enum view v, const uint8_t *pixels, int c, int iw, int ih, int w, int h, float *x,
               struct err *e)
{
    switch (v) {
    case VIEW_CENTER: return center(pixels, c, iw, ih, w, h, x, e);
    case VIEW_LETTERBOX: return letterbox(pixels, c, iw, ih, w, h, x, e);
    case VIEW_WHOLE: return image_resize(pixels, area_whole(iw, ih), c, 255, x, area_whole(w, h), e);
    default: return crop((int)v - VIEW_CROPS, pixels, c, iw, ih, w, h, x, e);
    }
}
