/* Image files to planes of bytes: whose turn it is to decode, and binary PNM, which is read here. */
#include <limits.h>
#include <string.h>
#include "core/file.h"
#include "core/mem.h"
#include "data/decoder.h"
#include "data/image.h"

static const size_t FILE_LIMIT = (size_t)1 << 30;
static const int64_t PIXEL_LIMIT = (int64_t)1 << 28;

int image_check_size(int64_t w, int64_t h, const char *path, struct err *e)
{
    if (w < 1 || h < 1)
        return fail_at(e, E_FORMAT, path, 0, "is an image without pixels: %lld x %lld", (long long)w,
                       (long long)h);
    if (w > INT_MAX || h > INT_MAX || w > PIXEL_LIMIT / h)
        return fail_at(e, E_FORMAT, path, 0, "has %lld x %lld pixels, expected at most 2^28 in all",
                       (long long)w, (long long)h);
    return OK;
}

/* ---- decoders ---- */

#define DECODER(name) extern const struct decoder decoder_##name;
#include "decoders.inc"
#undef DECODER

static const struct decoder *const all[] = {
#define DECODER(name) &decoder_##name,
#include "decoders.inc"
#undef DECODER
};

const struct decoder *decoder_at(int i)
{
    return i >= 0 && (size_t)i < sizeof all / sizeof *all ? all[i] : NULL;
}

static int decode_by_library(struct encoded *f, int shorter, struct raw *r, struct err *e)
{
    int rc = DECODER_PASSES;
    TRY(encoded_inspect(f, e));
    for (int i = 0; rc == DECODER_PASSES; i++) rc = decoder_at(i)->decode(f, shorter, r, e);
    return rc;
}

/* ---- PNM: P5 (gray) and P6 (RGB), any maximum value up to 65535 ---- */

/* The next number of the header, or -1. Comments run from # to the end of the line. */
static int64_t pnm_number(const uint8_t *bytes, size_t n, size_t *at)
{
    size_t i = *at;
    while (i < n && (strchr(" \t\r\n\v\f", bytes[i]) || bytes[i] == '#')) {
        if (!bytes[i]) return -1; /* strchr finds the end of its text too */
        if (bytes[i] == '#')
            while (i + 1 < n && bytes[i + 1] != '\n') i++;
        i++;
    }
    int64_t v = -1;
    for (; i < n && bytes[i] >= '0' && bytes[i] <= '9'; i++) {
        v = (v < 0 ? 0 : v) * 10 + (bytes[i] - '0');
        if (v > INT_MAX) return -1;
    }
    *at = i;
    return v;
}

static int is_pnm(const uint8_t *p, size_t n)
{
    return n > 2 && p[0] == 'P' && p[1] >= '1' && p[1] <= '7' && p[2] && strchr(" \t\r\n\v\f#", p[2]);
}

static int decode_pnm(const struct encoded *f, struct raw *r, struct err *e)
{
    const char *path = f->path;
    const uint8_t *bytes = f->x;
    size_t n = f->n, at = 2;
    if (bytes[1] != '5' && bytes[1] != '6')
        return fail_at(e, E_FORMAT, path, 0,
                       "is a PNM image of kind P%c, expected binary PNM (P5, P6): convert it", bytes[1]);
    int64_t w = pnm_number(bytes, n, &at), h = pnm_number(bytes, n, &at), most = pnm_number(bytes, n, &at);
    if (w < 0 || h < 0 || most < 1 || most > 65535)
        return fail_at(e, E_FORMAT, path, 0,
                       "has a bad PNM header, expected width, height, maximum (1..65535)");
    TRY(image_check_size(w, h, path, e));
    r->w = (int)w;
    r->h = (int)h;
    r->n = bytes[1] == '5' ? 1 : 3;
    size_t count = (size_t)w * (size_t)h * (size_t)r->n, size = most > 255 ? 2 : 1;
    at++; /* one blank ends the header */
    if (at > n || n - at < count * size)
        return fail_at(e, E_FORMAT, path, 0, "is truncated: %zu bytes of pixels, expected %zu",
                       at > n ? 0 : n - at, count * size);
    if (!(r->x = mem_alloc(count, 1)))
        return fail_at(e, E_MEM, path, 0, "not enough memory for %d x %d pixels", r->w, r->h);
    bytes += at;
    for (size_t i = 0; i < count; i++) {
        unsigned v = size == 2 ? bytes[2 * i] * 256u + bytes[2 * i + 1] : bytes[i];
        r->x[i] = byte_of(v < most ? v : (unsigned)most, (unsigned)most);
    }
    return OK;
}

/* ---- planes ---- */

void image_luma(const uint8_t *r, const uint8_t *g, const uint8_t *b, size_t step, size_t n, uint8_t *y)
{
    for (size_t i = 0; i < n; i++, r += step, g += step, b += step)
        y[i] = (uint8_t)((299 * *r + 587 * *g + 114 * *b + 500) / 1000);
}

void raw_planes(const struct raw *r, int c, uint8_t *to)
{
    size_t n = (size_t)r->w * (size_t)r->h, step = (size_t)r->n;
    const uint8_t *p = r->x;
    int color = r->n >= 3;
    if (c == 1 && color) {
        image_luma(p, p + 1, p + 2, step, n, to);
        return;
    }
    if (c == 1) {
        for (size_t i = 0; i < n; i++, p += step) to[i] = *p;
        return;
    }
    for (size_t i = 0; i < n; i++, p += step) {
        to[i] = p[0];
        to[n + i] = p[color ? 1 : 0];
        to[2 * n + i] = p[color ? 2 : 0];
    }
}

int image_decode(const char *path, int c, int shorter, uint8_t **pixels, int *w, int *h, struct err *e)
{
    char *bytes;
    size_t n;
    *pixels = NULL;
    if (c != 1 && c != 3) return fail(e, E_ARG, "channels=%d: images have 1 (gray) or 3 (colour)", c);
    TRY(file_load(path, FILE_LIMIT, &bytes, &n, e));
    if (!n) {
        mem_free(bytes);
        return fail_at(e, E_FORMAT, path, 0, "is empty, expected an image");
    }
    struct encoded f = { path, (const uint8_t *)bytes, n, 0, 0 };
    struct raw r = { 0 };
    int rc = is_pnm(f.x, n) ? decode_pnm(&f, &r, e) : decode_by_library(&f, shorter, &r, e);
    mem_free(bytes);
    if (!rc) {
        size_t count = (size_t)r.w * (size_t)r.h * (size_t)c;
        if ((*pixels = mem_alloc(count, 1)))
            raw_planes(&r, c, *pixels);
        else
            rc = fail_at(e, E_MEM, path, 0, "not enough memory for %d x %d pixels", r.w, r.h);
    }
    mem_free(r.x);
    *w = r.w;
    *h = r.h;
    return rc;
}
