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

/* ---- .npy ---- */

/* n x d numbers, or n when d is 0. */
struct npy {
    struct file f;
    const char *type; /* NumPy's letter and size: "f4", "i4" */
    size_t d;
};

enum { NPY_HEADER = 128 };

/* NPY format 1.0: magic, version, the length of what follows, and a Python dictionary padded with blanks so
 * that the numbers start at a multiple of 64. Always as long, so that it can be written again. */
static int npy_header(struct npy *a, int n, struct err *e)
{
    char dict[NPY_HEADER - 10], shape[32] = "", header[NPY_HEADER];
    const uint16_t one = 1, length = sizeof dict;
    if (a->d) snprintf(shape, sizeof shape, " %zu", a->d);
    char order = *(const char *)&one ? '<' : '>';
    int used = snprintf(dict, sizeof dict, "{'descr': '%c%s', 'fortran_order': False, 'shape': (%d,%s), }",
                        order, a->type, n, shape);
    memset(dict + used, ' ', sizeof dict - (size_t)used);
    dict[sizeof dict - 1] = '\n';
    memcpy(header, "\x93NUMPY\x01\x00", 8);
    header[8] = (char)(length & 255); /* little-endian whatever the machine is */
    header[9] = (char)(length >> 8);
    memcpy(header + 10, dict, sizeof dict);
    return file_write(&a->f, header, sizeof header, e);
}

/* Rows follow; how many, npy_finish says. */
static int npy_create(struct npy *a, const char *path, const char *type, size_t d, struct err *e)
{
    a->type = type;
    a->d = d;
    TRY(file_create(&a->f, path, e));
    return npy_header(a, 0, e);
}

/* The number of rows to the header, and all of it to the disk: file_commit cannot fail for want of room. */
static int npy_finish(struct npy *a, int n, struct err *e)
{
    if (fseek(a->f.f, 0, SEEK_SET))
        return fail_at(e, E_FILE, a->f.path, 0, "cannot be written: %s", strerror(errno));
    TRY(npy_header(a, n, e));
    return file_flush(&a->f, e);
}

/* ---- rows ---- */

struct extraction {
    struct session s;
    struct program *program;
    struct dataset *data;
    const char *out;
    char *out_labels;
    int layer;
    int *only, images; /* the chosen samples, or NULL for all; how many */
    struct npy features, labels;
    float *row;
    int rows; /* so far */
    double shown;
};

/* ... of a pass that takes a while. */
static void show_progress(struct extraction *x)
{
    enum { LOOK_EVERY = 64 };
    if (!x->s.console.tty || x->rows % LOOK_EVERY) return;
    double now = wall_clock();
    if (now - x->shown < .1) return;
    x->shown = now;
    printf("\r%d/%d images\033[K", x->rows, x->images);
    fflush(stdout);
    x->s.console.line_open = 1;
}

static int write_row(void *ctx, int label, const real *features, struct err *e)
{
    struct extraction *x = ctx;
    int32_t number = label;
    for (size_t i = 0; i < x->features.d; i++) x->row[i] = (float)features[i];
    TRY(file_write(&x->features.f, x->row, x->features.d * sizeof *x->row, e));
    TRY(file_write(&x->labels.f, &number, sizeof number, e));
    x->rows++;
    show_progress(x);
    return OK;
}

/* ---- what is asked for ---- */

/* FILE.npy -> FILE.labels.npy */
static int name_labels(struct extraction *x, const char *out, struct err *e)
{
    static const char suffix[] = ".npy";
    size_t n = out ? strlen(out) : 0, stem = n - (sizeof suffix - 1);
    if (!out) return fail(e, E_ARG, "features: where to? give a file, as in -out features.npy");
    if (n < sizeof suffix || strcmp(out + stem, suffix))
        return fail(e, E_ARG, "-out %.200s: expected a name that ends in .npy", out);
    x->out = out;
    x->out_labels = text_format("%.*s.labels%s", (int)stem, out, suffix);
    return x->out_labels ? OK : fail(e, E_MEM, "no memory for a file name");
}

/* As many layers as a line takes: the last ones, where features are. */
static int unknown_layer(const struct net *net, int asked, struct err *e)
{
    enum { LISTED = 8 };
    char list[LISTED * 40] = "";
    size_t used = 0;
    for (int i = net->n > LISTED ? net->n - LISTED : 0; i < net->n; i++) {
        struct layer_info l;
        TRY(net_layer_info(net, i, &l));
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%d %.20s", used ? ", " : "", i, l.name);
    }
    return fail(e, E_ARG, "-layer %d: expected 0..%d (%s%s; darknet ops lists them with their sizes)", asked,
                net->n - 1, net->n > LISTED ? "..., " : "", list);
}

static int choose_layer(struct extraction *x, int asked, struct err *e)
{
    const struct net *net = x->s.net;
    if (asked >= net->n) return unknown_layer(net, asked, e);
    x->layer = asked >= 0 ? asked : net_penultimate(net);
    if (x->layer >= 0) return OK;
    return fail(e, E_ARG,
                "%.200s: the classifier is the first layer, its input the image: choose another with -layer",
                net->cfg->path);
}

/* A choice rather than the first ones: lists come sorted by class. */
static int choose_images(struct extraction *x, int limit, uint64_t seed, struct err *e)
{
    int n = x->data->n, chosen = 0;
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

/* First of all: a pass over many images must not end in a folder that is not there. */
static int create_files(struct extraction *x, struct err *e)
{
    struct layer_info l;
    TRY(net_layer_info(x->s.net, x->layer, &l));
    size_t d = (size_t)l.out.c * (size_t)l.out.h * (size_t)l.out.w;
    x->row = mem_alloc(d, sizeof *x->row);
    if (!x->row) return fail(e, E_MEM, "no memory for %zu features", d);
    TRY(npy_create(&x->features, x->out, "f4", d, e));
    return npy_create(&x->labels, x->out_labels, "i4", 0, e);
}

static int open_all(struct extraction *x, const struct cli *c, struct err *e)
{
    TRY(name_labels(x, c->out, e));
    TRY(session_open(&x->s, c, c->arg[0], c->arg[1], e));
    TRY(choose_layer(x, c->layer, e));
    TRY(create_files(x, e));
    TRY(session_open_valid(&x->s, c->arg[2], x->layer + 1, &x->program, &x->data, e));
    return choose_images(x, c->limit, c->seed, e);
}

static void print_summary(const struct extraction *x, const struct valid_line *l)
{
    struct layer_info layer;
    if (net_layer_info(x->s.net, x->layer, &layer)) return;
    printf("%d images x %zu features (output of layer %d, %s): %s, labels %s", x->rows, x->features.d,
           x->layer, layer.name, x->out, x->out_labels);
    if (l->unreadable) printf(", %d unreadable without a row", l->unreadable);
    printf("; top 1: %f, CE: %f, %f seconds\n", l->top1, l->ce, l->seconds);
}

static int extract(struct extraction *x, const struct cli *c, struct err *e)
{
    struct valid_line l = { 0 };
    struct eval_options o = { .workers = cli_workers(c),
                              .top = 1,
                              .seed = c->seed,
                              .only = x->only,
                              .only_n = x->images,
                              .per_feature = write_row,
                              .ctx = x };
    TRY(evaluate(x->s.net, x->program, x->data, &o, &l, e));
    console_clear(&x->s.console);
    TRY(npy_finish(&x->labels, x->rows, e));
    TRY(npy_finish(&x->features, x->rows, e));
    TRY(file_commit(&x->labels.f, e));
    TRY(file_commit(&x->features.f, e));
    print_summary(x, &l);
    return OK;
}

int cli_features(const struct cli *c, struct err *e)
{
    struct extraction x = { .layer = -1 };
    int rc = open_all(&x, c, e);
    if (!rc) rc = extract(&x, c, e);
    console_clear(&x.s.console);
    file_abort(&x.labels.f);
    file_abort(&x.features.f);
    mem_free(x.row);
    mem_free(x.only);
    mem_free(x.out_labels);
    program_close(x.program);
    dataset_close(x.data);
    session_close(&x.s);
    return rc;
}
