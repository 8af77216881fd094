/* Which files a path stands for, and what is done with the images of all formats. */
#include "packed.h"
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include "core/bytes.h"
#include "core/mem.h"
#include "core/text.h"
#include "data/image.h"

/* ---- which collection ---- */

enum { MOST_FILES = 5 };

static const struct collection {
    const char *name;
    int train; /* so many files are the training set, the next one is the test set */
    const char *file[MOST_FILES + 1];
    int (*open)(struct part *, struct err *);
} collections[] = {
    { "CIFAR-10",
      5,
      { "data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin",
        "test_batch.bin" },
      cifar10_open },
    { "CIFAR-100", 1, { "train.bin", "test.bin" }, cifar100_open },
    { "STL-10", 1, { "train_X.bin", "test_X.bin" }, stl10_open },
};
enum { NCOLLECTIONS = sizeof collections / sizeof collections[0] };

#define EXPECTED                                                                                             \
    "expected the binary version of CIFAR-10 (data_batch_1.bin ... test_batch.bin), CIFAR-100 (train.bin, "  \
    "test.bin) or STL-10 (train_X.bin, train_y.bin ...), or of an IDX set the file of images itself"

static int is_folder(const char *path)
{
    struct stat st;
    return !stat(path, &st) && S_ISDIR(st.st_mode);
}

static const char *base_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Whether `name` is `end`, or ends in it, with or without .gz. */
static int is_called(const char *name, const char *end, int whole)
{
    size_t n = strlen(name), m = strlen(end);
    if (n > 3 && !strcmp(name + n - 3, ".gz")) n -= 3;
    return n >= m && (!whole || n == m) && !strncmp(name + n - m, end, m);
}

static const struct collection *collection_of(const char *base)
{
    for (int i = 0; i < NCOLLECTIONS; i++)
        for (int k = 0; k <= collections[i].train; k++)
            if (is_called(base, collections[i].file[k], 1)) return &collections[i];
    return NULL;
}

/* 00 00 or compressed: no text starts so. With a name of IDX any file counts: its header will be complained
 * of. */
static int looks_like_idx(const char *path)
{
    uint8_t head[2] = { 1, 1 };
    struct stream s;
    if (stream_open(&s, path, NULL)) return 0;
    int zipped = stream_zipped(&s), rc = stream_read(&s, head, 2, NULL);
    stream_close(&s);
    return zipped || strstr(base_of(path), "images-idx") || (!rc && !head[0] && !head[1]);
}

/* A .bin that is not IDX: should its name be unknown, that is the error, not what it would be as a list. */
static int is_bin(const char *base) { return is_called(base, ".bin", 0) && !strstr(base, "images"); }

int packed_recognise(const char *path)
{
    return is_folder(path) || is_bin(base_of(path)) || looks_like_idx(path);
}

/* *found: the file of that name in the folder, .gz or not; NULL when it is not there. */
static int find_inside(char **found, const char *folder, const char *name, struct err *e)
{
    const char *slash = folder[strlen(folder) - 1] == '/' ? "" : "/";
    char *path = text_format("%s%s%s", folder, slash, name);
    int rc = path ? stream_find(found, path, e) : fail(e, E_MEM, "not enough memory");
    mem_free(path);
    return rc;
}

/* The collection of which some file is in the folder; NULL: none. Of two, neither is guessed: the labels of
 * one may fit the classes of the other. */
static int recognise_folder(const struct collection **c, const char *folder, struct err *e)
{
    *c = NULL;
    for (const struct collection *x = collections; x < collections + NCOLLECTIONS; x++) {
        char *found = NULL;
        for (int k = 0; !found && k <= x->train; k++) TRY(find_inside(&found, folder, x->file[k], e));
        mem_free(found);
        if (found && *c)
            return fail_at(e, E_FORMAT, folder, 0,
                           "has files of %s and of %s: move those of one into a folder of their own",
                           (*c)->name, x->name);
        if (found) *c = x;
    }
    return OK;
}

/* ---- reading ---- */

/* What is read, and how far. */
struct source {
    const struct packed_options *o;
    struct packed *to;
    struct part part[MOST_FILES];
    int n;
    struct pick pick;
    uint8_t *image; /* the next one, c x h x w */
};

static int open_folder(struct source *s, const char *folder, struct err *e)
{
    const struct collection *c;
    TRY(recognise_folder(&c, folder, e));
    if (!c)
        return fail_at(e, E_FORMAT, folder, 0,
                       "is a folder without files known here: " EXPECTED
                       "; for a folder per class, run: darknet classifier prepare %.60s",
                       folder);
    int first = s->o->test ? c->train : 0, files = s->o->test ? 1 : c->train;
    for (; s->n < files; s->n++) {
        struct part *p = &s->part[s->n];
        TRY(find_inside(&p->path, folder, c->file[first + s->n], e));
        if (!p->path)
            return fail_at(e, E_FILE, folder, 0, "has no %s of %s, with or without .gz",
                           c->file[first + s->n], c->name);
    }
    for (int i = 0; i < s->n; i++) TRY(c->open(&s->part[i], e));
    return OK;
}

static int open_file(struct source *s, const char *path, struct err *e)
{
    const char *base = base_of(path);
    const struct collection *c = collection_of(base);
    if (!c && is_bin(base))
        return fail_at(e, E_FORMAT, path, 0, "no .bin file of this name is known here: " EXPECTED);
    s->n = 1;
    s->part[0].path = mem_text(path, strlen(path));
    if (!s->part[0].path) return fail(e, E_MEM, "not enough memory");
    return c ? c->open(&s->part[0], e) : idx_open(&s->part[0], e);
}

int part_open_labels(struct part *p, const char *name, const char *other, struct err *e)
{
    TRY(stream_find(&p->labels_path, name, e));
    if (!p->labels_path && other) TRY(stream_find(&p->labels_path, other, e));
    if (p->labels_path) return stream_open(&p->labels, p->labels_path, e);
    return fail_at(e, E_FILE, p->path, 0,
                   "its labels file is missing: there is no %.200s, with or without .gz", name);
}

static int make_room(struct source *s, const char *path, struct err *e)
{
    const struct part *part = &s->part[0];
    const struct packed_options *o = s->o;
    struct packed *p = s->to;
    size_t size = 0, image = (size_t)part->c * (size_t)part->h * (size_t)part->w; /* no file has 2^33 bytes */
    int total = 0;
    for (int i = 0; i < s->n; i++) total += s->part[i].n; /* at most 5 x 2^33 / 3073 */
    TRY(pick_open(&s->pick, total, path, e));
    *p = (struct packed){
        .n = s->pick.n, .c = part->c, .h = o->height ? o->height : part->h, .w = o->width ? o->width : part->w
    };
    int large = mem_mul((size_t)p->h * (size_t)p->w, (size_t)p->c, &size) ||
                mem_mul(size, (size_t)p->n, &size) || size > mem_free_bytes();
    if (!large) {
        p->pixels = mem_alloc(size, 1);
        p->label = mem_alloc((size_t)p->n, sizeof *p->label);
        s->image = mem_alloc(image, 1);
    }
    if (p->pixels && p->label && s->image) return OK;
    return fail_at(e, E_MEM, path, 0, "not enough memory for %d images of %d x %d x %d bytes", p->n, p->c,
                   p->h, p->w);
}

/* Of square planes, in place. */
static void transpose(uint8_t *plane, int planes, int side)
{
    for (int k = 0; k < planes; k++, plane += side * side)
        for (int y = 0; y < side; y++)
            for (int x = 0; x < y; x++) {
                uint8_t t = plane[y * side + x];
                plane[y * side + x] = plane[x * side + y];
                plane[x * side + y] = t;
            }
}

/* The label of image number `i` of a part, counted from 0. */
static int read_label(struct part *p, int i, int *label, struct err *e)
{
    uint8_t row[4 * MOST_COLUMNS];
    struct stream *s = p->labels_path ? &p->labels : &p->images;
    TRY(stream_read(s, row, (uint64_t)(p->columns * p->width), e));
    uint64_t value = big_endian(row + p->which * p->width, (size_t)p->width);
    int class = value > INT_MAX ? -1 : (int)value;
    *label = class - p->first;
    if (*label >= 0 && *label < p->classes) return OK;
    return fail_at(e, E_FORMAT, s->path, 0, "image %d is of class %d, expected %d..%d: check `classes=%d`", i,
                   class, p->first, p->first + p->classes - 1, p->classes);
}

/* Takes the image and its label over if it is picked, at the size that is wanted. */
static void keep(struct source *s, const struct part *from, int label)
{
    struct packed *p = s->to;
    size_t at = (size_t)s->pick.taken, size = (size_t)p->c * (size_t)p->h * (size_t)p->w;
    if (!pick_next(&s->pick)) return;
    p->label[at] = label;
    if (p->w == from->w && p->h == from->h)
        memcpy(p->pixels + at * size, s->image, size);
    else
        image_resize_area(s->image, p->c, from->w, from->h, p->pixels + at * size, p->w, p->h);
}

static int read_part(struct source *s, struct part *p, struct err *e)
{
    uint64_t size = (uint64_t)p->c * (uint64_t)p->h * (uint64_t)p->w;
    for (int i = 0; i < p->n; i++) {
        int label;
        TRY(read_label(p, i, &label, e));
        TRY(stream_read(&p->images, s->image, size, e));
        if (p->by_column) transpose(s->image, p->c, p->w);
        keep(s, p, label);
    }
    TRY(stream_end(&p->images, e));
    return p->labels_path ? stream_end(&p->labels, e) : OK;
}

int packed_read(struct packed *p, const char *path, const struct packed_options *o, struct err *e)
{
    struct source s = { .o = o, .to = p, .pick = o->pick };
    for (int i = 0; i < MOST_FILES; i++) s.part[i].classes = o->classes;
    memset(p, 0, sizeof *p);
    int rc = is_folder(path) ? open_folder(&s, path, e) : open_file(&s, path, e);
    if (!rc) rc = make_room(&s, path, e);
    for (int i = 0; !rc && i < s.n; i++) rc = read_part(&s, &s.part[i], e);
    for (int i = 0; i < MOST_FILES; i++) {
        struct part *x = &s.part[i];
        stream_close(&x->images);
        stream_close(&x->labels);
        mem_free(x->path);
        mem_free(x->labels_path);
    }
    mem_free(s.image);
    if (rc) packed_free(p);
    return rc;
}

void packed_free(struct packed *p)
{
    mem_free(p->pixels);
    mem_free(p->label);
    memset(p, 0, sizeof *p);
}
