#include <math.h>
#include <string.h>
#include "core/mem.h"
#include "net/compiled.h"

static struct value *output_of(struct program *p, int i) { return i < 0 ? &p->input : p->node[i].l.out; }

static int connect(struct program *p, int i, struct err *e)
{
    const struct net *n = p->net;
    const struct model_layer *m = &n->layer[i];
    struct node *node = &p->node[i];
    struct layer *l = &node->l;
    *l = (struct layer){ .ops = m->ops,
                         .index = i,
                         .line = m->line,
                         .classes = n->classes,
                         .nin = m->nin,
                         .out = &node->value,
                         .rows_back = p->desc.paired && n->wants.gradient_first ? p->desc.rows : p->rows,
                         .train = p->desc.train,
                         .rows_s1 = p->desc.paired ? p->desc.rows : 0,
                         .share = p->desc.share,
                         .be = n->be,
                         .cfg = n->cfg->path,
                         .loss = NAN,
                         .learns = (m->ops->flags & LAYER_PARAMS) != 0,
                         .weight = 1 };
    size_t capacity = (size_t)m->nin + 1; /* one more for a sum: see fold_sums */
    l->self = mem_alloc(1, m->ops->size);
    l->in = mem_alloc(capacity, sizeof *l->in);
    l->add = mem_alloc(2 * capacity, sizeof *l->add);
    if (!l->self || !l->in || !l->add) return net_no_memory(n, e);
    node->keep_in = l->add + capacity;
    memcpy(l->self, m->self, m->ops->size);
    for (int k = 0; k < m->nin; k++) l->in[k] = output_of(p, m->in[k]);
    for (int k = m->in[0]; k >= 0 && !l->below; k = n->layer[k].in[0])
        if (!p->node[k].l.inert && !(n->layer[k].ops->flags & LAYER_TRAIN_ONLY)) l->below = p->node[k].l.ops;
    return OK;
}

static int check_shape(const struct layer *l, struct shape s, struct err *e)
{
    size_t count, bytes;
    if (s.n < 1 || s.c < 1 || s.h < 1 || s.w < 1)
        return layer_fail(l, e, "invalid output shape %dx%dx%d: the input is too small", s.w, s.h, s.c);
    if (mem_mul((size_t)s.c * (size_t)s.h, (size_t)s.w, &count) || count > INT32_MAX ||
        mem_mul(count * (size_t)s.n, 8 * sizeof(real), &bytes) || bytes > SIZE_MAX / 8)
        return layer_fail(l, e, "an output of %dx%dx%d for %d images is too large", s.w, s.h, s.c, s.n);
    return OK;
}

static int find_shape(struct program *p, int i, struct err *e)
{
    struct node *node = &p->node[i];
    struct layer *l = &node->l;
    struct shape out = { 0 };
    if (l->ops->flags & LAYER_SPATIAL && !(p->net->config.height && p->net->config.width))
        return layer_fail(l, e, "needs an image: set height, width and channels in [net]");
    TRY(l->ops->shape(l, &out, e));
    TRY(check_shape(l, out, e));
    if (l->identity)
        l->out = l->in[0];
    else
        node->value.x.shape = node->value.g.shape = out;
    return OK;
}

/* Does an active layer after `l` (NULL: any), other than `but`, read this value? */
static int is_read(const struct program *p, const struct value *v, const struct layer *l, int but)
{
    while ((l = next_active(p, l)))
        for (int k = 0; l->index != but && k < l->nin; k++)
            if (l->in[k] == v) return 1;
    return 0;
}

/* Can layer i, a sum, be folded into the layer before it? Nobody else may read the output of that layer (nor
 * the sum itself a second time), and no later layer may read the addend, whose gradient the folded sum
 * overwrites. */
static int folds(const struct program *p, int i)
{
    const struct layer *l = &p->node[i].l, *before = &p->node[i - 1].l;
    int act = !l->inert && !l->identity && l->ops->sum ? l->ops->sum(l) : -1;
    return act >= 0 && l->in[0] == &p->node[i - 1].value && l->in[1] != l->in[0] && before->ops->takes_sum &&
           before->ops->takes_sum(before, (enum act)act) && !is_read(p, l->in[0], NULL, i) &&
           !is_read(p, l->in[1], l, i);
}

/* Layers from `first` on that read `old`, or are the identity on it, get `now`. */
static void replace_value(struct program *p, int first, const struct value *old, struct value *now)
{
    for (int i = first; i < p->n; i++) {
        struct layer *l = &p->node[i].l;
        for (int k = 0; k < l->nin; k++)
            if (l->in[k] == old) l->in[k] = now;
        if (l->out == old) l->out = now;
    }
}

static void fold_sums(struct program *p)
{
    for (int i = 1; p->desc.train && !p->desc.keep && i < p->n; i++) {
        struct layer *l = &p->node[i].l, *before = &p->node[i - 1].l;
        if (!folds(p, i)) continue;
        before->in[before->nin++] = l->in[1];
        before->sum_act = (enum act)l->ops->sum(l);
        replace_value(p, i + 1, l->out, before->out);
        l->out = before->out;
        l->identity = l->inert = 1;
    }
}

/* Which values have something below them that learns. */
static void find_learners(struct program *p)
{
    for (int i = 0; i < p->n; i++) {
        struct layer *l = &p->node[i].l;
        if (l->identity) continue;
        int need = l->learns;
        for (int k = 0; k < l->nin; k++) need |= l->in[k]->need_g;
        l->out->need_g =
            p->desc.train && need && !(l->ops->flags & LAYER_NO_GRAD) && !p->net->layer[i].frozen;
    }
}

/* Walks as backward will: a layer takes part if something wrote its output's gradient or it has a loss of its
 * own. The first to write a gradient overwrites, the others add. */
static void find_backward(struct program *p)
{
    for (int i = 0; i < p->n; i++) p->node[i].value.g_written = 0;
    for (int i = p->n - 1; i >= 0; i--) {
        struct node *node = &p->node[i];
        struct layer *l = &node->l;
        int loss = l->ops->flags & LAYER_LOSS && (l->identity || l->last), below = 0;
        for (int k = 0; k < l->nin; k++) below |= l->in[k]->need_g;
        int learns = l->learns && !p->net->layer[i].frozen;
        int called = !l->inert && l->ops->backward && (!l->identity || loss);
        node->back = called && (below || learns) && (loss || l->out->g_written);
        int folded = l->nin > p->net->layer[i].nin; /* the addend of a folded sum gets its gradient first */
        for (int n = 0; node->back && n < l->nin; n++) {
            int k = folded ? l->nin - 1 - n : n;
            if (!l->in[k]->need_g) continue;
            l->add[k] = l->in[k]->g_written;
            l->in[k]->g_written = 1;
        }
    }
}

/* `last`: no active layer reads this output. Comes before sums are folded, since a folded sum is no longer
 * active but still reads. */
static void find_last(struct program *p)
{
    for (int i = 0; i < p->n; i++) p->node[i].l.last = 1;
    for (int i = 0; i < p->n; i++)
        for (int k = 0; !p->node[i].l.inert && k < p->net->layer[i].nin; k++)
            for (int j = p->net->layer[i].in[k]; j >= 0;
                 j = p->node[j].l.identity ? p->net->layer[j].in[0] : -1)
                p->node[j].l.last = 0;
}

/* A layer whose loss has no effect is a mistake in the cfg: better refused than ignored. */
static int check_losses(const struct program *p, struct err *e)
{
    for (const struct layer *l = NULL; p->desc.train && (l = next_active(p, l));) {
        if (l->ops->flags & LAYER_TRAIN_ONLY && l->last)
            return layer_fail(l, e, "must come before the classifier: no layer that learns comes after it");
        if (l->ops->flags & LAYER_TRAIN_ONLY && !l->in[0]->need_g)
            return layer_fail(l, e, "no layer that learns comes before it");
        if (l->ops->flags & LAYER_TERMINAL && !l->last) return layer_fail(l, e, "must be the last layer");
    }
    return OK;
}

int program_output(const struct program *p)
{
    int i = p->n - 1;
    while (i > 0 && p->node[i].l.ops->flags & LAYER_TERMINAL) i--;
    return i;
}

int connect_program(struct program **out, struct net *n, const struct program_desc *d, struct err *e)
{
    struct program *p = *out = mem_alloc(1, sizeof *p);
    if (!p) return net_no_memory(n, e);
    *p = (struct program){
        .net = n, .desc = *d, .rows = d->paired ? 2 * d->rows : d->rows, .n = n->n, .feature = d->features - 1
    };
    if (!d->share.all) p->desc.share = (struct share){ 0, d->rows, d->rows };
    p->last_claim = &p->claims;
    p->node = mem_alloc((size_t)n->n, sizeof *p->node);
    if (!p->node) return net_no_memory(n, e);
    p->input.x.shape = config_shape(&n->config, p->rows);
    for (int i = 0; i < n->n; i++) {
        TRY(connect(p, i, e));
        TRY(find_shape(p, i, e));
    }
    find_last(p);
    fold_sums(p);
    find_learners(p);
    find_backward(p);
    return check_losses(p, e);
}

void describe_model(const struct program *p, struct net *n)
{
    for (int i = 0; i < p->n; i++) {
        const struct layer *l = &p->node[i].l;
        n->layer[i].out = l->out->x.shape;
        n->layer[i].out.n = 1;
        n->layer[i].flops = l->ops->flops ? l->ops->flops(l) : 0;
    }
    n->classes = (int)shape_row(p->node[program_output(p)].l.out->x.shape);
}
