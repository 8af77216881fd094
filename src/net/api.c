/* The public face (include/darknet.h): one handle for a device, a net, and its programs. */
#include <stdio.h>
#include "core/mem.h"
#include "darknet.h"
#include "net/net.h"

_Static_assert((int)DN_ARG == E_ARG && (int)DN_CFG == E_CFG && (int)DN_FILE == E_FILE &&
                   (int)DN_FORMAT == E_FORMAT && (int)DN_MEM == E_MEM && (int)DN_DEVICE == E_DEVICE &&
                   (int)DN_NUMBER == E_NUMBER,
               "codes are those of core/err.h");

struct dn_net {
    struct backend *be;
    struct net *net;
    struct step_programs training; /* opened first: they own the packing of the weights */
    struct program *infer;
    int train, rows; /* as opened; rows: of the inference program */
    int part;        /* mini-batches of this iteration so far */
    int stale;       /* weights have changed since infer folded them */
};

const char *dn_version(void) { return DN_VERSION; }

/* Hands a result to the caller. */
static int give(int rc, const struct err *e, dn_error *out)
{
    if (!rc || !out) return rc;
    _Static_assert(sizeof out->msg == sizeof e->msg, "messages are handed over whole");
    snprintf(out->msg, sizeof out->msg, "%s", e->code == rc && *e->msg ? e->msg : err_text(rc));
    return out->code = rc;
}

/* ---- opening ---- */

static int open_handle(dn_net **out, const char *path, const dn_options *o, struct err *e)
{
    const struct notes notes = { o->say, o->say_ctx };
    struct cfg *cfg;
    if (!path) return fail(e, E_ARG, "dn_open: no cfg given (NULL)");
    if (o->rows < 0) return fail(e, E_ARG, "dn_open: rows=%d: expected 0 or more", o->rows);
    dn_net *d = *out = mem_alloc(1, sizeof *d);
    if (!d) return fail(e, E_MEM, "not enough memory for the net");
    TRY(backend_open(&d->be, o->device ? o->device : backend_at(0)->name, o->threads, e));
    d->be->deterministic = o->deterministic != 0;
    TRY(net_read_cfg(&cfg, path, o->set, o->precision, e));
    TRY(net_open(&d->net, cfg, d->be, o->seed, &notes, e));
    d->train = o->train != 0;
    d->rows = o->rows ? o->rows : d->net->mini;
    d->stale = 1;
    return OK;
}

int dn_open(dn_net **out, const char *cfg, const dn_options *options, dn_error *error)
{
    struct err e = { 0 };
    const dn_options defaults = { 0 };
    if (!out) return give(fail(&e, E_ARG, "dn_open: nowhere to put the handle (NULL)"), &e, error);
    *out = NULL;
    int rc = open_handle(out, cfg, options ? options : &defaults, &e);
    if (!rc) return OK;
    dn_close(*out);
    *out = NULL;
    return give(rc, &e, error);
}

void dn_close(dn_net *d)
{
    if (!d) return;
    program_close(d->infer);
    step_close(&d->training);
    net_close(d->net);
    backend_close(d->be);
    mem_free(d);
}

/* ---- shapes ---- */

int dn_classes(const dn_net *d) { return d ? d->net->classes : 0; }
uint64_t dn_seen(const dn_net *d) { return d ? d->net->seen : 0; }

int dn_input(const dn_net *d, int *channels, int *height, int *width)
{
    struct shape s = { 0 };
    if (d) s = config_shape(&d->net->config, 1);
    if (channels) *channels = s.c;
    if (height) *height = s.h;
    if (width) *width = s.w;
    return s.c * s.h * s.w;
}

static uint64_t iteration(const dn_net *d) { return d->net->seen / net_images_per_update(d->net) + 1; }

int dn_rows(const dn_net *d, int *second)
{
    int rows = d && d->train ? d->net->mini : 0;
    if (second) *second = rows && net_is_paired(d->net, iteration(d)) ? rows : 0;
    return rows;
}

/* ---- programs ---- */

static int open_inference(dn_net *d, struct err *e)
{
    const struct program_desc desc = { .rows = d->rows };
    return d->infer ? OK : program_open(&d->infer, d->net, &desc, e);
}

/* How every call that can fail begins. The first program creates the parameters, and must be a training
 * program if the net is to learn. */
static int begin(dn_net *d, const char *function, int given, struct err *e)
{
    if (!d) return fail(e, E_ARG, "%s: no net given (NULL)", function);
    if (!given) return fail(e, E_ARG, "%s: an argument is NULL", function);
    if (!d->train) return open_inference(d, e);
    return d->training.plain || d->training.paired ? OK : step_open(&d->training, d->net, e);
}

/* ---- files ---- */

int dn_load(dn_net *d, const char *path, dn_error *error)
{
    struct err e = { 0 };
    int layers, rc = begin(d, "dn_load", path != NULL, &e);
    if (!rc) rc = weights_load(d->net, path, WEIGHTS_WHOLE, &layers, &e);
    if (rc) return give(rc, &e, error);
    d->stale = 1;
    d->part = 0;
    return OK;
}

int dn_save(dn_net *d, const char *path, dn_error *error)
{
    struct err e = { 0 };
    int rc = begin(d, "dn_save", path != NULL, &e);
    if (!rc) rc = weights_save_averages(d->net, path, &e);
    return give(rc, &e, error);
}

/* ---- inference ---- */

static int predict(dn_net *d, const float *x, int n, float *prob, struct err *e)
{
    TRY(begin(d, "dn_predict", (x && prob) || !n, e));
    if (n < 0) return fail(e, E_ARG, "dn_predict: %d images", n);
    TRY(open_inference(d, e));
    if (d->stale) TRY(program_refresh(d->infer, e));
    d->stale = 0;
    size_t image = (size_t)dn_input(d, NULL, NULL, NULL), classes = (size_t)d->net->classes;
    for (int i = 0, rows; i < n; i += rows) {
        rows = n - i < d->rows ? n - i : d->rows;
        struct step s = { .x = x + (size_t)i * image, .rows = rows, .rows_s1 = rows };
        TRY(program_infer(d->infer, &s, prob + (size_t)i * classes, NULL, e));
    }
    return OK;
}

int dn_predict(dn_net *d, const float *images, int n, float *prob, dn_error *error)
{
    struct err e = { 0 };
    return give(predict(d, images, n, prob, &e), &e, error);
}

/* ---- training ---- */

static int check_batch(const dn_net *d, const dn_batch *b, struct err *e)
{
    int second, rows = dn_rows(d, &second);
    if (!d->train)
        return fail(e, E_ARG, "dn_step: the net was opened for inference: set train in dn_options");
    if (b->n != rows + second)
        return fail(e, E_ARG, "dn_step: %d images: expected %d + %d (dn_rows)", b->n, rows, second);
    for (int i = 0; i < b->n; i++)
        if (b->label[i] < 0 || b->label[i] >= d->net->classes)
            return fail(e, E_ARG, "dn_step: label %d of image %d: expected 0..%d", b->label[i], i,
                        d->net->classes - 1);
    return OK;
}

/* Whatever fails, the iteration starts again. */
static int step(dn_net *d, const dn_batch *b, dn_stats *out, struct err *e)
{
    struct step_stats stats;
    TRY(begin(d, "dn_step", b && b->images && b->label, e));
    TRY(check_batch(d, b, e));
    int part = d->part, parts = d->net->config.subdivisions;
    struct step s = step_at(d->net, (iteration(d) - 1) * (uint64_t)parts + (uint64_t)part);
    s.x = b->images;
    s.label = b->label;
    s.rows = b->n;
    s.rows_s1 = d->net->mini;
    d->part = 0;
    d->stale = 1; /* even without an update: the forward pass moves running statistics */
    TRY(step_train(step_program(&d->training, &s), &s, &stats, e));
    d->part = (part + 1) % parts;
    if (out)
        *out = (dn_stats){ .ce = stats.ce,
                           .match = stats.match,
                           .lambda = stats.lambda,
                           .center = stats.center,
                           .rate = s.rate,
                           .iteration = s.iteration,
                           .updated = s.update };
    return OK;
}

int dn_step(dn_net *d, const dn_batch *batch, dn_stats *stats, dn_error *error)
{
    struct err e = { 0 };
    return give(step(d, batch, stats, &e), &e, error);
}
