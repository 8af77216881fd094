#include "program.h"
#include "core/mem.h"
#include "net/compiled.h"
#include "net/optim.h"
#include "net/param.h"

static int check_halves(const struct program *p, struct err *e)
{
    struct pairing_wants w;
    for (int i = 0; i < p->n; i++)
        if (p->node[i].l.inert && net_layer_wants(p->net, i, &w) && w.active && w.source == S2_FROM_SPLIT)
            return layer_fail(
                &p->node[i].l, e,
                "pair=split cannot halve a mini-batch of 1 image: raise batch or lower subdivisions");
    return OK;
}

/* Training needs something to learn from. (Nets without a loss are fine for all else.) */
static int check_goal(const struct program *p, struct err *e)
{
    if (!p->desc.train || p->desc.plan_only) return OK;
    TRY(check_halves(p, e));
    const struct layer *last = &p->node[p->n - 1].l, *off = NULL;
    for (const struct layer *l = NULL; (l = next_active(p, l));) {
        if (l->last && (l->ops->flags & (LAYER_LOSS | LAYER_TRAIN_ONLY)) == LAYER_LOSS && !l->noloss)
            return OK;
        if (l->noloss && l->last) off = l;
    }
    if (off) return layer_fail(off, e, "noloss=1: there is no loss to train on: remove it");
    return layer_fail(
        last, e, "is the last layer, so there is no loss to train on: end the cfg with [softmax] or [cost]");
}

static int compile(struct program *p, int creates, struct err *e)
{
    TRY(check_goal(p, e));
    if (p->feature >= p->n)
        return fail(e, E_ARG, "%s: features of layer %d: there are layers 0..%d", p->net->cfg->path,
                    p->feature, p->n - 1);
    TRY(builder_run(p, creates, e));
    TRY(memory_plan(p, e));
    size_t params = creates ? params_bytes(p->net, p->desc.train) : 0;
    if (creates && !params && p->net->nparam)
        return fail(e, E_MEM, "%s: the parameters are too large", p->net->cfg->path);
    if (p->desc.plan_only) return OK;
    TRY(memory_allocate(p, params, e));
    if (creates) TRY(params_create(p->net, p->desc.train, e));
    if (creates && p->desc.train) TRY(optim_open(p->net, e));
    if (!p->desc.train) return run_refresh(p, e);
    TRY(async_open(p, e));
    p->stats = mem_alloc((size_t)p->net->config.subdivisions, sizeof *p->stats);
    return p->stats ? OK : net_no_memory(p->net, e);
}

int program_open(struct program **out, struct net *n, const struct program_desc *d, struct err *e)
{
    int creates = !n->param && !n->now;
    struct program *p = NULL;
    *out = NULL;
    if (e) e->code = OK;
    if (d->train && !creates && !n->now)
        return fail(e, E_ARG, "%s: training programs must be opened before those for inference",
                    n->cfg->path);
    int rc = connect_program(&p, n, d, e);
    if (!rc) rc = compile(p, creates, e);
    if (!rc) {
        *out = p;
        return OK;
    }
    attach_device_error(n, rc, e);
    program_close(p);
    if (creates) optim_close(n);
    if (creates) params_destroy(n);
    return rc;
}

void program_close(struct program *p)
{
    if (!p) return;
    struct backend *be = p->net->be;
    async_close(p);
    for (int i = 0; p->node && i < p->n; i++) {
        struct layer *l = &p->node[i].l;
        for (int k = 0; k < LAYER_PLANS; k++) op_destroy(&l->plan[k]);
        mem_free(l->self);
        mem_free(l->in);
        mem_free(l->add);
    }
    for (struct claim *next, *claim = p->claims; claim; claim = next) {
        next = claim->next;
        mem_free(claim);
    }
    be->ops->free(be, p->arena);
    be->ops->free(be, p->fixed);
    mem_free(p->host);
    mem_free(p->item);
    mem_free(p->stats);
    mem_free(p->node);
    mem_free(p);
}

int program_refresh(struct program *p, struct err *e)
{
    if (e) e->code = OK;
    params_swap_averages(p->net);
    int rc = run_refresh(p, e);
    params_swap_averages(p->net);
    return attach_device_error(p->net, rc, e);
}

/* ---- inference ---- */

/* All rows at once, because each read waits for the device. */
static int read_output(const struct program *p, int rows, float *prob, struct err *e)
{
    const struct tensor *out = &p->node[program_output(p)].l.out->x;
    size_t n = (size_t)rows * shape_row(out->shape);
    real *all = mem_alloc(n, sizeof *all);
    if (!all) return net_no_memory(p->net, e);
    int rc = p->net->be->ops->read(p->net->be, out, 0, rows, all);
    for (size_t k = 0; k < n && !rc; k++) prob[k] = (float)all[k];
    mem_free(all);
    return rc;
}

static int infer(struct program *p, const struct step *s, float *prob, double *ce, struct err *e)
{
    struct pass pass;
    TRY(run_fill(p, s, &pass, e));
    TRY(run_forward(p, &pass, 0, e));
    if (s->label) TRY(run_read_losses(p, &pass, NULL));
    if (ce) *ce = run_stats(p).ce * s->rows;
    return prob ? read_output(p, s->rows, prob, e) : OK;
}

int program_infer(struct program *p, const struct step *s, float *prob, double *ce, struct err *e)
{
    return attach_device_error(p->net, infer(p, s, prob, ce, e), e);
}

int program_rows(const struct program *p) { return p->desc.rows; }

int program_feature_size(const struct program *p)
{
    return p->feature < 0 ? 0 : (int)shape_row(p->node[p->feature].l.out->x.shape);
}

int program_features(struct program *p, int rows, real *features, struct err *e)
{
    if (e) e->code = OK;
    int rc = p->net->be->ops->read(p->net->be, &p->node[p->feature].l.out->x, 0, rows, features);
    return attach_device_error(p->net, rc, e);
}

/* ---- what there is ---- */

void program_get_info(const struct program *p, struct program_info *info)
{
    *info = (struct program_info){ p->arena_bytes, p->scratch->bytes,
                                   p->fixed_bytes - p->scratch->bytes + p->host_bytes,
                                   params_bytes(p->net, p->desc.train) };
}

size_t program_layer_bytes(const struct program *p, int i)
{
    size_t n = p->node[i].l.identity ? 0 : p->item[2 * i].bytes + p->item[2 * i + 1].bytes;
    for (const struct claim *c = p->claims; c; c = c->next)
        if (c->layer == i) n += c->buffer.bytes;
    return n;
}

const struct layer *program_layer(const struct program *p, int i) { return i < p->n ? &p->node[i].l : NULL; }
const struct value *program_input(const struct program *p) { return &p->input; }
