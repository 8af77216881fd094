/* The IDX files of the MNIST family: 0, 0, type, number of dimensions, the dimensions, then numbers, all
 * big-endian. */
#include <limits.h>
#include <string.h>
#include "core/mem.h"
#include "data/packed.h"
#include "data/stream.h"

enum { UBYTE = 8, INT = 12 }; /* types of numbers */
enum { MOST_DIMS = 4, MOST_COLUMNS = 64 };

struct idx {
    struct stream s;
    int type, ndims;
    uint32_t dim[MOST_DIMS];
};

static uint32_t big_endian(const unsigned char b[4])
{
    return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

/* What the dimensions promise must fit the file, before any memory is asked for. */
static int check_promise(struct idx *x, struct err *e)
{
    uint64_t n = x->type == INT ? 4 : 1;
    for (int i = 0; i < x->ndims && n <= STREAM_LIMIT; i++) {
        if (x->dim[i] < 1 || x->dim[i] > INT_MAX)
            return fail_at(e, E_FORMAT, x->s.path, 0, "dimension %d of %d is %u", i + 1, x->ndims, x->dim[i]);
        n *= x->dim[i];
    }
    return stream_check(&x->s, n, e);
}

static int open_idx(struct idx *x, const char *path, struct err *e)
{
    unsigned char head[4], dim[4];
    TRY(stream_open(&x->s, path, e));
    TRY(stream_read(&x->s, head, 4, e));
    x->type = head[2];
    x->ndims = head[3];
    if (head[0] || head[1] || (x->type != UBYTE && x->type != INT) || x->ndims < 1 || x->ndims > MOST_DIMS)
        return fail_at(e, E_FORMAT, path, 0,
                       "starts with %02x %02x %02x %02x, expected the IDX header 00 00, 08 (bytes) or 0c "
                       "(integers) and 01..04 dimensions",
                       head[0], head[1], head[2], head[3]);
    for (int i = 0; i < x->ndims; i++) {
        TRY(stream_read(&x->s, dim, 4, e));
        x->dim[i] = big_endian(dim);
    }
    return check_promise(x, e);
}

static int open_images(struct idx *x, const char *path, struct err *e)
{
    TRY(open_idx(x, path, e));
    if (x->ndims < 3 || x->type != UBYTE)
        return fail_at(e, E_FORMAT, path, 0, "has %d dimensions of %s, expected 3 or 4 of bytes", x->ndims,
                       x->type == UBYTE ? "bytes" : "integers");
    if (x->ndims == 4 && x->dim[1] != 1 && x->dim[1] != 3)
        return fail_at(e, E_FORMAT, path, 0, "has images of %u channels, expected 1 or 3", x->dim[1]);
    return OK;
}

static int open_labels(struct idx *x, const char *path, const struct idx *images, struct err *e)
{
    TRY(open_idx(x, path, e));
    if (x->ndims > 2)
        return fail_at(e, E_FORMAT, path, 0, "has %d dimensions, expected 1, or 2 with the class first",
                       x->ndims);
    if (x->ndims == 2 && x->dim[1] > MOST_COLUMNS)
        return fail_at(e, E_FORMAT, path, 0, "has %u numbers for each image, expected at most %d", x->dim[1],
                       MOST_COLUMNS);
    if (x->dim[0] == images->dim[0]) return OK;
    return fail_at(e, E_FORMAT, path, 0, "has %u labels, but %s has %u images", x->dim[0], images->s.path,
                   images->dim[0]);
}

/* The first number of the next row. */
static int next_label(struct idx *x, int *label, struct err *e)
{
    unsigned char row[4 * MOST_COLUMNS];
    uint32_t columns = x->ndims == 2 ? x->dim[1] : 1;
    TRY(stream_read(&x->s, row, (x->type == INT ? 4 : 1) * (uint64_t)columns, e));
    uint32_t value = x->type == INT ? big_endian(row) : row[0];
    *label = value > INT_MAX ? -1 : (int)value;
    return OK;
}

static int read_both(struct intake *to, struct idx *images, struct idx *labels, struct err *e)
{
    const uint32_t *size = images->dim + images->ndims - 2;
    int n = (int)images->dim[0], c = images->ndims == 4 ? (int)images->dim[1] : 1, label;
    TRY(intake_open(to, n, c, (int)size[0], (int)size[1], e));
    for (int i = 0; i < n; i++) {
        TRY(stream_read(&images->s, to->image, (uint64_t)c * size[0] * size[1], e));
        TRY(next_label(labels, &label, e));
        TRY(intake_check(to, labels->s.path, i, label, 0, e));
        intake_add(to, label);
    }
    TRY(stream_end(&images->s, e));
    return stream_end(&labels->s, e);
}

/* ---- the labels file ---- */

/* Replaces the last `from` of a name by `to`, which is no longer; 0 when there is none. */
static int replace(char *name, const char *from, const char *to)
{
    char *at = NULL;
    size_t n = strlen(from), m = strlen(to);
    for (char *p = name; (p = strstr(p, from)); p++) at = p;
    if (!at) return 0;
    memcpy(at, to, m);
    memmove(at + m, at + n, strlen(at + n) + 1);
    return 1;
}

static int locate_labels(char **found, const char *images, struct err *e)
{
    const char *slash = strrchr(images, '/'), *name = slash ? slash + 1 : images;
    size_t n = strlen(images), at = (size_t)(name - images);
    if (!strstr(name, "images"))
        return fail_at(
            e, E_FILE, images, 0,
            "is compressed, or an IDX file, and no list: unpack an archive; the labels of IDX images "
            "are found by name, which needs `images` in it, as in train-images-idx3-ubyte.gz");
    char *usual = mem_text(images, n), *rows = mem_text(images, n);
    int rc = OK;
    if (usual && rows) {
        replace(usual + at, "images", "labels");
        if (!replace(usual + at, "idx3", "idx1")) replace(usual + at, "idx4", "idx1");
        replace(rows + at, "images", "labels");
        int has_rows = replace(rows + at, "idx3-ubyte", "idx2-int");
        rc = packed_find_labels(found, images, usual, has_rows ? rows : NULL, e);
    } else {
        rc = fail(e, E_MEM, "not enough memory");
    }
    mem_free(usual);
    mem_free(rows);
    return rc;
}

int idx_read(struct intake *to, char *const *path, int n, struct err *e)
{
    struct idx images = { 0 }, labels = { 0 };
    char *beside;
    (void)n; /* 1 */
    TRY(locate_labels(&beside, path[0], e));
    int rc = open_images(&images, path[0], e);
    if (!rc) rc = open_labels(&labels, beside, &images, e);
    if (!rc) rc = read_both(to, &images, &labels, e);
    stream_close(&images.s);
    stream_close(&labels.s);
    mem_free(beside);
    return rc;
}
