/* Images of darknet_compat.h. */
#include <stdint.h>
#include "compat/compat.h"

static size_t plane(image m) { return (size_t)m.w * (size_t)m.h; }
static size_t values(image m) { return plane(m) * (size_t)m.c; }
static float *row_of(image m, int k, int y)
{
    return m.data + (size_t)k * plane(m) + (size_t)y * (size_t)m.w;
}

image make_image(int w, int h, int c)
{
    static const image none = { 0 };
    image m = { w, h, c, NULL };
    size_t n;
    if (w < 0 || h < 0 || c < 0 || __builtin_mul_overflow(plane(m), (size_t)c, &n)) {
        complain("make_image: %d x %d x %d: expected positive numbers", w, h, c);
        return none;
    }
    m.data = take(n, sizeof *m.data);
    return m.data ? m : none;
}

image copy_image(image m)
{
    image to = make_image(m.w, m.h, m.c);
    if (to.data && values(m)) memcpy(to.data, m.data, values(m) * sizeof *m.data);
    return to;
}

image float_to_image(int w, int h, int c, float *data) { return (image){ w, h, c, data }; }
void free_image(image m) { free(m.data); }

image load_image(char *filename, int w, int h, int c)
{
    dn_error e;
    uint8_t *pixels;
    image m = { 0 };
    const int planes = c ? c : 3;
    if (dn_read_image(filename, planes, 1, &m.h, &m.w, &pixels, &e)) {
        complain("%s", e.msg);
        return (image){ 0 };
    }
    m = make_image(m.w, m.h, planes);
    for (size_t i = 0; m.data && i < plane(m); i++)
        for (size_t k = 0; k < (size_t)planes; k++)
            m.data[k * plane(m) + i] = (float)pixels[i * (size_t)planes + k] / 255;
    dn_free(pixels);
    if (!m.data || !w || !h || (w == m.w && h == m.h)) return m;
    image resized = resize_image(m, w, h);
    free_image(m);
    return resized;
}

image load_image_color(char *filename, int w, int h) { return load_image(filename, w, h, 3); }

/* ---- other sizes ---- */

/* Output i of n lies between *at and *next of `in` inputs, share *share of the latter. */
static void place(int i, int n, int in, int *at, int *next, float *share)
{
    const float s = n > 1 ? (float)i * ((float)(in - 1) / (float)(n - 1)) : 0;
    *at = i == n - 1 ? in - 1 : (int)s;
    *share = i == n - 1 ? 0 : s - (float)*at;
    *next = *at + 1 < in ? *at + 1 : *at;
}

static int is_empty(image m, int w, int h, const char *what)
{
    if (m.data && m.w > 0 && m.h > 0 && m.c > 0 && w > 0 && h > 0) return 0;
    complain("%s: %d x %d x %d to %d x %d: expected an image, and positive numbers", what, m.w, m.h, m.c, w,
             h);
    return 1;
}

/* First horizontally, then vertically. */
static void resize_plane(image m, image part, image to, int k)
{
    int at, next;
    float share;
    for (int x = 0; x < to.w; x++) {
        place(x, to.w, m.w, &at, &next, &share);
        for (int y = 0; y < m.h; y++) {
            const float *row = row_of(m, k, y);
            row_of(part, 0, y)[x] = (1 - share) * row[at] + share * row[next];
        }
    }
    for (int y = 0; y < to.h; y++) {
        place(y, to.h, m.h, &at, &next, &share);
        const float *above = row_of(part, 0, at), *below = row_of(part, 0, next);
        float *row = row_of(to, k, y);
        for (int x = 0; x < to.w; x++) row[x] = (1 - share) * above[x] + share * below[x];
    }
}

image resize_image(image m, int w, int h)
{
    if (is_empty(m, w, h, "resize_image")) return (image){ 0 };
    image to = make_image(w, h, m.c), part = make_image(w, m.h, 1);
    if (!to.data || !part.data) {
        free_image(to);
        to = (image){ 0 };
    }
    for (int k = 0; k < to.c; k++) resize_plane(m, part, to, k);
    free_image(part);
    return to;
}

/* side * to / of, as long as that is positive */
static int proportion(int side, int to, int of)
{
    const int64_t v = (int64_t)side * to / of;
    return v < 1 ? 1 : v > INT32_MAX ? INT32_MAX : (int)v;
}

image letterbox_image(image m, int w, int h)
{
    if (is_empty(m, w, h, "letterbox_image")) return (image){ 0 };
    const int wide = (int64_t)w * m.h < (int64_t)h * m.w;
    image inside = resize_image(m, wide ? w : proportion(m.w, h, m.h), wide ? proportion(m.h, w, m.w) : h);
    image to = inside.data ? make_image(w, h, m.c) : inside;
    if (to.data) fill_image(to, .5f);
    const int left = (w - inside.w) / 2, top = (h - inside.h) / 2;
    for (int k = 0; k < to.c; k++)
        for (int y = 0; y < inside.h; y++)
            memcpy(row_of(to, k, top + y) + left, row_of(inside, k, y), (size_t)inside.w * sizeof *to.data);
    free_image(inside);
    return to;
}

static int within(int64_t i, int n) { return i < 0 ? 0 : i < n ? (int)i : n - 1; }

image crop_image(image m, int dx, int dy, int w, int h)
{
    if (is_empty(m, w, h, "crop_image")) return (image){ 0 };
    image to = make_image(w, h, m.c);
    for (int k = 0; k < to.c; k++)
        for (int y = 0; y < h; y++) {
            const float *from = row_of(m, k, within((int64_t)dy + y, m.h));
            for (int x = 0; x < w; x++) row_of(to, k, y)[x] = from[within((int64_t)dx + x, m.w)];
        }
    return to;
}

image center_crop_image(image m, int w, int h)
{
    const int side = m.w < m.h ? m.w : m.h;
    image square = crop_image(m, (m.w - side) / 2, (m.h - side) / 2, side, side);
    image to = square.data ? resize_image(square, w, h) : square;
    if (square.data) free_image(square);
    return to;
}

/* So that this side, the width or the height, becomes `length`. */
static image resize_side(image m, int width, int length)
{
    if (is_empty(m, length, length, "resize_min, resize_max")) return (image){ 0 };
    const int w = width ? length : proportion(m.w, length, m.h),
              h = width ? proportion(m.h, length, m.w) : length;
    return w == m.w && h == m.h ? m : resize_image(m, w, h);
}

image resize_min(image m, int min) { return resize_side(m, m.w < m.h, min); }
image resize_max(image m, int max) { return resize_side(m, m.w > m.h, max); }

/* ---- in place ---- */

void fill_image(image m, float s)
{
    for (size_t i = 0; i < values(m); i++) m.data[i] = s;
}

static void exchange(float *a, float *b)
{
    const float kept = *a;
    *a = *b;
    *b = kept;
}

void flip_image(image m)
{
    for (int k = 0; k < m.c; k++)
        for (int y = 0; y < m.h; y++)
            for (int x = 0; x < m.w / 2; x++) exchange(row_of(m, k, y) + x, row_of(m, k, y) + m.w - 1 - x);
}

void rgbgr_image(image m)
{
    for (size_t i = 0; m.c == 3 && i < plane(m); i++) exchange(m.data + i, m.data + 2 * plane(m) + i);
}

void constrain_image(image m)
{
    for (size_t i = 0; i < values(m); i++) m.data[i] = m.data[i] < 0 ? 0 : m.data[i] > 1 ? 1 : m.data[i];
}
