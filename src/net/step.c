#include "step.h"
#include <math.h>
#include "backend/ops/sum.h"
#include "backend/scalar.h"
#include "core/mem.h"
#include "group/group.h"
#include "net/compiled.h"
#include "net/optim.h"
#include "net/program.h"

static int check_group(const struct net *n, struct err *e)
{
    const int size = group_size(n->be->group);
    if (n->mini < size)
        return fail(e, E_CFG,
                    "%s: mini-batches of %d images for %d processes: raise batch or lower subdivisions",
                    n->cfg->path, n->mini, size);
    if (size > 1 && !n->be->ops->sum)
        return fail(
            e, E_DEVICE,
            "%s: several processes train on GPUs in builds with NCCL=1 (make GPU=1 MPI=1 NCCL=1), or on "
            "CPUs with -nogpu",
            n->be->title);
    return OK;
}

/* Once the parameters are declared. stopbackward= one layer too late is easily written. */
static void note_frozen(const struct net *n)
{
    int frozen = 0;
    for (int i = 0; i < n->n; i++) {
        if (n->layer[i].learnt && !n->layer[i].frozen) return;
        frozen |= n->layer[i].learnt > 0;
    }
    if (frozen)
        note(&n->notes, "warning: %s: stopbackward= holds every layer that learns: no weight will change",
             n->cfg->path);
}

int step_open(struct step_programs *p, struct net *n, struct err *e)
{
    const int first = !p->plain && !p->paired;
    struct program_desc plain = { .rows = n->share.rows, .share = n->share, .train = 1 }, paired = plain;
    paired.paired = 1;
    TRY(check_group(n, e));
    if (first) config_note_training(&n->config, n->cfg->path, &n->notes);
    if (!p->plain && (!n->pair_loader || n->wants.every > 1)) TRY(program_open(&p->plain, n, &plain, e));
    if (n->pair_loader && !p->paired) TRY(program_open(&p->paired, n, &paired, e));
    if (first) note_frozen(n);
    return OK;
}

int step_connect(struct net *n, struct err *e)
{
    const struct sum_ops *sum = n->be->ops->sum;
    return group_size(n->be->group) > 1 && sum->open ? sum->open(n->be, e) : OK;
}

void step_close(struct step_programs *p)
{
    program_close(p->paired);
    program_close(p->plain);
}

struct program *step_program(const struct step_programs *p, const struct step *s)
{
    return s->rows > s->rows_s1 ? p->paired : p->plain;
}

struct step step_at(const struct net *n, uint64_t number)
{
    uint64_t parts = (uint64_t)n->config.subdivisions, iteration = number / parts + 1;
    return (struct step){ .number = number,
                          .iteration = iteration,
                          .add = number % parts > 0,
                          .update = number % parts == parts - 1,
                          .rate = net_rate(&n->config, n->seed, iteration) };
}

/* Losses are means over all rows of the program, and a capture is of steps with that many rows and with
 * labels. */
static int check(const struct program *p, const struct step *s, struct err *e)
{
    if (s->label && s->rows == p->rows && s->rows_s1 == p->desc.rows) return OK;
    return fail(e, E_ARG,
                "%s: a training step of %d images, %d of S1, %s labels: expected %d and %d, with labels",
                p->net->cfg->path, s->rows, s->rows_s1, s->label ? "with" : "without", p->rows, p->desc.rows);
}

/* Once a loss or a gradient is known not to be finite: E_NUMBER, naming the layer. Weights and gradients are
 * still those of the step. */
static int find_culprit(struct program *p, const struct step *s, struct err *e)
{
    struct step again = *s;
    struct pass pass;
    again.reuse_detached = 1;
    TRY(run_fill(p, &again, &pass, e));
    TRY(run_forward(p, &pass, 1, e));
    return optim_check(p->net, e);
}

/* For devices that do not check the losses themselves. */
static int check_losses(struct program *p, const struct step *s, const struct pass *pass, struct err *e)
{
    TRY(run_read_losses(p, pass, NULL));
    struct step_stats stats = run_stats(p);
    if (isfinite(stats.ce) && isfinite(stats.center)) return OK;
    TRY(find_culprit(p, s, e));
    return fail(e, E_NUMBER, "%s: the loss is not finite", p->net->cfg->path);
}

static int compute(struct program *p, const struct step *s, const struct pass *pass, struct err *e)
{
    TRY(run_forward(p, pass, 0, e));
    TRY(run_add_losses(p));
    if (!p->async) TRY(check_losses(p, s, pass, e));
    TRY(run_backward(p, pass, s->update, e));
    if (p->async) return async_update(p, s->update);
    return s->update ? optim_update(p->net, s->iteration, s->rate, e) : OK;
}

int step_submit(struct program *p, const struct step *s, struct err *e)
{
    struct pass pass;
    TRY(check(p, s, e));
    int rc = run_fill(p, s, &pass, e);
    if (!rc) rc = async_run(p, s, &pass, compute, e);
    TRY(attach_device_error(p->net, rc, e));
    if (p->async) {
        p->net->unread++;
        return OK;
    }
    TRY(p->net->be->ops->sync(p->net->be, e));
    p->stats[s->number % (uint64_t)p->net->config.subdivisions] = run_stats(p);
    return OK;
}

int step_window(const struct program *p) { return p->async ? ASYNC_WINDOW : 0; }

int step_mark(struct program *p, int mark, struct err *e)
{
    if (e) e->code = OK;
    return p->async ? attach_device_error(p->net, async_mark(p, mark), e) : OK;
}

int step_wait(struct program *p, int mark, struct err *e)
{
    if (e) e->code = OK;
    return p->async ? attach_device_error(p->net, async_wait(p, mark), e) : OK;
}

/* Only here does the host's account of the training so far change. */
static void follow(struct net *n, const struct step *s, double ce)
{
    n->ce_sum = (s->add ? n->ce_sum : 0) + ce;
    if (!s->update) return;
    n->ce_average = running_ce(n->ce_average, log(n->classes), n->ce_sum / n->config.subdivisions);
    n->seen += net_images_per_update(n);
}

int step_read_stats(struct program *p, const struct step *s, struct step_stats *stats, struct err *e)
{
    struct net *n = p->net;
    if (p->async) {
        int rc = async_read(p, s, e);
        n->unread = rc || !n->unread ? 0 : n->unread - 1;
        if (rc) return rc;
        *stats = run_stats(p);
    } else
        *stats = p->stats[s->number % (uint64_t)n->config.subdivisions];
    follow(n, s, stats->ce);
    return OK;
}

int step_train(struct program *p, const struct step *s, struct step_stats *stats, struct err *e)
{
    TRY(step_submit(p, s, e));
    TRY(step_mark(p, 0, e));
    TRY(step_wait(p, 0, e));
    int rc = step_read_stats(p, s, stats, e);
    struct err culprit = { 0 };
    if (rc == E_NUMBER && p->async && e && find_culprit(p, s, &culprit) == E_NUMBER) *e = culprit;
    return rc;
}
