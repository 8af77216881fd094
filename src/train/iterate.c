/* One iteration: forward and backward over its sub-mini-batches, the update, and what is reported of it. */
#include <math.h>
#include "train/run.h"

enum { STUCK_LIMIT = 200 };

uint64_t trainer_batch(const struct net *net)
{
    return (uint64_t)net->mini * (uint64_t)net->config.subdivisions;
}

double trainer_epoch(const struct trainer *t, uint64_t seen) { return (double)seen / t->train->n; }

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
        validations += left * (double)trainer_batch(t->net) / (c->valid_every * t->train->n);
    return left * per_iteration + validations * t->valid_seconds;
}

static void fill_line(struct trainer *t, const struct totals *sum, double rate, double wall,
                      struct train_line *l)
{
    const struct net_config *c = &t->net->config;
    double parts = c->subdivisions;
    l->iteration = t->p.iteration + 1;
    l->seen = t->net->seen;
    l->epoch = trainer_epoch(t, l->seen);
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
    l->images_per_second = per_iteration > 0 ? (double)trainer_batch(t->net) / per_iteration : 0;
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
    note(
        &t->net->notes,
        "warning: for %d iterations the CE has been that of guessing (%.4f = ln %d) with the match in force: "
        "the features may have collapsed. In [itra] try a lower lambda, warmup=auto, root=0; in [net] a "
        "larger batch",
        STUCK_LIMIT, chance, t->net->classes);
}

int trainer_iterate(struct trainer *t, struct err *e)
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
