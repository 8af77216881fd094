/* Which reader a path is for, and what all readers do with the images. */
#include "packed.h"
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "core/mem.h"
#include "data/image.h"
#include "data/stream.h"

/* ---- which collection ---- */

enum { MOST_FILES = 5 };

static const struct collection {
    const char *name, *train[MOST_FILES + 1], *test[2]; /* files, up to a NULL */
    int (*read)(struct intake *, char *const *path, int n, struct err *);
} collections[] = {
    { "CIFAR-10",
      { "data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin" },
      { "test_batch.bin" },
      cifar10_read },
    { "CIFAR-100", { "train.bin" }, { "test.bin" }, cifar100_read },
    { "STL-10", { "train_X.bin" }, { "test_X.bin" }, stl10_read },
};
enum { NCOLLECTIONS = sizeof collections / sizeof collections[0] };

#define EXPECTED                                                                                             \
    "expected the binary version of CIFAR-10 (data_batch_1.bin ... test_batch.bin), CIFAR-100 (train.bin, "  \
    "test.bin) or STL-10 (train_X.bin, train_y.bin ...)"

/* What is to be read, and by whom. */
struct source {
    int (*read)(struct intake *, char *const *path, int n, struct err *);
    char *path[MOST_FILES];
    int n;
};

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
    for (int i = 0; i < NCOLLECTIONS; i++) {
        const struct collection *c = &collections[i];
        for (int k = 0; c->train[k]; k++)
            if (is_called(base, c->train[k], 1)) return c;
        for (int k = 0; c->test[k]; k++)
            if (is_called(base, c->test[k], 1)) return c;
    }
    return NULL;
}

/* 00 00, or zipped: no text starts so. One with an IDX name is to be told what is wrong with its header. */
static int looks_like_idx(const char *path)
{
    unsigned char head[2] = { 1, 1 };
    struct stream s;
    if (stream_open(&s, path, NULL)) return 0;
    int zipped = stream_zipped(&s), rc = stream_read(&s, head, 2, NULL);
    stream_close(&s);
    return zipped || strstr(base_of(path), "images-idx") || (!rc && !head[0] && !head[1]);
}

/* A .bin that is no IDX file under another name: an unknown one is better said to be so than read as a list.
 */
static int is_bin(const char *base) { return is_called(base, ".bin", 0) && !strstr(base, "images"); }

int packed_recognise(const char *path)
{
    return is_folder(path) || is_bin(base_of(path)) || looks_like_idx(path);
}

/* *found: the file of that name in the folder, .gz or not; NULL when it is not there. */
static int find_inside(char **found, const char *folder, const char *name, struct err *e)
{
    size_t n = strlen(folder) + strlen(name) + 2;
    char *path = mem_alloc(n, 1);
    *found = NULL;
    if (!path) return fail(e, E_MEM, "not enough memory");
    snprintf(path, n, "%s%s%s", folder, folder[strlen(folder) - 1] == '/' ? "" : "/", name);
    int rc = stream_find(found, path, e);
    mem_free(path);
    return rc;
}

/* Whether some file of the collection is in the folder. */
static int holds(int *some, const char *folder, const struct collection *c, struct err *e)
{
    *some = 0;
    for (int k = 0; !*some && k <= MOST_FILES; k++) {
        char *found;
        const char *name = k < MOST_FILES ? c->train[k] : c->test[0];
        if (!name) continue;
        TRY(find_inside(&found, folder, name, e));
        mem_free(found);
        *some = found != NULL;
    }
    return OK;
}

/* The collection that is in the folder; NULL: none. Of two, neither is guessed: the labels of one may fit the
 * classes of the other. */
static int recognise_folder(const struct collection **c, const char *folder, struct err *e)
{
    *c = NULL;
    for (const struct collection *x = collections; x < collections + NCOLLECTIONS; x++) {
        int some;
        TRY(holds(&some, folder, x, e));
        if (some && *c)
            return fail_at(e, E_FORMAT, folder, 0,
                           "has files of %s and of %s: move those of one into a folder of their own",
                           (*c)->name, x->name);
        if (some) *c = x;
    }
    return OK;
}

static int locate_folder(struct source *s, const char *folder, int test, struct err *e)
{
    const struct collection *c;
    TRY(recognise_folder(&c, folder, e));
    if (!c)
        return fail_at(e, E_FORMAT, folder, 0,
                       "is a folder without files known here: " EXPECTED
                       "; for a folder per class, run: darknet classifier prepare %.60s",
                       folder);
    s->read = c->read;
    for (const char *const *name = test ? c->test : c->train; *name; name++, s->n++) {
        TRY(find_inside(&s->path[s->n], folder, *name, e));
        if (!s->path[s->n])
            return fail_at(e, E_FILE, folder, 0, "has no %s of %s, with or without .gz", *name, c->name);
    }
    return OK;
}

static int locate(struct source *s, const char *path, int test, struct err *e)
{
    if (is_folder(path)) return locate_folder(s, path, test, e);
    const char *base = base_of(path);
    const struct collection *c = collection_of(base);
    if (!c && is_bin(base))
        return fail_at(e, E_FORMAT, path, 0, "no .bin file of this name is known here: " EXPECTED);
    s->read = c ? c->read : idx_read;
    s->n = 1;
    s->path[0] = mem_text(path, strlen(path));
    return s->path[0] ? OK : fail(e, E_MEM, "not enough memory");
}

int packed_read(struct packed *p, const char *path, const struct packed_options *o, struct err *e)
{
    struct source s = { 0 };
    struct intake x = { .to = p, .o = o, .from = path, .pick = o->pick };
    memset(p, 0, sizeof *p);
    int rc = locate(&s, path, o->test, e);
    if (!rc) rc = s.read(&x, s.path, s.n, e);
    for (int i = 0; i < s.n; i++) mem_free(s.path[i]);
    mem_free(x.image);
    if (rc) packed_free(p);
    return rc;
}

void packed_free(struct packed *p)
{
    mem_free(p->pixels);
    mem_free(p->label);
    memset(p, 0, sizeof *p);
}

/* ---- what the readers share ---- */

int packed_find_labels(char **found, const char *images, const char *name, const char *other, struct err *e)
{
    TRY(stream_find(found, name, e));
    if (!*found && other) TRY(stream_find(found, other, e));
    if (*found) return OK;
    return fail_at(e, E_FILE, images, 0,
                   "its labels file is missing: there is no %.200s, with or without .gz", name);
}

int intake_open(struct intake *x, int n, int c, int h, int w, struct err *e)
{
    struct packed *p = x->to;
    size_t size = 0;
    TRY(pick_open(&x->pick, n, x->from, e));
    *p =
        (struct packed){ x->pick.n, c, x->o->height ? x->o->height : h, x->o->width ? x->o->width : w, 0, 0 };
    x->c = c;
    x->h = h;
    x->w = w;
    int large = mem_mul((size_t)p->h * (size_t)p->w, (size_t)c, &size) ||
                mem_mul(size, (size_t)p->n, &size) || size > mem_free_bytes();
    if (!large) {
        p->pixels = mem_alloc(size, 1);
        p->label = mem_alloc((size_t)p->n, sizeof *p->label);
        x->image = mem_alloc((size_t)c * (size_t)h, (size_t)w);
    }
    if (p->pixels && p->label && x->image) return OK;
    return fail_at(e, E_MEM, x->from, 0, "not enough memory for %d images of %d x %d x %d bytes", p->n, c,
                   p->h, p->w);
}

int intake_check(const struct intake *x, const char *path, int i, int label, int first, struct err *e)
{
    int classes = x->o->classes;
    if (label >= first && label < first + classes) return OK;
    return fail_at(e, E_FORMAT, path, 0, "image %d is of class %d, expected %d..%d: check `classes=%d`", i,
                   label, first, first + classes - 1, classes);
}

void intake_add(struct intake *x, int label)
{
    struct packed *p = x->to;
    size_t at = (size_t)x->pick.taken, size = (size_t)p->c * (size_t)p->h * (size_t)p->w;
    if (!pick_next(&x->pick)) return;
    p->label[at] = label;
    if (p->w == x->w && p->h == x->h)
        memcpy(p->pixels + at * size, x->image, size);
    else
        image_resize_area(x->image, x->c, x->w, x->h, p->pixels + at * size, p->w, p->h);
}
