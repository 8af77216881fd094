/* The public face (include/darknet.h): one handle for a device, a net, and its programs. */
#include <stdio.h>
#include "api/handle.h"
#include "core/mem.h"
#include "train/evaluate.h"

_Static_assert((int)DN_ARG == E_ARG && (int)DN_CFG == E_CFG && (int)DN_FILE == E_FILE &&
                   (int)DN_FORMAT == E_FORMAT && (int)DN_MEM == E_MEM && (int)DN_DEVICE == E_DEVICE &&
                   (int)DN_NUMBER == E_NUMBER,
               "codes are those of core/err.h");

const char *dn_version(void) { return DN_VERSION; }

int give(int rc, const struct err *e, dn_error *out)
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
    if (o->view < DN_LETTERBOX || o->view > DN_WHOLE)
        return fail(e, E_ARG, "dn_open: view=%d: expected DN_LETTERBOX, DN_CENTER or DN_WHOLE", o->view);
    if (o->rows < 0) return fail(e, E_ARG, "dn_open: rows=%d: expected 0 or more", o->rows);
    dn_net *d = *out = mem_alloc(1, sizeof *d);
    if (!d) return fail(e, E_MEM, "not enough memory for the net");
    TRY(backend_open(&d->be, o->device ? o->device : backend_at(0)->name, o->threads, e));
    d->be->deterministic = o->deterministic != 0;
    TRY(net_read_cfg(&cfg, path, o->set, o->precision, e));
    TRY(net_open(&d->net, cfg, d->be, o->seed, &notes, e));
    d->train = o->train != 0;
    d->rows = o->rows ? o->rows : d->net->mini;
    d->orient = o->orient != 0;
    static const enum view views[] = { VIEW_LETTERBOX, VIEW_CENTER, VIEW_WHOLE };
    d->view = views[o->view];
    changed_weights(d);
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
    for (int k = KINDS; k-- > 0;) program_close(d->many[k].program);
    for (int k = KINDS; k-- > 0;) program_close(d->single[k].program);
    step_close(&d->training);
    net_close(d->net);
    backend_close(d->be);
    mem_free(d);
}

/* ---- shapes ---- */

int dn_layers(const dn_net *d) { return d ? d->net->n : 0; }

int dn_classes(const dn_net *d) { return d ? d->net->classes : 0; }
int dn_mini_batch(const dn_net *d) { return d ? d->net->mini : 0; }
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

void changed_weights(dn_net *d)
{
    for (int k = 0; k < KINDS; k++) d->single[k].stale = d->many[k].stale = 1;
}

int open_inference(dn_net *d, int images, int layer, struct program **out, struct err *e)
{
    const int kind = layer < 0 ? PLAIN : KEEPING, alone = images == 1 || d->rows == 1;
    struct inference *i = alone ? &d->single[kind] : &d->many[kind];
    const struct program_desc desc = { .rows = alone ? 1 : d->rows, .features = layer + 1 };
    if (i->program && i->layer != layer) {
        program_close(i->program);
        i->program = NULL;
    }
    if (!i->program) {
        TRY(program_open(&i->program, d->net, &desc, e));
        i->layer = layer;
        i->stale = 1;
    }
    if (i->stale) TRY(program_refresh(i->program, e));
    i->stale = 0;
    *out = i->program;
    return OK;
}

int begin(dn_net *d, const char *function, int given, struct err *e)
{
    struct program *first;
    if (!d) return fail(e, E_ARG, "%s: no net given (NULL)", function);
    if (!given) return fail(e, E_ARG, "%s: an argument is NULL", function);
    return d->train ? step_open(&d->training, d->net, e) : open_inference(d, 1, -1, &first, e);
}

/* ---- files ---- */

int dn_load(dn_net *d, const char *path, dn_error *error)
{
    struct err e = { 0 };
    int layers, rc = begin(d, "dn_load", path != NULL, &e);
    if (!rc) rc = weights_load(d->net, path, WEIGHTS_WHOLE, &layers, &e);
    if (rc) return give(rc, &e, error);
    changed_weights(d);
    d->part = 0;
    return OK;
}

int dn_set_seen(dn_net *d, uint64_t seen, dn_error *error)
{
    struct err e = { 0 };
    int rc = begin(d, "dn_set_seen", 1, &e);
    if (!rc && seen > MOST_SEEN)
        rc = fail(&e, E_ARG, "dn_set_seen: %llu images: expected at most 2^53", (unsigned long long)seen);
    if (rc) return give(rc, &e, error);
    net_set_seen(d->net, seen);
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
    changed_weights(d); /* even without an update: the forward pass moves running statistics */
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
