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

static int no_memory(struct err *e) { return fail(e, E_MEM, "not enough memory for the list of images"); }

static int unreadable(const char *path, struct err *e)
{
    return fail_at(e, E_FILE, path, 0, "the folder cannot be read: %s", strerror(errno));
}

static int is_image(const char *name)
{
    static const char *const known[] = {
        "jpg", "jpeg", "png", "bmp", "gif", "tga", "psd", "ppm", "pgm", "pnm"
    }; /* what image_decode takes */
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; dot && i < sizeof known / sizeof *known; i++)
        if (!strcasecmp(dot + 1, known[i])) return 1;
    return 0;
}

enum { HOW = FTS_LOGICAL | FTS_NOCHDIR }; /* links are followed */

static int by_name(const FTSENT **a, const FTSENT **b) { return strcmp((*a)->fts_name, (*b)->fts_name); }

/* ---- walking through the class folders ---- */

/* Depths below the folder that holds the class folders. */
enum { ROOT, CLASS };

struct walk {
    struct folder *f;
    FTS *fts;
    int label, valid; /* of the images met */
    int before;       /* images before this class */
};

static int add_image(struct walk *w, const char *path, struct err *e)
{
    struct folder *f = w->f;
    if (strpbrk(path, "\r\n"))
        return fail_at(e, E_FORMAT, path, 0,
                       "has a line break in its name, which no list can hold: rename it");
    if (f->n == INT_MAX) return fail(e, E_FORMAT, "%.200s: more than %d images", f->root, INT_MAX);
    if (array_grow(&f->image, (size_t)f->n, sizeof *f->image)) return no_memory(e);
    f->image[f->n] = (struct folder_image){ mem_text(path, strlen(path)), w->label, w->valid };
    return f->image[f->n].path ? (f->n++, OK) : no_memory(e);
}

/* Names stand in lists, one a line, without the blanks around them. */
static int check_name(const char *path, const char *name, struct err *e)
{
    for (const char *p = name; *p; p++)
        if (iscntrl((unsigned char)*p))
            return fail_at(e, E_FORMAT, path, 0,
                           "the name of this class folder has a line break or the like in it: rename it");
    if (name[strspn(name, " ")]) return OK;
    return fail_at(e, E_FORMAT, path, 0, "the name of this class folder is blank: rename it");
}

static int enter_class(struct walk *w, const FTSENT *x, struct err *e)
{
    struct folder *f = w->f;
    const char *name = x->fts_name;
    TRY(check_name(x->fts_path, name, e));
    w->before = f->n;
    if (w->valid) { /* both sets are in one order */
        while (w->label < f->classes && strcmp(f->name[w->label], name) < 0) w->label++;
        if (w->label < f->classes && !strcmp(f->name[w->label], name)) return OK;
        return fail_at(e, E_FORMAT, x->fts_path, 0,
                       "there is no class '%.60s' in %s: expected the same folders", name, f->train);
    }
    w->label = f->classes;
    if (array_grow(&f->name, (size_t)f->classes, sizeof *f->name)) return no_memory(e);
    f->name[f->classes] = mem_text(name, strlen(name));
    return f->name[f->classes] ? (f->classes++, OK) : no_memory(e);
}

static int empty_class(const char *path, struct err *e)
{
    return fail_at(e, E_FORMAT, path, 0,
                   "this class folder has no images (jpg, png, ...): put some in, or move it away");
}

static int take_file(struct walk *w, const FTSENT *x, struct err *e)
{
    struct folder *f = w->f;
    int image = S_ISREG(x->fts_statp->st_mode) && is_image(x->fts_name);
    if (image && x->fts_level > CLASS) return add_image(w, x->fts_path, e);
    if (image)
        f->skipped.loose++;
    else if (!f->skipped.other++ && !(f->skipped.first = mem_text(x->fts_path, x->fts_pathlen)))
        return no_memory(e);
    return OK;
}

static int visit(struct walk *w, FTSENT *x, struct err *e)
{
    struct folder *f = w->f;
    struct stat st;
    if (x->fts_level > ROOT && *x->fts_name == '.') {
        f->skipped.hidden += x->fts_info != FTS_DP;
        return fts_set(w->fts, x, FTS_SKIP), OK;
    }
    switch (x->fts_info) {
    case FTS_D: return x->fts_level == CLASS ? enter_class(w, x, e) : OK;
    case FTS_DP:
        return x->fts_level == CLASS && !w->valid && f->n == w->before ? empty_class(x->fts_path, e) : OK;
    case FTS_DC: /* a link to a folder that it is in */
        f->skipped.loops++;
        return x->fts_level == CLASS && !w->valid ? empty_class(x->fts_path, e) : OK;
    case FTS_SL:
    case FTS_SLNONE:
        if (!stat(x->fts_path, &st) || errno == ENOENT || errno == ELOOP) return f->skipped.broken++, OK;
        return fail_at(e, E_FILE, x->fts_path, 0, "cannot be examined: %s", strerror(errno));
    case FTS_DNR: errno = x->fts_errno; return unreadable(x->fts_path, e);
    case FTS_NS:
    case FTS_ERR: return fail_at(e, E_FILE, x->fts_path, 0, "cannot be examined: %s", strerror(x->fts_errno));
    default: return take_file(w, x, e);
    }
}

/* set: a folder in DIR; NULL: DIR itself. */
static int read_classes(struct folder *f, const char *set, int valid, struct err *e)
{
    char *path = set ? text_format("%s/%s", f->root, set) : mem_text(f->root, strlen(f->root));
    char *const roots[] = { path, NULL };
    struct walk w = { .f = f, .valid = valid, .fts = path ? fts_open(roots, HOW, by_name) : NULL };
    mem_free(path);
    if (!w.fts) return no_memory(e);
    FTSENT *x;
    int rc = OK;
    while (!rc && (errno = 0, x = fts_read(w.fts))) rc = visit(&w, x, e);
    if (!rc && errno) rc = unreadable(f->root, e);
    fts_close(w.fts);
    return rc;
}

/* ---- a DIR that is split already ---- */

/* DIR itself (FTS_DC), which a link leads to, is one too. */
static int is_folder(const FTSENT *x) { return x->fts_info == FTS_D || x->fts_info == FTS_DC; }

/* Sets train and valid when DIR holds folders of these names, and says which of the others are left out. */
static int find_sets(struct folder *f, const struct notes *notes, struct err *e)
{
    static const char *const known[] = { "valid", "val", "validation", "test" };
    enum { KNOWN = sizeof known / sizeof *known };
    char *const roots[] = { f->root, NULL };
    FTS *fts = fts_open(roots, HOW, by_name);
    if (!fts || !fts_read(fts)) return fts ? fts_close(fts) : 0, no_memory(e);
    errno = 0;
    FTSENT *const inside = fts_children(fts, 0);
    if (!inside && errno == ENOMEM) return fts_close(fts), no_memory(e);
    size_t best = KNOWN;
    int train = 0;
    for (const FTSENT *x = inside; x; x = x->fts_link) {
        if (!is_folder(x)) continue;
        train |= !strcmp(x->fts_name, "train");
        for (size_t k = 0; k < best; k++)
            if (!strcmp(x->fts_name, known[k])) best = k;
    }
    if (train && best < KNOWN) {
        f->train = "train";
        f->valid = known[best];
    }
    for (const FTSENT *x = f->train ? inside : NULL; x; x = x->fts_link)
        if (is_folder(x) && *x->fts_name != '.' && strcmp(x->fts_name, f->train) &&
            strcmp(x->fts_name, f->valid))
            note(notes, "%s/%s is left out: %s and %s are the sets", f->root, x->fts_name, f->train,
                 f->valid);
    fts_close(fts);
    return OK;
}

/* ---- all of it ---- */

static int check_classes(const struct folder *f, struct err *e)
{
    const char *set = f->train ? "train/" : "";
    if (f->classes > 1) return OK;
    if (f->classes)
        return fail_at(e, E_FORMAT, f->root, 0,
                       "has one class folder only (%s%.60s), expected two or more, as in DIR/%scat/1.jpg and "
                       "DIR/%sdog/1.jpg",
                       set, f->name[0], set, set);
    return fail_at(e, E_FORMAT, f->root, 0,
                   "has no folders of images (%d images lie loose in it): expected one for each class, as in "
                   "DIR/%scat/1.jpg",
                   f->skipped.loose, set);
}

static int by_class(const void *a, const void *b)
{
    const struct folder_image *x = a, *y = b;
    if (x->label != y->label) return x->label < y->label ? -1 : 1;
    if (x->valid != y->valid) return x->valid - y->valid;
    return strcmp(x->path, y->path);
}

static void order(struct folder *f)
{
    size_t classes = (size_t)f->classes;
    qsort(f->image, (size_t)f->n, sizeof *f->image, by_class);
    for (int set = 0; set < 2; set++) memset(f->count[set], 0, classes * sizeof *f->count[set]);
    for (int i = 0; i < f->n; i++) f->count[f->image[i].valid][f->image[i].label]++;
}

static int find_root(struct folder *f, const char *dir, struct err *e)
{
    char root[PATH_MAX];
    struct stat st;
    if (!realpath(dir, root) || stat(root, &st)) {
        if (errno == ENOENT) return fail_at(e, E_FILE, dir, 0, "no such folder");
        return unreadable(dir, e);
    }
    if (!S_ISDIR(st.st_mode))
        return fail_at(e, E_FILE, dir, 0, "is a file, expected a folder of class folders");
    f->root = mem_text(root, strlen(root));
    return f->root ? OK : no_memory(e);
}

/* A set that came apart: classes may lack validation images, but not all of them. */
static int check_valid(const struct folder *f, const struct notes *notes, struct err *e)
{
    int some = 0;
    for (int k = 0; k < f->classes; k++) some |= f->count[1][k];
    if (!some) return fail_at(e, E_FORMAT, f->root, 0, "no images in %s, to validate on", f->valid);
    for (int k = 0; k < f->classes; k++)
        if (!f->count[1][k])
            note(notes, "warning: %s/%s has no image of class '%s'", f->root, f->valid, f->name[k]);
    return OK;
}

static int fill(struct folder *f, const char *dir, const struct notes *notes, struct err *e)
{
    TRY(find_root(f, dir, e));
    TRY(find_sets(f, notes, e));
    TRY(read_classes(f, f->train, 0, e));
    TRY(check_classes(f, e));
    if (f->valid) TRY(read_classes(f, f->valid, 1, e));
    for (int set = 0; set < 2; set++)
        if (!(f->count[set] = mem_alloc((size_t)f->classes, sizeof *f->count[set]))) return no_memory(e);
    order(f);
    return f->valid ? check_valid(f, notes, e) : OK;
}

int folder_read(struct folder **out, const char *dir, const struct notes *notes, struct err *e)
{
    *out = NULL;
    struct folder *f = mem_alloc(1, sizeof *f);
    if (!f) return no_memory(e);
    int rc = fill(f, dir, notes, e);
    if (rc)
        folder_free(f);
    else
        *out = f;
    return rc;
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
    mem_free(f->skipped.first);
    mem_free(f->root);
    mem_free(f);
}

/* ---- choosing the validation images ---- */

struct draw {
    uint64_t key;
    int image;
};

static int by_key(const void *a, const void *b)
{
    const struct draw *x = a, *y = b;
    if (x->key != y->key) return x->key < y->key ? -1 : 1;
    return x->image - y->image;
}

/* Any number that depends on every byte. */
static uint64_t hash(const char *text)
{
    uint64_t h = 0;
    while (*text) h = rng_mix(h ^ (unsigned char)*text++);
    return h;
}

static int share(int n, double fraction)
{
    int v = (int)(n * fraction + .5);
    if (n < 2) return 0;
    return v < 1 ? 1 : v < n ? v : n - 1;
}

int folder_split(struct folder *f, double fraction, uint64_t seed, struct err *e)
{
    if (f->valid)
        return fail_at(e, E_ARG, f->root, 0, "has folders %s and %s already: no fraction can be chosen",
                       f->train, f->valid);
    struct draw *draw = mem_alloc((size_t)f->n, sizeof *draw);
    if (!draw) return no_memory(e);
    uint64_t key = rng_key(seed, RNG_SPLIT, 0);
    size_t below = strlen(f->root);
    int chosen = 0;
    for (int i = 0; i < f->n; i++)
        draw[i] = (struct draw){ rng_bits(key, hash(f->image[i].path + below)), i };
    for (int k = 0, first = 0; k < f->classes; k++) {
        int n = f->count[0][k] + f->count[1][k], valid = share(n, fraction);
        qsort(draw + first, (size_t)n, sizeof *draw, by_key);
        for (int i = 0; i < n; i++) f->image[draw[first + i].image].valid = i < valid;
        first += n;
        chosen += valid;
    }
    mem_free(draw);
    order(f);
    if (chosen) return OK;
    return fail_at(e, E_FORMAT, f->root, 0, "no class has two images, one to train and one to validate on");
}
