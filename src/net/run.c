#include "net/compiled.h"
#include <math.h>
#include <string.h>
#include "backend/ops/feed.h"
#include "backend/ops/images.h"
#include "backend/ops/sum.h"
#include "core/clock.h"
#include "core/mem.h"
#include "group/group.h"
#include "net/optim.h"
#include "net/param.h"

/* Tests only: memory whose life begins at this step of the schedule is filled with NaN, and the gaps between
 * items must be untouched. */
static int guard(struct program *p, int step, int before, struct err *e)
{
    for (int i = 0; p->desc.guard && i < p->nitem; i++) {
        const struct plan_item *item = &p->item[i];
        if (!item->bytes || step < item->first || step > item->last) continue;
        unsigned char *at = (unsigned char *)p->arena + item->at;
        if (before && step == item->first) {
            memset(at, 0xff, item->bytes - GUARD);
            memset(at + item->bytes - GUARD, POISON, GUARD);
        }
        for (size_t k = item->bytes - GUARD; k < item->bytes; k++)
            if (at[k] != POISON)
                return fail(e, E_DEVICE, "step %d wrote past the end of item %d of the arena", step, i);
    }
    return OK;
}

/* Operations return a bare code: adds the layer that it came from, unless *e says more already. */
static int explain(const struct program *p, const struct layer *l, int rc, struct err *e)
{
    if (!rc || (e && e->code)) return rc;
    return fail(e, rc, "%s: %s", net_layer_name(p->net, l->index).text, err_text(rc));
}

static int run_layer(struct program *p, struct layer *l, int back, const struct pass *pass, struct err *e)
{
    int step = back ? backward_step(p, l->index) : forward_step(l->index);
    int timed = l->ops->flags & LAYER_TRAIN_ONLY;
    double start = timed ? wall_clock() : 0;
    TRY(guard(p, step, 1, e));
    TRY(explain(p, l, back ? l->ops->backward(l, pass) : l->ops->forward(l, pass), e));
    if (timed) p->extra_seconds += wall_clock() - start;
    return guard(p, step, 0, e);
}

/* While there are steps whose losses the host has not read, the device has the newer mean of the CE, and
 * keeps it. */
static int upload_step_state(struct program *p, const struct step *s)
{
    struct net *n = p->net;
    struct step_state now = { .step = s->number,
                              .iteration = s->iteration,
                              .ce_sum = s->add ? n->ce_sum : 0,
                              .ce_average = n->ce_average };
    optim_prepare(n, s->iteration, s->rate, &now);
    return n->be->ops->upload(n->be, n->now, &now,
                              n->unread ? offsetof(struct step_state, ce_sum) : sizeof now);
}

/* The loader's images are float, whatever `real` is. */
static int fill_image(struct program *p, const struct step *s)
{
    struct backend *be = p->net->be;
    size_t n = shape_row(p->input.x.shape);
    real *image = p->image->data;
    if (s->move) {
        TRY(be->ops->upload(be, p->crop->data, s->move, (size_t)s->rows * sizeof *s->move));
        return be->ops->images->show(&p->net->images, p->crop->data, s->rows, &p->input.x);
    }
    if (s->sent) return be->ops->feed->send(&p->net->feed, s->x, s->rows, (int)(s->number % 2), &p->input.x);
    if (sizeof(real) == sizeof(float))
        return be->ops->write(be, &p->input.x, 0, s->rows, (const real *)(const void *)s->x, 0);
    for (int i = 0; i < s->rows; i++) {
        for (size_t k = 0; k < n; k++) image[k] = s->x[(size_t)i * n + k];
        TRY(be->ops->write(be, &p->input.x, i, 1, image, 0));
    }
    return OK;
}

int run_fill(struct program *p, const struct step *s, struct pass *pass, struct err *e)
{
    const struct net *n = p->net;
    struct backend *be = n->be;
    *pass = (struct pass){ .context = { .scratch = p->scratch->data,
                                        .state = n->now,
                                        .label = s->label ? p->label->data : NULL,
                                        .mixed = s->mixed ? p->mixed->data : NULL,
                                        .scored = s->rows_s1,
                                        .scored_all = p->desc.train ? p->desc.share.all : s->rows_s1,
                                        .add = s->add,
                                        .reuse_detached = s->reuse_detached },
                           .label = s->label,
                           .mixed = s->mixed,
                           .seed = n->seed,
                           .step = s->number,
                           .iteration = s->iteration,
                           .rate = s->rate,
                           .ce_average = n->ce_average,
                           .err = e };
    if (e) e->code = OK;
    p->extra_seconds = 0;
    TRY(guard(p, 0, 1, e));
    if (p->desc.train) TRY(upload_step_state(p, s));
    TRY(fill_image(p, s));
    if (s->mixed) TRY(be->ops->upload(be, p->mixed->data, s->mixed, (size_t)s->rows * sizeof *s->mixed));
    return s->label ? be->ops->upload(be, p->label->data, s->label, (size_t)s->rows * sizeof(int)) : OK;
}

static int check_output(const struct program *p, const struct layer *l, struct err *e)
{
    struct backend *be = p->net->be;
    size_t n = shape_row(l->out->x.shape);
    real *x = mem_alloc(n, sizeof *x);
    int bad = 0, rc = x ? OK : net_no_memory(p->net, e);
    for (int row = 0; row < p->rows && !rc && !bad; row++) {
        rc = be->ops->read(be, &l->out->x, row, 1, x);
        for (size_t k = 0; k < n && !rc; k++) bad |= !isfinite(x[k]);
    }
    mem_free(x);
    if (!rc && p->desc.train) rc = group_max(be->group, &bad); /* so that all name the same layer */
    if (rc || !bad) return rc;
    return fail(e, E_NUMBER, "%s: the output is not finite", net_layer_name(p->net, l->index).text);
}

int run_forward(struct program *p, const struct pass *pass, int check, struct err *e)
{
    for (struct layer *l = NULL; (l = next_active(p, l));) {
        TRY(run_layer(p, l, 0, pass, e));
        if (check) TRY(check_output(p, l, e));
    }
    return OK;
}

enum { BUCKET = 1 << 22 }; /* bytes: an exchange of fewer takes not much less time */

/* Hands over the gradients from *from bytes on that layer i completes. more: it may wait for those of the
 * next layers. */
static int sum_gradients(struct program *p, int i, int more, size_t *from)
{
    struct net *n = p->net;
    const size_t end = n->layer[i].gradients;
    if (end < *from + (more ? BUCKET : 1)) return OK;
    real *x = n->gradients + *from / sizeof *x;
    TRY(n->be->ops->sum->begin(n->be, x, (end - *from) / sizeof *x));
    *from = end;
    return OK;
}

int run_backward(struct program *p, const struct pass *pass, int sum, struct err *e)
{
    struct backend *be = p->net->be;
    size_t summed = 0;
    int lowest = 0; /* layers below do not take part */
    sum = sum && be->group;
    while (lowest < p->n && !p->node[lowest].back) lowest++;
    int rc = sum ? params_join_begin(p->net) : OK;
    for (int i = p->n - 1; i >= lowest && !rc; i--) {
        if (p->node[i].back) rc = run_layer(p, &p->node[i].l, 1, pass, e);
        if (!rc && sum) rc = sum_gradients(p, i, i > lowest, &summed);
    }
    int ended = sum ? be->ops->sum->end(be) : OK; /* also after a failure: the memory may be freed soon */
    return rc ? rc : ended;
}

/* Is the loss of this layer that of the rows of this process, to be added to that of the others? Layers of
 * training only see to it themselves. */
static int adds_up(const struct program *p, const struct layer *l)
{
    return p->desc.train && (l->ops->flags & (LAYER_LOSS | LAYER_TRAIN_ONLY)) == LAYER_LOSS;
}

int run_add_losses(struct program *p)
{
    struct backend *be = p->net->be;
    for (struct layer *l = NULL; be->group && (l = next_active(p, l));)
        if (l->loss_sum && adds_up(p, l)) TRY(be->ops->sum->add(be, l->loss_sum->data, 1));
    return OK;
}

int run_read_losses(struct program *p, const struct pass *pass, const double *kept)
{
    struct backend *be = p->net->be;
    for (struct layer *l = NULL; (l = next_active(p, l));) {
        if (l->ops->weigh) l->weight = l->ops->weigh(l, pass);
        if (l->loss_sum && kept)
            l->loss = *kept++;
        else if (l->loss_sum)
            TRY(be->ops->download(be, &l->loss, l->loss_sum->data, sizeof l->loss));
        if (!l->loss_sum && adds_up(p, l)) TRY(group_add(be->group, &l->loss, 1));
        if (!l->loss_sum) continue;
        if (l->ops->finish_loss)
            TRY(l->ops->finish_loss(l, pass->err));
        else
            l->loss /= pass->context.scored_all;
    }
    return OK;
}

struct step_stats run_stats(const struct program *p)
{
    struct step_stats s = { .match = NAN, .extra_seconds = p->async ? NAN : p->extra_seconds };
    for (const struct layer *l = NULL; (l = next_active(p, l));) {
        if (!(l->ops->flags & LAYER_LOSS)) continue;
        if (l->ops->flags & LAYER_PAIRED) {
            s.lambda = l->weight;
            if (isfinite(l->loss)) s.match = isfinite(s.match) ? s.match + l->loss : l->loss;
        } else if (l->ops->flags & LAYER_TRAIN_ONLY)
            s.center += l->loss;
        else if (isfinite(l->loss) || l->loss_sum)
            s.ce += l->loss;
    }
    return s;
}

int run_refresh(struct program *p, struct err *e)
{
    for (struct layer *l = NULL; (l = next_active(p, l));)
        if (l->ops->refresh) TRY(explain(p, l, l->ops->refresh(l, e), e));
    return OK;
}
