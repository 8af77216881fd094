/* Compiling a net for one batch size and purpose, and running it. */
#include "program.h"
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "core/clock.h"
#include "core/mem.h"
#include "net/model.h"
#include "net/plan.h"

/* A buffer a layer has asked for. */
struct claim {
    struct buffer buffer;
    enum life life;
    int layer;
    struct claim *next;
};

struct node {
    struct layer l;
    struct value value; /* its output, unless it is the identity */
    int used;           /* takes part: forward is called */
    int back;           /* backward is called */
    int keep_out, *keep_in;
    int params; /* declared so far in this build */
};

struct program {
    struct net *net;
    struct program_desc desc;
    int rows; /* of the forward pass: S1 and S2 */
    int n;
    struct node *node;
    struct value input;
    struct claim *claims, **last_claim;
    size_t scratch_bytes, arena_bytes, fixed_bytes, host_bytes;
    void *arena, *fixed, *scratch; /* backend memory */
    char *host;
    real *image;    /* one row of input, in host */
    int *dev_label; /* in fixed, as is: */
    struct move *dev_move;
    int feature;            /* layer whose output is kept for program_features, or -1 */
    struct plan_item *item; /* as placed: tensors first, then claims */
    int nitem;
    /* Where losses are read late: */
    int late, nrecord; /* losses in a record */
    struct record_plan records;
    double *record;                 /* host: all records, as pulled */
    struct recording *recording[4]; /* of a step, by add and update */
    int enqueued[4];                /* it has run once: what is used first is there */
    /* Where they are not: */
    struct step_stats *stats; /* of the steps of an iteration */
};

struct builder {
    struct program *p;
    struct node *node;
    int creates; /* the first program of the net: parameters are declared, not looked up */
};

/* ---- what layers may ask while they build
 * ---------------------------------------------------------------------- */

struct backend *builder_backend(const struct builder *b) { return b->p->net->be; }
int builder_train(const struct builder *b) { return b->p->desc.train; }
int builder_paired(const struct builder *b) { return b->node->l.first; }
int builder_rows(const struct builder *b) { return b->p->rows; }
const struct net_config *builder_config(const struct builder *b) { return &b->p->net->config; }
double builder_pace(const struct builder *b)
{
    return b->p->net->layer[b->node->l.index].frozen ? 0 : b->p->net->config.bn_momentum;
}
uint64_t builder_seed(const struct builder *b) { return b->p->net->seed; }
void builder_keep_in(struct builder *b, int i) { b->node->keep_in[i] = 1; }
void builder_keep_out(struct builder *b) { b->node->keep_out = 1; }

void builder_scratch(struct builder *b, size_t bytes)
{
    if (bytes > b->p->scratch_bytes) b->p->scratch_bytes = bytes;
}

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

static int add_param(struct net *n, struct param *p)
{
    if (n->nparam % 64 == 0) {
        struct param **more = mem_alloc((size_t)n->nparam + 64, sizeof *more);
        if (!more) return E_MEM;
        if (n->nparam) memcpy(more, n->param, (size_t)n->nparam * sizeof *more);
        mem_free(n->param);
        n->param = more;
    }
    n->param[n->nparam++] = p;
    return OK;
}

static struct param *declare(struct builder *b, struct param want)
{
    struct net *n = want.net;
    struct model_layer *m = &n->layer[want.layer];
    if (!b->creates) return b->node->params < m->nparam ? n->param[m->param + b->node->params++] : NULL;
    struct param *p = mem_alloc(1, sizeof *p);
    if (!p) return NULL;
    *p = want;
    if (add_param(n, p)) {
        mem_free(p);
        return NULL;
    }
    if (!m->nparam++) m->param = n->nparam - 1;
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
    return mem_mul(count, sizeof(real), &want.bytes) ? NULL : declare(b, want);
}

struct param *builder_linear(struct builder *b, size_t count, enum init init, double spread, unsigned flags,
                             const struct linear_ops *linear, const struct linear_plan *plan)
{
    struct param want = described(b, count, init, spread, flags);
    want.bytes = plan->weight_bytes;
    want.linear = linear;
    want.plan = plan;
    return declare(b, want);
}

const struct layout *builder_weights(const struct builder *b)
{
    const struct net *n = b->p->net;
    const struct model_layer *m = &n->layer[b->node->l.index];
    for (int i = m->param; !b->creates && i < m->param + m->nparam; i++)
        if (n->param[i]->linear) return n->param[i]->plan->weights;
    return NULL;
}

/* ---- shapes and connections
 * -------------------------------------------------------------------------------------- */

static int rows_back(const struct program *p)
{
    return p->desc.paired && p->net->wants.gradient_first ? p->desc.rows : p->rows;
}

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
                         .rows_back = rows_back(p),
                         .train = p->desc.train,
                         .first = p->desc.paired ? p->desc.rows : 0,
                         .be = n->be,
                         .cfg = n->cfg->path,
                         .loss = NAN,
                         .weight = 1 };
    l->self = mem_alloc(1, m->ops->size + 1);
    size_t room = (size_t)m->nin + 1; /* one more for a sum: see fold_sums */
    l->in = mem_alloc(room, sizeof *l->in);
    l->add = mem_alloc(room, sizeof *l->add);
    node->keep_in = mem_alloc(room, sizeof *node->keep_in);
    if (!l->self || !l->in || !l->add || !node->keep_in)
        return fail(e, E_MEM, "%s: not enough memory", l->cfg);
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
        return layer_fail(l, e, "an output of %dx%dx%d cannot be", s.w, s.h, s.c);
    if (mem_mul((size_t)s.c * (size_t)s.h, (size_t)s.w, &count) || count > INT32_MAX ||
        mem_mul(count * (size_t)s.n, 8 * sizeof(real), &bytes) || bytes > SIZE_MAX / 8)
        return layer_fail(l, e, "an output of %dx%dx%d for %d images is too large", s.w, s.h, s.c, s.n);
    return OK;
}

static int find_shape(struct program *p, int i, struct err *e)
{
    struct node *node = &p->node[i];
    struct layer *l = &node->l;
    struct shape in = l->in[0]->x.shape, out = { 0 };
    if (l->ops->flags & LAYER_SPATIAL && !(p->net->config.height && p->net->config.width))
        return layer_fail(l, e, "needs an image: set height, width and channels in [net]");
    if ((size_t)in.c > SIZE_MAX / 8) return layer_fail(l, e, "too many channels");
    TRY(l->ops->shape(l, &out, e));
    TRY(check_shape(l, out, e));
    node->used = !l->inert;
    if (l->identity)
        l->out = l->in[0];
    else
        node->value.x.shape = node->value.g.shape = out;
    return OK;
}

/* Does a used layer from `first` on, other than `but`, read this value? */
static int is_read(const struct program *p, const struct value *v, int first, int but)
{
    for (int i = first; i < p->n; i++)
        for (int k = 0; i != but && p->node[i].used && k < p->node[i].l.nin; k++)
            if (p->node[i].l.in[k] == v) return 1;
    return 0;
}

/* Can layer i, a sum, be done by the layer before it? Nobody else may want what that gave so far, and the
 * gradient of what is added must be written here first. */
static int folds(const struct program *p, int i)
{
    const struct layer *l = &p->node[i].l, *before = &p->node[i - 1].l;
    int act = p->node[i].used && !l->identity && l->ops->sum ? l->ops->sum(l) : -1;
    return act >= 0 && l->in[0] == &p->node[i - 1].value && before->ops->takes_sum &&
           before->ops->takes_sum(before, (enum act)act) && !is_read(p, l->in[0], 0, i) &&
           !is_read(p, l->in[1], i, i);
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
        p->node[i].used = 0;
    }
}

/* Which values have something below them that learns. */
static void find_learners(struct program *p)
{
    for (int i = 0; i < p->n; i++) {
        struct layer *l = &p->node[i].l;
        if (l->identity) continue;
        int need = l->ops->flags & LAYER_PARAMS;
        for (int k = 0; k < l->nin; k++) need |= l->in[k]->need_g;
        l->out->need_g =
            p->desc.train && need && !(l->ops->flags & LAYER_NO_GRAD) && !p->net->layer[i].frozen;
    }
}

/* Walks as backward will: a layer takes part if something wrote its output's gradient or it has a loss of its
 * own. The first to write a gradient overwrites, the others add. id: 1 once it is written. */
static void find_backward(struct program *p)
{
    for (int i = 0; i < p->n; i++) p->node[i].value.id = 0;
    for (int i = p->n - 1; i >= 0; i--) {
        struct node *node = &p->node[i];
        struct layer *l = &node->l;
        int loss = l->ops->flags & LAYER_LOSS && (l->identity || l->last), below = 0;
        for (int k = 0; k < l->nin; k++) below |= l->in[k]->need_g;
        int learns = l->ops->flags & LAYER_PARAMS && !p->net->layer[i].frozen;
        int called = node->used && l->ops->backward && (!l->identity || loss);
        node->back = called && (below || learns) && (loss || l->out->id);
        int folded = l->nin > p->net->layer[i].nin; /* what a sum adds gets its gradient first */
        for (int n = 0; node->back && n < l->nin; n++) {
            int k = folded ? l->nin - 1 - n : n;
            if (!l->in[k]->need_g) continue;
            l->add[k] = l->in[k]->id;
            l->in[k]->id = 1;
        }
    }
}

/* `last`: only layers that do nothing to it read this output. */
static void find_last(struct program *p)
{
    for (int i = 0; i < p->n; i++) p->node[i].l.last = 1;
    for (int i = 0; i < p->n; i++)
        for (int k = 0; p->node[i].used && k < p->net->layer[i].nin; k++)
            for (int j = p->net->layer[i].in[k]; j >= 0;
                 j = p->node[j].l.identity ? p->net->layer[j].in[0] : -1)
                p->node[j].l.last = 0;
}

/* A layer whose loss can do nothing is a mistake in the cfg, and not to be trained with in silence. */
static int check_losses(const struct program *p, struct err *e)
{
    for (int i = 0; i < p->n; i++) {
        const struct layer *l = &p->node[i].l;
        if (!p->node[i].used || !p->desc.train) continue;
        if (l->ops->flags & LAYER_TRAIN_ONLY && l->last)
            return layer_fail(l, e, "must stand before the classifier: no layer that learns comes behind it");
        if (l->ops->flags & LAYER_TRAIN_ONLY && !l->in[0]->need_g)
            return layer_fail(l, e, "no layer that learns comes before it");
        if (l->ops->flags & LAYER_TERMINAL && !l->last) return layer_fail(l, e, "must be the last layer");
    }
    return OK;
}

/* Training needs something to learn from. (Nets without a loss are fine for all else.) */
static int check_goal(const struct program *p, struct err *e)
{
    if (!p->desc.train || p->desc.plan_only) return OK;
    for (int i = 0; i < p->n; i++) {
        const struct layer *l = &p->node[i].l;
        if (p->node[i].used && l->last && l->ops->flags & LAYER_LOSS && !(l->ops->flags & LAYER_TRAIN_ONLY))
            return OK;
    }
    const struct layer *l = &p->node[p->n - 1].l;
    return layer_fail(l, e,
                      "is the last layer, and nothing is to be learnt: end the cfg with [softmax] or [cost]");
}

static int output_layer(const struct program *p)
{
    int i = p->n - 1;
    while (i > 0 && p->node[i].l.ops->flags & LAYER_TERMINAL) i--;
    return i;
}

int program_draft(struct program **out, struct net *n, const struct program_desc *d, struct err *e)
{
    struct program *p = *out = mem_alloc(1, sizeof *p);
    if (!p) return fail(e, E_MEM, "%s: not enough memory", n->cfg->path);
    *p = (struct program){
        .net = n, .desc = *d, .rows = d->paired ? 2 * d->rows : d->rows, .n = n->n, .feature = -1
    };
    p->last_claim = &p->claims;
    p->node = mem_alloc((size_t)n->n, sizeof *p->node);
    if (!p->node) return fail(e, E_MEM, "%s: not enough memory", n->cfg->path);
    const struct net_config *c = &n->config;
    int image = c->height && c->width && c->channels;
    p->input.x.shape = image ? (struct shape){ p->rows, c->channels, c->height, c->width }
                             : (struct shape){ p->rows, c->inputs, 1, 1 };
    for (int i = 0; i < n->n; i++) {
        TRY(connect(p, i, e));
        TRY(find_shape(p, i, e));
    }
    fold_sums(p);
    find_learners(p);
    find_last(p);
    find_backward(p);
    return check_losses(p, e);
}

void program_describe(const struct program *p, struct net *n)
{
    for (int i = 0; i < p->n; i++) {
        const struct layer *l = &p->node[i].l;
        n->layer[i].out = l->out->x.shape;
        n->layer[i].out.n = 1;
        n->layer[i].flops = l->ops->flops ? l->ops->flops(l) : 0;
    }
    n->classes = (int)shape_row(p->node[output_layer(p)].l.out->x.shape);
}

/* ---- plans and memory
 * ---------------------------------------------------------------------------------------------- */

static int build_layers(struct program *p, int creates, struct err *e)
{
    p->net->be->precision = (enum precision)p->net->config.precision;
    TRY(p->net->be->ops->image(p->net->be, &p->input.x, e));
    for (int i = 0; i < p->n; i++) {
        struct builder b = { p, &p->node[i], creates };
        struct layer *l = &p->node[i].l;
        l->classes = p->net->classes;
        if (!p->node[i].used || !l->ops->build) continue;
        TRY(l->ops->build(l, &b, e));
        if (l->identity) continue;
        l->out->g.layout = l->out->x.layout;
        l->out->g.bytes = l->out->x.bytes;
    }
    return OK;
}

/* The schedule: forward of layer i is step i + 1 (the image is there at 0), its backward step 2n + 1 - i. */
static int forward_step(int i) { return i + 1; }
static int backward_step(const struct program *p, int i) { return 2 * p->n + 1 - i; }

static void extend(struct plan_item *item, int from, int to)
{
    if (from < item->first) item->first = from;
    if (to > item->last) item->last = to;
}

/* Items 2i and 2i + 1: x and g of the value of layer i; 2n: the image. */
static struct plan_item *item_of(struct program *p, const struct value *v, int gradient)
{
    if (v == &p->input) return gradient ? NULL : &p->item[2 * p->n];
    const struct node *node =
        (const struct node *)(const void *)((const char *)v - offsetof(struct node, value));
    return &p->item[2 * (node - p->node) + gradient];
}

static void live_layer(struct program *p, int i)
{
    const struct node *node = &p->node[i];
    const struct layer *l = &node->l;
    int f = forward_step(i), b = backward_step(p, i);
    struct plan_item *out = item_of(p, l->out, 0), *out_g = item_of(p, l->out, 1);
    extend(out, f, node->keep_out && node->back ? b : f);
    if (node->back && out_g && l->out->id) extend(out_g, b, b);
    for (int k = 0; k < l->nin; k++) {
        struct plan_item *in = item_of(p, l->in[k], 0), *in_g = item_of(p, l->in[k], 1);
        extend(in, f, node->keep_in[k] && node->back ? b : f);
        if (node->back && l->in[k]->need_g) extend(in_g, b, b);
    }
}

static void live_tensors(struct program *p)
{
    int end = 2 * p->n + 2;
    for (int i = 0; i <= 2 * p->n; i++) p->item[i] = (struct plan_item){ 0, end, 0, 0 };
    p->item[2 * p->n] = (struct plan_item){ p->input.x.bytes, 0, 0, 0 };
    for (int i = 0; i < p->n; i++) {
        const struct node *node = &p->node[i];
        if (node->l.identity) continue;
        p->item[2 * i].bytes = node->used ? node->value.x.bytes : 0;
        p->item[2 * i + 1].bytes = node->value.id && node->value.need_g ? node->value.g.bytes : 0;
    }
    for (int i = 0; i < p->n; i++)
        if (p->node[i].used) live_layer(p, i);
    int out = output_layer(p);
    extend(item_of(p, p->node[out].l.out, 0), forward_step(out), end);
    if (p->feature >= 0) extend(item_of(p, p->node[p->feature].l.out, 0), forward_step(p->feature), end);
    for (int i = 0; p->desc.keep && i <= 2 * p->n; i++)
        if (p->item[i].bytes) extend(&p->item[i], 0, end);
}

static struct plan_item live_claim(const struct program *p, const struct claim *c)
{
    int f = forward_step(c->layer), b = backward_step(p, c->layer), back = p->node[c->layer].back;
    struct plan_item item = { c->buffer.bytes, f, f, 0 };
    switch (c->life) {
    case LIFE_PASS: item.last = back ? b : f; break;
    case LIFE_FORWARD: break;
    case LIFE_BACKWARD: item.first = item.last = b; break;
    case LIFE_PROGRAM:
    case LIFE_HOST: item.bytes = 0; break;
    }
    return item;
}

enum { GUARD = 64, POISON = 0xa5 };

static int plan_memory(struct program *p, struct err *e)
{
    int n = 2 * p->n + 1;
    for (const struct claim *c = p->claims; c; c = c->next) n++;
    p->nitem = n;
    p->item = mem_alloc((size_t)n, sizeof *p->item);
    if (!p->item) return fail(e, E_MEM, "%s: not enough memory", p->net->cfg->path);
    live_tensors(p);
    n = 2 * p->n + 1;
    for (const struct claim *c = p->claims; c; c = c->next) p->item[n++] = live_claim(p, c);
    for (int i = 0; p->desc.guard && i < n; i++)
        if (p->item[i].bytes) p->item[i].bytes += GUARD;
    if (plan_arena(p->item, n, &p->arena_bytes))
        return fail(e, E_MEM, "%s: the net is too large", p->net->cfg->path);
    return OK;
}

/* Sizes that do not fit become SIZE_MAX, which check_room refuses. */
static size_t round_up(size_t n) { return n > SIZE_MAX - 63 ? SIZE_MAX : (n + 63) / 64 * 64; }
static size_t sum(size_t a, size_t b) { return mem_add(a, b, &a) ? SIZE_MAX : a; }

/* Of the labels, and in training of the moves. */
static size_t label_bytes(const struct program *p)
{
    size_t rows = (size_t)p->rows, moves = p->desc.train && p->net->be->ops->images ? rows : 0;
    return round_up(rows * sizeof *p->dev_label) + round_up(moves * sizeof *p->dev_move);
}

/* Sizes of what is always there: per-program buffers, labels, and on the host the layers' own. */
static void plan_fixed(struct program *p)
{
    p->fixed_bytes = sum(label_bytes(p), round_up(p->scratch_bytes));
    p->host_bytes = round_up(shape_row(p->input.x.shape) * sizeof(real));
    for (const struct claim *c = p->claims; c; c = c->next) {
        if (c->life == LIFE_PROGRAM) p->fixed_bytes = sum(p->fixed_bytes, round_up(c->buffer.bytes));
        if (c->life == LIFE_HOST) p->host_bytes = sum(p->host_bytes, round_up(c->buffer.bytes));
    }
}

static void bind_tensor(struct program *p, struct tensor *t, const struct plan_item *item)
{
    t->data = item->bytes ? (char *)p->arena + item->at : NULL;
}

static void bind(struct program *p)
{
    bind_tensor(p, &p->input.x, &p->item[2 * p->n]);
    for (int i = 0; i < p->n; i++) {
        bind_tensor(p, &p->node[i].value.x, &p->item[2 * i]);
        bind_tensor(p, &p->node[i].value.g, &p->item[2 * i + 1]);
    }
    char *fixed = p->fixed, *host = p->host;
    p->dev_label = (int *)(void *)fixed;
    p->dev_move = (struct move *)(void *)(fixed + round_up((size_t)p->rows * sizeof *p->dev_label));
    fixed += label_bytes(p);
    p->scratch = fixed;
    fixed += round_up(p->scratch_bytes);
    p->image = (real *)(void *)host;
    host += round_up(shape_row(p->input.x.shape) * sizeof(real));
    const struct plan_item *item = &p->item[2 * p->n + 1];
    for (struct claim *c = p->claims; c; c = c->next, item++) {
        if (c->life == LIFE_PROGRAM) {
            c->buffer.data = fixed;
            fixed += round_up(c->buffer.bytes);
        } else if (c->life == LIFE_HOST) {
            c->buffer.data = host;
            host += round_up(c->buffer.bytes);
        } else
            c->buffer.data = item->bytes ? (char *)p->arena + item->at : NULL;
    }
}

/* The layer in whose step most memory is in use. */
static int busiest_layer(const struct program *p)
{
    size_t most = 0;
    int at = 0;
    for (int step = 1; step <= 2 * p->n + 1; step++) {
        size_t bytes = 0;
        for (int i = 0; i < p->nitem; i++)
            if (p->item[i].first <= step && step <= p->item[i].last) bytes = sum(bytes, p->item[i].bytes);
        if (bytes <= most) continue;
        most = bytes;
        at = step <= p->n ? step - 1 : 2 * p->n + 1 - step;
    }
    return at < p->n ? at : p->n - 1;
}

/* Refuses what cannot fit before asking for it, and says how much it would be and what would fit: all but the
 * parameters is in proportion to the rows. */
static int check_room(const struct program *p, size_t params, struct err *e)
{
    size_t rows = sum(sum(p->arena_bytes, p->fixed_bytes), p->host_bytes), total = sum(rows, params);
    size_t room = p->net->be->ops->room(p->net->be), each = rows / (size_t)p->rows + 1;
    if (total <= room && total < SIZE_MAX) return OK;
    size_t fit = (room > params ? room - params : 0) / each / (size_t)(p->rows / p->desc.rows);
    int at = busiest_layer(p);
    return fail(
        e, E_MEM,
        "%s: a mini-batch of %d needs %zu MiB, most in use at layer %d, [%s] in line %d, and %zu MiB are "
        "free, enough for one of %zu: lower batch or raise subdivisions",
        p->net->cfg->path, p->desc.rows, total >> 20, at, p->node[at].l.ops->name, p->node[at].l.line,
        room >> 20, fit);
}

static int allocate(struct program *p, int creates, struct err *e)
{
    struct backend *be = p->net->be;
    TRY(plan_memory(p, e));
    plan_fixed(p);
    size_t params = creates ? model_param_bytes(p->net, p->desc.train) : 0;
    if (creates && !params && p->net->nparam)
        return fail(e, E_MEM, "%s: the parameters are too large", p->net->cfg->path);
    if (p->desc.plan_only) return OK;
    TRY(check_room(p, params, e));
    TRY(be->ops->alloc(be, p->arena_bytes, &p->arena, e));
    TRY(be->ops->alloc(be, p->fixed_bytes, &p->fixed, e));
    p->host = mem_alloc(p->host_bytes, 1);
    if (!p->host)
        return fail(e, E_MEM, "%s: not enough memory for %zu bytes", p->net->cfg->path, p->host_bytes);
    bind(p);
    return creates ? model_create_params(p->net, p->desc.train, e) : OK;
}

/* ---- records ---- */

enum { LATE_ITERATIONS = 10 };

/* Losses are read late where the device works on its own and no layer needs the host. */
static int can_be_late(const struct program *p)
{
    const struct backend *be = p->net->be;
    if (p->desc.keep || p->desc.guard || !be->ops->records || be->eager) return 0;
    for (int i = 0; i < p->n; i++)
        if (p->node[i].used && p->node[i].l.on_host) return 0;
    return 1;
}

static int is_ce(const struct layer *l) { return !(l->ops->flags & LAYER_TRAIN_ONLY); }

static size_t records(const struct program *p)
{
    return LATE_ITERATIONS * (size_t)p->net->config.subdivisions;
}

static int plan_records(struct program *p, struct err *e)
{
    struct net *n = p->net;
    const double **loss = mem_alloc((size_t)p->n, sizeof *loss);
    int *ce = mem_alloc((size_t)p->n, sizeof *ce), rc = E_MEM;
    struct record_desc d = { .loss = loss,
                             .is_ce = ce,
                             .room = (int)records(p),
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
    if (loss && ce && p->record) rc = n->be->ops->records->plan(n->be, &d, &p->records, e);
    mem_free(loss);
    mem_free(ce);
    return rc == E_MEM ? fail(e, E_MEM, "%s: not enough memory for %d losses", n->cfg->path, d.n) : rc;
}

/* Where the stats of steps wait to be read. */
static int plan_stats(struct program *p, struct err *e)
{
    if (!p->desc.train || p->desc.plan_only) return OK;
    p->late = can_be_late(p);
    if (p->late) return plan_records(p, e);
    p->stats = mem_alloc((size_t)p->net->config.subdivisions, sizeof *p->stats);
    return p->stats ? OK : fail(e, E_MEM, "%s: not enough memory", p->net->cfg->path);
}

static void drop_stats(struct program *p)
{
    const struct backend_ops *ops = p->net->be->ops;
    mem_free(p->stats);
    mem_free(p->record);
    if (!ops->records) return;
    for (int i = 0; i < 4; i++) ops->forget(p->recording[i]);
    ops->records->drop(&p->records);
}

static int keep_features(struct program *p, struct err *e)
{
    p->feature = p->desc.features - 1;
    if (p->feature < p->n) return OK;
    return fail(e, E_ARG, "%s: features of layer %d: there are layers 0..%d", p->net->cfg->path, p->feature,
                p->n - 1);
}

int program_open(struct program **out, struct net *n, const struct program_desc *d, struct err *e)
{
    int creates = !n->param;
    struct program *p = NULL;
    *out = NULL;
    if (d->train && !creates && !n->param[0]->w)
        return fail(e, E_ARG, "%s: training programs must be opened before those for inference",
                    n->cfg->path);
    int rc = program_draft(&p, n, d, e);
    if (!rc) rc = check_goal(p, e);
    if (!rc) rc = keep_features(p, e);
    if (!rc) rc = build_layers(p, creates, e);
    if (!rc) rc = allocate(p, creates, e);
    if (!rc) rc = plan_stats(p, e);
    if (!rc && !d->train && !d->plan_only) rc = program_refresh(p, e);
    if (rc) {
        program_close(p);
        if (creates) model_drop_params(n);
        return rc;
    }
    *out = p;
    return OK;
}

void program_close(struct program *p)
{
    if (!p) return;
    for (int i = 0; p->node && i < p->n; i++) {
        struct node *node = &p->node[i];
        if (node->l.self && node->used && node->l.ops->drop) node->l.ops->drop(&node->l);
        mem_free(node->l.self);
        mem_free(node->l.in);
        mem_free(node->l.add);
        mem_free(node->keep_in);
    }
    for (struct claim *c = p->claims, *next; c; c = next) {
        next = c->next;
        mem_free(c);
    }
    struct backend *be = p->net->be;
    drop_stats(p);
    be->ops->free(be, p->arena);
    be->ops->free(be, p->fixed);
    mem_free(p->host);
    mem_free(p->item);
    mem_free(p->node);
    mem_free(p);
}

/* ---- running
 * ---------------------------------------------------------------------------------------------------------
 */

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

/* Where losses are read late the device's part of the moment is the host's only at the beginning. */
static int upload_moment(struct program *p, const struct step *s)
{
    struct net *n = p->net;
    struct moment now = {
        .step = s->number, .iteration = s->iteration, .rate = s->rate, .ce_average = n->ce_average
    };
    size_t bytes = p->late && n->follows ? offsetof(struct moment, ce_sum) : sizeof now;
    n->follows = p->late;
    return n->be->ops->upload(n->be, n->now, &now, bytes);
}

/* The loader's images are float, whatever `real` is. */
static int fill_image(struct program *p, const struct step *s)
{
    struct backend *be = p->net->be;
    size_t image = shape_row(p->input.x.shape);
    if (s->move) {
        TRY(be->ops->upload(be, p->dev_move, s->move, (size_t)s->rows * sizeof *s->move));
        return be->ops->images->show(&p->net->images, p->dev_move, s->rows, &p->input.x);
    }
    if (sizeof(real) == sizeof(float))
        return be->ops->write(be, &p->input.x, 0, s->rows, (const real *)(const void *)s->x, 0);
    for (int i = 0; i < s->rows; i++) {
        for (size_t k = 0; k < image; k++) p->image[k] = s->x[(size_t)i * image + k];
        TRY(be->ops->write(be, &p->input.x, i, 1, p->image, 0));
    }
    return OK;
}

static int fill(struct program *p, const struct step *s, struct pass *pass, struct err *e)
{
    const struct net *n = p->net;
    struct backend *be = n->be;
    *pass = (struct pass){ .be = be,
                           .train = p->desc.train,
                           .hold = s->hold,
                           .add = s->add,
                           .rows = s->rows,
                           .first = s->first,
                           .scored = s->first,
                           .label = s->label,
                           .dev_label = s->label ? p->dev_label : NULL,
                           .seed = n->seed,
                           .step = s->number,
                           .now = n->now,
                           .iteration = s->iteration,
                           .ce_average = n->ce_average,
                           .scratch = p->scratch,
                           .err = e };
    if (e) e->code = OK;
    if (p->desc.guard) TRY(guard_step(p, 0, 1, e));
    if (p->desc.train) TRY(upload_moment(p, s));
    TRY(fill_image(p, s));
    return s->label ? be->ops->upload(be, p->dev_label, s->label, (size_t)s->rows * sizeof(int)) : OK;
}

static int forward(struct program *p, const struct pass *pass, struct step_stats *stats, struct err *e)
{
    for (int i = 0; i < p->n; i++)
        if (p->node[i].used) TRY(run_layer(p, i, 0, pass, stats, e));
    return OK;
}

static int backward(struct program *p, const struct pass *pass, struct step_stats *stats, struct err *e)
{
    for (int i = p->n - 1; i >= 0; i--)
        if (p->node[i].back) TRY(run_layer(p, i, 1, pass, stats, e));
    return OK;
}

static int settle(struct layer *l, int scored, struct err *e)
{
    if (l->ops->settle) return l->ops->settle(l, e);
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
        TRY(settle(l, pass->scored, pass->err));
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

static void add_stats(const struct program *p, struct step_stats *s)
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

int program_train(struct program *p, const struct step *s, struct step_stats *stats, struct err *e)
{
    struct pass pass;
    double start = wall_clock();
    *stats = (struct step_stats){ 0 };
    TRY(fill(p, s, &pass, e));
    TRY(forward(p, &pass, stats, e));
    TRY(fetch_losses(p, &pass));
    add_stats(p, stats);
    if (!isfinite(stats->ce) || !isfinite(stats->center)) {
        pass.hold = 1;
        return blame(p, &pass, e);
    }
    TRY(backward(p, &pass, stats, e));
    TRY(p->net->be->ops->sync(p->net->be, e));
    stats->seconds = wall_clock() - start;
    return OK;
}

/* ---- steps whose stats are read later ---- */

static int enqueue(struct program *p, const struct step *s, const struct pass *pass, struct err *e)
{
    struct net *n = p->net;
    const struct backend_ops *ops = n->be->ops;
    TRY(forward(p, pass, NULL, e));
    TRY(backward(p, pass, NULL, e));
    if (s->update) TRY(ops->sgd->guard(&n->sgd, n->now));
    TRY(ops->records->push(&p->records, n->now, s->update));
    return s->update ? ops->sgd->update(&n->sgd, n->now) : OK;
}

/* The first time as it is, the second time into a recording, from then on as recorded. */
static int enqueue_recorded(struct program *p, const struct step *s, const struct pass *pass, struct err *e)
{
    struct backend *be = p->net->be;
    int way = (s->add != 0) + 2 * (s->update != 0);
    if (p->recording[way]) return be->ops->replay(be, p->recording[way]);
    if (!p->enqueued[way]++ || be->ops->record(be)) return enqueue(p, s, pass, e);
    int rc = enqueue(p, s, pass, e), ended = be->ops->recorded(be, &p->recording[way], e);
    if (rc || ended) return rc ? rc : ended;
    return be->ops->replay(be, p->recording[way]);
}

int program_room(const struct program *p) { return p->late ? LATE_ITERATIONS : 1; }

int program_submit(struct program *p, const struct step *s, struct err *e)
{
    struct net *n = p->net;
    struct pass pass;
    if (!p->late) {
        TRY(program_train(p, s, &p->stats[s->number % (uint64_t)n->config.subdivisions], e));
        return s->update ? net_update(n, s->rate, e) : OK;
    }
    TRY(fill(p, s, &pass, e));
    TRY(enqueue_recorded(p, s, &pass, e));
    if (s->update) n->seen += (uint64_t)n->mini * (uint64_t)n->config.subdivisions;
    return OK;
}

int program_pull(struct program *p, struct err *e)
{
    if (!p->late) return OK;
    TRY(p->net->be->ops->sync(p->net->be, e));
    return p->net->be->ops->records->pull(&p->records, p->record);
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
        TRY(settle(l, p->desc.rows, e));
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
    if (!p->late) {
        *stats = p->stats[s->number % (uint64_t)p->net->config.subdivisions];
        return OK;
    }
    *stats = (struct step_stats){ .extra_seconds = NAN };
    TRY(read_record(p, s, p->record + s->number % records(p) * ((size_t)p->nrecord + 1), e));
    add_stats(p, stats);
    return OK;
}

int program_infer(struct program *p, const struct step *s, float *prob, double *ce, struct err *e)
{
    struct pass pass;
    struct step_stats stats = { 0 };
    TRY(fill(p, s, &pass, e));
    TRY(forward(p, &pass, NULL, e));
    TRY(fetch_losses(p, &pass));
    add_stats(p, &stats);
    if (ce) *ce = stats.ce * s->rows;
    if (!prob) return OK;
    const struct tensor *out = &p->node[output_layer(p)].l.out->x;
    size_t n = shape_row(out->shape);
    real *row = mem_alloc(n, sizeof *row);
    int rc = row ? OK : fail(e, E_MEM, "not enough memory for the output");
    for (int i = 0; i < s->rows && !rc; i++) {
        rc = p->net->be->ops->read(p->net->be, out, i, 1, row);
        for (size_t k = 0; k < n; k++) prob[(size_t)i * n + k] = (float)row[k];
    }
    mem_free(row);
    return rc;
}

int program_feature_size(const struct program *p)
{
    return p->feature < 0 ? 0 : (int)shape_row(p->node[p->feature].l.out->x.shape);
}

int program_features(struct program *p, int rows, real *features, struct err *e)
{
    if (p->feature < 0) return fail(e, E_ARG, "%s: no features are kept", p->net->cfg->path);
    return p->net->be->ops->read(p->net->be, &p->node[p->feature].l.out->x, 0, rows, features);
}

int program_refresh(struct program *p, struct err *e)
{
    if (e) e->code = OK;
    for (int i = 0; i < p->n; i++) {
        struct layer *l = &p->node[i].l;
        if (p->node[i].used && l->ops->refresh) TRY(explain(l, l->ops->refresh(l, e), e));
    }
    return OK;
}

void program_get_info(const struct program *p, struct program_info *info)
{
    *info = (struct program_info){ p->arena_bytes, p->scratch_bytes,
                                   p->fixed_bytes - p->scratch_bytes + p->host_bytes,
                                   model_param_bytes(p->net, p->desc.train) };
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
