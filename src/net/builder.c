#include "builder.h"
#include "core/mem.h"
#include "net/param.h"

struct builder {
    struct program *p;
    struct node *node;
    int creates; /* the first program of the net: parameters are declared, not looked up */
};

const struct net_config *builder_config(const struct builder *b) { return &b->p->net->config; }
double builder_bn_momentum(const struct builder *b)
{
    return b->p->net->layer[b->node->l.index].frozen ? 0 : b->p->net->config.bn_momentum;
}
uint64_t builder_seed(const struct builder *b) { return b->p->net->seed; }
void builder_keep_in(struct builder *b, int i) { b->node->keep_in[i] = 1; }
void builder_keep_out(struct builder *b) { b->node->keep_out = 1; }

int builder_ordinal(const struct builder *b)
{
    int k = 0;
    for (int i = 0; i < b->node->l.index; i++) k += b->p->node[i].l.ops == b->node->l.ops;
    return k;
}

struct buffer *builder_buffer(struct builder *b, size_t bytes, enum life life)
{
    struct claim *c = mem_alloc(1, sizeof *c);
    if (!c) return NULL;
    *c = (struct claim){ { NULL, bytes }, life, b->node->l.index, NULL };
    *b->p->last_claim = c;
    b->p->last_claim = &c->next;
    return &c->buffer;
}

struct buffer *builder_loss(struct builder *b) { return builder_buffer(b, sizeof(double), LIFE_PROGRAM); }

static struct param *declare(struct builder *b, const struct param *want)
{
    struct net *n = want->net;
    struct model_layer *m = &n->layer[want->layer];
    if (!b->creates) return b->node->params < m->nparam ? n->param[m->param + b->node->params++] : NULL;
    struct param *p = params_add(n, want);
    if (p && !m->nparam++) m->param = n->nparam - 1;
    return p;
}

static struct param described(const struct builder *b, size_t count, enum init init, double spread,
                              unsigned flags)
{
    return (struct param){ .net = b->p->net,
                           .layer = b->node->l.index,
                           .count = count,
                           .init = init,
                           .spread = spread,
                           .flags = flags };
}

struct param *builder_param(struct builder *b, size_t count, enum init init, double spread, unsigned flags)
{
    struct param want = described(b, count, init, spread, flags);
    return mem_mul(count, sizeof(real), &want.bytes) ? NULL : declare(b, &want);
}

struct param *builder_linear(struct builder *b, size_t count, enum init init, double spread, unsigned flags,
                             const struct linear_ops *linear, const struct op_plan *plan)
{
    struct param want = described(b, count, init, spread, flags);
    want.bytes = plan->weight_bytes;
    want.linear = linear;
    want.plan = plan;
    return declare(b, &want);
}

const struct layout *builder_weights(const struct builder *b)
{
    const struct net *n = b->p->net;
    const struct model_layer *m = &n->layer[b->node->l.index];
    for (int i = m->param; !b->creates && i < m->param + m->nparam; i++)
        if (n->param[i]->linear) return n->param[i]->plan->weights;
    return NULL;
}

int builder_run(struct program *p, int creates, struct err *e)
{
    p->net->be->precision = (enum precision)p->net->config.precision;
    TRY(p->net->be->ops->image(p->net->be, &p->input.x, e));
    for (int i = 0; i < p->n; i++) {
        struct builder b = { p, &p->node[i], creates };
        struct layer *l = &p->node[i].l;
        l->classes = p->net->classes;
        if (!p->node[i].used || !l->ops->build) continue;
        TRY(l->ops->build(l, &b, e));
        for (int k = 0; k < LAYER_PLANS; k++)
            if (l->plan[k].scratch_bytes > p->scratch_bytes) p->scratch_bytes = l->plan[k].scratch_bytes;
        if (l->identity) continue;
        l->out->g.layout = l->out->x.layout;
        l->out->g.bytes = l->out->x.bytes;
    }
    return OK;
}
