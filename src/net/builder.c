#include "core/array.h"
#include "core/mem.h"
#include "net/compiled.h"
#include "net/param.h"

struct builder {
    struct program *p;
    struct node *node;
    int creates; /* the first program of the net: parameters are declared, not looked up */
    int failed;  /* memory was short */
};

const struct net_config *builder_config(const struct builder *b) { return &b->p->net->config; }
double builder_bn_momentum(const struct builder *b)
{
    return b->p->net->layer[b->node->l.index].frozen ? 0 : b->p->net->config.bn_momentum;
}
void builder_keep_in(struct builder *b, int i) { b->node->keep_in[i] = 1; }
void builder_keep_out(struct builder *b) { b->node->keep_out = 1; }

uint64_t builder_random(const struct builder *b, enum rng_stream stream)
{
    uint64_t ordinal = 0;
    for (int i = 0; i < b->node->l.index; i++) ordinal += b->p->node[i].l.ops == b->node->l.ops;
    return rng_key(b->p->net->seed, stream, ordinal);
}

struct buffer *builder_buffer(struct builder *b, size_t bytes, enum life life)
{
    struct program *p = b->p;
    struct claim *c = mem_alloc(1, sizeof *c);
    b->failed |= !c;
    if (!c) return NULL;
    *c = (struct claim){ { NULL, bytes }, life, b->node->l.index, NULL };
    *p->last_claim = c;
    p->last_claim = &c->next;
    return &c->buffer;
}

struct buffer *builder_loss(struct builder *b) { return builder_buffer(b, sizeof(double), LIFE_PROGRAM); }

static struct param *declare(struct net *n, const struct param *declared)
{
    struct model_layer *m = &n->layer[declared->layer];
    if (array_grow(&n->param, (size_t)n->nparam, sizeof *n->param)) return NULL;
    struct param *p = n->param[n->nparam] = mem_alloc(1, sizeof *p);
    if (!p) return NULL;
    *p = *declared;
    if (!m->nparam++) m->param = n->nparam;
    if (!(p->flags & PARAM_STATE)) m->learnt += p->count;
    n->nparam++;
    return p;
}

struct param *builder_linear(struct builder *b, size_t count, enum init init, double spread, unsigned flags,
                             const struct linear_ops *linear, const struct op_plan *plan)
{
    struct net *n = b->p->net;
    struct param want = { .net = n,
                          .layer = b->node->l.index,
                          .count = count,
                          .rank = 1,
                          .dims = { (int64_t)count },
                          .init = init,
                          .spread = spread,
                          .flags = flags,
                          .linear = linear,
                          .plan = plan };
    if (!b->creates) return n->param[n->layer[want.layer].param + b->node->params++];
    int too_large = mem_mul(count, sizeof(real), &want.bytes);
    if (plan) want.bytes = plan->weight_bytes;
    struct param *p = too_large ? NULL : declare(n, &want);
    b->failed |= !p;
    return p;
}

struct param *builder_param(struct builder *b, size_t count, enum init init, double spread, unsigned flags)
{
    return builder_linear(b, count, init, spread, flags, NULL, NULL);
}

const struct layout *builder_weights(const struct builder *b)
{
    const struct net *n = b->p->net;
    const struct model_layer *m = &n->layer[b->node->l.index];
    for (int i = m->param; !b->creates && i < m->param + m->nparam; i++)
        if (n->param[i]->linear) return n->param[i]->plan->weights;
    return NULL;
}

static int claim_own(struct program *p, struct err *e)
{
    struct node none = { .l.index = -1 };
    struct builder b = { .p = p, .node = &none };
    size_t rows = (size_t)p->rows, moves = p->desc.train && p->net->be->ops->images ? rows : 0;
    size_t mixed = p->desc.train && p->net->config.mixup ? rows : 0;
    p->scratch = builder_buffer(&b, 0, LIFE_PROGRAM);
    p->label = builder_buffer(&b, rows * sizeof(int), LIFE_PROGRAM);
    p->mixed = builder_buffer(&b, mixed * sizeof(struct mixed_label), LIFE_PROGRAM);
    p->crop = builder_buffer(&b, moves * sizeof(struct crop), LIFE_PROGRAM);
    p->image = builder_buffer(&b, shape_row(p->input.x.shape) * sizeof(real), LIFE_HOST);
    return b.failed ? net_no_memory(p->net, e) : OK;
}

int builder_run(struct program *p, int creates, struct err *e)
{
    TRY(claim_own(p, e));
    p->net->be->precision = (enum precision)p->net->config.precision;
    /* Only layer 0 reads the image, unless it is the identity. */
    TRY(p->net->be->ops->image(p->net->be, &p->input.x, p->node[0].l.pads, e));
    for (struct layer *l = NULL; (l = next_active(p, l));) {
        struct builder b = { .p = p, .node = &p->node[l->index], .creates = creates };
        if (!l->ops->build) continue;
        TRY(l->ops->build(l, &b, e));
        if (b.failed) return layer_no_memory(l, e);
        for (int k = 0; k < LAYER_PLANS; k++)
            if (l->plan[k].scratch_bytes > p->scratch->bytes) p->scratch->bytes = l->plan[k].scratch_bytes;
        if (l->identity) continue;
        l->out->g.layout = l->out->x.layout;
        l->out->g.bytes = l->out->x.bytes;
    }
    return OK;
}
