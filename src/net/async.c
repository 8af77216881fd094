/* Steps that are submitted now and whose stats are read later, where the device works on its own: it keeps
 * the losses of the last steps, follows the CE and stops by itself, and a step is written down once and then
 * replayed. Elsewhere a step has been done when it was submitted. */
#include <math.h>
#include "backend/ops/loss_ring.h"
#include "backend/ops/sgd.h"
#include "core/mem.h"
#include "net/compiled.h"

enum { MAX_IN_FLIGHT = 10 };

/* Losses are read late where the device works on its own and no layer needs the host. */
static int can_be_async(const struct program *p)
{
    const struct backend *be = p->net->be;
    if (p->desc.keep || p->desc.guard || !be->ops->loss_ring || be->eager) return 0;
    for (int i = 0; i < p->n; i++)
        if (p->node[i].used && p->node[i].l.on_host) return 0;
    return 1;
}

static int is_ce(const struct layer *l) { return !(l->ops->flags & LAYER_TRAIN_ONLY); }

static size_t records(const struct program *p) { return MAX_IN_FLIGHT * (size_t)p->net->config.subdivisions; }

static int plan_records(struct program *p, struct err *e)
{
    struct net *n = p->net;
    const double **loss = mem_alloc((size_t)p->n, sizeof *loss);
    int *ce = mem_alloc((size_t)p->n, sizeof *ce), rc = E_MEM;
    struct loss_ring_desc d = { .loss = loss,
                                .is_ce = ce,
                                .capacity = (int)records(p),
                                .scored = p->desc.rows,
                                .parts = n->config.subdivisions,
                                .chance = log(n->classes) };
    for (int i = 0; loss && ce && i < p->n; i++) {
        const struct layer *l = &p->node[i].l;
        if (!p->node[i].used || !l->loss_sum) continue;
        loss[d.n] = l->loss_sum->data;
        ce[d.n++] = is_ce(l);
    }
    p->nrecord = d.n;
    p->record = mem_alloc(records(p) * ((size_t)d.n + 1), sizeof *p->record);
    if (loss && ce && p->record) rc = n->be->ops->loss_ring->plan(n->be, &d, &p->loss_ring, e);
    mem_free(loss);
    mem_free(ce);
    return rc == E_MEM ? fail(e, E_MEM, "%s: not enough memory for %d losses", n->cfg->path, d.n) : rc;
}

/* Where the stats of steps wait to be read. */
int async_plan(struct program *p, struct err *e)
{
    if (!p->desc.train || p->desc.plan_only) return OK;
    p->async = can_be_async(p);
    if (p->async) return plan_records(p, e);
    p->stats = mem_alloc((size_t)p->net->config.subdivisions, sizeof *p->stats);
    return p->stats ? OK : fail(e, E_MEM, "%s: not enough memory", p->net->cfg->path);
}

void async_destroy(struct program *p)
{
    const struct backend_ops *ops = p->net->be->ops;
    mem_free(p->stats);
    mem_free(p->record);
    if (!ops->loss_ring) return;
    for (int i = 0; i < 4; i++) ops->capture_destroy(p->recording[i]);
    op_destroy(&p->loss_ring);
}

static int enqueue(struct program *p, const struct step *s, const struct pass *pass, struct err *e)
{
    struct net *n = p->net;
    const struct backend_ops *ops = n->be->ops;
    TRY(run_forward(p, pass, NULL, e));
    TRY(run_backward(p, pass, NULL, e));
    if (s->update) TRY(ops->sgd->guard(&n->sgd, n->now));
    TRY(ops->loss_ring->push(&p->loss_ring, n->now, s->update));
    return s->update ? ops->sgd->update(&n->sgd, n->now) : OK;
}

/* One that cannot be recorded is no reason to end: nothing of it has run. */
static int record(struct program *p, const struct step *s, const struct pass *pass, struct capture **made)
{
    struct net *n = p->net;
    struct err e = { 0 };
    struct pass again = *pass;
    again.err = &e;
    int rc = enqueue(p, s, &again, &e), ended = n->be->ops->capture_end(n->be, made, rc ? NULL : &e);
    if (!rc && !ended) return OK;
    rc = attach_device_error(p->net, rc ? rc : ended, &e);
    n->be->ops->capture_destroy(*made);
    *made = NULL;
    p->unrecorded = 1;
    note(&n->notes, "a step cannot be recorded, which makes steps slower: %s", e.msg);
    return rc;
}

/* The first time as it is, the second time into a recording, from then on as recorded. What else may differ
 * from step to step is in backend memory, or is not recorded. */
static int enqueue_recorded(struct program *p, const struct step *s, const struct pass *pass, struct err *e)
{
    struct backend *be = p->net->be;
    if (s->reuse_detached) return enqueue(p, s, pass, e);
    int way = (s->add != 0) + 2 * (s->update != 0), tries = p->enqueued[way]++ && !p->unrecorded;
    struct capture **made = &p->recording[way];
    if (!*made && (!tries || be->ops->capture_begin(be) || record(p, s, pass, made)))
        return enqueue(p, s, pass, e);
    return be->ops->launch(be, *made);
}

int program_max_in_flight(const struct program *p) { return p->async ? MAX_IN_FLIGHT : 1; }

int program_submit(struct program *p, const struct step *s, struct err *e)
{
    struct net *n = p->net;
    struct pass pass;
    if (!p->async) {
        TRY(program_train(p, s, &p->stats[s->number % (uint64_t)n->config.subdivisions], e));
        return s->update ? net_update(n, s->rate, e) : OK;
    }
    TRY(run_check(p, s, e));
    int rc = run_fill(p, s, 1, &pass, e);
    if (!rc) rc = enqueue_recorded(p, s, &pass, e);
    if (rc) return attach_device_error(p->net, rc, e);
    if (s->update) n->seen += (uint64_t)n->mini * (uint64_t)n->config.subdivisions;
    return OK;
}

int program_pull(struct program *p, struct err *e)
{
    if (!p->async) return OK;
    TRY(p->net->be->ops->sync(p->net->be, e));
    if (e) e->code = OK;
    return attach_device_error(p->net, p->net->be->ops->loss_ring->pull(&p->loss_ring, p->record), e);
}

static int read_record(struct program *p, const struct step *s, const double *record, struct err *e)
{
    const struct pass pass = { .train = 1, .iteration = s->iteration, .ce_average = p->net->ce_average };
    for (int i = 0; i < p->n; i++) {
        struct layer *l = &p->node[i].l;
        if (!p->node[i].used) continue;
        if (l->ops->weigh) l->weight = l->ops->weigh(l, &pass);
        if (!l->loss_sum) continue;
        l->loss = *record++;
        TRY(finish_loss(l, p->desc.rows, e));
    }
    const char *cfg = p->net->cfg->path;
    if (*record == STOP_LOSS)
        return fail(e, E_NUMBER, "%s: the loss is not finite (-eager tells where that begins)", cfg);
    if (*record == STOP_GRADIENT)
        return fail(e, E_NUMBER, "%s: a gradient is not finite (-eager tells of which layer)", cfg);
    return OK;
}

int program_stats(struct program *p, const struct step *s, struct step_stats *stats, struct err *e)
{
    if (!p->async) {
        *stats = p->stats[s->number % (uint64_t)p->net->config.subdivisions];
        return OK;
    }
    *stats = (struct step_stats){ .extra_seconds = NAN };
    TRY(read_record(p, s, p->record + s->number % records(p) * ((size_t)p->nrecord + 1), e));
    run_add_stats(p, stats);
    return OK;
}
