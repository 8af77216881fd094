#define _XOPEN_SOURCE 700 /* realpath */
#include "folder.h"
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include "core/array.h"
#include "core/mem.h"
#include "core/text.h"
#include "core/rng.h"

static int no_memory(struct err *e) { return fail(e, E_MEM, "not enough memory for the list of images"); }

static int unreadable(const char *path, struct err *e)
{
    return fail_at(e, E_FILE, path, 0, "the folder cannot be read: %s", strerror(errno));
}

/* ---- what a folder holds ---- */

struct names {
    char **at;
    size_t n;
};

static void names_free(struct names *v)
{
    for (size_t i = 0; i < v->n; i++) mem_free(v->at[i]);
    mem_free(v->at);
}

static int by_bytes(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static int names_add(struct names *v, const char *name, struct err *e)
{
    if (array_grow(&v->at, v->n, sizeof *v->at)) return no_memory(e);
    v->at[v->n] = mem_text(name, strlen(name));
    return v->at[v->n++] ? OK : no_memory(e);
}

/* names_free also after a failure. */
static int names_read(struct names *v, const char *path, struct err *e)
{
    *v = (struct names){ NULL, 0 };
    DIR *d = opendir(path);
    const struct dirent *x;
    int rc = OK;
    if (!d) return unreadable(path, e);
    while (!rc && (errno = 0, x = readdir(d)))
        if (strcmp(x->d_name, ".") && strcmp(x->d_name, "..")) rc = names_add(v, x->d_name, e);
    if (!rc && errno) rc = unreadable(path, e);
    closedir(d);
    if (!rc && v->n) qsort(v->at, v->n, sizeof *v->at, by_bytes);
    return rc;
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

/* ---- walking through one ---- */

struct walk {
    struct folder *f;
    int label, valid; /* of the images met */
    struct err *e;
};

/* The folders that one is in. */
struct level {
    const struct level *up;
    dev_t device;
    ino_t inode;
};

static int skip(struct walk *w, const char *path)
{
    struct folder *f = w->f;
    if (!f->skipped.other++ && !(f->skipped.first = mem_text(path, strlen(path)))) return no_memory(w->e);
    return OK;
}

static int add_image(struct walk *w, const char *path)
{
    struct folder *f = w->f;
    if (strpbrk(path, "\r\n"))
        return fail_at(w->e, E_FORMAT, path, 0,
                       "has a line break in its name, which no list can hold: rename it");
    if (f->n == INT_MAX) return fail(w->e, E_FORMAT, "%.200s: more than %d images", f->root, INT_MAX);
    if (array_grow(&f->image, (size_t)f->n, sizeof *f->image)) return no_memory(w->e);
    struct folder_image *x = &f->image[f->n];
    *x = (struct folder_image){ mem_text(path, strlen(path)), w->label, w->valid };
    if (!x->path) return no_memory(w->e);
    f->n++;
    return OK;
}

static int walk_folder(struct walk *w, const char *path, const struct level *up);

static int walk_entry(struct walk *w, const char *path, const char *name, const struct level *up)
{
    struct stat st;
    int missing = stat(path, &st); /* the target of a link */
    if (*name == '.') {
        w->f->skipped.hidden++;
    } else if (missing && errno != ENOENT && errno != ELOOP) {
        return fail_at(w->e, E_FILE, path, 0, "cannot be examined: %s", strerror(errno));
    } else if (missing) {
        w->f->skipped.broken++;
    } else if (S_ISDIR(st.st_mode)) {
        return walk_folder(w, path, up);
    } else {
        return S_ISREG(st.st_mode) && is_image(name) ? add_image(w, path) : skip(w, path);
    }
    return OK;
}

static int walk_folder(struct walk *w, const char *path, const struct level *up)
{
    struct stat st;
    struct names names;
    if (stat(path, &st)) return unreadable(path, w->e);
    for (const struct level *l = up; l; l = l->up) {
        if (l->device != st.st_dev || l->inode != st.st_ino) continue;
        w->f->skipped.loops++;
        return OK;
    }
    const struct level here = { up, st.st_dev, st.st_ino };
    int rc = names_read(&names, path, w->e);
    for (size_t i = 0; !rc && i < names.n; i++) {
        char *inside = text_format("%s/%s", path, names.at[i]);
        rc = inside ? walk_entry(w, inside, names.at[i], &here) : no_memory(w->e);
        mem_free(inside);
    }
    names_free(&names);
    return rc;
}

/* ---- classes ---- */

/* Names stand in lists, one a line, without the blanks around them. */
static int check_name(const char *path, const char *name, struct err *e)
{
    int visible = 0;
    for (const unsigned char *p = (const unsigned char *)name; *p; p++) {
        if (iscntrl(*p))
            return fail_at(e, E_FORMAT, path, 0,
                           "the name of this class folder has a line break or the like in it: rename it");
        visible |= *p != ' ';
    }
    if (visible) return OK;
    return fail_at(e, E_FORMAT, path, 0, "the name of this class folder is blank: rename it");
}

/* The number of a class, or -1. */
static int find_class(const struct folder *f, const char *name)
{
    char **at = f->classes ? bsearch(&name, f->name, (size_t)f->classes, sizeof *f->name, by_bytes) : NULL;
    return at ? (int)(at - f->name) : -1;
}

static int enter_class(struct walk *w, const char *path, const char *name, const struct level *up)
{
    struct folder *f = w->f;
    int before = f->n;
    TRY(check_name(path, name, w->e));
    w->label = w->valid ? find_class(f, name) : f->classes;
    if (w->label < 0)
        return fail_at(w->e, E_FORMAT, path, 0, "there is no class '%.60s' in %s: expected the same folders",
                       name, f->train);
    if (!w->valid) {
        if (array_grow(&f->name, (size_t)f->classes, sizeof *f->name)) return no_memory(w->e);
        if (!(f->name[f->classes] = mem_text(name, strlen(name)))) return no_memory(w->e);
        f->classes++;
    }
    TRY(walk_folder(w, path, up));
    if (f->n > before || w->valid) return OK;
    return fail_at(w->e, E_FORMAT, path, 0,
                   "this class folder has no images (jpg, png, ...): put some in, or move it away");
}

/* A folder of class folders. */
static int read_classes(struct walk *w, const char *path)
{
    struct names names;
    struct stat st;
    if (stat(path, &st)) return unreadable(path, w->e);
    const struct level here = { NULL, st.st_dev, st.st_ino };
    int rc = names_read(&names, path, w->e);
    for (size_t i = 0; !rc && i < names.n; i++) {
        const char *name = names.at[i];
        char *inside = text_format("%s/%s", path, name);
        if (!inside)
            rc = no_memory(w->e);
        else if (*name != '.' && !stat(inside, &st) && S_ISDIR(st.st_mode))
            rc = enter_class(w, inside, name, &here);
        else if (*name != '.' && is_image(name))
            w->f->skipped.loose++;
        else
            rc = walk_entry(w, inside, name, &here);
        mem_free(inside);
    }
    names_free(&names);
    return rc;
}

/* ---- a DIR that is split already ---- */

static int is_folder(const char *folder, const char *name, int *yes, struct err *e)
{
    struct stat st;
    char *path = text_format("%s/%s", folder, name);
    if (!path) return no_memory(e);
    *yes = !stat(path, &st) && S_ISDIR(st.st_mode);
    mem_free(path);
    return OK;
}

static int note_others(const struct folder *f, const struct notes *notes, struct err *e)
{
    struct names names;
    int rc = names_read(&names, f->root, e);
    for (size_t i = 0; !rc && i < names.n; i++) {
        const char *name = names.at[i];
        int other = 0;
        if (*name != '.' && strcmp(name, f->train) && strcmp(name, f->valid))
            rc = is_folder(f->root, name, &other, e);
        if (other)
            note(notes, "%s/%s is left out: %s and %s are the sets", f->root, name, f->train, f->valid);
    }
    names_free(&names);
    return rc;
}

/* Sets train and valid when DIR holds folders of these names. */
static int find_sets(struct folder *f, const struct notes *notes, struct err *e)
{
    static const char *const known[] = { "valid", "val", "validation", "test" };
    int train, valid = 0;
    TRY(is_folder(f->root, "train", &train, e));
    for (size_t i = 0; train && !valid && i < sizeof known / sizeof *known; i++) {
        TRY(is_folder(f->root, known[i], &valid, e));
        if (valid) f->valid = known[i];
    }
    if (!valid) return OK;
    f->train = "train";
    return note_others(f, notes, e);
}

static int read_set(struct folder *f, const char *set, int valid, struct err *e)
{
    struct walk w = { .f = f, .valid = valid, .e = e };
    if (!set) return read_classes(&w, f->root);
    char *path = text_format("%s/%s", f->root, set);
    int rc = path ? read_classes(&w, path) : no_memory(e);
    mem_free(path);
    return rc;
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
    TRY(read_set(f, f->train, 0, e));
    TRY(check_classes(f, e));
    if (f->valid) TRY(read_set(f, f->valid, 1, e));
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
