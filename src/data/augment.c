#include "augment.h"
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include "core/mem.h"
#include "core/rng.h"
#include "data/image.h"

/* Each quantity has its own number in the sequence of an image: a new one at the end shifts none of the
 * others. */
enum draw {
    DRAW_ASPECT,
    DRAW_ASPECT_SIDE,
    DRAW_LENGTH,
    DRAW_ANGLE,
    DRAW_DX,
    DRAW_DY,
    DRAW_FLIP,
    DRAW_HUE,
    DRAW_SATURATION,
    DRAW_SATURATION_SIDE,
    DRAW_EXPOSURE,
    DRAW_EXPOSURE_SIDE,
    DRAW_PAD_X,
    DRAW_PAD_Y,
    DRAW_BLUR
};

static double between(uint64_t key, enum draw d, double a, double b)
{
    return a + (b - a) * rng_uniform(key, d);
}

static int integer_between(uint64_t key, enum draw d, int a, int b)
{
    if (b < a) return integer_between(key, d, b, a);
    return a + (int)rng_below(key, d, (uint64_t)b - (uint64_t)a + 1);
}

static int is_neutral(double factor) { return factor == 0 || factor == 1; }

/* Darknet's rand_scale: uniform in [1, s], or one over that; `side` chooses. s 0 means 1. */
static double factor(uint64_t key, enum draw d, enum draw side, double s)
{
    if (is_neutral(s)) return 1;
    double r = between(key, d, 1, s);
    return rng_uniform(key, side) < .5 ? r : 1 / r;
}

/* Not fmin and fmax: those are calls, because of NaN. */
static double limited(double v, double lo, double hi) { return v < lo ? lo : v > hi ? hi : v; }
static float limitedf(float v, float lo, float hi) { return v < lo ? lo : v > hi ? hi : v; }

/* ---- geometry ---- */

/* From output (x, y) to the source: center + R(angle) [ (x - w/2 + dx) a/s, (y - h/2 + dy)/s ], as an affine
 * map. */
struct map {
    double x0, xx, xy; /* source x = x0 + xx x + xy y */
    double y0, yx, yy;
};

static double draw_aspect(const struct augment *a, uint64_t key)
{
    return factor(key, DRAW_ASPECT, DRAW_ASPECT_SIDE, a->aspect);
}

static int draw_length(const struct augment *a, uint64_t key)
{
    int least = a->min_crop > 0 ? a->min_crop : a->w, most = a->max_crop > 0 ? a->max_crop : a->w;
    return integer_between(key, DRAW_LENGTH, least, most);
}

static struct map draw_map(const struct augment *a, uint64_t key, double iw, double ih)
{
    double aspect = draw_aspect(a, key);
    int length = draw_length(a, key);
    /* Darknet: length / min(h, w aspect), the denominator cut to an integer. The height counts in units of
     * the crop's shape, so that length = width just covers the crop in either direction (Darknet has square
     * crops only). */
    double side = floor(fmin(ih * a->w / a->h, iw * aspect));
    double scale = length / fmax(side, 1);
    double angle = between(key, DRAW_ANGLE, -a->angle, a->angle) * 6.283185307179586 / 360;
    double rx = fmax((iw * scale / aspect - a->w) / 2, 0), ry = fmax((ih * scale - a->h) / 2, 0);
    double dx = between(key, DRAW_DX, -rx, rx), dy = between(key, DRAW_DY, -ry, ry);
    double c = cos(angle), s = sin(angle), px = aspect / scale, py = 1 / scale;
    double left = (dx - a->w / 2.) * px, top = (dy - a->h / 2.) * py;
    return (struct map){ iw / 2. + c * left - s * top, c * px, -s * py,
                         ih / 2. + s * left + c * top, s * px, c * py };
}

/* The same for the letterbox around an image, in the coordinates of the image. */
static struct map draw_boxed_map(const struct augment *a, uint64_t key, int iw, int ih)
{
    double w = fmax(iw, (double)ih * a->w / a->h), h = fmax(ih, (double)iw * a->h / a->w);
    struct map m = draw_map(a, key, w, h);
    m.x0 -= (w - iw) / 2;
    m.y0 -= (h - ih) / 2;
    return m;
}

int augment_shorter(const struct augment *a, uint64_t key)
{
    if (a->pad_crop > 0) return a->w > a->h ? a->w : a->h;
    /* From draw_map: a step to the right is aspect/scale pixels of the image, one down 1/scale. Both are at
     * least 1 when `side` is at least this: */
    double aspect = draw_aspect(a, key), side = draw_length(a, key) * fmax(1, 1 / aspect);
    double width = side / aspect, height = side * a->h / a->w, shorter = ceil(fmax(width, height));
    return shorter < INT_MAX ? (int)shorter : 0;
}

/* Value 0..255 at (x, y) of one plane, bilinear. */
static float sample(const uint8_t *p, int w, int h, int x, int y, float u, float v, float outside)
{
    float p00, p01, p10, p11;
    if (x >= 0 && y >= 0 && x + 1 < w && y + 1 < h) {
        p += (size_t)y * (size_t)w + (size_t)x;
        p00 = p[0], p01 = p[1], p10 = p[w], p11 = p[w + 1];
    } else {
#define AT(i, j)                                                                                             \
    ((i) >= 0 && (i) < w && (j) >= 0 && (j) < h ? p[(size_t)(j) * (size_t)w + (size_t)(i)] : outside)
        p00 = AT(x, y), p01 = AT(x + 1, y), p10 = AT(x, y + 1), p11 = AT(x + 1, y + 1);
#undef AT
    }
    return (1 - v) * ((1 - u) * p00 + u * p01) + v * ((1 - u) * p10 + u * p11);
}

static void crop_mapped(const struct augment *a, const struct map *m, const uint8_t *pixels, int iw, int ih,
                        float *x)
{
    size_t plane = (size_t)a->w * (size_t)a->h, from = (size_t)iw * (size_t)ih;
    const float outside = a->letter_box ? 127.5f : 0;
    for (int j = 0; j < a->h; j++)
        for (int i = 0; i < a->w; i++, x++) {
            double sx = m->x0 + m->xx * i + m->xy * j, sy = m->y0 + m->yx * i + m->yy * j;
            /* Far outside is as just outside; the limits keep the conversion to int defined. */
            sx = limited(sx, -2, iw + 1.);
            sy = limited(sy, -2, ih + 1.);
            int ix = (int)(sx + 2) - 2, iy = (int)(sy + 2) - 2; /* rounds down */
            float u = (float)(sx - ix), v = (float)(sy - iy);
            for (int k = 0; k < a->c; k++)
                x[(size_t)k * plane] =
                    sample(pixels + (size_t)k * from, iw, ih, ix, iy, u, v, outside) / 255.f;
        }
}

/* Output (x, y) is source (x + left, y + top), black outside. The source has the size of the output. */
static void crop_shifted(const struct augment *a, int left, int top, const uint8_t *pixels, float *x)
{
    int w = a->w, h = a->h, from = left < 0 ? -left : 0, to = left > 0 ? w - left : w;
    for (int k = 0; k < a->c; k++, pixels += (size_t)w * (size_t)h)
        for (int j = 0; j < h; j++, x += w) {
            int in = j + top >= 0 && j + top < h && from < to;
            int a0 = in ? from : w, a1 = in ? to : w;
            const uint8_t *row = pixels + (in ? (size_t)(j + top) * (size_t)w : 0);
            for (int i = 0; i < a0; i++) x[i] = 0;
            for (int i = a0; i < a1; i++) x[i] = (float)row[i + left] / 255.f;
            for (int i = a1; i < w; i++) x[i] = 0;
        }
}

static int is_mirrored(const struct augment *a, uint64_t key)
{
    return a->flip && rng_uniform(key, DRAW_FLIP) < .5;
}

void augment_move(const struct augment *a, uint64_t key, struct crop *move)
{
    int n = a->pad_crop;
    move->left = n > 0 ? integer_between(key, DRAW_PAD_X, -n, n) : 0;
    move->top = n > 0 ? integer_between(key, DRAW_PAD_Y, -n, n) : 0;
    move->mirror = is_mirrored(a, key);
}

static int crop_padded(const struct augment *a, uint64_t key, const uint8_t *pixels, int iw, int ih, float *x,
                       struct err *e)
{
    uint8_t *own = NULL;
    if (iw != a->w || ih != a->h) { /* x holds the resized image until it is rounded to bytes */
        size_t n = (size_t)a->c * (size_t)a->h * (size_t)a->w;
        const float unit = a->letter_box ? 255 : 1;
        if (a->letter_box)
            TRY(image_view(VIEW_LETTERBOX, pixels, a->c, iw, ih, a->w, a->h, x, e));
        else
            TRY(image_resize(pixels, area_whole(iw, ih), a->c, 1, x, area_whole(a->w, a->h), e));
        if (!(own = mem_alloc(n, 1))) return fail(e, E_MEM, "not enough memory for %zu pixels", n);
        for (size_t i = 0; i < n; i++) own[i] = (uint8_t)(unit * x[i] + .5f);
        pixels = own;
    }
    struct crop move;
    augment_move(a, key, &move);
    crop_shifted(a, move.left, move.top, pixels, x);
    mem_free(own);
    return OK;
}

int augment_only_moves(const struct augment *a, int iw, int ih)
{
    int scaled = (a->min_crop > 0 && a->min_crop != a->w) || (a->max_crop > 0 && a->max_crop != a->w);
    int same = !scaled && a->angle == 0 && is_neutral(a->aspect);
    int colours = a->hue != 0 || !is_neutral(a->saturation) || !is_neutral(a->exposure);
    return iw == a->w && ih == a->h && (a->pad_crop > 0 || same) && !colours && !a->mix && !a->blur;
}

static void mirror(const struct augment *a, float *x)
{
    size_t rows = (size_t)a->c * (size_t)a->h;
    for (size_t r = 0; r < rows; r++, x += a->w)
        for (int i = 0, j = a->w - 1; i < j; i++, j--) {
            float t = x[i];
            x[i] = x[j];
            x[j] = t;
        }
}

/* ---- colours ---- */

/* One pixel through HSV (hue in [0, 1)): hue + dh, saturation ds, value dv. */
static void distort(float *r, float *g, float *b, float dh, float ds, float dv)
{
    float v = *r > *g ? *r : *g, d = *r < *g ? *r : *g, hue = 0, s = 0;
    v = v > *b ? v : *b;
    d = v - (d < *b ? d : *b);
    if (d > 0) {
        s = d / v;
        hue = v == *r ? (*g - *b) / d : v == *g ? 2 + (*b - *r) / d : 4 + (*r - *g) / d;
        hue /= 6;
    }
    hue += dh;
    hue = 6 * (hue - floorf(hue));
    s *= ds;
    v *= dv;
    int sector = (int)hue;
    float f = hue - (float)sector, p = v * (1 - s), q = v * (1 - s * f), t = v * (1 - s * (1 - f));
    const float rgb[6][3] = { { v, t, p }, { q, v, p }, { p, v, t }, { p, q, v }, { t, p, v }, { v, p, q } };
    const float *to = rgb[sector % 6]; /* rounding may give 6 itself */
    *r = limitedf(to[0], 0, 1);
    *g = limitedf(to[1], 0, 1);
    *b = limitedf(to[2], 0, 1);
}

static void jitter(const struct augment *a, uint64_t key, float *x)
{
    float dh = (float)between(key, DRAW_HUE, -a->hue, a->hue);
    float ds = (float)factor(key, DRAW_SATURATION, DRAW_SATURATION_SIDE, a->saturation);
    float dv = (float)factor(key, DRAW_EXPOSURE, DRAW_EXPOSURE_SIDE, a->exposure);
    size_t n = (size_t)a->w * (size_t)a->h;
    if (a->c == 3 && (dh != 0 || ds != 1 || dv != 1))
        for (size_t i = 0; i < n; i++) distort(x + i, x + n + i, x + 2 * n + i, dh, ds, dv);
    if (a->c == 1 && dv != 1) /* gray has neither hue nor saturation */
        for (size_t i = 0; i < n; i++) x[i] = limitedf(x[i] * dv, 0, 1);
}

/* ---- blur ---- */

/* Reflected at 0 and n - 1, without repeating the edge. */
static int reflect(int i, int n)
{
    while (n > 1 && (i < 0 || i >= n)) i = i < 0 ? -i : 2 * (n - 1) - i;
    return n > 1 ? i : 0;
}

/* A line of n numbers, `step` apart; line is room for them. */
static void blur_line(float *x, size_t step, int n, const float *kernel, int radius, float *line)
{
    for (int i = 0; i < n; i++) line[i] = x[(size_t)i * step];
    for (int i = 0; i < n; i++) {
        float sum = kernel[0] * line[i];
        for (int k = 1; k <= radius; k++)
            sum += kernel[k] * (line[reflect(i - k, n)] + line[reflect(i + k, n)]);
        x[(size_t)i * step] = sum;
    }
}

int augment_blur(const struct augment *a, uint64_t key, float *x, struct err *e)
{
    if (!a->blur || rng_uniform(key, DRAW_BLUR) >= .25) return OK;
    int radius = a->blur / 2, longest = a->w > a->h ? a->w : a->h;
    float *kernel = mem_alloc((size_t)radius + 1 + (size_t)longest, sizeof *kernel);
    double sigma = .3 * (radius - 1) + .8, sum = 0;
    if (!kernel) return fail(e, E_MEM, "not enough memory to blur an image");
    for (int k = -radius; k <= radius; k++) sum += exp(-k * k / (2 * sigma * sigma));
    for (int k = 0; k <= radius; k++) kernel[k] = (float)(exp(-k * k / (2 * sigma * sigma)) / sum);
    for (int k = 0; k < a->c; k++, x += (size_t)a->w * (size_t)a->h) {
        for (int j = 0; j < a->h; j++)
            blur_line(x + (size_t)j * (size_t)a->w, 1, a->w, kernel, radius, kernel + radius + 1);
        for (int i = 0; i < a->w; i++)
            blur_line(x + i, (size_t)a->w, a->h, kernel, radius, kernel + radius + 1);
    }
    mem_free(kernel);
    return OK;
}

void augment_normaliser(const struct augment *a, float mean[4], float scale[4])
{
    for (int k = 0; k < 4; k++) {
        int has = a->std[k] != 0;
        mean[k] = has ? (float)a->mean[k] : 0;
        scale[k] = has ? (float)(1 / a->std[k]) : 1;
    }
}

void augment_normalise(const struct augment *a, float *x)
{
    size_t n = (size_t)a->w * (size_t)a->h;
    float mean[4], scale[4];
    augment_normaliser(a, mean, scale);
    for (int k = 0; k < a->c; k++, x += n) {
        if (a->std[k] == 0) continue;
        for (size_t i = 0; i < n; i++) x[i] = (x[i] - mean[k]) * scale[k];
    }
}

int augment_image(const struct augment *a, uint64_t key, const uint8_t *pixels, int iw, int ih, float *x,
                  struct err *e)
{
    if (a->pad_crop > 0) {
        TRY(crop_padded(a, key, pixels, iw, ih, x, e));
    } else {
        const struct map m = a->letter_box ? draw_boxed_map(a, key, iw, ih) : draw_map(a, key, iw, ih);
        int same = iw == a->w && ih == a->h && m.x0 == 0 && m.y0 == 0 && m.xx == 1 && m.yy == 1 && m.xy == 0;
        if (same)
            crop_shifted(a, 0, 0, pixels, x);
        else
            crop_mapped(a, &m, pixels, iw, ih, x);
    }
    if (is_mirrored(a, key)) mirror(a, x);
    jitter(a, key, x);
    augment_normalise(a, x);
    return OK;
}
