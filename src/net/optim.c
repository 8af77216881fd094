#include "optim.h"
#include <math.h>
#include "backend/ops/optim.h"
#include "core/mem.h"
#include "core/rng.h"
#include "net/param.h"

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

/* ---- the update ---- */

static struct optim_item describe(const struct net *n, const struct param *p)
{
    struct optim_item i = {
        .w = p->w, .average = p->average, .bytes = p->bytes, .layout = p->plan ? p->plan->weights : NULL
    };
    if (!param_is_trained(p)) return i;
    i.v = p->v;
    i.s = p->s;
    i.g = p->g;
    i.rate = n->layer[p->layer].common.learning_rate;
    i.decay = p->flags & PARAM_DECAY ? n->config.decay : 0;
    return i;
}

/* Those that are learnt come first, which optim_check goes by. */
static int plan_update(struct net *n, struct err *e)
{
    struct optim_item *item = mem_alloc((size_t)n->nparam, sizeof *item);
    const struct net_config *c = &n->config;
    struct optim_desc d = { .item = item,
                            .momentum = c->adam ? c->B1 : c->momentum,
                            .b2 = c->B2,
                            .epsilon = c->eps / (double)net_images_per_update(n),
                            .average = 1.0 / c->subdivisions };
    if (!item) return net_no_memory(n, e);
    for (int trained = 1; trained >= 0; trained--)
        for (int i = 0; i < n->nparam; i++) {
            const struct param *p = n->param[i];
            if (param_is_trained(p) == trained && (trained || p->average)) item[d.n++] = describe(n, p);
        }
    int rc = n->be->ops->optim->plan(n->be, &d, &n->optim, e);
    mem_free(item);
    return rc;
}

int optim_open(struct net *n, struct err *e)
{
    void *now = NULL;
    TRY(n->be->ops->alloc(n->be, sizeof *n->now, &now, e));
    n->now = now;
    return plan_update(n, e);
}

void optim_close(struct net *n)
{
    op_destroy(&n->optim);
    n->be->ops->free(n->be, n->now);
    n->now = NULL;
}

/* Before anything moves: a step is taken whole or not at all. */
int optim_check(const struct net *n, struct err *e)
{
    int bad;
    TRY(n->be->ops->optim->check(&n->optim, &bad));
    for (int i = 0; bad >= 0 && i < n->nparam; i++)
        if (param_is_trained(n->param[i]) && !bad--)
            return fail(e, E_NUMBER, "%s: a gradient is not finite",
                        net_layer_name(n, n->param[i]->layer).text);
    return OK;
}

void optim_prepare(struct net *n, uint64_t iteration, double rate, struct step_state *now)
{
    const uint64_t half = (uint64_t)n->config.max_batches / 2;
    if (iteration <= half)
        n->average_from = 0; /* also where a run goes on that was to end earlier */
    else if (!n->average_from)
        n->average_from = iteration;
    const double t = (double)(iteration - n->moments_from);
    now->rate = rate;
    now->v_share = 1 - pow(n->config.B1, t);
    now->s_share = 1 - pow(n->config.B2, t);
    now->average_share = !n->average_from ? 0 : iteration > n->average_from ? 1 - n->config.ema_alpha : 1;
}

int optim_update(struct net *n, uint64_t iteration, double rate, struct err *e)
{
    struct step_state now;
    if (e) e->code = OK;
    int rc = optim_check(n, e);
    optim_prepare(n, iteration, rate, &now);
    const size_t from = offsetof(struct step_state, rate), to = offsetof(struct step_state, ce_sum);
    if (!rc) rc = n->be->ops->upload(n->be, &n->now->rate, &now.rate, to - from);
    if (!rc) rc = n->be->ops->optim->update(&n->optim, n->now);
    return attach_device_error(n, rc, e);
}
