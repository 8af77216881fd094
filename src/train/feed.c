#include "feed.h"
#include "backend/ops/images.h"
#include "train/setup.h"

/* Packed images that are only moved may stay on the device; the loader then says only how to move them. */
static int keep_images(struct net *net, const struct dataset *d, struct loader_options *l, struct err *e)
{
    const struct augment *a = &l->augment;
    float mean[4], scale[4];
    if (!d->pixels || d->c != a->c || !augment_only_moves(a, d->w, d->h)) return OK;
    augment_normaliser(a, mean, scale);
    const struct images_desc images = { d->pixels, d->n, d->c, d->h, d->w, mean, scale };
    return net_keep_images(net, &images, &l->moves, e);
}

static int alloc(void *net, size_t bytes, void **out, struct err *e)
{
    return net_feed_alloc(net, bytes, out, e);
}
static void free_images(void *net, void *images) { net_feed_free(net, images); }

int feed_open(struct feed *f, struct net *net, const struct data_file *d, const struct dataset *train,
              uint64_t iteration, int workers, const struct notes *notes, struct err *e)
{
    struct loader_options l = { .seed = net->seed,
                                .rows = net->mini,
                                .share = net->share,
                                .training = 1,
                                .workers = workers,
                                .replacement = d->replacement,
                                .subdivisions = net->config.subdivisions,
                                .every = net->pair_loader ? net->wants.every : 1 };
    TRY(augment_from_net(net, &l.augment, e));
    l.pairing = !net->pair_loader ? PAIR_NONE : net->wants.by_class ? PAIR_CLASS : PAIR_RANDOM;
    l.start = iteration * (uint64_t)l.subdivisions;
    *f = (struct feed){ .net = net };
    TRY(keep_images(net, train, &l, e));
    if (!l.moves) TRY(net_open_feed(net, &f->sends, e));
    if (f->sends) l.memory = (struct image_memory){ alloc, free_images, net };
    return loader_open(&f->loader, train, &l, notes, e);
}

void feed_close(struct feed *f)
{
    loader_close(f->loader);
    if (f->net) net_close_feed(f->net);
}

int feed_next(struct feed *f, const struct batch **out, struct step *s, struct err *e)
{
    TRY(loader_next(f->loader, out, e));
    const struct batch *b = *out;
    *s = step_at(f->net, b->number);
    s->x = b->x;
    s->sent = f->sends;
    s->move = b->move;
    s->label = b->label;
    s->mixed = b->mixed;
    s->rows = b->rows;
    s->rows_s1 = b->rows_s1;
    return OK;
}

int feed_release(struct feed *f, const struct batch *b, struct err *e)
{
    const struct batch *read = f->sends ? f->held : b;
    if (f->sends) f->held = b;
    if (!read) return OK;
    if (f->sends) TRY(net_feed_await(f->net, read->number, e));
    loader_release(f->loader, read);
    return OK;
}
