/* A run is a sequence of iterations; after each come, where they are due, validation and saving. */
#include "trainer.h"
#include <math.h>
#include <unistd.h>
#include "backend/ops/images.h"
#include "train/iterate.h"

enum { SAVE_EVERY = 100 };

/* ---- start ---- */

static int save_weights(const struct trainer *t, const char *path, struct err *e)
{
    return weights_save(t->net, path, t->net->n, t->net->seen, e);
}

/* A state at the end has final weights beside it, unless writing them failed, or somebody removed them. */
static int keep_final(const struct trainer *t, struct err *e)
{
    if (!t->o->resume || !access(t->files.path[FINAL], F_OK)) return OK;
    return save_weights(t, t->files.path[FINAL], e);
}

static int save_last_weights(struct trainer *t, struct err *e)
{
    TRY(save_weights(t, t->files.path[LAST], e));
    t->saved = 1;
    return OK;
}

static int open_programs(struct trainer *t, struct err *e)
{
    const struct program_desc infer = { .rows = t->net->mini, .features = t->net->feature + 1 };
    TRY(step_open(&t->training, t->net, e));
    return t->valid ? program_open(&t->infer, t->net, &infer, e) : OK;
}

static int start_from_weights(struct trainer *t, struct err *e)
{
    struct net *net = t->net;
    int layers;
    TRY(weights_load(net, t->o->weights, 1, &layers, e));
    if (!layers)
        note(&net->notes, "%s: holds no numbers, only a header: all layers are random", t->o->weights);
    else if (layers < net->n)
        note(&net->notes, "%s: layers 0..%d loaded, the rest random", t->o->weights, layers - 1);
    if (t->o->clear) net->seen = 0;
    t->p.iteration = net->seen / net_images_per_update(net);
    return OK;
}

static int start_position(struct trainer *t, struct err *e)
{
    t->p = (struct progress){
        .ce_smooth = -1, .best_top1 = -1, .best_ce = -1, .samples = hash_samples(t->train)
    };
    if (t->o->resume) return state_load(t->net, &t->p, t->train->n, t->o->resume, e);
    return t->o->weights ? start_from_weights(t, e) : OK;
}

/* Packed images that are only moved may stay on the device: then the loader tells how they are moved. */
static int keep_images(struct trainer *t, struct loader_options *l, struct err *e)
{
    const struct dataset *d = t->train;
    const struct augment *a = &l->augment;
    float mean[4], scale[4];
    if (!d->pixels || d->c != a->c || !augment_only_moves(a, d->w, d->h)) return OK;
    augment_normaliser(a, mean, scale);
    const struct images_desc images = { d->pixels, d->n, d->c, d->h, d->w, mean, scale };
    return net_keep_images(t->net, &images, &l->moves, e);
}

static int open_loader(struct trainer *t, struct err *e)
{
    const struct net *net = t->net;
    struct loader_options l = {
        .seed = net->seed, .rows = net->mini, .training = 1, .workers = t->o->workers
    };
    TRY(augment_from_net(net, &l.augment, e));
    l.pairing = !net->pair_loader ? PAIR_NONE : net->wants.by_class ? PAIR_CLASS : PAIR_RANDOM;
    l.subdivisions = net->config.subdivisions;
    l.every = net->pair_loader ? net->wants.every : 1;
    l.replacement = t->data->replacement;
    l.start = t->p.iteration * (uint64_t)l.subdivisions;
    TRY(keep_images(t, &l, e));
    return loader_open(&t->loader, t->train, &l, &net->notes, e);
}

static void add_memory(const struct program *p, size_t *bytes, size_t *params)
{
    struct program_info i;
    if (!p) return;
    program_get_info(p, &i);
    *bytes += i.arena + i.scratch + i.fixed;
    *params = i.params;
}

static void report_start(const struct trainer *t)
{
    struct train_start s = { .iteration = t->p.iteration };
    size_t folded;
    add_memory(t->training.plain, &s.train, &s.params);
    add_memory(t->training.paired, &s.train, &s.params);
    add_memory(t->infer, &s.infer, &folded);
    if (t->hooks->start) t->hooks->start(t->hooks->ctx, &s);
}

static int reached_end(const struct trainer *t)
{
    int max = t->net->config.max_batches;
    return max > 0 && t->p.iteration >= (uint64_t)max;
}

static int start(struct trainer *t, struct err *e)
{
    TRY(files_open(&t->files, t->o->backup, t->o->base, e));
    const char *metrics = t->o->metrics ? t->o->metrics : t->files.path[METRICS];
    TRY(lock_open(&t->lock, t->files.path[LOCK], &t->net->notes, e));
    TRY(files_check(&t->files, metrics, e));
    TRY(open_programs(t, e));
    TRY(start_position(t, e));
    if (reached_end(t)) return keep_final(t, e);
    TRY(net_check_finite(t->net, e));
    if (t->o->resume)
        TRY(metrics_resume(&t->metrics, metrics, t->p.iteration, e));
    else
        TRY(metrics_open(&t->metrics, metrics, &t->net->notes, e));
    TRY(open_loader(t, e));
    /* From the first iteration on there is something to fall back on: see give_up. */
    if (access(t->files.path[LAST], F_OK)) TRY(save_last_weights(t, e));
    report_start(t);
    return OK;
}

static void stop(struct trainer *t)
{
    loader_close(t->loader);
    metrics_close(&t->metrics);
    program_close(t->infer);
    step_close(&t->training);
    lock_close(&t->lock);
    files_close(&t->files);
}

/* ---- saving ---- */

/* Metrics first: rows up to the state's iteration are then there when it is resumed. Losing them costs no
 * weights. */
static int save_last(struct trainer *t, struct err *e)
{
    struct err lost = { 0 };
    if (metrics_flush(&t->metrics, &lost)) note(&t->net->notes, "%s", lost.msg);
    TRY(save_last_weights(t, e));
    return state_save(t->net, &t->p, t->train->n, t->files.path[STATE], e);
}

static void note_failed_save(const struct trainer *t, const struct err *e)
{
    note(&t->net->notes, "not saved: %s; training goes on and tries again at the next save", e->msg);
}

/* ---- between iterations ---- */

/* The iteration failed before its update, so the weights are those of the iteration before: worth keeping,
 * unless the forward pass has spoilt running statistics. The state stays as it was saved last. */
static int give_up(struct trainer *t, int rc, struct err *e)
{
    struct err cause = *e, ignored;
    char kept[160] = "";
    double rate = net_rate(&t->net->config, t->net->seed, t->p.iteration + 1);
    if (!net_check_finite(t->net, &ignored) && !save_weights(t, t->files.path[LAST], &ignored))
        snprintf(kept, sizeof kept, "; the weights before it are saved to %.90s", t->files.path[LAST]);
    else if (t->saved)
        snprintf(kept, sizeof kept, "; the weights saved last by this run are in %.90s", t->files.path[LAST]);
    metrics_flush(&t->metrics, &ignored);
    if (rc != E_NUMBER) return rc;
    return fail(e, E_NUMBER, "iteration %llu, rate %g: %.200s%s; lower learning_rate or raise burn_in",
                (unsigned long long)t->p.iteration + 1, rate, cause.msg, kept);
}

/* Every valid_every epochs: where seen / (valid_every * images) passes a whole number; and at the end. */
static int validation_due(const struct trainer *t)
{
    double interval = t->net->config.valid_every * t->train->n,
           images = (double)net_images_per_update(t->net);
    double seen =
        (double)t->net->seen + t->npending * images; /* those in flight are counted when they are read */
    if (!t->valid) return 0;
    if (reached_end(t)) return 1;
    return interval > 0 && floor(seen / interval) > floor((seen - images) / interval);
}

static int saving_due(const struct trainer *t) { return t->p.iteration % SAVE_EVERY == 0; }

static int is_best(const struct progress *p, const struct valid_line *l)
{
    return l->top1 > p->best_top1 || (l->top1 >= p->best_top1 && l->ce < p->best_ce);
}

static void keep_best(struct trainer *t, struct valid_line *l)
{
    struct err e = { 0 };
    if (!is_best(&t->p, l)) return;
    if (save_weights(t, t->files.path[BEST], &e)) {
        note_failed_save(t, &e);
        return;
    }
    t->p.best_top1 = l->top1;
    t->p.best_ce = l->ce;
    l->best = 1;
}

static int validate(struct trainer *t, struct err *e)
{
    struct eval_options o = { .rows = t->net->mini,
                              .workers = t->o->workers,
                              .top = t->o->top,
                              .seed = t->net->seed,
                              .compactness = t->net->feature >= 0 };
    struct valid_line l = { .iteration = t->p.iteration, .epoch = trainer_epoch(t, t->net->seen) };
    TRY(program_refresh(t->infer, e));
    TRY(evaluate(t->net, t->infer, t->valid, &o, &l, e));
    t->valid_seconds = l.seconds;
    keep_best(t, &l);
    metrics_valid(&t->metrics, &l, t->net->seen);
    if (t->hooks->validation) t->hooks->validation(t->hooks->ctx, &l);
    return OK;
}

/* The end: the final weights go before the state, so that a state at the end finds them there. */
static int save_final(struct trainer *t, struct err *e)
{
    struct err last = { 0 };
    int rc = reached_end(t) ? save_weights(t, t->files.path[FINAL], e) : OK;
    int rc_last = save_last(t, &last);
    if (!rc && rc_last) *e = last;
    return rc ? rc : rc_last;
}

static int validate_and_save(struct trainer *t, int ending, struct err *e)
{
    struct err failed = { 0 };
    int validated = validation_due(t), rc = validated ? validate(t, e) : OK;
    if (ending || rc) {
        int saved = save_final(t, &failed);
        if (!rc && saved) *e = failed;
        return rc ? rc : saved;
    }
    if ((validated || saving_due(t)) && save_last(t, &failed)) note_failed_save(t, &failed);
    return OK;
}

/* What was submitted before an iteration failed is reported before the failure; the first failure counts. */
static int drain_first(struct trainer *t, int rc, struct err *e)
{
    struct err first = { 0 };
    int earlier = trainer_drain(t, &first);
    if (earlier) *e = first;
    return earlier ? earlier : rc;
}

static int run(struct trainer *t, struct err *e)
{
    for (int ending = 0; !ending;) {
        int rc = trainer_iterate(t, e);
        if (rc) return give_up(t, drain_first(t, rc, e), e);
        ending = reached_end(t) || (t->o->stop && *t->o->stop);
        int due = ending || validation_due(t) || saving_due(t);
        if (!due && !trainer_full(t)) continue;
        if ((rc = trainer_drain(t, e))) return give_up(t, rc, e);
        if (!due) continue;
        /* The last update can be the one that overflows; no later iteration stumbles over it. */
        if ((rc = net_check_finite(t->net, e))) return give_up(t, rc, e);
        TRY(validate_and_save(t, ending, e));
    }
    return OK;
}

int trainer_run(struct net *net, const struct data_file *data, const struct dataset *train,
                const struct dataset *valid, const struct train_options *o, const struct train_hooks *hooks,
                struct err *e)
{
    struct trainer t = { .net = net, .data = data, .train = train, .valid = valid, .o = o, .hooks = hooks };
    int rc = start(&t, e);
    if (!rc && reached_end(&t))
        note(&net->notes, "%s at iteration %llu of %d; %sraise max_batches",
             o->resume ? "the state is" : "weights are", (unsigned long long)t.p.iteration,
             net->config.max_batches, o->resume ? "" : "use -clear or ");
    else if (!rc)
        rc = run(&t, e);
    stop(&t);
    return rc;
}
