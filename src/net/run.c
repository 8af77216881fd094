/* Running a program: a pass forward and back, at once. */
#include <math.h>
#include <string.h>
#include "backend/ops/images.h"
#include "core/clock.h"
#include "core/mem.h"
#include "net/compiled.h"

/* Tests only: memory that is born in this step is filled with NaN, the gaps between items must be untouched.
 */
static int guard_step(struct program *p, int step, int before, struct err *e)
{
    for (int i = 0; i < p->nitem; i++) {
        const struct plan_item *item = &p->item[i];
        if (!item->bytes || step < item->first || step > item->last) continue;
        unsigned char *at = (unsigned char *)p->arena + item->at;
        if (before && step == item->first)
            memset(at, 0xff, item->bytes - GUARD), memset(at + item->bytes - GUARD, POISON, GUARD);
        for (size_t k = item->bytes - GUARD; k < item->bytes; k++)
            if (at[k] != POISON)
                return fail(e, E_DEVICE, "step %d wrote behind item %d of the arena", step, i);
    }
    return OK;
}

/* Operations return a bare code: adds whose it was, unless somebody knew more. */
static int explain(const struct layer *l, int rc, struct err *e)
{
    if (!rc || (e && e->code)) return rc;
    return fail_at(e, rc, l->cfg, l->line, "[%s] (layer %d): %s", l->ops->name, l->index, err_text(rc));
}

static int run_layer(struct program *p, int i, int back, const struct pass *pass, struct step_stats *stats,
                     struct err *e)
{
    struct layer *l = &p->node[i].l;
    int step = back ? backward_step(p, i) : forward_step(i), timed = l->ops->flags & LAYER_TRAIN_ONLY;
    double start = timed ? wall_clock() : 0;
    if (p->desc.guard) TRY(guard_step(p, step, 1, e));
    int rc = back ? l->ops->backward(l, pass) : l->ops->forward(l, pass);
    if (p->desc.guard && !rc) TRY(guard_step(p, step, 0, e));
    if (timed && stats) stats->extra_seconds += wall_clock() - start;
    return explain(l, rc, e);
}

/* late: losses are read late, and the device's part of the step state is the host's only at the beginning. */
static int upload_step_state(struct program *p, const struct step *s, int async)
{
    struct net *n = p->net;
    struct step_state now = {
        .step = s->number, .iteration = s->iteration, .rate = s->rate, .ce_average = n->ce_average
    };
    size_t bytes = async && n->follows ? offsetof(struct step_state, ce_sum) : sizeof now;
    n->follows = async;
    return n->be->ops->upload(n->be, n->now, &now, bytes);
}

/* The loader's images are float, whatever `real` is. */
static int fill_image(struct program *p, const struct step *s)
{
    struct backend *be = p->net->be;
    size_t image = shape_row(p->input.x.shape);
    if (s->move) {
        TRY(be->ops->upload(be, p->dev_crop, s->move, (size_t)s->rows * sizeof *s->move));
        return be->ops->images->show(&p->net->images, p->dev_crop, s->rows, &p->input.x);
    }
    if (sizeof(real) == sizeof(float))
        return be->ops->write(be, &p->input.x, 0, s->rows, (const real *)(const void *)s->x, 0);
    for (int i = 0; i < s->rows; i++) {
        for (size_t k = 0; k < image; k++) p->image[k] = s->x[(size_t)i * image + k];
        TRY(be->ops->write(be, &p->input.x, i, 1, p->image, 0));
    }
    return OK;
}

/* Losses are means over the rows of the program, and a recorded step has its rows and its labels. */
int run_check(const struct program *p, const struct step *s, struct err *e)
{
    if (s->label && s->rows == p->rows && s->rows_s1 == p->desc.rows) return OK;
    return fail(e, E_ARG,
                "%s: a training step of %d images, %d of S1, %s labels: expected %d and %d, with labels",
                p->net->cfg->path, s->rows, s->rows_s1, s->label ? "with" : "without", p->rows, p->desc.rows);
}

int run_fill(struct program *p, const struct step *s, int async, struct pass *pass, struct err *e)
{
    const struct net *n = p->net;
    struct backend *be = n->be;
    *pass = (struct pass){ .be = be,
                           .train = p->desc.train,
                           .context = { .scratch = p->scratch,
                                        .state = n->now,
                                        .label = s->label ? p->dev_label : NULL,
                                        .scored = s->rows_s1,
                                        .add = s->add,
                                        .reuse_detached = s->reuse_detached },
                           .rows = s->rows,
                           .rows_s1 = s->rows_s1,
                           .label = s->label,
                           .seed = n->seed,
                           .step = s->number,
                           .iteration = s->iteration,
                           .ce_average = n->ce_average,
                           .err = e };
    if (e) e->code = OK;
    if (p->desc.guard) TRY(guard_step(p, 0, 1, e));
    if (p->desc.train) TRY(upload_step_state(p, s, async));
    TRY(fill_image(p, s));
    return s->label ? be->ops->upload(be, p->dev_label, s->label, (size_t)s->rows * sizeof(int)) : OK;
}

int run_forward(struct program *p, const struct pass *pass, struct step_stats *stats, struct err *e)
{
    for (int i = 0; i < p->n; i++)
        if (p->node[i].used) TRY(run_layer(p, i, 0, pass, stats, e));
    return OK;
}

int run_backward(struct program *p, const struct pass *pass, struct step_stats *stats, struct err *e)
{
    for (int i = p->n - 1; i >= 0; i--)
        if (p->node[i].back) TRY(run_layer(p, i, 1, pass, stats, e));
    return OK;
}

int finish_loss(struct layer *l, int scored, struct err *e)
{
    if (l->ops->finish_loss) return l->ops->finish_loss(l, e);
    l->loss /= scored;
    return OK;
}

static int fetch_losses(struct program *p, const struct pass *pass)
{
    struct backend *be = p->net->be;
    for (int i = 0; i < p->n && pass->label; i++) {
        struct layer *l = &p->node[i].l;
        if (!l->loss_sum) continue;
        TRY(be->ops->download(be, &l->loss, l->loss_sum->data, sizeof l->loss));
        TRY(finish_loss(l, pass->context.scored, pass->err));
    }
    return OK;
}

/* The first layer whose output is not finite, found by running the pass again and looking. */
static int blame(struct program *p, const struct pass *pass, struct err *e)
{
    struct backend *be = p->net->be;
    for (int i = 0; i < p->n; i++) {
        struct layer *l = &p->node[i].l;
        if (!p->node[i].used) continue;
        TRY(run_layer(p, i, 0, pass, NULL, e));
        size_t n = shape_row(l->out->x.shape);
        real *x = mem_alloc(n, sizeof *x);
        int rc = x ? OK : E_MEM, bad = 0;
        for (int row = 0; row < p->rows && !rc && !bad; row++) {
            rc = be->ops->read(be, &l->out->x, row, 1, x);
            for (size_t k = 0; k < n && !rc; k++) bad |= !isfinite(x[k]);
        }
        mem_free(x);
        if (rc) return fail(e, rc, "the loss is not finite");
        if (!bad) continue;
        char name[300];
        model_name(p->net, i, name, sizeof name);
        return fail(e, E_NUMBER, "%s: the output is not finite", name);
    }
    return fail(e, E_NUMBER, "%s: the loss is not finite", p->net->cfg->path);
}

void run_add_stats(const struct program *p, struct step_stats *s)
{
    s->match = NAN;
    for (int i = 0; i < p->n; i++) {
        const struct layer *l = &p->node[i].l;
        if (!p->node[i].used || !(l->ops->flags & LAYER_LOSS)) continue;
        if (l->ops->flags & LAYER_PAIRED) {
            s->lambda = l->weight;
            if (isfinite(l->loss)) s->match = isfinite(s->match) ? s->match + l->loss : l->loss;
        } else if (l->ops->flags & LAYER_TRAIN_ONLY)
            s->center += l->loss;
        else if (isfinite(l->loss) || l->loss_sum)
            s->ce += l->loss;
    }
}

static int train(struct program *p, const struct step *s, struct step_stats *stats, struct err *e)
{
    struct pass pass;
    TRY(run_check(p, s, e));
    *stats = (struct step_stats){ 0 };
    TRY(run_fill(p, s, 0, &pass, e));
    TRY(run_forward(p, &pass, stats, e));
    TRY(fetch_losses(p, &pass));
    run_add_stats(p, stats);
    if (!isfinite(stats->ce) || !isfinite(stats->center)) {
        pass.context.reuse_detached = 1;
        return blame(p, &pass, e);
    }
    return run_backward(p, &pass, stats, e);
}

int program_train(struct program *p, const struct step *s, struct step_stats *stats, struct err *e)
{
    double start = wall_clock();
    TRY(attach_device_error(p->net, train(p, s, stats, e), e));
    TRY(p->net->be->ops->sync(p->net->be, e));
    stats->seconds = wall_clock() - start;
    return OK;
}

/* All rows at once: a device is waited for each time. */
static int read_output(const struct program *p, int rows, float *prob, struct err *e)
{
    const struct tensor *out = &p->node[program_output(p)].l.out->x;
    size_t n = (size_t)rows * shape_row(out->shape);
    real *all = mem_alloc(n, sizeof *all);
    if (!all) return fail(e, E_MEM, "not enough memory for the output");
    int rc = p->net->be->ops->read(p->net->be, out, 0, rows, all);
    for (size_t k = 0; k < n && !rc; k++) prob[k] = (float)all[k];
    mem_free(all);
    return rc;
}

static int infer(struct program *p, const struct step *s, float *prob, double *ce, struct err *e)
{
    struct pass pass;
    struct step_stats stats = { 0 };
    TRY(run_fill(p, s, 0, &pass, e));
    TRY(run_forward(p, &pass, NULL, e));
    TRY(fetch_losses(p, &pass));
    run_add_stats(p, &stats);
    if (ce) *ce = stats.ce * s->rows;
    return prob ? read_output(p, s->rows, prob, e) : OK;
}

int program_infer(struct program *p, const struct step *s, float *prob, double *ce, struct err *e)
{
    return attach_device_error(p->net, infer(p, s, prob, ce, e), e);
}

int program_feature_size(const struct program *p)
{
    return p->feature < 0 ? 0 : (int)shape_row(p->node[p->feature].l.out->x.shape);
}

int program_features(struct program *p, int rows, real *features, struct err *e)
{
    if (p->feature < 0) return fail(e, E_ARG, "%s: no features are kept", p->net->cfg->path);
    if (e) e->code = OK;
    int rc = p->net->be->ops->read(p->net->be, &p->node[p->feature].l.out->x, 0, rows, features);
    return attach_device_error(p->net, rc, e);
}

int program_refresh(struct program *p, struct err *e)
{
    if (e) e->code = OK;
    for (int i = 0; i < p->n; i++) {
        struct layer *l = &p->node[i].l;
        if (p->node[i].used && l->ops->refresh)
            TRY(attach_device_error(p->net, explain(l, l->ops->refresh(l, e), e), e));
    }
    return OK;
}
