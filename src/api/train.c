/* Whole trainings and validations, from a .data file. */
#include <string.h>
#include "api/handle.h"
#include "core/cores.h"
#include "core/file.h"
#include "train/trainer.h"

struct training {
    const dn_training *t;
    dn_net *net;
    volatile sig_atomic_t stop;
};

static void on_iteration(void *ctx, const struct train_line *l)
{
    struct training *t = ctx;
    const dn_progress p = { .iteration = l->iteration,
                            .seen = l->seen,
                            .epoch = l->epoch,
                            .ce = l->ce,
                            .ce_smooth = l->ce_smooth,
                            .match = l->match,
                            .lambda = l->lambda,
                            .rate = l->rate,
                            .images_per_second = l->images_per_second,
                            .eta_seconds = l->eta_seconds };
    if (t->t->iteration && t->t->iteration(t->t->ctx, &p)) t->stop = 1;
}

static dn_score score_of(const struct valid_line *l)
{
    return (dn_score){ .iteration = l->iteration,
                       .epoch = l->epoch,
                       .top1 = l->top1,
                       .topk = l->topk,
                       .ce = l->ce,
                       .k = l->top,
                       .images = l->images,
                       .unreadable = l->unreadable,
                       .best = l->best };
}

static void on_validation(void *ctx, const struct valid_line *l)
{
    struct training *t = ctx;
    const dn_score s = score_of(l);
    if (t->t->validation && t->t->validation(t->t->ctx, &s)) t->stop = 1;
}

/* What a .data file names. */
struct images {
    struct data_file *data;
    struct dataset *train, *valid;
};

static void close_images(struct images *i)
{
    dataset_close(i->valid);
    dataset_close(i->train);
    data_file_free(i->data);
}

static int has_valid(const struct data_file *d) { return d->valid || d->holdout; }

static int open_images(struct images *i, const dn_net *d, const char *path, int training, struct err *e)
{
    const struct notes *notes = &d->net->notes;
    TRY(data_file_read(&i->data, path, notes, e));
    TRY(data_fits_net(i->data, d->net, e));
    if (training) TRY(setup_images(&i->train, i->data, SPLIT_TRAIN, notes, e));
    if (has_valid(i->data)) return setup_images(&i->valid, i->data, SPLIT_VALID, notes, e);
    return training ? OK : fail(e, E_CFG, "%.200s: no valid= to take images from", path);
}

static int top_of(const struct images *i, const dn_net *d)
{
    return i->data->top < d->net->classes ? i->data->top : d->net->classes;
}

/* Names of files begin with the name, in the folder. */
static int check_names(const dn_training *t, struct err *e)
{
    if (t->name && (!*t->name || strchr(t->name, '/')))
        return fail(e, E_ARG,
                    "dn_train: name '%.60s': expected the beginning of a file's name, without a folder",
                    t->name);
    if (t->backup && !*t->backup) return fail(e, E_ARG, "dn_train: backup '': expected a folder, such as .");
    return OK;
}

static int run(struct training *t, const struct images *i, struct err *e)
{
    const dn_training *asked = t->t;
    char base[NAME_MAX + 1];
    setup_base(t->net->net->cfg->path, base);
    const struct train_options o = { .base = asked->name ? asked->name : base,
                                     .backup = asked->backup ? asked->backup : i->data->backup,
                                     .resume = asked->resume,
                                     .workers = setup_workers(asked->workers),
                                     .top = top_of(i, t->net),
                                     .programs = &t->net->training,
                                     .stop = &t->stop };
    const struct train_hooks hooks = { .ctx = t, .iteration = on_iteration, .validation = on_validation };
    TRY(folder_prepare(o.backup, e));
    return trainer_run(t->net->net, i->data, i->train, i->valid, &o, &hooks, e);
}

static int check_workers(const char *function, int workers, struct err *e)
{
    if (workers >= 0 && workers <= MOST_THREADS) return OK;
    return fail(e, E_ARG, "%s: workers=%d: expected 0..%d", function, workers, MOST_THREADS);
}

static int train(dn_net *d, const char *data, const dn_training *asked, struct err *e)
{
    struct training t = { .t = asked, .net = d };
    struct images i = { 0 };
    if (!d) return fail(e, E_ARG, "dn_train: no net given (NULL)");
    if (!data) return fail(e, E_ARG, "dn_train: no data file given (NULL)");
    if (!d->train)
        return fail(e, E_ARG, "dn_train: the net was opened for inference: set train in dn_options");
    TRY(check_workers("dn_train", asked->workers, e));
    TRY(check_names(asked, e));
    int rc = open_images(&i, d, data, 1, e);
    if (!rc) rc = run(&t, &i, e);
    d->part = 0;
    changed_weights(d);
    close_images(&i);
    return rc;
}

int dn_train(dn_net *d, const char *data, const dn_training *asked, dn_error *error)
{
    const dn_training defaults = { 0 };
    struct err e = { 0 };
    return give(train(d, data, asked ? asked : &defaults, &e), &e, error);
}

static int on_image(void *ctx, int sample, int label, const float *prob, int classes, struct err *e)
{
    const dn_validation *asked = ctx;
    (void)sample, (void)classes, (void)e;
    return asked->image(asked->ctx, label, prob) ? 1 : OK;
}

static int validate(dn_net *d, const char *data, const dn_validation *asked, dn_score *score, struct err *e)
{
    struct images i = { 0 };
    struct program *program;
    struct valid_line l = { 0 };
    TRY(begin(d, "dn_validate", data && score, e));
    TRY(check_workers("dn_validate", asked->workers, e));
    TRY(open_inference(d, d->rows, -1, &program, e));
    int rc = open_images(&i, d, data, 0, e);
    if (!rc) {
        const struct eval_options o = { .workers = setup_workers(asked->workers),
                                        .top = top_of(&i, d),
                                        .per_image = asked->image ? on_image : NULL,
                                        .ctx = (void *)asked };
        rc = evaluate(d->net, program, i.valid, &o, &l, e);
    }
    if (!rc) *score = score_of(&l);
    close_images(&i);
    return rc;
}

int dn_validate(dn_net *d, const char *data, const dn_validation *asked, dn_score *score, dn_error *error)
{
    const dn_validation defaults = { 0 };
    struct err e = { 0 };
    return give(validate(d, data, asked ? asked : &defaults, score, &e), &e, error);
}
