/* The learning rate, and one step of gradient descent over all parameters. */
#include <math.h>
#include "backend/ops/sgd.h"
#include "core/rng.h"
#include "net/model.h"

static double steps_rate(const struct net_config *c, uint64_t n)
{
    double rate = c->learning_rate;
    for (int i = 0; i < c->steps.n && list_at(&c->steps, i) <= (double)n; i++) rate *= list_at(&c->scales, i);
    return rate;
}

/* Cosine from learning_rate to learning_rate_min in cycles, each sgdr_mult times as long as the one before.
 */
static double sgdr_rate(const struct net_config *c, uint64_t n)
{
    double start = 0, cycle = c->sgdr_cycle ? c->sgdr_cycle : c->max_batches;
    if (cycle <= 0) return c->learning_rate;
    while (start + cycle < (double)n) {
        start += cycle;
        cycle *= c->sgdr_mult;
    }
    double turn = cos(3.14159265358979323846 * ((double)n - start) / cycle);
    return c->learning_rate_min + .5 * (c->learning_rate - c->learning_rate_min) * (1 + turn);
}

double net_rate(const struct net_config *c, uint64_t seed, uint64_t n)
{
    double rate = c->learning_rate, t = (double)n;
    if (n < (uint64_t)c->burn_in) return rate * pow(t / c->burn_in, c->power);
    switch ((enum policy)c->policy) {
    case POLICY_CONSTANT: return rate;
    case POLICY_STEP: return rate * pow(c->scale, floor(t / c->step));
    case POLICY_STEPS: return steps_rate(c, n);
    case POLICY_EXP: return rate * pow(c->gamma, t);
    case POLICY_POLY:
        return c->max_batches > 0 ? rate * pow(fmax(0, 1 - t / c->max_batches), c->power) : rate;
    case POLICY_SIGMOID: return rate / (1 + exp(c->gamma * (t - c->step)));
    case POLICY_RANDOM: return rate * pow(rng_uniform(rng_key(seed, RNG_RATE, 0), n), c->power);
    case POLICY_SGDR: return sgdr_rate(c, n);
    }
    return rate;
}

/* Before anything moves: a step is taken whole or not at all. */
static int check(const struct net *n, struct err *e)
{
    int bad;
    TRY(n->be->ops->sgd->check(&n->sgd, &bad));
    for (int i = 0; bad >= 0 && i < n->nparam; i++) {
        char name[300];
        if (!model_moves(n->param[i]) || bad--) continue;
        model_name(n, n->param[i]->layer, name, sizeof name);
        return fail(e, E_NUMBER, "%s: a gradient is not finite", name);
    }
    return OK;
}

static int update(struct net *n, double rate, struct err *e)
{
    TRY(check(n, e));
    TRY(n->be->ops->upload(n->be, &n->now->rate, &rate, sizeof rate));
    return n->be->ops->sgd->update(&n->sgd, n->now);
}

int net_update(struct net *n, double rate, struct err *e)
{
    if (e) e->code = OK;
    TRY(attach_device_error(n, update(n, rate, e), e));
    n->seen += (uint64_t)n->mini * (uint64_t)n->config.subdivisions;
    return OK;
}

void net_follow_ce(struct net *n, double ce)
{
    double a = n->ce_average < 0 ? log(n->classes) : n->ce_average;
    n->ce_average = .9 * a + .1 * ce;
}
