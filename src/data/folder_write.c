/* From class folders to a .data file: labels that cannot be mistaken, and the lists. */
#define _XOPEN_SOURCE 700 /* realpath */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "core/file.h"
#include "core/mem.h"
#include "core/text.h"
#include "data/folder.h"
#include "data/label.h"

/* ---- labels ---- */

/* The name of each class between `before` and `after`, trimmed as the list will be read, all in one block.
 * NULL without memory. */
static char **labels_make(const struct folder *f, const char *before, const char *after)
{
    size_t n = (size_t)f->classes, size = n * (strlen(before) + strlen(after) + 1);
    for (size_t k = 0; k < n; k++) size += strlen(f->name[k]);
    char **label = mem_alloc(n * sizeof *label + size, 1), *at = label ? (char *)(label + n) : NULL;
    for (size_t k = 0; at && k < n; k++) {
        char *end = at + sprintf(at, "%s%s%s", before, f->name[k], after) + 1;
        label[k] = text_trim(at);
        at = end;
    }
    return label;
}

/* Whether each image has the label of its class in its path and no other; if not, *e says which one. */
static int labels_check(char *const *label, const struct folder *f, struct err *e)
{
    struct label_finder finder;
    int rc = label_finder_open(&finder, label, f->classes, e);
    if (rc) return rc;
    for (int i = 0; !rc && i < f->n; i++) {
        const struct folder_image *x = &f->image[i];
        label_search(&finder, x->path);
        if (finder.nhit == 1 && finder.hit_class[0] == x->label) continue;
        int other = finder.nhit && finder.hit_class[0] == x->label;
        rc = fail_at(e, E_FORMAT, x->path, 0,
                     "is of class '%.60s', but '%.60s', the folder of another class, is in its path too: "
                     "rename one of them",
                     f->name[x->label], other < finder.nhit ? f->name[finder.hit_class[other]] : "");
    }
    label_finder_close(&finder);
    return rc;
}

/* The plainest form that is never mistaken. A class that is also the name of a folder above DIR needs the
 * folder that it is in itself; the two sets of a split DIR are not in the same. The last failure counts. */
static int labels_choose(char ***label, const struct folder *f, struct err *e)
{
    char *parent = text_format("%s/", strrchr(f->root, '/'));
    const char *const form[][2] = { { "", "" }, { "/", "/" }, { parent, "/" } };
    int rc = parent ? E_FORMAT : E_MEM;
    for (int i = 0; rc == E_FORMAT && i < (f->train ? 2 : 3); i++) {
        *label = labels_make(f, form[i][0], form[i][1]);
        rc = *label ? labels_check(*label, f, e) : E_MEM;
        if (!rc || !*label) break;
        mem_free(*label);
        *label = NULL;
    }
    mem_free(parent);
    return rc == E_MEM ? fail(e, E_MEM, "not enough memory for %d labels", f->classes) : rc;
}

/* ---- files ---- */

enum { TRAIN, VALID, LABELS, NAMES, DATA, FILES };
static const char *const ending[FILES] = { ".train.list", ".valid.list", ".labels.txt", ".names.txt",
                                           ".data" };

struct output {
    const struct folder *f;
    char **label;
    char *prefix; /* absolute */
    struct file file[FILES];
};

/* The folder of the output, without links and dots, made if it is missing; and the name in it. */
static int find_prefix(struct output *o, const char *prefix, struct err *e)
{
    char place[PATH_MAX];
    const char *slash = strrchr(prefix, '/'), *name = slash ? slash + 1 : prefix;
    if (!*name || !strcmp(name, ".") || !strcmp(name, ".."))
        return fail_at(e, E_ARG, prefix, 0, "is a folder: -out needs a name in it");
    char *folder = slash ? mem_text(prefix, (size_t)(name - prefix)) : mem_text(".", 1);
    if (!folder) return fail(e, E_MEM, "not enough memory");
    int rc = folder_prepare(folder, e);
    if (!rc && !realpath(folder, place))
        rc = fail_at(e, E_FILE, folder, 0, "the folder cannot be opened: %s", strerror(errno));
    mem_free(folder);
    if (rc) return rc;
    o->prefix = text_format("%s%s%s", place, strcmp(place, "/") ? "/" : "", name);
    if (!o->prefix) return fail(e, E_MEM, "not enough memory");
    if (!strpbrk(o->prefix, "\r\n") && !strstr(o->prefix, " #") && !strstr(o->prefix, "\t#")) return OK;
    return fail_at(e, E_ARG, o->prefix, 0,
                   "the path has a line break, or a # after a blank, which a .data file cannot hold: choose "
                   "another place with -out");
}

static int open_files(struct output *o, int replace, struct err *e)
{
    struct stat st;
    for (int i = 0; i < FILES; i++) {
        char *path = text_format("%s%s", o->prefix, ending[i]);
        if (!path) return fail(e, E_MEM, "not enough memory");
        file_sweep(path);
        int rc = OK;
        if (!replace && !lstat(path, &st))
            rc = fail_at(e, E_FILE, path, 0,
                         "exists: choose another name with -out, or add -force to replace it");
        else
            rc = file_create(&o->file[i], path, e);
        mem_free(path);
        if (rc) return rc;
    }
    return OK;
}

static int put_all(struct output *o, struct err *e)
{
    const struct folder *f = o->f;
    for (int i = 0; i < f->n; i++)
        TRY(file_print(&o->file[f->image[i].valid ? VALID : TRAIN], e, "%s\n", f->image[i].path));
    for (int k = 0; k < f->classes; k++) {
        TRY(file_print(&o->file[LABELS], e, "%s\n", o->label[k]));
        TRY(file_print(&o->file[NAMES], e, "%s\n", f->name[k]));
    }
    static const char *const key[DATA] = { "train", "valid", "labels", "names" };
    struct file *data = &o->file[DATA];
    TRY(file_print(data, e, "# Written by darknet classifier prepare.\nclasses = %d\n", f->classes));
    for (int i = 0; i < DATA; i++) TRY(file_print(data, e, "%s = %s%s\n", key[i], o->prefix, ending[i]));
    return file_print(data, e, "backup = backup\norient = 1\n%s", f->classes > 5 ? "top = 5\n" : "");
}

static int write_all(struct output *o, const char *prefix, int replace, struct err *e)
{
    TRY(labels_choose(&o->label, o->f, e));
    TRY(find_prefix(o, prefix, e));
    TRY(open_files(o, replace, e));
    TRY(put_all(o, e));
    for (int i = 0; i < FILES; i++) TRY(file_flush(&o->file[i], e));
    unlink(o->file[DATA].path); /* what stops here must not leave an old one with new lists */
    for (int i = 0; i < FILES; i++) TRY(file_commit(&o->file[i], e));
    return OK;
}

int folder_write(const struct folder *f, const char *prefix, int replace, struct err *e)
{
    struct output o = { .f = f };
    int rc = write_all(&o, prefix, replace, e);
    for (int i = 0; i < FILES; i++) file_abort(&o.file[i]);
    mem_free(o.label);
    mem_free(o.prefix);
    return rc;
}
