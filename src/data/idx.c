#include "idx.h"
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>
#include "core/mem.h"
#include "core/text.h"

enum { UBYTE = 8, MOST_DIMS = 4 };
static const uint64_t BYTES_LIMIT = (uint64_t)1 << 33;
static const uint64_t DEFLATE_RATIO = 1032; /* the most that deflate expands, zlib's technical notes */

struct stream {
    gzFile f;
    const char *path;
    int ndims;
    uint32_t dim[MOST_DIMS];
    uint64_t size; /* of the file */
    uint64_t left; /* bytes of data not read yet */
};

static int open_zipped(gzFile *f, const char *path, uint64_t *size, struct err *e)
{
    int fd;
    *f = NULL;
    TRY(file_open(path, &fd, size, e));
    if ((*f = gzdopen(fd, "rb"))) return OK;
    close(fd);
    return fail_at(e, E_MEM, path, 0, "not enough memory to read it");
}

int idx_recognise(const char *path)
{
    unsigned char head[2] = { 1, 1 };
    uint64_t size;
    gzFile f;
    if (open_zipped(&f, path, &size, NULL)) return 0;
    int got = gzread(f, head, 2), direct = gzdirect(f);
    gzclose(f);
    return !direct || (got == 2 && !head[0] && !head[1]);
}

static int read_bytes(struct stream *r, void *to, uint64_t n, struct err *e)
{
    unsigned char *p = to;
    while (n) {
        int got = gzread(r->f, p, n < (1u << 24) ? (unsigned)n : 1u << 24), code;
        if (got <= 0) {
            const char *why = gzerror(r->f, &code);
            return fail_at(e, E_FORMAT, r->path, 0, "is truncated or damaged%s%s: %llu more bytes expected",
                           code ? ": " : "", code ? why : "", (unsigned long long)n);
        }
        p += got;
        n -= (uint64_t)got;
    }
    return OK;
}

/* What the dimensions promise must fit the file, before any memory is asked for. */
static int check_promise(struct stream *r, struct err *e)
{
    uint64_t n = 1;
    for (int i = 0; i < r->ndims; i++) {
        if (r->dim[i] < 1 || r->dim[i] > INT_MAX)
            return fail_at(e, E_FORMAT, r->path, 0, "dimension %d of %d is %u", i + 1, r->ndims, r->dim[i]);
        n *= r->dim[i];
        if (n > BYTES_LIMIT) return fail_at(e, E_FORMAT, r->path, 0, "has more than 2^33 bytes of data");
    }
    uint64_t most = r->size;
    if (!gzdirect(r->f)) most *= DEFLATE_RATIO;
    if (n > most)
        return fail_at(e, E_FORMAT, r->path, 0, "is truncated: its header promises %llu bytes of data",
                       (unsigned long long)n);
    r->left = n;
    return OK;
}

/* Opens and reads the header: 0, 0, type, number of dimensions, then the dimensions (big-endian). */
static int stream_open(struct stream *r, const char *path, struct err *e)
{
    unsigned char head[4], dim[4];
    r->path = path;
    TRY(open_zipped(&r->f, path, &r->size, e));
    gzbuffer(r->f, 1u << 16);
    TRY(read_bytes(r, head, 4, e));
    r->ndims = head[3];
    if (head[0] || head[1] || head[2] != UBYTE || head[3] < 1 || head[3] > MOST_DIMS)
        return fail_at(
            e, E_FORMAT, path, 0,
            "starts with %02x %02x %02x %02x, expected the IDX header 00 00 08 (bytes) and 01..04 dimensions",
            head[0], head[1], head[2], head[3]);
    for (int i = 0; i < r->ndims; i++) {
        TRY(read_bytes(r, dim, 4, e));
        r->dim[i] = (uint32_t)dim[0] << 24 | (uint32_t)dim[1] << 16 | (uint32_t)dim[2] << 8 | dim[3];
    }
    return check_promise(r, e);
}

/* The first n bytes of data; the rest is read over, and the file must end there. */
static int stream_finish(struct stream *r, uint8_t *to, uint64_t n, struct err *e)
{
    unsigned char rest[4096];
    TRY(read_bytes(r, to, n, e));
    for (r->left -= n; r->left;) {
        uint64_t part = r->left < sizeof rest ? r->left : sizeof rest;
        TRY(read_bytes(r, rest, part, e));
        r->left -= part;
    }
    int got = gzread(r->f, rest, 1), code;
    if (got > 0)
        return fail_at(e, E_FORMAT, r->path, 0,
                       "has bytes after its data: not the file its header describes");
    const char *why = gzerror(r->f, &code); /* the checksum is only known to be right, or to be there, now */
    if (code) return fail_at(e, E_FORMAT, r->path, 0, "is truncated or damaged at its end: %s", why);
    return OK;
}

static void stream_close(struct stream *r)
{
    if (r->f) gzclose(r->f);
    r->f = NULL;
}

static int load_images(struct idx *x, struct stream *r, int limit, struct err *e)
{
    TRY(stream_open(r, r->path, e));
    if (r->ndims < 3) return fail_at(e, E_FORMAT, r->path, 0, "has %d dimensions, expected 3 or 4", r->ndims);
    const uint32_t *size = r->dim + r->ndims - 2;
    x->c = r->ndims == 4 ? (int)r->dim[1] : 1;
    x->h = (int)size[0];
    x->w = (int)size[1];
    if (x->c != 1 && x->c != 3)
        return fail_at(e, E_FORMAT, r->path, 0, "has images of %d channels, expected 1 or 3", x->c);
    x->n = limit > 0 && (uint32_t)limit < r->dim[0] ? limit : (int)r->dim[0];
    size_t n = (size_t)(r->left / r->dim[0]) * (size_t)x->n;
    if (!(x->pixels = mem_alloc(n, 1)))
        return fail_at(e, E_MEM, r->path, 0, "not enough memory for %zu bytes", n);
    return stream_finish(r, x->pixels, n, e);
}

static int load_labels(struct idx *x, struct stream *r, const struct stream *images, int classes,
                       struct err *e)
{
    TRY(stream_open(r, r->path, e));
    if (r->ndims != 1) return fail_at(e, E_FORMAT, r->path, 0, "has %d dimensions, expected 1", r->ndims);
    if (r->dim[0] != images->dim[0])
        return fail_at(e, E_FORMAT, r->path, 0, "has %u labels, but %s has %u images", r->dim[0],
                       images->path, images->dim[0]);
    size_t n = (size_t)x->n;
    uint8_t *label = mem_alloc(n, 1);
    if (!label || !(x->label = mem_alloc(n, sizeof *x->label))) {
        mem_free(label);
        return fail_at(e, E_MEM, r->path, 0, "not enough memory for %zu labels", n);
    }
    int rc = stream_finish(r, label, n, e);
    for (size_t i = 0; !rc && i < n; i++) {
        x->label[i] = label[i];
        if (label[i] >= classes)
            rc = fail_at(e, E_FORMAT, r->path, 0,
                         "image %zu is of class %d, expected 0..%d: check `classes=%d`", i, label[i],
                         classes - 1, classes);
    }
    mem_free(label);
    return rc;
}

/* Replaces the last `from` of a name by `to`, of the same length; 0 when there is none. */
static int replace(char *name, const char *from, const char *to)
{
    char *at = NULL;
    for (char *p = name; (p = strstr(p, from)); p++) at = p;
    if (at) memcpy(at, to, strlen(to));
    return at != NULL;
}

/* The labels file beside `path`, which exists; mem_free it. */
static int labels_path(const char *path, char **out, struct err *e)
{
    size_t n = strlen(path);
    char *p = *out = mem_alloc(n + 4, 1);
    if (!p) return fail(e, E_MEM, "not enough memory");
    memcpy(p, path, n);
    char *name = strrchr(p, '/') ? strrchr(p, '/') + 1 : p;
    if (!replace(name, "images", "labels"))
        return fail_at(e, E_FILE, path, 0,
                       "its labels file is found by name, which needs `images` in it, "
                       "as in train-images-idx3-ubyte.gz");
    if (!replace(name, "idx3", "idx1")) replace(name, "idx4", "idx1");
    if (!access(p, F_OK)) return OK;
    int zipped = n > 3 && !strcmp(p + n - 3, ".gz");
    memcpy(p + n - (zipped ? 3 : 0), zipped ? "\0\0\0" : ".gz", 3);
    if (!access(p, F_OK)) return OK;
    return fail_at(e, E_FILE, path, 0, "its labels file is missing: neither %s nor that name %s .gz", p,
                   zipped ? "with" : "without");
}

int idx_read(struct idx *x, const char *path, int limit, int classes, struct err *e)
{
    struct stream images = { .path = path }, labels = { 0 };
    char *beside = NULL;
    memset(x, 0, sizeof *x);
    int rc = labels_path(path, &beside, e);
    labels.path = beside;
    if (!rc) rc = load_images(x, &images, limit, e);
    if (!rc) rc = load_labels(x, &labels, &images, classes, e);
    stream_close(&images);
    stream_close(&labels);
    mem_free(beside);
    if (rc) idx_free(x);
    return rc;
}

void idx_free(struct idx *x)
{
    mem_free(x->pixels);
    mem_free(x->label);
    memset(x, 0, sizeof *x);
}
