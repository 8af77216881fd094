/* The IDX files of the MNIST family: 0, 0, type, number of dimensions, the dimensions, then numbers, all
 * big-endian. */
#include <limits.h>
#include <string.h>
#include "core/bytes.h"
#include "core/mem.h"
#include "data/packed.h"

enum { UBYTE = 8, INT = 12 }; /* types of numbers */
enum { MOST_DIMS = 4 };

struct header {
    int width; /* bytes of a number */
    int ndims;
    uint32_t dim[MOST_DIMS];
};

/* What the dimensions promise must fit the file, before any memory is asked for. */
static int check_promise(struct stream *s, const struct header *x, struct err *e)
{
    uint64_t n = (uint64_t)x->width;
    for (int i = 0; i < x->ndims && n <= STREAM_LIMIT; i++) {
        if (x->dim[i] < 1 || x->dim[i] > INT_MAX)
            return fail_at(e, E_FORMAT, s->path, 0, "dimension %d of %d is %u", i + 1, x->ndims, x->dim[i]);
        n *= x->dim[i];
    }
    return stream_check(s, n, e);
}

static int read_header(struct stream *s, struct header *x, struct err *e)
{
    uint8_t head[4], dim[4];
    TRY(stream_read(s, head, 4, e));
    int type = head[2];
    *x = (struct header){ .width = type == INT ? 4 : 1, .ndims = head[3] };
    if (head[0] || head[1] || (type != UBYTE && type != INT) || x->ndims < 1 || x->ndims > MOST_DIMS)
        return fail_at(e, E_FORMAT, s->path, 0,
                       "starts with %02x %02x %02x %02x, expected the IDX header 00 00, 08 (bytes) or 0c "
                       "(integers) and 01..04 dimensions",
                       head[0], head[1], head[2], head[3]);
    for (int i = 0; i < x->ndims; i++) {
        TRY(stream_read(s, dim, 4, e));
        x->dim[i] = (uint32_t)big_endian(dim, 4);
    }
    return check_promise(s, x, e);
}

static int read_headers(struct part *p, struct err *e)
{
    struct header x;
    TRY(read_header(&p->images, &x, e));
    if (x.ndims < 3 || x.width != 1)
        return fail_at(e, E_FORMAT, p->path, 0, "has %d dimensions of %s, expected 3 or 4 of bytes", x.ndims,
                       x.width == 1 ? "bytes" : "integers");
    if (x.ndims == 4 && x.dim[1] != 1 && x.dim[1] != 3)
        return fail_at(e, E_FORMAT, p->path, 0, "has images of %u channels, expected 1 or 3", x.dim[1]);
    p->n = (int)x.dim[0];
    p->c = x.ndims == 4 ? (int)x.dim[1] : 1;
    p->h = (int)x.dim[x.ndims - 2];
    p->w = (int)x.dim[x.ndims - 1];
    TRY(read_header(&p->labels, &x, e));
    if (x.ndims > 2)
        return fail_at(e, E_FORMAT, p->labels_path, 0,
                       "has %d dimensions, expected 1, or 2 with the class first", x.ndims);
    if (x.ndims == 2 && x.dim[1] > MOST_COLUMNS)
        return fail_at(e, E_FORMAT, p->labels_path, 0, "has %u numbers for each image, expected at most %d",
                       x.dim[1], MOST_COLUMNS);
    if (x.dim[0] != (uint32_t)p->n)
        return fail_at(e, E_FORMAT, p->labels_path, 0, "has %u labels, but %s has %d images", x.dim[0],
                       p->path, p->n);
    p->columns = x.ndims == 2 ? (int)x.dim[1] : 1;
    p->width = x.width;
    return OK;
}

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

static int open_labels(struct part *p, struct err *e)
{
    const char *slash = strrchr(p->path, '/');
    size_t n = strlen(p->path), name = slash ? (size_t)(slash + 1 - p->path) : 0;
    if (!strstr(p->path + name, "images"))
        return fail_at(e, E_FILE, p->path, 0,
                       "is compressed, or an IDX file, and no list: unpack an archive; the labels of IDX "
                       "images are found by name, which needs `images` in it, as in "
                       "train-images-idx3-ubyte.gz");
    char *usual = mem_text(p->path, n), *rows = mem_text(p->path, n);
    int rc;
    if (usual && rows) {
        replace(usual + name, "images", "labels");
        if (!replace(usual + name, "idx3", "idx1")) replace(usual + name, "idx4", "idx1");
        replace(rows + name, "images", "labels");
        int has_rows = replace(rows + name, "idx3-ubyte", "idx2-int");
        rc = part_open_labels(p, usual, has_rows ? rows : NULL, e);
    } else {
        rc = fail(e, E_MEM, "not enough memory");
    }
    mem_free(usual);
    mem_free(rows);
    return rc;
}

int idx_open(struct part *p, struct err *e)
{
    TRY(open_labels(p, e));
    TRY(stream_open(&p->images, p->path, e));
    return read_headers(p, e);
}
