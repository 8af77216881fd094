/* The files below a folder. */
#define _DEFAULT_SOURCE /* fts */
#include "tree.h"
#include <errno.h>
#include <fts.h>
#include <string.h>
#include <sys/stat.h>
#include "core/array.h"
#include "core/mem.h"
#include "core/text.h"
#include "data/images.h"

int tree_no_memory(struct err *e) { return fail(e, E_MEM, "not enough memory for the list of images"); }

int tree_unreadable(const char *path, int why, struct err *e)
{
    return fail_at(e, E_FILE, path, 0, "the folder cannot be read: %s", strerror(why));
}

static int add_file(struct folder *f, const FTSENT *x, struct err *e)
{
    int image = x->fts_info == FTS_F && image_named(x->fts_name);
    if (x->fts_level == 0)
        return fail_at(e, E_FILE, x->fts_path, 0, "is a file, expected a folder of class folders");
    char *path = mem_text(x->fts_path, x->fts_pathlen);
    if (!path || array_grow(&f->image, (size_t)f->n, sizeof *f->image))
        return mem_free(path), tree_no_memory(e);
    f->image[f->n++] = (struct folder_image){ .path = path, .label = image - 1 };
    if (image) return OK;
    if (image_needs_opencv(x->fts_name)) return f->skipped[SKIPPED_FOREIGN]++, OK;
    if (f->skipped[SKIPPED_OTHER]++) return OK;
    f->first_other = mem_text(path, strlen(path));
    return f->first_other ? OK : tree_no_memory(e);
}

static int visit(struct folder *f, FTS *fts, FTSENT *x, struct err *e)
{
    if (x->fts_level > 0 && image_litter(x->fts_name)) {
        f->skipped[SKIPPED_LITTER] += x->fts_info != FTS_DP;
        return fts_set(fts, x, FTS_SKIP), OK;
    }
    switch (x->fts_info) {
    case FTS_D: f->skipped[SKIPPED_EMPTY] += x->fts_level > 0 && !fts_children(fts, 0) && !errno; return OK;
    case FTS_DP: return OK;
    case FTS_DEFAULT: return f->skipped[SKIPPED_SPECIAL]++, OK;
    case FTS_DC: return f->skipped[SKIPPED_LOOPS]++, OK;
    case FTS_SL:
    case FTS_SLNONE: return f->skipped[SKIPPED_BROKEN]++, OK;
    case FTS_DNR: return tree_unreadable(x->fts_path, x->fts_errno, e);
    case FTS_NS:
    case FTS_ERR: return fail_at(e, E_FILE, x->fts_path, 0, "cannot be examined: %s", strerror(x->fts_errno));
    default: return add_file(f, x, e);
    }
}

static int by_name(const FTSENT **a, const FTSENT **b) { return strcmp((*a)->fts_name, (*b)->fts_name); }

int tree_walk(struct folder *f, struct err *e)
{
    char *const roots[] = { f->root, NULL };
    FTS *fts = fts_open(roots, FTS_LOGICAL | FTS_NOCHDIR, by_name); /* links are followed */
    FTSENT *x;
    int rc = OK;
    if (!fts) return tree_no_memory(e);
    while (!rc && (errno = 0, x = fts_read(fts))) rc = visit(f, fts, x, e);
    if (!rc && errno) rc = tree_unreadable(f->root, errno, e);
    fts_close(fts);
    return rc;
}

/* From below DIR on. */
const char *tree_below(const struct folder *f, int i)
{
    const char *path = f->image[i].path + strlen(f->root);
    return path + (*path == '/');
}

int tree_is_in(const char *path, const char *folder)
{
    size_t n = strlen(folder);
    return !strncmp(path, folder, n) && path[n] == '/';
}

void tree_leave_out(struct folder *f, const char *folder)
{
    int n = 0;
    for (int i = 0; i < f->n; i++)
        if (tree_is_in(tree_below(f, i), folder))
            mem_free(f->image[i].path);
        else
            f->image[n++] = f->image[i];
    f->n = n;
}

int tree_narrow(struct folder *f, const char *folder, struct err *e)
{
    int n = 0;
    char *root = text_format("%s/%s", strcmp(f->root, "/") ? f->root : "", folder);
    if (!root) return tree_no_memory(e);
    for (int i = 0; i < f->n; i++) {
        struct folder_image *x = &f->image[i];
        if (tree_is_in(tree_below(f, i), folder)) {
            f->image[n++] = *x;
            continue;
        }
        f->skipped[SKIPPED_LOOSE] += x->label >= 0;
        mem_free(x->path);
    }
    f->n = n;
    mem_free(f->root);
    f->root = root;
    return OK;
}
