#include "iterate.h"
#include <math.h>
#include "core/clock.h"

enum { STUCK_LIMIT = 200 };
static const double LEARNT_SHARE = .9; /* of ln K: a CE below it is no chance */

double trainer_epoch(const struct trainer *t, uint64_t seen) { return (double)seen / t->train->n; }

/* Sums over the sub-mini-batches of an iteration. */
struct totals {
    double ce, match, lambda, center, extra;
    int matched; /* sub-mini-batches with a match */
};

static int submit(struct trainer *t, struct pending *now, struct err *e)
{
    for (int i = 0; i < t->net->config.subdivisions; i++) {
        const struct batch *b;
        double before = wall_clock();
        TRY(loader_next(t->loader, &b, e));
        now->loading += wall_clock() - before;
        struct step s = step_at(t->net, b->number);
        s.x = b->x;
        s.move = b->move;
        s.label = b->label;
        s.rows = b->rows;
        s.rows_s1 = b->rows_s1;
        now->program = step_program(&t->training, &s);
        int rc = step_submit(now->program, &s, e);
        loader_release(t->loader, b);
        if (rc) return rc;
    }
    return OK;
}

static int add_up(const struct trainer *t, const struct pending *it, struct totals *sum, struct err *e)
{
    for (int i = 0; i < t->net->config.subdivisions; i++) {
        struct step s = step_at(t->net, it->number + (uint64_t)i);
        struct step_stats stats;
        TRY(step_read_stats(it->program, &s, &stats, e));
        sum->ce += stats.ce;
        sum->match += isfinite(stats.match) ? stats.match : 0;
        sum->matched += isfinite(stats.match) != 0;
        sum->center += stats.center;
        sum->extra += stats.extra_seconds;
        sum->lambda = stats.lambda;
    }
    return OK;
}

static double throughput_add(struct throughput *p, double seconds)
{
    p->clock += seconds;
    p->at[++p->n % (THROUGHPUT_WINDOW + 1)] = p->clock;
    uint64_t k = p->n < THROUGHPUT_WINDOW ? p->n : THROUGHPUT_WINDOW;
    return (p->clock - p->at[(p->n - k) % (THROUGHPUT_WINDOW + 1)]) / (double)k;
}

/* Seconds to max_batches at the present throughput, with the validations on the way. */
static double eta(const struct trainer *t, uint64_t iteration, double per_iteration)
{
    const struct net_config *c = &t->net->config;
    if (c->max_batches <= 0) return -1;
    double left = (double)c->max_batches - (double)iteration, validations = 1;
    if (c->valid_every > 0)
        validations += left * (double)net_images_per_update(t->net) / (c->valid_every * t->train->n);
    return left * per_iteration + validations * t->valid_seconds;
}

static void fill_line(struct trainer *t, const struct pending *it, const struct totals *sum, double wall,
                      struct train_line *l)
{
    const struct net_config *c = &t->net->config;
    const struct step first = step_at(t->net, it->number);
    double parts = c->subdivisions;
    l->iteration = first.iteration;
    l->seen = t->net->seen;
    l->epoch = trainer_epoch(t, l->seen);
    l->loaded_seconds = it->loading;
    l->seconds = wall - it->loading;
    l->ce = sum->ce / parts;
    l->ce_smooth = t->p.ce_smooth < 0 ? l->ce : .9 * t->p.ce_smooth + .1 * l->ce;
    l->match = sum->matched ? sum->match / sum->matched : NAN;
    l->center = sum->center / parts;
    l->lambda = sum->lambda;
    l->match_share = l->seconds > 0 ? sum->extra / l->seconds : 0;
    l->rate = first.rate;
    l->burn_in = l->iteration < (uint64_t)c->burn_in ? c->burn_in : 0;
    double per_iteration = throughput_add(&t->throughput, wall);
    l->images_per_second = per_iteration > 0 ? (double)net_images_per_update(t->net) / per_iteration : 0;
    l->eta_seconds = eta(t, l->iteration, per_iteration);
}

/* Warns once when the CE, smoothed, has stayed within 1 % of ln K or above for STUCK_LIMIT iterations in
 * which the match was at work. Iterations whose lambda is higher than ever before do not count: that is the
 * warm-up, in which lambda rises; nor do those without a match, as with every=k. warmup=auto takes lambda
 * back to 0 when what was learnt is lost: then those count too. */
static void watch_collapse(struct trainer *t, const struct train_line *l)
{
    struct progress *p = &t->p;
    double chance = log(t->net->classes);
    if (l->ce_smooth < LEARNT_SHARE * chance) p->marks |= HAS_LEARNT;
    if (l->ce_smooth < .99 * chance)
        p->stuck = 0;
    else if (l->lambda > 0 ? l->lambda <= p->lambda_peak : isfinite(l->match) && p->marks & HAS_LEARNT)
        p->stuck++;
    if (l->lambda > p->lambda_peak) p->lambda_peak = l->lambda;
    if (p->stuck < STUCK_LIMIT || p->marks & HAS_WARNED) return;
    p->marks |= HAS_WARNED;
    note(&t->net->notes,
         "warning: for %d iterations the CE has been that of guessing (%.4f = ln %d) or worse, with [itra] "
         "at work: the features may have collapsed. In [itra] try a lower lambda, warmup=auto, root=0; in "
         "[net] a larger batch",
         STUCK_LIMIT, chance, t->net->classes);
}

static int report(struct trainer *t, const struct pending *it, double wall, struct err *e)
{
    struct totals sum = { 0 };
    struct train_line line;
    TRY(add_up(t, it, &sum, e));
    fill_line(t, it, &sum, wall, &line);
    t->p.ce_smooth = line.ce_smooth;
    metrics_train(&t->metrics, &line);
    if (t->hooks->iteration) t->hooks->iteration(t->hooks->ctx, &line);
    watch_collapse(t, &line);
    return OK;
}

int trainer_iterate(struct trainer *t, struct err *e)
{
    struct pending *now = &t->pending[t->npending];
    if (!t->npending) t->began = wall_clock();
    *now = (struct pending){ .number = t->p.iteration * (uint64_t)t->net->config.subdivisions };
    TRY(submit(t, now, e));
    t->p.iteration++;
    t->npending++;
    return OK;
}

int trainer_full(const struct trainer *t)
{
    return t->npending && t->npending >= step_max_in_flight(t->pending[t->npending - 1].program);
}

/* Iterations that were waited for together are taken to have been equally long. */
int trainer_drain(struct trainer *t, struct err *e)
{
    int n = t->npending;
    if (t->training.plain) TRY(step_wait(t->training.plain, e));
    if (t->training.paired) TRY(step_wait(t->training.paired, e));
    double wall = (wall_clock() - t->began) / (n ? n : 1);
    t->npending = 0;
    for (int i = 0; i < n; i++) {
        int rc = report(t, &t->pending[i], wall, e);
        if (!rc) continue;
        t->p.iteration = t->pending[i].number / (uint64_t)t->net->config.subdivisions;
        return rc;
    }
    return OK;
}
