/* classifier features: the output of one layer for every validation image, as NumPy arrays. */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include "cli/cli.h"
#include "core/clock.h"
#include "core/file.h"
#include "core/mem.h"
#include "core/rng.h"
#include "core/text.h"
#include "data/pick.h"
#include "train/trainer.h"

struct extraction {
    struct session s;
    const char *out;
    char *out_labels;
    int layer;
    int *only, images; /* the chosen samples, or NULL for all; how many */
    struct file features, labels;
    size_t d; /* features of an image */
    float *row;
    int rows; /* so far */
    double start;
};

/* ---- .npy ---- */

/* NPY format 1.0: magic, version, the length of what follows, and a Python dictionary padded with blanks so
 * that the numbers start at a multiple of 64. The header always has the same length, so that it can be
 * written again. type: NumPy's letter and size of the numbers. */
static int npy_header(struct file *f, const char *type, const char *shape, struct err *e)
{
    enum { LENGTH = 128 - 10 };
    const uint16_t one = 1;
    char dict[LENGTH], order = *(const char *)&one ? '<' : '>';
    if (fseek(f->f, 0, SEEK_SET))
        return fail_at(e, E_FILE, f->path, 0, "cannot be written: %s", strerror(errno));
    snprintf(dict, sizeof dict, "{'descr': '%c%s', 'fortran_order': False, 'shape': (%s), }", order, type,
             shape);
    return file_print(f, e, "%cNUMPY%c%c%c%c%-*s\n", 0x93, 1, 0, LENGTH, 0, LENGTH - 1, dict);
}

/* Writes the headers of both files: once to make room, before the number of rows is known, and once after. */
static int write_headers(struct extraction *x, int rows, struct err *e)
{
    char shape[40];
    snprintf(shape, sizeof shape, "%d, %zu", rows, x->d);
    TRY(npy_header(&x->features, "f4", shape, e));
    snprintf(shape, sizeof shape, "%d,", rows);
    return npy_header(&x->labels, "i4", shape, e);
}

/* Before the pass: it may be over many images, and must not fail at its end for want of a folder. */
static int create_files(struct extraction *x, struct err *e)
{
    x->d = shape_row(x->s.net->layer[x->layer].out);
    x->row = mem_alloc(x->d, sizeof *x->row);
    if (!x->row) return fail(e, E_MEM, "no memory for %zu features", x->d);
    static const struct file_kind npy = { "a NumPy array", "\x93NUMPY", 0, 6 };
    TRY(file_spare_others(x->out, &npy, e));
    TRY(file_spare_others(x->out_labels, &npy, e));
    TRY(file_create(&x->features, x->out, e));
    TRY(file_create(&x->labels, x->out_labels, e));
    return write_headers(x, 0, e);
}

static int write_row(void *ctx, int label, const real *features, struct err *e)
{
    struct extraction *x = ctx;
    int32_t number = label;
    for (size_t i = 0; i < x->d; i++) x->row[i] = (float)features[i];
    TRY(file_write(&x->features, x->row, x->d * sizeof *x->row, e));
    TRY(file_write(&x->labels, &number, sizeof number, e));
    x->rows++;
    return OK;
}

static void show_progress(void *ctx, int done, int all)
{
    struct extraction *x = ctx;
    console_images(&x->s.console, done, all, x->start);
}

/* Both to the disk before either gets its name: then neither can fail for want of space. */
static int commit_files(struct extraction *x, struct err *e)
{
    TRY(write_headers(x, x->rows, e));
    TRY(file_flush(&x->labels, e));
    TRY(file_flush(&x->features, e));
    TRY(file_commit(&x->labels, e));
    return file_commit(&x->features, e);
}

/* ---- what is asked for ---- */

/* FILE.npy -> FILE.labels.npy */
static int name_labels(struct extraction *x, const char *out, struct err *e)
{
    static const char suffix[] = ".npy";
    size_t n = out ? strlen(out) : 0, stem = n - (sizeof suffix - 1);
    if (!out) return fail(e, E_ARG, "features: name a file to write, as in -out features.npy");
    if (n < sizeof suffix || strcmp(out + stem, suffix))
        return fail(e, E_ARG, "-out %.200s: expected a name that ends in .npy", out);
    x->out = out;
    x->out_labels = text_format("%.*s.labels%s", (int)stem, out, suffix);
    return x->out_labels ? OK : fail(e, E_MEM, "no memory for a file name");
}

/* Lists as many layers as a line takes: the last ones, where features are. */
static int unknown_layer(const struct net *net, int asked, struct err *e)
{
    enum { LISTED = 8 };
    char list[LISTED * 40] = "";
    size_t used = 0;
    for (int i = net->n > LISTED ? net->n - LISTED : 0; i < net->n; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%d %.20s", used ? ", " : "", i,
                                 net->layer[i].ops->name);
    return fail(e, E_ARG, "-layer %d: expected 0..%d (%s%s; darknet ops lists them with their sizes)", asked,
                net->n - 1, net->n > LISTED ? "..., " : "", list);
}

static int choose_layer(struct extraction *x, int asked, struct err *e)
{
    const struct net *net = x->s.net;
    if (asked >= net->n) return unknown_layer(net, asked, e);
    x->layer = asked >= 0 ? asked : net_penultimate(net);
    if (x->layer >= 0) return OK;
    return fail(
        e, E_ARG,
        "%.200s: the classifier is the first layer, and its input is the image: choose another with -layer",
        net->cfg->path);
}

/* A choice rather than the first ones: lists come sorted by class. */
static int choose_images(struct extraction *x, int limit, uint64_t seed, struct err *e)
{
    int n = x->s.valid->n, chosen = 0;
    x->images = n;
    if (!limit || limit >= n) return OK;
    x->only = mem_alloc((size_t)limit, sizeof *x->only);
    if (!x->only) return fail(e, E_MEM, "no memory for a choice of %d images", limit);
    uint64_t key = rng_key(seed, RNG_SAMPLE, 0);
    for (int i = 0; i < n; i++)
        if (pick_takes(key, i, n - i, limit - chosen)) x->only[chosen++] = i;
    x->images = limit;
    return OK;
}

/* ---- the command ---- */

static int extract(struct extraction *x, const struct cli *c, struct err *e)
{
    struct valid_line l = { 0 };
    TRY(name_labels(x, c->out, e));
    TRY(session_open(&x->s, c, c->arg[0], c->arg[1], e));
    TRY(choose_layer(x, c->layer, e));
    TRY(create_files(x, e));
    TRY(session_load_valid(&x->s, x->layer + 1, e));
    TRY(choose_images(x, c->limit, c->seed, e));
    x->start = wall_clock();
    struct eval_options o = { .workers = session_workers(&x->s),
                              .top = 1,
                              .seed = c->seed,
                              .only = x->only,
                              .only_n = x->images,
                              .per_feature = write_row,
                              .progress = show_progress,
                              .ctx = x };
    TRY(evaluate(x->s.net, x->s.program, x->s.valid, &o, &l, e));
    console_clear(&x->s.console);
    TRY(commit_files(x, e));
    printf("%d images x %zu features (output of layer %d, %s): %s, labels %s", x->rows, x->d, x->layer,
           x->s.net->layer[x->layer].ops->name, x->out, x->out_labels);
    if (l.unreadable) printf(", %d unreadable without a row", l.unreadable);
    printf("; top 1: %f, CE: %f, %f seconds\n", l.top1, l.ce, l.seconds);
    return OK;
}

int cli_features(const struct cli *c, struct err *e)
{
    struct extraction x = { .rows = 0 };
    int rc = extract(&x, c, e);
    console_clear(&x.s.console);
    file_abort(&x.labels);
    file_abort(&x.features);
    mem_free(x.row);
    mem_free(x.only);
    mem_free(x.out_labels);
    session_close(&x.s);
    return rc;
}
