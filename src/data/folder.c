/* Class folders: the images in them, and which of them are to validate on. */
#define _XOPEN_SOURCE 700 /* realpath */
#include "folder.h"
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "core/array.h"
#include "core/mem.h"
#include "core/rng.h"
#include "data/sets.h"

/* ---- classes ---- */

enum place { IN_CLASS, LOOSE, LEFT_OUT };

/* Sets *class to the name of the class folder of file i (a / follows it), and valid. */
static enum place find_class(const struct folder *f, int i, const char **class)
{
    const char *path = tree_below(f, i);
    *class = path;
    if (f->train && strchr(path, '/')) {
        f->image[i].valid = tree_is_in(path, f->valid);
        if (!f->image[i].valid && !tree_is_in(path, f->train)) return LEFT_OUT;
        *class = path + strlen(f->image[i].valid ? f->valid : f->train) + 1;
    }
    return strchr(*class, '/') ? IN_CLASS : LOOSE;
}

static int find_classes(struct folder *f, struct err *e)
{
    const char *in = f->train ? "train/" : "", *class;
    for (int i = 0; i < f->n; i++) {
        if (find_class(f, i, &class) != IN_CLASS || f->image[i].valid) continue;
        if (f->classes && tree_is_in(class, f->name[f->classes - 1])) continue;
        if (class[strspn(class, " \t")] == '/')
            return fail_at(e, E_FORMAT, f->image[i].path, 0,
                           "the name of its class folder is blank: rename it");
        if (array_grow(&f->name, (size_t)f->classes, sizeof *f->name)) return tree_no_memory(e);
        f->name[f->classes] = mem_text(class, strcspn(class, "/"));
        if (!f->name[f->classes++]) return tree_no_memory(e);
    }
    if (f->classes > 1) return OK;
    if (f->classes)
        return fail_at(e, E_FORMAT, f->root, 0,
                       "has one class folder only (%s%.60s), expected two or more, as in DIR/%scat/1.jpg and "
                       "DIR/%sdog/1.jpg",
                       in, f->name[0], in, in);
    return fail_at(e, E_FORMAT, f->root, 0,
                   "has no folders of images (%d files lie loose in it): expected one for each class, as in "
                   "DIR/%scat/1.jpg",
                   f->n, in);
}

static int by_folder(const void *path, const void *name)
{
    const char *s = *(char *const *)name;
    size_t n = strcspn(path, "/");
    int order = strncmp(path, s, n);
    return order ? order : -(s[n] != 0);
}

/* Keeps the images that have a class. */
static int label_images(struct folder *f, struct err *e)
{
    const char *class;
    int n = 0;
    for (int i = 0; i < f->n; i++) {
        struct folder_image x = f->image[i];
        enum place place = find_class(f, i, &class);
        if (x.label < 0 || place != IN_CLASS) {
            f->skipped[SKIPPED_LOOSE] += x.label >= 0 && place == LOOSE;
            continue;
        }
        if (strpbrk(x.path, "\r\n"))
            return fail_at(e, E_FORMAT, x.path, 0,
                           "has a line break in its path, which no list can hold: rename it");
        char **name = bsearch(class, f->name, (size_t)f->classes, sizeof *f->name, by_folder);
        if (!name)
            return fail_at(e, E_FORMAT, x.path, 0,
                           "there is no class '%.*s' in %s: expected the same folders",
                           (int)strcspn(class, "/"), class, f->train);
        x.valid = f->image[i].valid;
        x.label = (int)(name - f->name);
        f->image[i] = f->image[n];
        f->image[n++] = x;
    }
    while (f->n > n) mem_free(f->image[--f->n].path);
    return OK;
}

/* The images of a class, as far as they lie in folders of its folder. */
struct nest {
    int label, loose, subs;
    const char *sub, *first; /* a / follows them */
};

static int note_nest(const struct folder *f, const struct nest *x, const struct notes *notes)
{
    if (x->loose || x->subs < 2) return 0;
    note(notes,
         "warning: class folder %.60s holds no images itself, but folders of them (%.*s, %.*s%s): if those "
         "are "
         "the classes, prepare %s%s%s/%s",
         f->name[x->label], (int)strcspn(x->first, "/"), x->first, (int)strcspn(x->sub, "/"), x->sub,
         x->subs > 2 ? ", ..." : "", f->root, f->train ? "/" : "", f->train ? f->train : "",
         f->name[x->label]);
    return 1;
}

/* Sub-folders of a class are part of it, but may be meant as the classes. Said of the first class. */
static void note_nested(const struct folder *f, const struct notes *notes)
{
    struct nest x = { .label = -1 };
    const char *class;
    for (int i = 0; i < f->n; i++) {
        if (find_class(f, i, &class) != IN_CLASS || f->image[i].valid) continue;
        const char *in = class + strcspn(class, "/") + 1, *slash = strchr(in, '/');
        if (f->image[i].label != x.label) {
            if (note_nest(f, &x, notes)) return;
            x = (struct nest){ .label = f->image[i].label, .first = in };
        }
        if (!slash)
            x.loose = 1;
        else if (!x.subs || strncmp(x.sub, in, (size_t)(slash - in) + 1))
            x.sub = in, x.subs++;
    }
    note_nest(f, &x, notes);
}

/* ---- choosing the validation images ---- */

static int by_class(const void *a, const void *b)
{
    const struct folder_image *x = a, *y = b;
    if (x->label != y->label) return x->label < y->label ? -1 : 1;
    if (x->valid != y->valid) return x->valid - y->valid;
    if (x->key != y->key) return x->key < y->key ? -1 : 1;
    return strcmp(x->path, y->path);
}

static void order(struct folder *f) { qsort(f->image, (size_t)f->n, sizeof *f->image, by_class); }

static int share(int n, double fraction)
{
    int v = (int)(n * fraction + .5);
    if (n < 2) return 0;
    return v < 1 ? 1 : v < n ? v : n - 1;
}

/* The first of each class in the order of random keys. */
static void choose(struct folder *f, double fraction, uint64_t seed)
{
    uint64_t key = rng_key(seed, RNG_SPLIT, 0);
    for (int i = 0; i < f->n; i++) {
        const char *path = f->image[i].path + strlen(f->root);
        f->image[i].key = rng_bits(key, sets_hash(0, path, strlen(path)));
    }
    order(f);
    for (int first = 0, n; first < f->n; first += n) {
        for (n = 0; first + n < f->n && f->image[first + n].label == f->image[first].label;) n++;
        for (int i = 0; i < share(n, fraction); i++) f->image[first + i].valid = 1;
    }
    for (int i = 0; i < f->n; i++) f->image[i].key = 0;
}

/* What images are, for those who have none: of other kinds, perhaps. */
static const char *kinds(const struct folder *f)
{
    return f->skipped[SKIPPED_FOREIGN] ? "jpg, png, ...; WebP and TIFF need a build with OPENCV=1"
                                       : "jpg, png, ...";
}

/* A class may lack validation images, but not all of them, and no training images. */
static int count(struct folder *f, const struct notes *notes, struct err *e)
{
    int some = 0;
    for (int set = 0; set < 2; set++)
        if (!(f->count[set] = mem_alloc((size_t)f->classes, sizeof *f->count[set]))) return tree_no_memory(e);
    order(f);
    for (int i = 0; i < f->n; i++) f->count[f->image[i].valid][f->image[i].label]++;
    for (int k = 0; k < f->classes; k++) some |= f->count[1][k];
    for (int k = 0; k < f->classes; k++) {
        if (!f->count[0][k])
            return fail_at(e, E_FORMAT, f->root, 0,
                           "class folder %.60s has no images (%s): put some in, or move it away", f->name[k],
                           kinds(f));
    }
    if (!some)
        return fail_at(e, E_FORMAT, f->root, 0,
                       "no class has two images, one to train and one to validate on");
    for (int k = 0; k < f->classes; k++) {
        if (f->count[1][k]) continue;
        if (f->valid)
            note(notes, "warning: %s/%s has no image of class '%s'", f->root, f->valid, f->name[k]);
        else
            note(notes, "warning: class '%s' has one image, to train on, and none to validate on",
                 f->name[k]);
    }
    return OK;
}

/* ---- all of it ---- */

static int fill(struct folder *f, const char *dir, double fraction, uint64_t seed, const struct notes *notes,
                struct err *e)
{
    char root[PATH_MAX];
    if (!realpath(dir, root)) return tree_unreadable(dir, errno, e);
    f->dir = mem_text(root, strlen(root));
    f->root = mem_text(root, strlen(root));
    if (!f->dir || !f->root) return tree_no_memory(e);
    TRY(tree_walk(f, e));
    TRY(sets_find(f, notes, e));
    if (f->train && fraction > 0)
        return fail_at(e, E_ARG, f->root, 0, "has folders %s and %s already: no fraction can be chosen",
                       f->train, f->valid);
    TRY(find_classes(f, e));
    TRY(label_images(f, e));
    note_nested(f, notes);
    if (!f->train) choose(f, fraction > 0 ? fraction : .1, seed);
    return count(f, notes, e);
}

int folder_read(struct folder **out, const char *dir, double fraction, uint64_t seed,
                const struct notes *notes, struct err *e)
{
    struct folder *f = *out = mem_alloc(1, sizeof *f);
    int rc = f ? fill(f, dir, fraction, seed, notes, e) : tree_no_memory(e);
    if (!rc) return OK;
    folder_free(f);
    *out = NULL;
    return rc;
}

int folder_images(const char *path, char ***image, int *n, struct err *e)
{
    struct stat st;
    *image = NULL;
    *n = 0;
    if (stat(path, &st) || !S_ISDIR(st.st_mode)) return OK;
    struct folder *f = mem_alloc(1, sizeof *f);
    int rc = f && (f->root = mem_text(path, strlen(path))) ? tree_walk(f, e) : tree_no_memory(e);
    if (!rc && !(*image = mem_alloc((size_t)f->n, sizeof **image))) rc = tree_no_memory(e);
    for (int i = 0; !rc && i < f->n; i++) {
        if (f->image[i].label < 0) continue;
        (*image)[(*n)++] = f->image[i].path;
        f->image[i].path = NULL;
    }
    if (!rc && !*n) rc = fail_at(e, E_FILE, path, 0, "is a folder without images (%s)", kinds(f));
    folder_free(f);
    return rc;
}

void folder_images_free(char **image, int n)
{
    for (int i = 0; i < n; i++) mem_free(image[i]);
    mem_free(image);
}

void folder_free(struct folder *f)
{
    if (!f) return;
    for (int i = 0; i < f->n; i++) mem_free(f->image[i].path);
    for (int k = 0; k < f->classes; k++) mem_free(f->name[k]);
    mem_free(f->image);
    mem_free(f->name);
    mem_free(f->count[0]);
    mem_free(f->count[1]);
    mem_free(f->first_other);
    mem_free(f->train);
    mem_free(f->valid);
    mem_free(f->root);
    mem_free(f->dir);
    mem_free(f);
}
