/* Image files by stb_image: every kind but PNM, which it reads without minding the maximum value and the byte
 * order of 16 bit samples. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include "core/mem.h"
#include "data/decoder.h"

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
/* Of stb_image's: gcc asks only at the end of the file. */
#pragma GCC diagnostic ignored "-Wunused-function"

struct source {
    const uint8_t *x;
    size_t n, at;
    int past; /* more bytes were wanted than there are: stb_image itself accepts many truncated files */
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

static int64_t big_endian(const uint8_t *p)
{
    return (int64_t)p[0] << 24 | (int64_t)p[1] << 16 | (int64_t)p[2] << 8 | p[3];
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
        TRY(image_check_size(big_endian(p + 16), big_endian(p + 20), path, e));
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (n >= kinds[i].n && !memcmp(p, kinds[i].head, kinds[i].n))
            return fail_at(e, E_FORMAT, path, 0,
                           "is a damaged %s image, or of a variant that is not supported", kinds[i].name);
    return fail_at(e, E_FORMAT, path, 0,
                   "is not an image of a known kind (JPEG, PNG, BMP, GIF, TGA, PSD, binary PNM (P5, P6))");
}

int encoded_inspect(struct encoded *f, struct err *e)
{
    int n;
    if (is_jpeg(f->x, f->n) && !huffman_tables_fit(f->x, f->n))
        return fail_at(e, E_FORMAT, f->path, 0,
                       "is a damaged image (a Huffman table of more than 256 codes)");
    if (!stbi_info_from_memory(f->x, (int)f->n, &f->w, &f->h, &n)) return refuse(f->x, f->n, f->path, e);
    return image_check_size(f->w, f->h, f->path, e);
}

/* Samples of 16 bit as bytes in r->x; frees them. */
static int narrow(struct raw *r, uint16_t *deep, const char *path, struct err *e)
{
    size_t n = (size_t)r->w * (size_t)r->h * (size_t)r->n;
    r->x = mem_alloc(n, 1);
    for (size_t i = 0; r->x && i < n; i++) r->x[i] = byte_of(deep[i], 65535);
    mem_free(deep);
    return r->x ? OK : fail_at(e, E_MEM, path, 0, "not enough memory for %d x %d pixels", r->w, r->h);
}

static int decode(const struct encoded *f, int shorter, struct raw *r, struct err *e)
{
    (void)shorter;
    const stbi_io_callbacks calls = { source_read, source_skip, source_end };
    struct source s = { f->x, f->n, 0, 0 };
    uint16_t *deep = NULL;
    if (stbi_is_16_bit_from_memory(f->x, (int)f->n))
        deep = stbi_load_16_from_callbacks(&calls, &s, &r->w, &r->h, &r->n, 0);
    else
        r->x = stbi_load_from_callbacks(&calls, &s, &r->w, &r->h, &r->n, 0);
    if (s.past) {
        mem_free(deep);
        return fail_at(e, E_FORMAT, f->path, 0, "is truncated: the image needs more than its %zu bytes",
                       f->n);
    }
    if (deep) return narrow(r, deep, f->path, e);
    if (!r->x) return fail_at(e, E_FORMAT, f->path, 0, "is a damaged image");
    return OK;
}

static const char *version(void) { return "stb_image"; /* its number is in a comment only */ }

const struct decoder decoder_stb = { .name = "stb", .version = version, .decode = decode };
