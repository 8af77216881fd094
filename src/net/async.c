#include "net/compiled.h"
#include <math.h>
#include "backend/ops/loss_ring.h"
#include "backend/ops/optim.h"
#include "core/mem.h"

enum { KINDS = 4 };

struct async {
    struct op_plan ring;
    int losses; /* of a step; behind them in its record is the stop */
    struct {
        struct capture *step; /* NULL: not captured */
        int runs;
    } kind[KINDS];
    int failed; /* the device could not capture a step: no more are tried */
};

static int is_possible(const struct program *p)
{
    const struct backend *be = p->net->be;
    if (p->desc.keep || p->desc.guard || !be->ops->loss_ring || be->eager) return 0;
    for (const struct layer *l = NULL; (l = next_active(p, l));)
        if (l->on_host) return 0;
    return 1;
}

int async_open(struct program *p, struct err *e)
{
    struct net *n = p->net;
    if (!is_possible(p)) return OK;
    struct async *a = p->async = mem_alloc(1, sizeof *a);
    if (!a) return net_no_memory(n, e);
    const double **loss = mem_alloc((size_t)p->n, sizeof *loss);
    int *ce = mem_alloc((size_t)p->n, sizeof *ce);
    for (const struct layer *l = NULL; loss && ce && (l = next_active(p, l));) {
        if (!l->loss_sum) continue;
        loss[a->losses] = l->loss_sum->data;
        ce[a->losses++] = !(l->ops->flags & LAYER_TRAIN_ONLY);
    }
    struct loss_ring_desc d = { .loss = loss,
                                .is_ce = ce,
                                .n = a->losses,
                                .capacity = 2 * ASYNC_WINDOW * n->config.subdivisions,
                                .scored = p->desc.share.all,
                                .parts = n->config.subdivisions,
                                .chance = log(n->classes) };
    int rc = loss && ce ? n->be->ops->loss_ring->plan(n->be, &d, &a->ring, e) : net_no_memory(n, e);
    mem_free(loss);
    mem_free(ce);
    return rc;
}

void async_close(struct program *p)
{
    struct async *a = p->async;
    if (!a) return;
    for (int i = 0; i < KINDS; i++) p->net->be->ops->capture_destroy(a->kind[i].step);
    op_destroy(&a->ring);
    mem_free(a);
}

/* ---- captures ---- */

static void capture(struct program *p, const struct step *s, const struct pass *pass, compute_step *compute,
                    struct capture **captured)
{
    struct net *n = p->net;
    const struct backend_ops *ops = n->be->ops;
    struct err failed = { 0 };
    struct pass recorded = *pass;
    recorded.err = &failed;
    if (ops->capture_begin(n->be)) return;
    int rc = compute(p, s, &recorded, &failed);
    int ended = ops->capture_end(n->be, captured, rc ? NULL : &failed);
    if (!rc && !ended) return;
    attach_device_error(n, rc ? rc : ended, &failed);
    ops->capture_destroy(*captured);
    *captured = NULL;
    p->async->failed = 1;
    note(&n->notes, "a step cannot be captured, which makes training slower: %s", failed.msg);
}

/* A capture fixes what it is told by value, add and update, so each combination of them has its own; all else
 * that differs from step to step is in backend memory. The first step of a kind runs uncaptured, so that
 * whatever is set up on first use is there. Steps with reuse_detached are too rare to capture. */
int async_run(struct program *p, const struct step *s, const struct pass *pass, compute_step *compute,
              struct err *e)
{
    struct async *a = p->async;
    struct backend *be = p->net->be;
    int kind = (s->add != 0) + 2 * (s->update != 0);
    if (!a || s->reuse_detached) return compute(p, s, pass, e);
    struct capture **captured = &a->kind[kind].step;
    if (!*captured && a->kind[kind].runs++ && !a->failed) capture(p, s, pass, compute, captured);
    return *captured ? be->ops->launch(be, *captured) : compute(p, s, pass, e);
}

/* ---- losses ---- */

int async_update(struct program *p, int update)
{
    struct net *n = p->net;
    const struct backend_ops *ops = n->be->ops;
    if (update) TRY(ops->optim->guard(&n->optim, n->now));
    TRY(ops->loss_ring->push(&p->async->ring, n->now, update));
    return update ? ops->optim->update(&n->optim, n->now) : OK;
}

int async_mark(struct program *p, int mark)
{
    return p->net->be->ops->loss_ring->mark(&p->async->ring, mark);
}

int async_wait(struct program *p, int mark)
{
    return p->net->be->ops->loss_ring->await(&p->async->ring, mark);
}

int async_read(struct program *p, const struct step *s, struct err *e)
{
    const struct async *a = p->async;
    const double *loss = p->net->be->ops->loss_ring->record(&a->ring, s->number);
    const struct pass pass = { .context.scored_all = p->desc.share.all,
                               .iteration = s->iteration,
                               .rate = s->rate,
                               .ce_average = p->net->ce_average,
                               .err = e };
    const char *cfg = p->net->cfg->path;
    TRY(run_read_losses(p, &pass, loss));
    if (loss[a->losses] == STOP_LOSS)
        return fail(e, E_NUMBER, "%s: the loss is not finite (-eager tells where it begins)", cfg);
    if (loss[a->losses] == STOP_GRADIENT)
        return fail(e, E_NUMBER, "%s: a gradient is not finite (-eager names the layer)", cfg);
    return OK;
}
