/* Image files by stb_image: every kind but PNM, which it reads without minding the maximum value and the byte
 * order of 16 bit samples. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "core/file.h"
#include "core/mem.h"
#include "data/decoder.h"
#include "data/image.h"
#include "data/jpeg.h"

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
/* Ours take the place of stb_image's functions for halved chroma, so that all decoders see the same pixels:
 * version 2.27 weighs the last two samples of a row the wrong way round, and narrow images libjpeg treats
 * otherwise. A macro with arguments renames the definitions there, and leaves the places that name them. */
typedef unsigned char *enlarge(unsigned char *to, unsigned char *near, unsigned char *far, int w, int hs);
static enlarge stbi__resample_row_h_2, stbi__resample_row_hv_2, stbi__resample_row_hv_2_simd;
#pragma GCC diagnostic ignored "-Wunused-function" /* of stb_image's: gcc asks at the end of the file */
#define stbi__resample_row_h_2(a, b, c, d, e)       its_row_h_2(a, b, c, d, e)
#define stbi__resample_row_hv_2(a, b, c, d, e)      its_row_hv_2(a, b, c, d, e)
#define stbi__resample_row_hv_2_simd(a, b, c, d, e) its_row_hv_2_simd(a, b, c, d, e)
#define STBI_MALLOC(n)                              mem_alloc(n, 1)
#define STBI_REALLOC_SIZED(p, old, new)             resized(p, old, new)
#define STBI_FREE(p)                                mem_free(p)
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
#define STBIW_MALLOC(n)                  mem_alloc(n, 1)
#define STBIW_REALLOC_SIZED(p, old, new) resized(p, old, new)
#define STBIW_FREE(p)                    mem_free(p)
#define STB_IMAGE_WRITE_IMPLEMENTATION
#define STB_IMAGE_WRITE_STATIC
#define STBI_WRITE_NO_STDIO
#include <stb/stb_image_write.h>
#pragma GCC diagnostic pop

/* ---- halved chroma ---- */

/* libjpeg repeats samples where a row has no more than two. */
static int repeats(uint8_t *to, const uint8_t *from, int w)
{
    if (w > 2) return 0;
    for (int i = 0; i < w; i++) to[2 * i] = to[2 * i + 1] = from[i];
    return 1;
}

/* Three quarters of the nearer sample and a quarter of the other, halves rounded down and up by turns. */
static unsigned char *(stbi__resample_row_h_2)(unsigned char *to, unsigned char *from, unsigned char *unused,
                                               int w, int hs)
{
    (void)unused, (void)hs;
    if (repeats(to, from, w)) return to;
    for (int i = 0; i < w; i++) {
        to[2 * i] = (uint8_t)(i ? (3 * from[i] + from[i - 1] + 1) >> 2 : from[i]);
        to[2 * i + 1] = (uint8_t)(i < w - 1 ? (3 * from[i] + from[i + 1] + 2) >> 2 : from[i]);
    }
    return to;
}

static unsigned char *(stbi__resample_row_hv_2)(unsigned char *to, unsigned char *near, unsigned char *far,
                                                int w, int hs)
{
    return repeats(to, near, w) ? to : its_row_hv_2(to, near, far, w, hs);
}

#if defined(STBI_SSE2) || defined(STBI_NEON)
static unsigned char *(stbi__resample_row_hv_2_simd)(unsigned char *to, unsigned char *near,
                                                     unsigned char *far, int w, int hs)
{
    return repeats(to, near, w) ? to : its_row_hv_2_simd(to, near, far, w, hs);
}
#endif

/* ---- reading ---- */

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
        TRY(image_check_size((int64_t)big_endian(p + 16, 4), (int64_t)big_endian(p + 20, 4), path, e));
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (n >= kinds[i].n && !memcmp(p, kinds[i].head, kinds[i].n))
            return fail_at(e, E_FORMAT, path, 0,
                           "is a damaged %s image, or of a variant that is not supported", kinds[i].name);
    return fail_at(e, E_FORMAT, path, 0,
                   "is not an image of a known kind (JPEG, PNG, BMP, GIF, TGA, PSD, binary PNM (P5, P6))");
}

#define OPENCV_READS 1, NULL
#define CONVERT      0, NULL
#define UNPACK       0, "unpack it"
#define DATA_SET     0, "it is for train= and valid= of a .data file"
#define FETCH        0, "download the image itself"

/* What image files are that stb_image does not know, whatever their names say. None of these heads can begin
 * a TGA file, which has no mark of its own. */
static const struct foreign *foreign_kind(const uint8_t *p, size_t n)
{
    static const struct foreign kinds[] = {
        { "a WebP image", "WEBP", 8, 4, OPENCV_READS },
        { "a TIFF image", "II*\0", 0, 4, OPENCV_READS },
        { "a TIFF image", "MM\0*", 0, 4, OPENCV_READS },
        { "an AVIF image", "ftypavif", 4, 8, CONVERT },
        { "a HEIC image", "ftyphei", 4, 7, CONVERT },
        { "a HEIC image", "ftypmif1", 4, 8, CONVERT },
        { "a JPEG 2000 image", "jP  ", 4, 4, CONVERT },
        { "a JPEG 2000 image", "\xff\x4f\xff\x51", 0, 4, CONVERT },
        { "a JPEG XL image", "\xff\x0a", 0, 2, CONVERT },
        { "a JPEG XL image", "JXL ", 4, 4, CONVERT },
        { "a PSB image (large PSD)", "8BPS\0\2", 0, 6, CONVERT },
        { "a PCX image", "\x0a\2\1", 0, 3, CONVERT },
        { "a PCX image", "\x0a\3\1", 0, 3, CONVERT },
        { "a PCX image", "\x0a\5\1", 0, 3, CONVERT },
        { "an SGI image", "\1\xda", 0, 2, CONVERT },
        { "a QOI image", "qoif", 0, 4, CONVERT },
        { "an icon (ICO)", "\0\0\1\0", 0, 4, CONVERT },
        { "a PDF document", "%PDF", 0, 4, CONVERT },
        { "a PostScript document", "%!PS", 0, 4, CONVERT },
        { "an SVG drawing", "<svg", 0, 4, CONVERT },
        { "an SVG drawing or other XML file", "<?xml", 0, 5, CONVERT },
        { "a web page", "<!doctype html", 0, 14, FETCH },
        { "a web page", "<html", 0, 5, FETCH },
        { "a ZIP archive", "PK\3\4", 0, 4, UNPACK },
        { "a gzip archive", "\x1f\x8b", 0, 2, 0,
          "unpack it; an IDX data set (MNIST and the like) is for train= and valid= of a .data file" },
        { "an IDX data set (MNIST and the like)", "\0\0\x08\3", 0, 4, DATA_SET },
        { "an IDX data set (MNIST and the like)", "\0\0\x08\4", 0, 4, DATA_SET },
        { "labels of an IDX data set", "\0\0\x08\1", 0, 4, DATA_SET },
        { "a git-lfs pointer", "version https://git-lfs", 0, 23, 0, "fetch the image by `git lfs pull`" },
    };
    size_t text = n >= 3 && !memcmp(p, "\xef\xbb\xbf", 3) ? 3 : 0; /* where markup begins */
    while (text < n && p[text] && strchr(" \t\r\n", p[text])) text++;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        const struct foreign *k = &kinds[i];
        int markup = *k->head == '<'; /* in small or capital letters */
        size_t at = markup ? text : k->at;
        if (n < at || n - at < k->n) continue;
        if (markup ? !strncasecmp((const char *)p + at, k->head, k->n) : !memcmp(p + at, k->head, k->n))
            return k;
    }
    return NULL;
}

int encoded_inspect(struct encoded *f, struct err *e)
{
    int n;
    if ((f->foreign = foreign_kind(f->x, f->n))) return OK;
    if (is_jpeg(f->x, f->n) && !huffman_tables_fit(f->x, f->n))
        return fail_at(e, E_FORMAT, f->path, 0,
                       "is a damaged image (a Huffman table of more than 256 codes)");
    if (!stbi_info_from_memory(f->x, (int)f->n, &f->w, &f->h, &n)) return refuse(f->x, f->n, f->path, e);
    if (f->h < 0 && f->h > -INT_MAX) f->h = -f->h; /* BMP: the rows go from top to bottom */
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

/* Samples of 8 bit; NULL for what is damaged. *past: whether the file ended too early. */
static uint8_t *load(const uint8_t *x, size_t n, struct raw *r, int *past)
{
    const stbi_io_callbacks calls = { source_read, source_skip, source_end };
    struct source s = { x, n, 0, 0 };
    uint8_t *samples = stbi_load_from_callbacks(&calls, &s, &r->w, &r->h, &r->n, 0);
    *past = s.past;
    return samples;
}

/* A JPEG that ends too early, decoded with an end marker put in its place; in x there is space for it. What
 * lacks the marker alone comes out the same whatever stands before it: bits that its last scan does not need.
 * (Zero bytes at the end may be such bits or none.) */
static int load_endless(const struct encoded *f, uint8_t *x, struct raw *r)
{
    enum { FILLING = 64 };
    if (!jpeg_has_all_scans(f->x, f->n)) return 0;
    uint8_t *with[2] = { NULL, NULL };
    size_t n = f->n;
    int past;
    memcpy(x, f->x, n);
    while (n > 2 && !x[n - 1] && x[n - 2] != 0xff) n--;
    x[n] = 0;
    memset(x + n + 1, 0x55, FILLING);
    for (int i = 0; i < 2; i++) {
        size_t end = n + (i ? 1 + FILLING : 0);
        x[end] = 0xff;
        x[end + 1] = 0xd9;
        if (huffman_tables_fit(x, end + 2)) with[i] = load(x, end + 2, r, &past);
        x[end] = 0, x[end + 1] = 0x55; /* the filling again */
    }
    size_t size = (size_t)r->w * (size_t)r->h * (size_t)r->n;
    int whole = with[0] && with[1] && !memcmp(with[0], with[1], size);
    mem_free(with[1]);
    if (!whole) mem_free(with[0]);
    r->x = whole ? with[0] : NULL;
    r->flaw = "the end marker is missing: decoded all the same";
    return whole;
}

/* A copy with an Adobe marker, which says that four components are inks (inverted): so they are in what comes
 * without one, whatever stb_image makes of that. */
static size_t mark_inks(const struct encoded *f, uint8_t *to)
{
    static const uint8_t marker[] = { 0xff, 0xee, 0, 14, 'A', 'd', 'o', 'b', 'e', 0, 100, 0, 0, 0, 0, 0 };
    memcpy(to, f->x, 2);
    memcpy(to + 2, marker, sizeof marker);
    memcpy(to + 2 + sizeof marker, f->x + 2, f->n - 2);
    return f->n + sizeof marker;
}

static int too_short(const struct encoded *f, struct err *e)
{
    return fail_at(e, E_FORMAT, f->path, 0, "is truncated: the image needs more than its %zu bytes", f->n);
}

static int decode_jpeg(struct encoded f, struct raw *r, struct err *e)
{
    enum { MARGIN = 100 }; /* for what is put in */
    int past;
    struct jpeg_header header = jpeg_inspect(f.x, f.n);
    uint8_t *copy = NULL, *more = NULL;
    if (header.components == 4 && !header.adobe && (copy = mem_alloc(f.n + MARGIN, 1))) {
        f.n = mark_inks(&f, copy);
        f.x = copy;
    }
    r->x = load(f.x, f.n, r, &past);
    int rc = r->x ? OK : fail_at(e, E_FORMAT, f.path, 0, "is a damaged image");
    if (past) {
        mem_free(r->x);
        r->x = NULL;
        more = mem_alloc(f.n + MARGIN, 1);
        rc = more && load_endless(&f, more, r) ? OK : too_short(&f, e);
    }
    mem_free(copy);
    mem_free(more);
    return rc;
}

static int decode(const struct encoded *f, int shorter, struct raw *r, struct err *e)
{
    (void)shorter;
    const stbi_io_callbacks calls = { source_read, source_skip, source_end };
    struct source s = { f->x, f->n, 0, 0 };
    uint16_t *deep = NULL;
    if (f->foreign) return DECODER_PASSES;
    if (is_jpeg(f->x, f->n)) return decode_jpeg(*f, r, e);
    if (stbi_is_16_bit_from_memory(f->x, (int)f->n))
        deep = stbi_load_16_from_callbacks(&calls, &s, &r->w, &r->h, &r->n, 0);
    else
        r->x = load(f->x, f->n, r, &s.past);
    if (s.past) {
        mem_free(deep);
        return too_short(f, e);
    }
    if (deep) return narrow(r, deep, f->path, e);
    if (!r->x) return fail_at(e, E_FORMAT, f->path, 0, "is a damaged image");
    return OK;
}

static const char *version(void) { return "stb_image"; /* its number is in a comment only */ }

const struct decoder decoder_stb = { .name = "stb", .version = version, .decode = decode };

/* ---- writing ---- */

struct sink {
    struct file file;
    int rc;
    struct err *e;
};

/* Where the first chunk of a PNG ends, and a chunk to stand there: length, type, keyword and text, CRC. */
enum { HEAD = 8 + 25 };
static const char comment[] = "\0\0\0\25"
                              "tEXtSoftware\0darknet-itra"
                              "\373\107\273\134";
const struct file_kind image_png_kind = { "a picture of this program", comment, HEAD, sizeof comment - 1 };

/* Gets the whole file at once. */
static void put(void *to, void *bytes, int n)
{
    struct sink *s = to;
    s->rc = file_write(&s->file, bytes, HEAD, s->e);
    if (!s->rc) s->rc = file_write(&s->file, comment, sizeof comment - 1, s->e);
    if (!s->rc) s->rc = file_write(&s->file, (uint8_t *)bytes + HEAD, (size_t)n - HEAD, s->e);
}

int image_write_png(const char *path, const uint8_t *rgb, int w, int h, struct err *e)
{
    struct sink s = { .e = e };
    TRY(file_spare_others(path, &image_png_kind, e));
    TRY(file_create(&s.file, path, e));
    int done = stbi_write_png_to_func(put, &s, w, h, 3, rgb, 3 * w);
    if (!s.rc && !done) s.rc = fail_at(e, E_MEM, path, 0, "not enough memory to write %d x %d pixels", w, h);
    if (!s.rc) s.rc = file_commit(&s.file, e);
    file_abort(&s.file);
    return s.rc;
}
