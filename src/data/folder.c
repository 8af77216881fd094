/* Class folders: the images in them, which folders are sets, which images are to validate on. */
#define _DEFAULT_SOURCE /* fts, realpath */
#include "folder.h"
#include <ctype.h>
#include <errno.h>
#include <fts.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include "core/array.h"
#include "core/mem.h"
#include "core/rng.h"
#include "core/text.h"
#include "data/images.h"

static int no_memory(struct err *e) { return fail(e, E_MEM, "not enough memory for the list of images"); }

static int unreadable(const char *path, int why, struct err *e)
{
    return fail_at(e, E_FILE, path, 0, "the folder cannot be read: %s", strerror(why));
}

/* ---- walking through DIR: all files, label -1 for those that are no images ---- */

static int add_file(struct folder *f, const FTSENT *x, struct err *e)
{
    int image = x->fts_info == FTS_F && image_named(x->fts_name);
    if (x->fts_level == 0)
        return fail_at(e, E_FILE, x->fts_path, 0, "is a file, expected a folder of class folders");
    char *path = mem_text(x->fts_path, x->fts_pathlen);
    if (!path || array_grow(&f->image, (size_t)f->n, sizeof *f->image)) return mem_free(path), no_memory(e);
    f->image[f->n++] = (struct folder_image){ .path = path, .label = image - 1 };
    if (image || f->skipped[SKIPPED_OTHER]++) return OK;
    f->first_other = mem_text(path, strlen(path));
    return f->first_other ? OK : no_memory(e);
}

static int visit(struct folder *f, FTS *fts, FTSENT *x, struct err *e)
{
    if (x->fts_level > 0 && image_litter(x->fts_name)) {
        f->skipped[SKIPPED_LITTER] += x->fts_info != FTS_DP;
        return fts_set(fts, x, FTS_SKIP), OK;
    }
    switch (x->fts_info) {
    case FTS_D:
        f->skipped[SKIPPED_EMPTY] += x->fts_level > 0 && !fts_children(fts, 0) && !errno;
        return OK;
    case FTS_DP: return OK;
    case FTS_DC: return f->skipped[SKIPPED_LOOPS]++, OK;
    case FTS_SL:
    case FTS_SLNONE: return f->skipped[SKIPPED_BROKEN]++, OK;
    case FTS_DNR: return unreadable(x->fts_path, x->fts_errno, e);
    case FTS_NS:
    case FTS_ERR: return fail_at(e, E_FILE, x->fts_path, 0, "cannot be examined: %s", strerror(x->fts_errno));
    default: return add_file(f, x, e);
    }
}

static int by_name(const FTSENT **a, const FTSENT **b) { return strcmp((*a)->fts_name, (*b)->fts_name); }

static int walk(struct folder *f, struct err *e)
{
    char *const roots[] = { f->root, NULL };
    FTS *fts = fts_open(roots, FTS_LOGICAL | FTS_NOCHDIR, by_name); /* links are followed */
    FTSENT *x;
    int rc = OK;
    if (!fts) return no_memory(e);
    while (!rc && (errno = 0, x = fts_read(fts))) rc = visit(f, fts, x, e);
    if (!rc && errno) rc = unreadable(f->root, errno, e);
    fts_close(fts);
    return rc;
}

/* From below DIR on. */
static const char *below(const struct folder *f, int i)
{
    const char *path = f->image[i].path + strlen(f->root);
    return path + (*path == '/');
}

static int is_in(const char *path, const char *folder)
{
    size_t n = strlen(folder);
    return !strncmp(path, folder, n) && path[n] == '/';
}

/* Any number that depends on every byte. */
static uint64_t hash(uint64_t h, const char *text, size_t n)
{
    while (n--) h = rng_mix(h ^ (unsigned char)*text++);
    return h;
}

/* ---- sets ---- */

enum role { TRAIN, VALID, TEST, NONE, ROLES };

static enum role role_of_word(const char *word, size_t n)
{
    static const struct {
        const char *word;
        enum role role;
    } known[] = { { "train", TRAIN }, { "training", TRAIN },   { "trainset", TRAIN },   { "val", VALID },
                  { "valid", VALID }, { "validation", VALID }, { "valset", VALID },     { "validate", VALID },
                  { "dev", VALID },   { "eval", VALID },       { "evaluation", VALID }, { "holdout", VALID },
                  { "test", TEST },   { "testing", TEST },     { "testset", TEST } };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strlen(known[i].word) == n && !strncasecmp(word, known[i].word, n)) return known[i].role;
    return NONE;
}

/* By the first of its words that tells, whatever the case. *words: how many it has. */
static enum role role_of(const char *name, int *words)
{
    enum role role = NONE;
    *words = 0;
    for (const char *p = name; *p;) {
        size_t n = 0;
        while (isalpha((unsigned char)p[n])) n++;
        if (n && role == NONE) role = role_of_word(p, n);
        *words += n > 0;
        p += n ? n : 1;
    }
    return role;
}

/* A folder in DIR with images in it. */
struct top {
    char *name;
    int loose, subs; /* whether images lie right in it; its sub-folders with images */
    const char *sub; /* the last of these */
    uint64_t sum;    /* of the names of all */
    int is_set;      /* called valid, test or the like, and no more */
};

static int find_tops(const struct folder *f, struct top **top, int *n, struct err *e)
{
    for (int i = 0; i < f->n; i++) {
        const char *path = below(f, i), *sub = strchr(path, '/'), *rest = sub ? strchr(sub + 1, '/') : NULL;
        if (!sub || f->image[i].label < 0) continue;
        struct top *t = *n ? *top + *n - 1 : NULL;
        if (!t || !is_in(path, t->name)) {
            char *name = mem_text(path, (size_t)(sub - path));
            if (!name || array_grow(top, (size_t)*n, sizeof **top)) return mem_free(name), no_memory(e);
            t = *top + (*n)++;
            *t = (struct top){ .name = name };
        }
        if (!rest) {
            t->loose = 1;
        } else if (!t->sub || strncmp(t->sub, sub, (size_t)(rest - sub) + 1)) {
            t->sub = sub;
            t->sum = hash(t->sum, sub, (size_t)(rest - sub));
            t->subs++;
        }
    }
    return OK;
}

static void leave_out(struct folder *f, const char *folder)
{
    int n = 0;
    for (int i = 0; i < f->n; i++)
        if (is_in(below(f, i), folder))
            mem_free(f->image[i].path);
        else
            f->image[n++] = f->image[i];
    f->n = n;
}

/* No class is called valid or test, unless there is but one other: such a folder is a set beside the classes.
 */
static int leave_out_sets(struct folder *f, const struct top *top, int n, const struct notes *notes,
                          struct err *e)
{
    int classes = n;
    for (int i = 0; i < n; i++) classes -= top[i].is_set;
    for (int i = 0; classes > 1 && i < n; i++) {
        if (!top[i].is_set) continue;
        if (top[i].subs)
            return fail_at(
                e, E_FORMAT, f->root, 0,
                "its folder %.60s is named like a set, but lies beside the classes: move them into a "
                "folder train, or it elsewhere (if it is a class, rename it)",
                top[i].name);
        note(notes, "%s/%s is left out: it is named like a set, and its images are not in class folders",
             f->root, top[i].name);
        leave_out(f, top[i].name);
    }
    return OK;
}

/* Folders that hold the same sub-folders, and no images themselves, are sets, and so is train among folders
 * without images: their names must tell which. */
static int choose_sets(struct folder *f, struct top *top, int n, const struct notes *notes, struct err *e)
{
    const struct top *set[ROLES] = { NULL };
    int alike = n > 0 && top->subs > 1, loose = 0;
    for (int i = 0; i < n; i++) {
        int words;
        enum role role = role_of(top[i].name, &words);
        if (!set[role]) set[role] = &top[i];
        top[i].is_set = (role == VALID || role == TEST) && words == 1;
        alike &= top[i].subs == top->subs && top[i].sum == top->sum;
        loose |= top[i].loose;
    }
    const struct top *train = set[TRAIN], *valid = set[VALID] ? set[VALID] : set[TEST];
    /* train: a class, perhaps, beside bus and tram */
    if (train && valid && (!train->loose || !set[NONE] || (train->subs && valid->subs))) {
        f->train = mem_text(train->name, strlen(train->name));
        f->valid = mem_text(valid->name, strlen(valid->name));
        for (int i = 0; i < n; i++)
            if (&top[i] != train && &top[i] != valid)
                note(notes, "%s/%s is left out: %s and %s are the sets", f->root, top[i].name, train->name,
                     valid->name);
        return f->train && f->valid ? OK : no_memory(e);
    }
    if (loose || !(alike || (train && n > 1))) return leave_out_sets(f, top, n, notes, e);
    if (n == 1)
        return fail_at(e, E_FORMAT, f->root, 0, "the class folders are in its folder %.60s: prepare that one",
                       top->name);
    return fail_at(
        e, E_FORMAT, f->root, 0,
        "%.60s, %.60s%s are sets, not classes, by %s: rename one to train and one to valid, or prepare "
        "one alone",
        top[0].name, top[1].name, n > 2 ? ", ..." : "",
        alike ? "the folders that they share" : "the name of one");
}

static int find_sets(struct folder *f, const struct notes *notes, struct err *e)
{
    struct top *top = NULL;
    int n = 0, rc = find_tops(f, &top, &n, e);
    if (!rc) rc = choose_sets(f, top, n, notes, e);
    while (n) mem_free(top[--n].name);
    mem_free(top);
    return rc;
}

/* ---- classes ---- */

enum place { IN_CLASS, LOOSE, LEFT_OUT };

/* Sets *class to the name of the class folder of file i (a / follows it), and valid. */
static enum place find_class(const struct folder *f, int i, const char **class)
{
    const char *path = below(f, i);
    *class = path;
    if (f->train && strchr(path, '/')) {
        f->image[i].valid = is_in(path, f->valid);
        if (!f->image[i].valid && !is_in(path, f->train)) return LEFT_OUT;
        *class = strchr(path, '/') + 1;
    }
    return strchr(*class, '/') ? IN_CLASS : LOOSE;
}

static int find_classes(struct folder *f, struct err *e)
{
    const char *in = f->train ? "train/" : "", *class;
    for (int i = 0; i < f->n; i++) {
        if (find_class(f, i, &class) != IN_CLASS || f->image[i].valid) continue;
        if (f->classes && is_in(class, f->name[f->classes - 1])) continue;
        if (class[strspn(class, " \t")] == '/')
            return fail_at(e, E_FORMAT, f->image[i].path, 0,
                           "the name of its class folder is blank: rename it");
        if (array_grow(&f->name, (size_t)f->classes, sizeof *f->name)) return no_memory(e);
        f->name[f->classes] = mem_text(class, strcspn(class, "/"));
        if (!f->name[f->classes++]) return no_memory(e);
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
        f->image[i].key = rng_bits(key, hash(0, path, strlen(path)));
    }
    order(f);
    for (int first = 0, n; first < f->n; first += n) {
        for (n = 0; first + n < f->n && f->image[first + n].label == f->image[first].label;) n++;
        for (int i = 0; i < share(n, fraction); i++) f->image[first + i].valid = 1;
    }
    for (int i = 0; i < f->n; i++) f->image[i].key = 0;
}

/* A class may lack validation images, but not all of them, and no training images. */
static int count(struct folder *f, const struct notes *notes, struct err *e)
{
    int some = 0;
    for (int set = 0; set < 2; set++)
        if (!(f->count[set] = mem_alloc((size_t)f->classes, sizeof *f->count[set]))) return no_memory(e);
    order(f);
    for (int i = 0; i < f->n; i++) f->count[f->image[i].valid][f->image[i].label]++;
    for (int k = 0; k < f->classes; k++) some |= f->count[1][k];
    if (!some && f->valid)
        return fail_at(
            e, E_FORMAT, f->root, 0,
            "no image of %s is in a class folder, such as %s/%s: sort them, or prepare the folder %s "
            "alone, of which some are held out",
            f->valid, f->valid, f->name[0], f->train);
    for (int k = 0; k < f->classes; k++) {
        if (!f->count[0][k])
            return fail_at(e, E_FORMAT, f->root, 0,
                           "class folder %.60s has no images (jpg, png, ...): put some in, or move it away",
                           f->name[k]);
        if (f->valid && !f->count[1][k])
            note(notes, "warning: %s/%s has no image of class '%s'", f->root, f->valid, f->name[k]);
    }
    if (some) return OK;
    return fail_at(e, E_FORMAT, f->root, 0, "no class has two images, one to train and one to validate on");
}

/* ---- all of it ---- */

static int fill(struct folder *f, const char *dir, double fraction, uint64_t seed, const struct notes *notes,
                struct err *e)
{
    char root[PATH_MAX];
    if (!realpath(dir, root)) return unreadable(dir, errno, e);
    if (!(f->root = mem_text(root, strlen(root)))) return no_memory(e);
    TRY(walk(f, e));
    TRY(find_sets(f, notes, e));
    if (f->train && fraction > 0)
        return fail_at(e, E_ARG, f->root, 0, "has folders %s and %s already: no fraction can be chosen",
                       f->train, f->valid);
    TRY(find_classes(f, e));
    TRY(label_images(f, e));
    if (!f->train) choose(f, fraction > 0 ? fraction : .1, seed);
    return count(f, notes, e);
}

int folder_read(struct folder **out, const char *dir, double fraction, uint64_t seed,
                const struct notes *notes, struct err *e)
{
    struct folder *f = *out = mem_alloc(1, sizeof *f);
    int rc = f ? fill(f, dir, fraction, seed, notes, e) : no_memory(e);
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
    int rc = f && (f->root = mem_text(path, strlen(path))) ? walk(f, e) : no_memory(e);
    if (!rc && !(*image = mem_alloc((size_t)f->n, sizeof **image))) rc = no_memory(e);
    for (int i = 0; !rc && i < f->n; i++) {
        if (f->image[i].label < 0) continue;
        (*image)[(*n)++] = f->image[i].path;
        f->image[i].path = NULL;
    }
    folder_free(f);
    return rc || *n ? rc : fail_at(e, E_FILE, path, 0, "is a folder without images (jpg, png, ...)");
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
    mem_free(f);
}
