#include <stddef.h>
#include "core/mem.h"
#include "net/compiled.h"

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

static void live_layer(struct program *p, const struct layer *l)
{
    const struct node *node = &p->node[l->index];
    int f = forward_step(l->index), b = backward_step(p, l->index);
    struct plan_item *out = item_of(p, l->out, 0), *out_g = item_of(p, l->out, 1);
    extend(out, f, node->keep_out && node->back ? b : f);
    if (node->back && out_g && l->out->g_written) extend(out_g, b, b);
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
        p->item[2 * i].bytes = node->l.inert ? 0 : node->value.x.bytes;
        p->item[2 * i + 1].bytes = node->value.g_written && node->value.need_g ? node->value.g.bytes : 0;
    }
    for (const struct layer *l = NULL; (l = next_active(p, l));) live_layer(p, l);
    int out = program_output(p);
    extend(item_of(p, p->node[out].l.out, 0), forward_step(out), end);
    if (p->feature >= 0) extend(item_of(p, p->node[p->feature].l.out, 0), forward_step(p->feature), end);
    for (int i = 0; p->desc.keep && i <= 2 * p->n; i++)
        if (p->item[i].bytes) extend(&p->item[i], 0, end);
}

static struct plan_item live_claim(const struct program *p, const struct claim *c)
{
    if (c->life != LIFE_PASS) return (struct plan_item){ 0 };
    int first = forward_step(c->layer), last = p->node[c->layer].back ? backward_step(p, c->layer) : first;
    return (struct plan_item){ c->buffer.bytes, first, last, 0 };
}

/* Sizes that do not fit become SIZE_MAX, which check_free_bytes refuses. */
static size_t round_up(size_t n) { return n > SIZE_MAX - 63 ? SIZE_MAX : (n + 63) / 64 * 64; }
static size_t sum(size_t a, size_t b) { return mem_add(a, b, &a) ? SIZE_MAX : a; }

static size_t claimed_bytes(const struct program *p, enum life life)
{
    size_t bytes = 0;
    for (const struct claim *c = p->claims; c; c = c->next)
        if (c->life == life) bytes = sum(bytes, round_up(c->buffer.bytes));
    return bytes;
}

static void *at(void *memory, const struct plan_item *item)
{
    return item->bytes ? (char *)memory + item->at : NULL;
}

static void *next(char **memory, size_t bytes)
{
    void *here = *memory;
    *memory += round_up(bytes);
    return here;
}

static void bind(struct program *p)
{
    char *fixed = p->fixed, *host = p->host;
    const struct plan_item *item = p->item;
    for (int i = 0; i < p->n; i++) {
        p->node[i].value.x.data = at(p->arena, item++);
        p->node[i].value.g.data = at(p->arena, item++);
    }
    p->input.x.data = at(p->arena, item++);
    for (struct claim *c = p->claims; c; c = c->next, item++)
        c->buffer.data = c->life == LIFE_PASS      ? at(p->arena, item)
                         : c->life == LIFE_PROGRAM ? next(&fixed, c->buffer.bytes)
                                                   : next(&host, c->buffer.bytes);
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

/* Refuses a net that cannot fit before allocating anything, and says how much it needs and what mini-batch
 * would fit: all but the parameters is in proportion to the rows. */
static int check_free_bytes(const struct program *p, size_t params, struct err *e)
{
    size_t rows = sum(sum(p->arena_bytes, p->fixed_bytes), p->host_bytes), total = sum(rows, params);
    size_t free_bytes = p->net->be->ops->free_bytes(p->net->be), each = rows / (size_t)p->rows + 1;
    if (total <= free_bytes && total < SIZE_MAX) return OK;
    size_t fit = (free_bytes > params ? free_bytes - params : 0) / each / (size_t)(p->rows / p->desc.rows);
    int at = busiest_layer(p);
    if (!fit)
        return fail(
            e, E_MEM,
            "%s: %zu MiB of parameters and %zu MiB for each image (peak at layer %d, [%s] in line %d) do "
            "not fit into the %zu MiB that are free: make the net or its input smaller",
            p->net->cfg->path, params >> 20, each >> 20, at, p->node[at].l.ops->name, p->node[at].l.line,
            free_bytes >> 20);
    return fail(e, E_MEM,
                "%s: a mini-batch of %d needs %zu MiB (peak at layer %d, [%s] in line %d), but %zu MiB are "
                "free, enough for %zu: lower batch or raise subdivisions",
                p->net->cfg->path, p->desc.rows, total >> 20, at, p->node[at].l.ops->name, p->node[at].l.line,
                free_bytes >> 20, fit);
}

int memory_plan(struct program *p, struct err *e)
{
    int n = 2 * p->n + 1;
    for (const struct claim *c = p->claims; c; c = c->next) n++;
    p->item = mem_alloc((size_t)n, sizeof *p->item);
    if (!p->item) return net_no_memory(p->net, e);
    live_tensors(p);
    p->nitem = 2 * p->n + 1;
    for (const struct claim *c = p->claims; c; c = c->next) p->item[p->nitem++] = live_claim(p, c);
    for (int i = 0; p->desc.guard && i < n; i++)
        if (p->item[i].bytes) p->item[i].bytes += GUARD;
    p->fixed_bytes = claimed_bytes(p, LIFE_PROGRAM);
    p->host_bytes = claimed_bytes(p, LIFE_HOST);
    if (!plan_arena(p->item, n, &p->arena_bytes)) return OK;
    return fail(e, E_MEM, "%s: the net is too large", p->net->cfg->path);
}

int memory_allocate(struct program *p, size_t params, struct err *e)
{
    struct backend *be = p->net->be;
    TRY(check_free_bytes(p, params, e));
    TRY(be->ops->alloc(be, p->arena_bytes, &p->arena, e));
    TRY(be->ops->alloc(be, p->fixed_bytes, &p->fixed, e));
    p->host = mem_alloc(p->host_bytes, 1);
    if (!p->host) return net_no_memory(p->net, e);
    bind(p);
    return OK;
}
