/* The loop. A run is a sequence of iterations; after each come, where they are due, validation and saving. */
#include <math.h>
#include <string.h>
#include <unistd.h>
#include "core/mem.h"
#include "train/run.h"

enum { SAVE_EVERY = 100, PACE_WINDOW = 32, STUCK_LIMIT = 200 };

/* Time spent in the latest iterations, loading included and validation not. */
struct pace {
    double clock, at[PACE_WINDOW + 1]; /* a ring of readings of the clock, which starts at 0 */
    uint64_t n;                        /* iterations so far */
};

struct trainer {
    struct net *net;
    const struct dataset *train, *valid;
    const struct data_file *data;
    const struct train_options *o;
    const struct train_hooks *hooks;
    struct program *plain, *paired, *infer;
    struct loader *loader;
    struct files files;
    struct metrics metrics;
    struct progress p;
    struct pace pace;
    double valid_seconds; /* of the last validation */
};

static uint64_t batch_images(const struct net *net)
{
    return (uint64_t)net->mini * (uint64_t)net->config.subdivisions;
}

static double epoch_at(const struct trainer *t, uint64_t seen) { return (double)seen / t->train->n; }

/* ---- start ---- */

static int save_weights(const struct trainer *t, const char *path, struct err *e)
{
    return weights_save(t->net, path, t->net->n, t->net->seen, e);
}

static int open_programs(struct trainer *t, struct err *e)
{
    const struct net *net = t->net;
    struct program_desc plain = { .rows = net->mini, .train = 1 }, paired = plain;
    struct program_desc infer = { .rows = net->mini, .features = net->feature >= 0 };
    paired.paired = 1;
    if (!net->pair_loader || net->wants.every > 1) TRY(program_open(&t->plain, t->net, &plain, e));
    if (net->pair_loader) TRY(program_open(&t->paired, t->net, &paired, e));
    return t->valid ? program_open(&t->infer, t->net, &infer, e) : OK;
}

static int start_from_weights(struct trainer *t, struct err *e)
{
    struct net *net = t->net;
    int layers;
    TRY(weights_load(net, t->o->weights, 1, &layers, e));
    if (layers < net->n)
        note(&net->notes, "%s: layers 0..%d loaded, the rest random", t->o->weights, layers - 1);
    if (t->o->clear) net->seen = 0;
    t->p.iteration = net->seen / batch_images(net);
    return OK;
}

static int start_position(struct trainer *t, struct err *e)
{
    t->p = (struct progress){ .ce_smooth = -1, .best_top1 = -1, .best_ce = -1 };
    if (t->o->resume) return state_load(t->net, &t->p, t->train->n, t->o->resume, e);
    return t->o->weights ? start_from_weights(t, e) : OK;
}

static int open_loader(struct trainer *t, struct err *e)
{
    const struct net *net = t->net;
    struct loader_options l = {
        .seed = net->seed, .rows = net->mini, .training = 1, .workers = t->o->workers
    };
    TRY(augment_from_net(&net->config, &l.augment, e));
    l.pairing = !net->pair_loader ? PAIR_NONE : net->wants.by_class ? PAIR_CLASS : PAIR_RANDOM;
    l.subdivisions = net->config.subdivisions;
    l.every = net->pair_loader ? net->wants.every : 1;
    l.replacement = t->data->replacement;
    l.start = t->p.iteration * (uint64_t)l.subdivisions;
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
    struct train_start s = { .iteration = t->p.iteration, .images = t->train->n };
    size_t folded;
    add_memory(t->plain, &s.train, &s.params);
    add_memory(t->paired, &s.train, &s.params);
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
    TRY(open_programs(t, e));
    TRY(start_position(t, e));
    if (reached_end(t)) return OK;
    const char *metrics = t->o->metrics ? t->o->metrics : t->files.metrics;
    TRY(metrics_open(&t->metrics, metrics, t->p.iteration, e));
    TRY(open_loader(t, e));
    /* From the first iteration on there is something to fall back on: see give_up. */
    if (access(t->files.last, F_OK)) TRY(save_weights(t, t->files.last, e));
    report_start(t);
    return OK;
}

static void stop(struct trainer *t)
{
    loader_close(t->loader);
    metrics_close(&t->metrics);
    program_close(t->infer);
    program_close(t->paired);
    program_close(t->plain);
    files_close(&t->files);
}

/* ---- saving ---- */

/* Metrics first: rows up to the state's iteration are then always there when it is resumed. */
static int save_last(struct trainer *t, struct err *e)
{
    TRY(metrics_flush(&t->metrics, e));
    TRY(save_weights(t, t->files.last, e));
    return state_save(t->net, &t->p, t->train->n, t->files.state, e);
}

static void note_failed_save(const struct trainer *t, const struct err *e)
{
    note(&t->net->notes, "not saved: %s; training goes on and tries again at the next save", e->msg);
}

/* ---- one iteration ---- */

/* Sums over the sub-mini-batches of an iteration. */
struct totals {
    double ce, match, lambda, center, extra, loading;
    int matched; /* sub-mini-batches with a match */
};

static int train_part(struct trainer *t, const struct batch *b, int part, struct totals *sum, struct err *e)
{
    struct step s = { .x = b->x,
                      .label = b->label,
                      .rows = b->rows,
                      .first = b->first,
                      .add = part > 0,
                      .number = b->number,
                      .iteration = t->p.iteration + 1 };
    struct step_stats stats;
    TRY(program_train(b->rows > b->first ? t->paired : t->plain, &s, &stats, e));
    sum->ce += stats.ce;
    sum->match += isfinite(stats.match) ? stats.match : 0;
    sum->matched += isfinite(stats.match) != 0;
    sum->center += stats.center;
    sum->extra += stats.extra_seconds;
    sum->lambda = stats.lambda;
    return OK;
}

static int train_parts(struct trainer *t, struct totals *sum, struct err *e)
{
    for (int i = 0; i < t->net->config.subdivisions; i++) {
        const struct batch *b;
        double before = wall_clock();
        TRY(loader_next(t->loader, &b, e));
        sum->loading += wall_clock() - before;
        int rc = train_part(t, b, i, sum, e);
        loader_release(t->loader, b);
        if (rc) return rc;
    }
    return OK;
}

static double pace_add(struct pace *p, double seconds)
{
    p->clock += seconds;
    p->at[++p->n % (PACE_WINDOW + 1)] = p->clock;
    uint64_t k = p->n < PACE_WINDOW ? p->n : PACE_WINDOW;
    return (p->clock - p->at[(p->n - k) % (PACE_WINDOW + 1)]) / (double)k;
}

/* Seconds to max_batches at the present pace, with the validations on the way. */
static double eta(const struct trainer *t, double per_iteration)
{
    const struct net_config *c = &t->net->config;
    if (c->max_batches <= 0) return -1;
    double left = (double)c->max_batches - (double)t->p.iteration - 1, validations = 1;
    if (c->valid_every > 0)
        validations += left * (double)batch_images(t->net) / (c->valid_every * t->train->n);
    return left * per_iteration + validations * t->valid_seconds;
}

static void fill_line(struct trainer *t, const struct totals *sum, double rate, double wall,
                      struct train_line *l)
{
    const struct net_config *c = &t->net->config;
    double parts = c->subdivisions;
    l->iteration = t->p.iteration + 1;
    l->seen = t->net->seen;
    l->epoch = epoch_at(t, l->seen);
    l->loaded_seconds = sum->loading;
    l->seconds = wall - sum->loading;
    l->ce = sum->ce / parts;
    l->ce_smooth = t->p.ce_smooth < 0 ? l->ce : .9 * t->p.ce_smooth + .1 * l->ce;
    l->match = sum->matched ? sum->match / sum->matched : NAN;
    l->center = sum->center / parts;
    l->lambda = sum->lambda;
    l->match_share = l->seconds > 0 ? sum->extra / l->seconds : 0;
    l->rate = rate;
    l->burn_in = l->iteration < (uint64_t)c->burn_in ? c->burn_in : 0;
    double per_iteration = pace_add(&t->pace, wall);
    l->images_per_second = per_iteration > 0 ? (double)batch_images(t->net) / per_iteration : 0;
    l->eta_seconds = eta(t, per_iteration);
}

/* The running mean that warmup=auto follows: it starts at ln K. */
static void follow_ce(struct net *net, double ce)
{
    double a = net->ce_average < 0 ? log(net->classes) : net->ce_average;
    net->ce_average = .9 * a + .1 * ce;
}

/* Warns once when the CE has stayed within 1 % of ln K or above for STUCK_LIMIT iterations in which the match
 * was at work. Iterations whose lambda is higher than ever before do not count: that is the warm-up, in which
 * lambda rises; nor do those without a match, as with every=k. */
static void watch_collapse(struct trainer *t, const struct train_line *l)
{
    struct progress *p = &t->p;
    double chance = log(t->net->classes);
    if (l->ce < .99 * chance)
        p->stuck = 0;
    else if (l->lambda > 0 && l->lambda <= p->lambda_peak)
        p->stuck++;
    if (l->lambda > p->lambda_peak) p->lambda_peak = l->lambda;
    if (p->stuck < STUCK_LIMIT || p->warned) return;
    p->warned = 1;
    note(&t->net->notes,
         "warning: for %d iterations the CE has been at that of guessing (%.4f = ln %d) with the match in "
         "force: the "
         "features may have collapsed. In [itra] try a lower lambda, warmup=auto, root=0; in [net] a larger "
         "batch",
         STUCK_LIMIT, chance, t->net->classes);
}

static int iterate(struct trainer *t, struct err *e)
{
    struct totals sum = { 0 };
    struct train_line line;
    double before = wall_clock(), rate = net_rate(&t->net->config, t->net->seed, t->p.iteration + 1);
    TRY(train_parts(t, &sum, e));
    TRY(net_update(t->net, rate, e));
    fill_line(t, &sum, rate, wall_clock() - before, &line);
    t->p.iteration = line.iteration;
    t->p.ce_smooth = line.ce_smooth;
    follow_ce(t->net, line.ce);
    metrics_train(&t->metrics, &line);
    if (t->hooks->iteration) t->hooks->iteration(t->hooks->ctx, &line);
    watch_collapse(t, &line);
    return OK;
}

/* The iteration failed before its update, so the weights are those of the iteration before: worth keeping,
 * unless the forward pass has spoilt running statistics. The state stays as it was saved last. */
static int give_up(struct trainer *t, struct err *e)
{
    struct err cause = *e, ignored;
    const char *kept = "as saved last in";
    double rate = net_rate(&t->net->config, t->net->seed, t->p.iteration + 1);
    if (net_is_finite(t->net) && !save_weights(t, t->files.last, &ignored)) kept = "saved to";
    metrics_flush(&t->metrics, &ignored);
    if (cause.code != E_NUMBER) return cause.code;
    return fail(e, E_NUMBER,
                "iteration %llu, rate %g: %.240s; the weights before it are %s %.90s; lower learning_rate or "
                "raise burn_in",
                (unsigned long long)t->p.iteration + 1, rate, cause.msg, kept, t->files.last);
}

/* ---- between iterations ---- */

/* Every valid_every epochs: where seen / (valid_every * images) passes a whole number; and at the end. */
static int validation_due(const struct trainer *t)
{
    double interval = t->net->config.valid_every * t->train->n, seen = (double)t->net->seen;
    if (!t->valid) return 0;
    if (reached_end(t)) return 1;
    return interval > 0 && floor(seen / interval) > floor((seen - (double)batch_images(t->net)) / interval);
}

static int is_best(const struct progress *p, const struct valid_line *l)
{
    return l->top1 > p->best_top1 || (l->top1 >= p->best_top1 && l->ce < p->best_ce);
}

static void keep_best(struct trainer *t, struct valid_line *l)
{
    struct err e = { 0 };
    if (!is_best(&t->p, l)) return;
    if (save_weights(t, t->files.best, &e)) {
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
                              .features = t->net->feature >= 0 };
    struct valid_line l = { .iteration = t->p.iteration, .epoch = epoch_at(t, t->net->seen) };
    TRY(program_refresh(t->infer, e));
    TRY(evaluate(t->net, t->infer, t->valid, &o, &l, e));
    t->valid_seconds = l.seconds;
    keep_best(t, &l);
    metrics_valid(&t->metrics, &l, t->net->seen);
    if (t->hooks->validation) t->hooks->validation(t->hooks->ctx, &l);
    return OK;
}

/* The end: the final weights go before the state, so that a state at the end means that they are there. */
static int save_final(struct trainer *t, struct err *e)
{
    struct err last = { 0 };
    int rc = reached_end(t) ? save_weights(t, t->files.final, e) : OK;
    int rc_last = save_last(t, &last);
    if (!rc && rc_last) *e = last;
    return rc ? rc : rc_last;
}

static int settle(struct trainer *t, int ending, struct err *e)
{
    struct err failed = { 0 };
    int validated = validation_due(t), rc = validated ? validate(t, e) : OK;
    if (ending || rc) {
        int saved = save_final(t, &failed);
        if (!rc && saved) *e = failed;
        return rc ? rc : saved;
    }
    if ((validated || t->p.iteration % SAVE_EVERY == 0) && save_last(t, &failed))
        note_failed_save(t, &failed);
    return OK;
}

static int run(struct trainer *t, struct err *e)
{
    for (int ending = 0; !ending;) {
        if (iterate(t, e)) return give_up(t, e);
        ending = reached_end(t) || (t->o->stop && *t->o->stop);
        TRY(settle(t, ending, e));
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
        note(&net->notes, "weights are at iteration %llu of %d; use -clear or raise max_batches",
             (unsigned long long)t.p.iteration, net->config.max_batches);
    else if (!rc)
        rc = run(&t, e);
    stop(&t);
    return rc;
}
