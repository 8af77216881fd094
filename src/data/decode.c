/* Image files to bytes. stb_image does the formats; PNM is read here, because stb_image ignores its maximum
 * value and the byte order of its 16 bit samples. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include "core/mem.h"
#include "core/text.h"
#include "data/image.h"

/* stb_image takes its memory from us too; the sized form of realloc is the one that can be written with
 * mem_alloc. */
static void *resized(void *old, size_t n, size_t wanted)
{
    void *p = mem_alloc(wanted, 1);
    if (p && old) {
        memcpy(p, old, n < wanted ? n : wanted);
        mem_free(old);
    }
    return p;
}
#define STBI_MALLOC(n)                  mem_alloc(n, 1)
#define STBI_REALLOC_SIZED(p, old, new) resized(p, old, new)
#define STBI_FREE(p)                    mem_free(p)
#define STB_IMAGE_IMPLEMENTATION
#define STB_IMAGE_STATIC
#define STBI_NO_STDIO
#define STBI_NO_FAILURE_STRINGS /* one of them is a static buffer, which workers would share */
#define STBI_NO_LINEAR
#define STBI_NO_HDR
#define STBI_NO_PIC
#define STBI_NO_PNM
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic"
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wshadow"
#include <stb/stb_image.h>
#pragma GCC diagnostic pop
#pragma GCC diagnostic ignored "-Wunused-function" /* of stb_image's: gcc asks only at the end of the file   \
                                                    */

static const size_t FILE_LIMIT = (size_t)1 << 30;
static const int64_t PIXEL_LIMIT = (int64_t)1 << 28;

/* Interleaved samples as decoded. */
struct raw {
    int w, h, n; /* n samples a pixel: gray, gray+alpha, RGB, RGBA */
    uint8_t *x;
};

/* ---- stb_image ---- */

struct source {
    const uint8_t *x;
    size_t n, at;
    int past; /* the decoder wanted more bytes than there are: stb_image itself accepts many truncated files
               */
};

static int source_read(void *user, char *to, int n)
{
    struct source *s = user;
    size_t left = s->n - s->at, take = (size_t)n < left ? (size_t)n : left;
    /* Reading ahead into its own buffer is no demand for all of it. */
    int ahead = (size_t)n == sizeof((stbi__context *)0)->buffer_start;
    if (!left || (take < (size_t)n && !ahead)) s->past = 1;
    memcpy(to, s->x + s->at, take);
    s->at += take;
    return (int)take;
}

static void source_skip(void *user, int n)
{
    struct source *s = user;
    size_t left = s->n - s->at;
    if (n <= 0) return;
    if ((size_t)n > left) s->past = 1;
    s->at += (size_t)n < left ? (size_t)n : left;
}

static int source_end(void *user)
{
    struct source *s = user;
    return s->at == s->n;
}

static void narrow(const uint16_t *from, size_t n, unsigned most, uint8_t *to)
{
    for (size_t i = 0; i < n; i++) to[i] = (uint8_t)((from[i] * 255u + most / 2) / most);
}

/* 16 bit samples in *deep to bytes in r->x; frees *deep. */
static int narrow_all(struct raw *r, uint16_t *deep, unsigned most, const char *path, struct err *e)
{
    size_t n = (size_t)r->w * (size_t)r->h * (size_t)r->n;
    r->x = mem_alloc(n, 1);
    if (r->x) narrow(deep, n, most, r->x);
    mem_free(deep);
    return r->x ? OK : fail_at(e, E_MEM, path, 0, "not enough memory for %d x %d pixels", r->w, r->h);
}

static int64_t big_endian(const uint8_t *p)
{
    return (int64_t)p[0] << 24 | (int64_t)p[1] << 16 | (int64_t)p[2] << 8 | p[3];
}

static int check_size(int64_t w, int64_t h, const char *path, struct err *e)
{
    if (w < 1 || h < 1)
        return fail_at(e, E_FORMAT, path, 0, "is an image without pixels: %lld x %lld", (long long)w,
                       (long long)h);
    if (w > INT_MAX || h > INT_MAX || w > PIXEL_LIMIT / h)
        return fail_at(e, E_FORMAT, path, 0, "has %lld x %lld pixels, expected at most 2^28 in all",
                       (long long)w, (long long)h);
    return OK;
}

/* Whether no Huffman table of a JPEG claims more than the 256 codes there can be: stb_image before 2.28
 * writes past the end of its own table then. Walks the segments as it does: those with a length are skipped,
 * in what is left (scans) every marker counts. */
static int huffman_tables_fit(const uint8_t *p, size_t n)
{
    for (size_t at = 0; at + 3 < n;) {
        int type = p[at] == 0xff ? p[at + 1] : 0;
        if (type < 0xc0 || type == 0xff ||
            (type >= 0xd0 && type <= 0xd9)) { /* no marker, or one without length */
            at++;
            continue;
        }
        size_t end = at + 2 + (size_t)p[at + 2] * 256 + p[at + 3], sum;
        for (size_t t = at + 4; type == 0xc4 && t < end; t += 17 + sum) {
            sum = 0; /* a table: its number, how many codes of 1..16 bits, then their symbols */
            for (size_t i = t + 1; i <= t + 16 && i < n; i++) sum += p[i];
            if (sum > 256) return 0;
        }
        at = end > at + 4 ? end : at + 4;
    }
    return 1;
}

/* Says why stb_image does not even accept the header. */
static int refuse(const uint8_t *p, size_t n, const char *path, struct err *e)
{
    static const struct {
        const char *name, *head;
        size_t n;
    } kinds[] = { { "PNG", "\x89PNG\r\n\x1a\n", 8 },
                  { "JPEG", "\xff\xd8\xff", 3 },
                  { "GIF", "GIF8", 4 },
                  { "PSD", "8BPS", 4 },
                  { "BMP", "BM", 2 } };
    /* Of a PNG's first chunk: length, type, width, height. */
    if (n >= 24 && !memcmp(p, kinds[0].head, kinds[0].n) && !memcmp(p + 12, "IHDR", 4))
        TRY(check_size(big_endian(p + 16), big_endian(p + 20), path, e));
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (n >= kinds[i].n && !memcmp(p, kinds[i].head, kinds[i].n))
            return fail_at(e, E_FORMAT, path, 0,
                           "is a damaged %s image, or of a variant that is not supported", kinds[i].name);
    return fail_at(e, E_FORMAT, path, 0,
                   "is not an image of a known kind (JPEG, PNG, BMP, GIF, TGA, PSD, binary PNM (P5, P6))");
}

static int decode_stb(const uint8_t *bytes, size_t n, const char *path, struct raw *r, struct err *e)
{
    const stbi_io_callbacks calls = { source_read, source_skip, source_end };
    struct source s = { bytes, n, 0, 0 };
    if (n > 2 && bytes[0] == 0xff && bytes[1] == 0xd8 &&
        !huffman_tables_fit(bytes, n)) /* JPEG's first bytes */
        return fail_at(e, E_FORMAT, path, 0, "is a damaged image (a Huffman table of more than 256 codes)");
    if (!stbi_info_from_memory(bytes, (int)n, &r->w, &r->h, &r->n)) return refuse(bytes, n, path, e);
    TRY(check_size(r->w, r->h, path, e));
    uint16_t *deep = NULL;
    if (stbi_is_16_bit_from_memory(bytes, (int)n))
        deep = stbi_load_16_from_callbacks(&calls, &s, &r->w, &r->h, &r->n, 0);
    else
        r->x = stbi_load_from_callbacks(&calls, &s, &r->w, &r->h, &r->n, 0);
    if (s.past) {
        mem_free(deep);
        return fail_at(e, E_FORMAT, path, 0, "is truncated: the image needs more than its %zu bytes", n);
    }
    if (deep) return narrow_all(r, deep, 65535, path, e);
    if (!r->x) return fail_at(e, E_FORMAT, path, 0, "is a damaged image");
    return OK;
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

static int decode_pnm(const uint8_t *bytes, size_t n, const char *path, struct raw *r, struct err *e)
{
    size_t at = 2;
    if (bytes[1] != '5' && bytes[1] != '6')
        return fail_at(e, E_FORMAT, path, 0,
                       "is a PNM image of kind P%c, expected binary PNM (P5, P6): convert it", bytes[1]);
    int64_t w = pnm_number(bytes, n, &at), h = pnm_number(bytes, n, &at), most = pnm_number(bytes, n, &at);
    if (w < 0 || h < 0 || most < 1 || most > 65535)
        return fail_at(e, E_FORMAT, path, 0,
                       "has a bad PNM header, expected width, height, maximum (1..65535)");
    TRY(check_size(w, h, path, e));
    r->w = (int)w;
    r->h = (int)h;
    r->n = bytes[1] == '5' ? 1 : 3;
    size_t count = (size_t)w * (size_t)h * (size_t)r->n, size = most > 255 ? 2 : 1;
    at++; /* one blank ends the header */
    if (at > n || n - at < count * size)
        return fail_at(e, E_FORMAT, path, 0, "is truncated: %zu bytes of pixels, expected %zu",
                       at > n ? 0 : n - at, count * size);
    uint16_t *deep = mem_alloc(count, sizeof *deep);
    if (!deep) return fail_at(e, E_MEM, path, 0, "not enough memory for %d x %d pixels", r->w, r->h);
    bytes += at;
    for (size_t i = 0; i < count; i++) {
        unsigned v = size == 2 ? bytes[2 * i] * 256u + bytes[2 * i + 1] : bytes[i];
        deep[i] = (uint16_t)(v < most ? v : most);
    }
    return narrow_all(r, deep, (unsigned)most, path, e);
}

/* ---- planes ---- */

void image_luma(const uint8_t *r, const uint8_t *g, const uint8_t *b, size_t step, size_t n, uint8_t *y)
{
    for (size_t i = 0; i < n; i++, r += step, g += step, b += step)
        y[i] = (uint8_t)((299 * *r + 587 * *g + 114 * *b + 500) / 1000);
}

static void to_planes(const struct raw *r, int c, uint8_t *to)
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

int image_decode(const char *path, int c, uint8_t **pixels, int *w, int *h, struct err *e)
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
    const uint8_t *x = (const uint8_t *)bytes;
    struct raw r = { 0 };
    int rc = is_pnm(x, n) ? decode_pnm(x, n, path, &r, e) : decode_stb(x, n, path, &r, e);
    mem_free(bytes);
    if (!rc) {
        size_t count = (size_t)r.w * (size_t)r.h * (size_t)c;
        if ((*pixels = mem_alloc(count, 1)))
            to_planes(&r, c, *pixels);
        else
            rc = fail_at(e, E_MEM, path, 0, "not enough memory for %d x %d pixels", r.w, r.h);
    }
    mem_free(r.x);
    *w = r.w;
    *h = r.h;
    return rc;
}
