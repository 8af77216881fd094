#include "net.h"
#include "backend/ops/feed.h"
#include "backend/ops/images.h"
#include "core/mem.h"
#include "group/group.h"
#include "net/compiled.h"
#include "net/stock.h"

/* A draft of the training program checks every option against the shapes it meets. */
static int measure(struct net *n, struct err *e)
{
    const struct program_desc d = { .rows = n->mini, .paired = n->pair_loader, .train = 1 };
    struct program *draft = NULL;
    int rc = connect_program(&draft, n, &d, e);
    if (!rc) describe_model(draft, n);
    program_close(draft);
    return rc;
}

static int build(struct net *n, struct err *e)
{
    if (*n->be->note) note(&n->notes, "%s", n->be->note);
    TRY(stock_check(n->cfg, &n->notes, e));
    TRY(config_read(&n->config, n->cfg, n->be, &n->notes, e));
    n->mini = n->config.batch / n->config.subdivisions;
    n->share = group_share(n->be->group, n->mini);
    TRY(model_read(n, e));
    return measure(n, e);
}

int net_open(struct net **out, struct cfg *cfg, struct backend *be, uint64_t seed, const struct notes *notes,
             struct err *e)
{
    struct net *n = *out = mem_alloc(1, sizeof *n);
    if (!n) {
        cfg_free(cfg);
        return fail(e, E_MEM, "not enough memory for the net");
    }
    *n = (struct net){ .cfg = cfg, .be = be, .seed = seed, .ce_average = -1 };
    if (notes) n->notes = *notes;
    int rc = build(n, e);
    if (!rc) return OK;
    net_close(n);
    *out = NULL;
    return rc;
}

int net_keep_images(struct net *n, const struct images_desc *d, int *kept, struct err *e)
{
    const struct backend_ops *ops = n->be->ops;
    double bytes = (double)d->n * d->c * d->h * d->w;
    *kept = ops->images && bytes < (double)ops->free_bytes(n->be) / 2;
    if (e) e->code = OK;
    op_destroy(&n->images);
    return *kept ? attach_device_error(n, ops->images->plan(n->be, d, &n->images, e), e) : OK;
}

int net_open_feed(struct net *n, int *open, struct err *e)
{
    const struct backend_ops *ops = n->be->ops;
    const struct net_config *c = &n->config;
    const struct feed_desc d = { { n->share.rows * (n->pair_loader ? 2 : 1), c->channels, c->height,
                                   c->width } };
    *open = ops->feed != NULL;
    if (e) e->code = OK;
    net_close_feed(n);
    return *open ? attach_device_error(n, ops->feed->plan(n->be, &d, &n->feed, e), e) : OK;
}

void net_close_feed(struct net *n) { op_destroy(&n->feed); }

int net_feed_alloc(struct net *n, size_t bytes, void **out, struct err *e)
{
    return n->be->ops->feed->alloc(&n->feed, bytes, out, e);
}

void net_feed_free(struct net *n, void *memory) { n->be->ops->feed->free(&n->feed, memory); }

int net_feed_await(struct net *n, uint64_t number, struct err *e)
{
    if (e) e->code = OK;
    return attach_device_error(n, n->be->ops->feed->await(&n->feed, (int)(number % 2)), e);
}

void net_close(struct net *n)
{
    if (!n) return;
    optim_close(n);
    params_destroy(n);
    op_destroy(&n->images);
    net_close_feed(n);
    model_free(n);
    cfg_free(n->cfg);
    mem_free(n);
}
