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

int feed_open(struct loader **out, struct net *net, const struct data_file *d, const struct dataset *train,
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
    TRY(keep_images(net, train, &l, e));
    return loader_open(out, train, &l, notes, e);
}
