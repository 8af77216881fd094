#include "sets.h"
#include <ctype.h>
#include <string.h>
#include <strings.h>
#include "core/array.h"
#include "core/mem.h"
#include "core/rng.h"
#include "core/text.h"

uint64_t sets_hash(uint64_t h, const char *text, size_t n)
{
    while (n--) h = rng_mix(h ^ (unsigned char)*text++);
    return h;
}

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
        const char *path = tree_below(f, i), *sub = strchr(path, '/'),
                   *rest = sub ? strchr(sub + 1, '/') : NULL;
        if (!sub || f->image[i].label < 0) continue;
        struct top *t = *n ? *top + *n - 1 : NULL;
        if (!t || !tree_is_in(path, t->name)) {
            char *name = mem_text(path, (size_t)(sub - path));
            if (!name || array_grow(top, (size_t)*n, sizeof **top)) return mem_free(name), tree_no_memory(e);
            t = *top + (*n)++;
            *t = (struct top){ .name = name };
        }
        if (!rest) {
            t->loose = 1;
        } else if (!t->sub || strncmp(t->sub, sub, (size_t)(rest - sub) + 1)) {
            t->sub = sub;
            t->sum = sets_hash(t->sum, sub, (size_t)(rest - sub));
            t->subs++;
        }
    }
    return OK;
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
        tree_leave_out(f, top[i].name);
    }
    return OK;
}

/* The folder in root that a set begins with: further in, while a folder holds nothing but one folder of
 * folders (seg_train/seg_train). NULL without memory. */
static char *innermost(const struct folder *f, const char *set)
{
    char *at = mem_text(set, strlen(set));
    while (at) {
        const char *only = NULL;
        size_t n = 0;
        for (int i = 0; i < f->n; i++) {
            const char *path = tree_below(f, i), *rest = path + strlen(at) + 1;
            if (f->image[i].label < 0 || !tree_is_in(path, at)) continue;
            const char *slash = strchr(rest, '/');
            if (!slash || !strchr(slash + 1, '/')) return at;
            if (!only) only = rest, n = (size_t)(slash - rest);
            if (strncmp(rest, only, n + 1)) return at;
        }
        if (!only) return at;
        char *next = text_format("%s/%.*s", at, (int)n, only);
        mem_free(at);
        at = next;
    }
    return at;
}

/* Whether the images of a set lie in no class folders: loose, or in one folder, which train does not have. */
static int is_unsorted(const struct folder *f, const char *train, const char *set)
{
    const char *only = NULL;
    size_t n = 0;
    for (int i = 0; i < f->n; i++) {
        const char *path = tree_below(f, i), *rest = path + strlen(set) + 1, *slash;
        if (f->image[i].label < 0 || !tree_is_in(path, set) || !(slash = strchr(rest, '/'))) continue;
        if (only && strncmp(rest, only, n + 1)) return 0;
        only = rest, n = (size_t)(slash - rest);
    }
    for (int i = 0; only && i < f->n; i++) {
        const char *path = tree_below(f, i);
        if (tree_is_in(path, train) && !strncmp(path + strlen(train) + 1, only, n + 1)) return 0;
    }
    return 1;
}

/* Sets f->train and f->valid; of unsorted images to validate on, *within: the classes are those of train, as
 * if it were DIR. */
static int take_sets(struct folder *f, const struct top *top, int n, const struct top *train,
                     const struct top *valid, const char **within, const struct notes *notes, struct err *e)
{
    f->train = innermost(f, train->name);
    f->valid = innermost(f, valid->name);
    if (!f->train || !f->valid) return tree_no_memory(e);
    if (train->subs && is_unsorted(f, f->train, f->valid)) {
        note(notes,
             "%s/%s is left out: its images are not in class folders; some of %s are held out to "
             "validate on",
             f->root, valid->name, train->name);
        mem_free(f->train);
        mem_free(f->valid);
        f->train = f->valid = NULL;
        *within = train->name;
    }
    for (int i = 0; i < n; i++)
        if (&top[i] != train && &top[i] != valid)
            note(notes,
                 *within ? "%s/%s is left out: %s holds the classes"
                         : "%s/%s is left out: %s and %s are the sets",
                 f->root, top[i].name, train->name, valid->name);
    return OK;
}

/* Folders that hold the same sub-folders, and no images themselves, are sets, and so is train among folders
 * without images: their names must tell which. *within: a folder to look into instead. */
static int choose_sets(struct folder *f, struct top *top, int n, const char **within,
                       const struct notes *notes, struct err *e)
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
    const struct top *train = set[TRAIN], *valid = set[VALID];
    if (!valid || (!valid->subs && set[TEST] && set[TEST]->subs)) valid = set[TEST];
    /* train: a class, perhaps, beside bus and tram */
    if (train && valid && (!train->loose || !set[NONE] || (train->subs && valid->subs)))
        return take_sets(f, top, n, train, valid, within, notes, e);
    if (n == 1 && !top->loose) {
        *within = top->name;
        return OK;
    }
    if (loose || !(alike || (train && n > 1))) return leave_out_sets(f, top, n, notes, e);
    return fail_at(
        e, E_FORMAT, f->root, 0,
        "%.60s, %.60s%s are sets, not classes, by %s: rename one to train and one to valid, or prepare "
        "one alone",
        top[0].name, top[1].name, n > 2 ? ", ..." : "",
        alike ? "the folders that they share" : "the name of one");
}

int sets_find(struct folder *f, const struct notes *notes, struct err *e)
{
    const char *within;
    int rc = OK;
    do {
        struct top *top = NULL;
        int n = 0;
        within = NULL;
        rc = find_tops(f, &top, &n, e);
        if (!rc) rc = choose_sets(f, top, n, &within, notes, e);
        if (!rc && within) rc = tree_narrow(f, within, e);
        while (n) mem_free(top[--n].name);
        mem_free(top);
    } while (!rc && within);
    if (!rc && strcmp(f->root, f->dir)) note(notes, "the class folders are in %s", f->root);
    return rc;
}
