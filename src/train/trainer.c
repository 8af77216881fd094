/* A run is a sequence of iterations; after each come, where they are due, validation and saving. */
#include "trainer.h"
#include <math.h>
#include <unistd.h>
#include "core/clock.h"
#include "core/mem.h"
#include "core/text.h"
#include "group/group.h"
#include "train/checkpoint.h"
#include "train/collapse.h"
#include "train/feed.h"
#include "train/flight.h"
#include "train/lock.h"

enum { SAVE_EVERY = 100, THROUGHPUT_WINDOW = 32 };

struct trainer {
    struct net *net;
    struct group *group;
    int leads; /* this process writes files and reports */
    const struct dataset *train, *valid;
    const struct data_file *data;
    const struct train_options *o;
    const struct train_hooks *hooks;
    struct program *infer;
    struct feed feed;
    struct files files;
    struct lock lock;
    int saved; /* this run has written files.path[LAST] */
    struct metrics metrics;
    struct progress p;
    struct flight flight; /* the latest iterations, up to p.iteration */
    uint64_t reported;    /* iterations of this run */
    double per_iteration; /* seconds, with loading but without validation: a mean over the latest */
    double valid_seconds; /* of the last validation */
};

static double epoch_of(const struct trainer *t, uint64_t seen) { return (double)seen / t->train->n; }

static int lost_patience(const struct trainer *t)
{
    int patience = t->net->config.patience;
    return patience > 0 && t->p.stale >= (uint32_t)patience;
}

static int reached_end(const struct trainer *t)
{
    int max = t->net->config.max_batches;
    return (max > 0 && t->p.iteration >= (uint64_t)max) || lost_patience(t);
}

static int write_weights(const struct trainer *t, const char *path, int averages, struct err *e)
{
    return averages ? weights_save_averages(t->net, path, e)
                    : weights_save(t->net, path, t->net->n, t->net->seen, e);
}

/* averages: those of ema_alpha, where there are any. A folder that someone has removed is made again. */
static int save_weights(const struct trainer *t, const char *path, int averages, struct err *e)
{
    if (!t->leads) return OK;
    int rc = write_weights(t, path, averages, e);
    if (rc != E_FILE || folder_prepare(t->o->backup, NULL)) return rc;
    return write_weights(t, path, averages, e);
}

static int save_last_weights(struct trainer *t, struct err *e)
{
    TRY(save_weights(t, t->files.path[LAST], 0, e));
    t->saved = 1;
    return OK;
}

/* ---- start ---- */

static int start_from_weights(struct trainer *t, struct err *e)
{
    struct net *net = t->net;
    int layers;
    TRY(weights_load(net, t->o->weights, t->o->finetune ? WEIGHTS_BACKBONE : WEIGHTS_BEGINNING, &layers, e));
    if (!layers)
        note(&net->notes, "%s: %s: all layers are random", t->o->weights,
             t->o->finetune ? "no layer is loaded" : "holds no numbers, only a header");
    else if (layers < net->n)
        note(&net->notes, "%s: layers 0..%d loaded, the rest random", t->o->weights, layers - 1);
    if (t->o->clear || t->o->finetune) net_set_seen(net, 0);
    return OK;
}

static int start_position(struct trainer *t, struct err *e)
{
    t->p = (struct progress){
        .ce_smooth = -1, .best_top1 = -1, .best_ce = -1, .samples = hash_samples(t->train)
    };
    if (t->data->replacement) t->p.marks = WITH_REPLACEMENT;
    if (t->o->resume) return state_load(t->net, &t->p, t->train->n, t->o->resume, e);
    if (t->o->weights) TRY(start_from_weights(t, e));
    t->p.iteration = t->net->seen / net_images_per_update(t->net);
    return OK;
}

static void report_start(const struct trainer *t)
{
    const struct program *opened[] = { t->o->programs->plain, t->o->programs->paired, t->infer };
    struct train_start s = { .iteration = t->p.iteration, .metrics = t->metrics.path };
    for (int i = 0; i < 3; i++) {
        struct program_info info;
        if (!opened[i]) continue;
        program_get_info(opened[i], &info);
        *(opened[i] == t->infer ? &s.infer : &s.train) += info.arena + info.scratch + info.fixed;
        if (opened[i] != t->infer) s.params = info.params;
    }
    if (t->leads && t->hooks->start) t->hooks->start(t->hooks->ctx, &s);
}

/* A state at the end has final weights beside it, unless writing them failed, or somebody removed them. */
static int nothing_to_do(const struct trainer *t, struct err *e)
{
    const char *resume = t->o->resume;
    if (resume && access(t->files.path[FINAL], F_OK)) TRY(save_weights(t, t->files.path[FINAL], 1, e));
    note(&t->net->notes, "%s at iteration %llu of %d, where training ends: %sraise %s",
         resume ? "the state is" : "weights are", (unsigned long long)t->p.iteration,
         t->net->config.max_batches, resume ? "" : "use -clear or ",
         lost_patience(t) ? "patience" : "max_batches");
    return OK;
}

static int open_files(struct trainer *t, const char *metrics, struct err *e)
{
    if (!t->leads) return OK;
    TRY(lock_open(&t->lock, t->files.path[LOCK], &t->net->notes, e));
    return files_check(&t->files, metrics, e);
}

static const char *metrics_path(const struct trainer *t)
{
    return t->o->metrics ? t->o->metrics : t->files.path[METRICS];
}

static int start(struct trainer *t, struct err *e)
{
    const int mini = t->net->share.rows, most = t->valid && t->valid->n < mini ? t->valid->n : mini;
    const struct program_desc infer = { .rows = most, .features = t->net->feature + 1 };
    TRY(files_open(&t->files, t->o->backup, t->o->base, e));
    TRY(open_files(t, metrics_path(t), e));
    TRY(step_open(t->o->programs, t->net, e));
    if (t->valid) TRY(program_open(&t->infer, t->net, &infer, e));
    TRY(start_position(t, e));
    return reached_end(t) ? nothing_to_do(t, e) : net_check_finite(t->net, e);
}

/* Once it is certain that all start: it is here that files of an earlier run change. */
static int begin(struct trainer *t, struct err *e)
{
    const uint64_t kept = t->o->resume ? t->p.iteration : 0;
    if (t->leads) TRY(metrics_open(&t->metrics, metrics_path(t), kept, &t->net->notes, e));
    TRY(feed_open(&t->feed, t->net, t->data, t->train, t->p.iteration, t->o->workers,
                  t->o->notes ? t->o->notes : &t->net->notes, e));
    /* From the first iteration on there is something to fall back on: see give_up. */
    return access(t->files.path[LAST], F_OK) ? save_last_weights(t, e) : OK;
}

/* All processes start, or none does. */
static int start_together(struct trainer *t, struct err *e)
{
    TRY(group_agree(t->group, start(t, e), e));
    if (t->group) TRY(check_equal(t->net, t->data, t->valid, &t->p, e));
    TRY(group_agree(t->group, step_connect(t->net, e), e));
    if (reached_end(t)) return OK;
    TRY(group_agree(t->group, begin(t, e), e));
    report_start(t);
    return OK;
}

static void stop(struct trainer *t)
{
    feed_close(&t->feed);
    metrics_close(&t->metrics);
    program_close(t->infer);
    lock_close(&t->lock);
    files_close(&t->files);
}

/* ---- an iteration ---- */

static int submit(struct trainer *t, struct program **program, struct err *e)
{
    for (int i = 0; i < t->net->config.subdivisions; i++) {
        const struct batch *b;
        struct step s;
        double before = wall_clock();
        TRY(group_agree(t->group, feed_next(&t->feed, &b, &s, e), e));
        t->flight.loading += wall_clock() - before;
        *program = step_program(t->o->programs, &s);
        TRY(step_submit(*program, &s, e));
        TRY(feed_release(&t->feed, b, e));
    }
    return OK;
}

/* Reads the stats of an iteration into its line. */
static int read_stats(const struct trainer *t, struct program *p, struct train_line *l, struct err *e)
{
    int parts = t->net->config.subdivisions, matched = 0;
    double match = 0, extra = 0;
    for (int i = 0; i < parts; i++) {
        struct step s = step_at(t->net, (l->iteration - 1) * (uint64_t)parts + (uint64_t)i);
        struct step_stats stats;
        TRY(step_read_stats(p, &s, &stats, e));
        l->ce += stats.ce;
        l->lambda = stats.lambda;
        l->rate = s.rate;
        extra += stats.extra_seconds;
        if (!isfinite(stats.match)) continue;
        match += stats.match;
        matched++;
    }
    l->ce /= parts;
    l->match = matched ? match / matched : NAN;
    l->match_share = l->seconds > 0 ? extra / l->seconds : 0;
    return OK;
}

/* Seconds to max_batches at the present throughput, with the validations on the way. */
static double eta(const struct trainer *t, uint64_t iteration)
{
    const struct net_config *c = &t->net->config;
    if (c->max_batches <= 0) return -1;
    double left = (double)c->max_batches - (double)iteration, validations = 1;
    if (c->valid_every > 0)
        validations += left * (double)net_images_per_update(t->net) / (c->valid_every * t->train->n);
    return left * t->per_iteration + validations * t->valid_seconds;
}

/* Of those that have landed, number i, which is this iteration. */
static int report(struct trainer *t, const struct landed *landed, int i, uint64_t iteration, struct err *e)
{
    int burn_in = t->net->config.burn_in;
    struct train_line l = { .iteration = iteration,
                            .loaded_seconds = landed->loading,
                            .seconds = landed->seconds - landed->loading,
                            .burn_in = iteration < (uint64_t)burn_in ? burn_in : 0 };
    TRY(read_stats(t, landed->program[i], &l, e));
    double window = ++t->reported < THROUGHPUT_WINDOW ? (double)t->reported : THROUGHPUT_WINDOW;
    t->per_iteration += (landed->seconds - t->per_iteration) / window;
    l.seen = t->net->seen;
    l.epoch = epoch_of(t, l.seen);
    l.ce_smooth = t->p.ce_smooth < 0 ? l.ce : .9 * t->p.ce_smooth + .1 * l.ce;
    l.images_per_second = t->per_iteration > 0 ? (double)net_images_per_update(t->net) / t->per_iteration : 0;
    l.eta_seconds = eta(t, iteration);
    t->p.ce_smooth = l.ce_smooth;
    if (t->leads) metrics_train(&t->metrics, &l);
    if (t->leads && t->hooks->iteration) t->hooks->iteration(t->hooks->ctx, &l);
    collapse_watch(&t->p, &l, t->net->classes, &t->net->notes);
    return OK;
}

/* Reports iterations, one after another, until at most `left` are in flight, and those are marked. After a
 * failure the counters and the weights are those before the iteration that failed. */
static int settle(struct trainer *t, int left, struct err *e)
{
    struct flight *f = &t->flight;
    struct landed l;
    while (f->n > left || f->n > f->marked) {
        const uint64_t before = t->p.iteration - (uint64_t)f->n;
        TRY(flight_land(f, t->o->programs, &l, e));
        for (int i = 0; i < l.n; i++) {
            int rc = report(t, &l, i, before + (uint64_t)i + 1, e);
            if (!rc) continue;
            t->p.iteration = before + (uint64_t)i;
            return rc;
        }
    }
    return OK;
}

/* After a failure the weights are those of the iteration before. */
static int iterate(struct trainer *t, struct err *e)
{
    struct program *program = NULL;
    struct err failed = { 0 };
    flight_begin(&t->flight);
    int rc = submit(t, &program, &failed);
    if (rc) {
        TRY(settle(t, 0, e)); /* what was submitted before is reported before the failure, or fails first */
        *e = failed;
        return rc;
    }
    flight_add(&t->flight, program);
    t->p.iteration++;
    return OK;
}

/* ---- saving ---- */

/* The folder, or files in it, may have been removed: what is open is made again. */
static void keep_files(struct trainer *t)
{
    struct err lost = { 0 };
    if (access(t->o->backup, F_OK)) folder_prepare(t->o->backup, NULL);
    if (lock_keep(&t->lock, &t->net->notes, &lost)) note(&t->net->notes, "%s", lost.msg);
    if (metrics_flush(&t->metrics, &lost)) note(&t->net->notes, "%s", lost.msg);
}

/* Metrics first, so that a run resumed from the state finds the rows up to its iteration. Failing to write
 * them does not keep the weights from being saved. */
static int save_last(struct trainer *t, struct err *e)
{
    if (!t->leads) return OK;
    keep_files(t);
    TRY(save_last_weights(t, e));
    return state_save(t->net, &t->p, t->train->n, t->files.path[STATE], e);
}

static void note_failed_save(const struct trainer *t, const struct err *e)
{
    note(&t->net->notes, "warning: not saved: %s; training goes on and tries again at the next save", e->msg);
}

/* The final weights go before the state, so that a state at the end finds them there. */
static int save_at_end(struct trainer *t, struct err *e)
{
    int rc = reached_end(t) ? save_weights(t, t->files.path[FINAL], 1, e) : OK;
    int rc_last = save_last(t, rc ? NULL : e);
    return rc ? rc : rc_last;
}

/* The iteration failed before its update, so the weights are those of the iteration before: worth keeping,
 * unless the forward pass has spoilt running statistics. The state stays as it was saved last. */
static int give_up(struct trainer *t, int rc, struct err *e)
{
    struct err cause = *e, ignored;
    char kept[160] = "";
    double rate = net_rate(&t->net->config, t->net->seed, t->p.iteration + 1);
    if (!net_check_finite(t->net, &ignored) && !save_weights(t, t->files.path[LAST], 0, &ignored))
        snprintf(kept, sizeof kept, "; the weights before it are saved to %.90s", t->files.path[LAST]);
    else if (t->saved)
        snprintf(kept, sizeof kept, "; the weights saved last by this run are in %.90s", t->files.path[LAST]);
    if (t->leads) metrics_flush(&t->metrics, &ignored);
    if (rc == E_GROUP) return fail(e, rc, "%s%s", cause.msg[0] ? cause.msg : err_text(rc), kept);
    if (rc != E_NUMBER) {
        group_abandon(t->group);
        return rc;
    }
    rc = fail(e, E_NUMBER, "iteration %llu, rate %g: %.200s%s; lower learning_rate or raise burn_in",
              (unsigned long long)t->p.iteration + 1, rate, cause.msg, kept);
    return group_agree(t->group, rc, e); /* all have found it */
}

/* ---- validation ---- */

/* Every valid_every epochs: where seen / (valid_every * images) passes a whole number; and at the end. */
static int validation_due(const struct trainer *t)
{
    double interval = t->net->config.valid_every * t->train->n,
           images = (double)net_images_per_update(t->net),
           seen = (double)t->net->seen + t->flight.n * images; /* with those in flight */
    if (!t->valid) return 0;
    if (reached_end(t)) return 1;
    return interval > 0 && floor(seen / interval) > floor((seen - images) / interval);
}

static int numbered_due(const struct trainer *t)
{
    const int every = t->data->saveweights;
    return every && t->p.iteration % (uint64_t)every == 0;
}

static int saving_due(const struct trainer *t)
{
    const int every = t->data->savelast ? t->data->savelast : SAVE_EVERY;
    return t->p.iteration % (uint64_t)every == 0 || numbered_due(t);
}

/* BACKUP/BASE_N.weights, after iteration N. */
static int save_numbered(const struct trainer *t, struct err *e)
{
    char *path =
        text_format("%s/%s_%llu.weights", t->o->backup, t->o->base, (unsigned long long)t->p.iteration);
    int rc = path ? save_weights(t, path, 0, e) : fail(e, E_MEM, "not enough memory");
    mem_free(path);
    return rc;
}

static void keep_best(struct trainer *t, struct valid_line *l)
{
    struct progress *p = &t->p;
    struct err e = { 0 };
    if (l->top1 < p->best_top1 || (l->top1 <= p->best_top1 && l->ce >= p->best_ce)) {
        p->stale += t->net->config.patience > 0;
        return;
    }
    p->stale = 0;
    int failed = save_weights(t, t->files.path[BEST], 1, &e) != OK;
    if (failed) note_failed_save(t, &e);
    if (group_max(t->group, &failed) || failed) return;
    p->best_top1 = l->top1;
    p->best_ce = l->ce;
    l->best = 1;
}

static int validate(struct trainer *t, struct err *e)
{
    struct eval_options o = { .workers = t->o->workers,
                              .top = t->o->top,
                              .seed = t->net->seed,
                              .notes = t->o->notes,
                              .group = t->group,
                              .progress = t->leads ? t->hooks->validating : NULL,
                              .ctx = t->hooks->ctx };
    struct valid_line l = { .iteration = t->p.iteration, .epoch = epoch_of(t, t->net->seen) };
    TRY(group_agree(t->group, program_refresh(t->infer, e), e));
    TRY(evaluate(t->net, t->infer, t->valid, &o, &l, e));
    t->valid_seconds = l.seconds;
    keep_best(t, &l);
    if (!t->leads) return OK;
    metrics_valid(&t->metrics, &l, t->net->seen);
    if (t->hooks->validation) t->hooks->validation(t->hooks->ctx, &l);
    return OK;
}

/* ---- the loop ---- */

/* A signal to one process is one to all: each is told which it was. */
static int must_end(struct trainer *t, int *ending, struct err *e)
{
    int signal = t->o->stop ? *t->o->stop : 0, rc = group_max(t->group, &signal);
    if (rc) return fail(e, rc, "%s", err_text(rc));
    if (signal && t->o->stop) *t->o->stop = signal;
    *ending |= signal || reached_end(t);
    return OK;
}

/* A failed validation ends the run, and what was learnt before it is saved. */
static int validate_and_save(struct trainer *t, int *ending, struct err *e)
{
    struct err failed = { 0 };
    int rc = validation_due(t) ? validate(t, e) : OK;
    TRY(must_end(t, ending, e)); /* what the hook was told may have been enough */
    if (!rc && lost_patience(t)) {
        note(&t->net->notes, "patience=%d: training ends after that many validations without a new best",
             t->net->config.patience);
        *ending = 1;
    }
    if (!rc && numbered_due(t) && save_numbered(t, &failed)) note_failed_save(t, &failed);
    if (*ending || rc) {
        int saved = save_at_end(t, rc ? NULL : e);
        return rc ? rc : group_agree(t->group, saved, e);
    }
    if (save_last(t, &failed)) note_failed_save(t, &failed);
    return OK;
}

static int run(struct trainer *t, struct err *e)
{
    const struct flight *f = &t->flight;
    for (int ending = 0; !ending;) {
        int rc = iterate(t, e);
        if (!rc) rc = must_end(t, &ending, e);
        if (rc) return give_up(t, rc, e);
        int due = ending || validation_due(t) || saving_due(t);
        const int window = due ? 0 : step_window(f->program[f->n - 1]);
        if (f->n - f->marked < window) continue;
        rc = settle(t, window, e);
        if (!rc) rc = must_end(t, &ending, e);   /* what was reported may have been enough, */
        if (!rc && ending) rc = settle(t, 0, e); /* and what follows it is there already */
        due |= ending;
        if (!rc && due) rc = group_agree(t->group, loader_join(t->feed.loader, t->group, e), e);
        /* The last update may be the one that overflows, and no later iteration would notice. */
        if (!rc && due) rc = net_check_finite(t->net, e);
        if (rc) return give_up(t, rc, e);
        if (due) TRY(validate_and_save(t, &ending, e));
    }
    return OK;
}

int trainer_run(struct net *net, const struct data_file *data, const struct dataset *train,
                const struct dataset *valid, const struct train_options *o, const struct train_hooks *hooks,
                struct err *e)
{
    struct group *group = net->be->group;
    struct trainer t = { .net = net,
                         .group = group,
                         .leads = group_leads(group),
                         .data = data,
                         .train = train,
                         .valid = valid,
                         .o = o,
                         .hooks = hooks };
    int rc = start_together(&t, e);
    if (!rc && !reached_end(&t)) rc = run(&t, e);
    stop(&t);
    return rc;
}
