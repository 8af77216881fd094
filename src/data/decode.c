/* Image files to planes of bytes: whose turn it is to decode, and binary PNM, which is read here. */
#include <limits.h>
#include <string.h>
#include <zlib.h>
#include "core/file.h"
#include "core/mem.h"
#include "data/decoder.h"
#include "data/exif.h"
#include "data/image.h"
#include "data/jpeg.h"

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

int decoder_has_opencv(void)
{
    for (int i = 0; decoder_at(i); i++)
        if (!strcmp(decoder_at(i)->name, "opencv")) return 1;
    return 0;
}

/* PNG: stb_image does not look at the checksums. One that is cut off is the decoder's concern; of what is
 * only about the image (lower case) nothing is read. */
static int check_png(const struct encoded *f, struct err *e)
{
    enum { HEAD = 8, AROUND = 12 }; /* a chunk is its length, type, data, checksum */
    if (f->n < HEAD || memcmp(f->x, "\x89PNG\r\n\x1a\n", HEAD)) return OK;
    for (size_t at = HEAD; f->n - at >= AROUND;) {
        const uint8_t *p = f->x + at;
        size_t length = big_endian(p, 4);
        if (length > f->n - at - AROUND) return OK;
        if (p[4] < 'a' && crc32_z(0, p + 4, length + 4) != big_endian(p + 8 + length, 4))
            return fail_at(e, E_FORMAT, f->path, 0, "is a damaged PNG image: the checksum of %.4s is wrong",
                           (const char *)p + 4);
        at += AROUND + length;
    }
    return OK;
}

static int refuse_foreign(const struct encoded *f, struct err *e)
{
    int opencv = decoder_has_opencv();
    if (f->foreign->remedy)
        return fail_at(e, E_FORMAT, f->path, 0, "is %s: %s", f->foreign->name, f->foreign->remedy);
    return fail_at(e, E_FORMAT, f->path, 0, "is %s%s: convert it to JPEG or PNG%s", f->foreign->name,
                   opencv && f->foreign->by_opencv ? ", and damaged" : "",
                   !opencv && f->foreign->by_opencv ? ", or build with OPENCV=1" : "");
}

static int decode_by_library(struct encoded *f, int shorter, struct raw *r, struct err *e)
{
    int rc = DECODER_PASSES;
    TRY(check_png(f, e));
    TRY(encoded_inspect(f, e));
    for (int i = 0; rc == DECODER_PASSES && decoder_at(i); i++) rc = decoder_at(i)->decode(f, shorter, r, e);
    if (rc == DECODER_PASSES) return refuse_foreign(f, e);
    return rc ? rc : image_check_size(r->w, r->h, f->path, e);
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

/* ---- orientation ---- */

/* Turns an image upright. EXIF counts its eight orientations so that in v - 1, 4 exchanges rows and columns
 * after the rest, and of the others 1 and 2 mirror columns, 2 and 3 rows. */
static int turn(struct raw *r, int v, const char *path, struct err *e)
{
    int swap = v > 4, k = swap ? v - 5 : v - 1, w = swap ? r->h : r->w, h = swap ? r->w : r->h;
    static const uint8_t mirror_x[2][4] = { { 0, 1, 1, 0 }, { 0, 0, 1, 1 } };
    static const uint8_t mirror_y[2][4] = { { 0, 0, 1, 1 }, { 0, 1, 1, 0 } };
    size_t n = (size_t)r->n;
    uint8_t *x = mem_alloc((size_t)w * (size_t)h, n), *to = x;
    if (!x) return fail_at(e, E_MEM, path, 0, "not enough memory for %d x %d pixels", w, h);
    for (int y = 0; y < h; y++)
        for (int i = 0; i < w; i++, to += n) {
            int across = swap ? y : i, down = swap ? i : y;
            if (mirror_x[swap][k]) across = r->w - 1 - across;
            if (mirror_y[swap][k]) down = r->h - 1 - down;
            memcpy(to, r->x + ((size_t)down * (size_t)r->w + (size_t)across) * n, n);
        }
    mem_free(r->x);
    r->x = x;
    r->w = w;
    r->h = h;
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

int raw_picture(const struct raw *r, int c, const char *path, struct picture *to, struct err *e)
{
    *to =
        (struct picture){ mem_alloc((size_t)r->w * (size_t)r->h, (size_t)c), r->w, r->h, r->flaw, r->askew };
    if (!to->pixels) return fail_at(e, E_MEM, path, 0, "not enough memory for %d x %d pixels", r->w, r->h);
    raw_planes(r, c, to->pixels);
    return OK;
}

static int decode(struct encoded *f, const struct decoding *d, struct raw *r, struct err *e)
{
    if (is_pnm(f->x, f->n)) return decode_pnm(f, r, e);
    TRY(decode_by_library(f, d->shorter, r, e));
    int v = is_jpeg(f->x, f->n) ? jpeg_inspect(f->x, f->n).orientation : exif_orientation_of_file(f->x, f->n);
    r->askew = v > 1 && !d->orient;
    return v > 1 && d->orient ? turn(r, v, f->path, e) : OK;
}

int image_decode_bytes(const char *name, const void *bytes, size_t n, const struct decoding *d,
                       struct picture *to, struct err *e)
{
    *to = (struct picture){ 0 };
    if (d->c != 1 && d->c != 3)
        return fail(e, E_ARG, "channels=%d: images have 1 (gray) or 3 (colour)", d->c);
    if (!n) return fail_at(e, E_FORMAT, name, 0, "is empty, expected an image");
    struct encoded f = { .path = name, .x = bytes, .n = n };
    struct raw r = { 0 };
    int rc = decode(&f, d, &r, e);
    if (!rc) rc = raw_picture(&r, d->c, name, to, e);
    mem_free(r.x);
    return rc;
}

int image_decode(const char *path, const struct decoding *d, struct picture *to, struct err *e)
{
    char *bytes;
    size_t n;
    *to = (struct picture){ 0 };
    TRY(file_load(path, FILE_LIMIT, &bytes, &n, e));
    int rc = image_decode_bytes(path, bytes, n, d, to, e);
    mem_free(bytes);
    return rc;
}
