/* What a net is fed with in training: mini-batches from a loader, on their way to the device while it
 * computes. */
#ifndef TRAIN_FEED_H
#define TRAIN_FEED_H
#include "data/loader.h"
#include "net/net.h"

/* All zero: closed. */
struct feed {
    struct net *net;
    struct loader *loader;
    int sends;                /* images go through net_open_feed */
    const struct batch *held; /* that was released last, and that the device may still be reading; or NULL */
};

/* The mini-batches that follow `iteration`: their rows of S1 and S2, or this process's share. */
int feed_open(struct feed *, struct net *, const struct data_file *, const struct dataset *train,
              uint64_t iteration, int workers, const struct notes *, struct err *);
void feed_close(struct feed *); /* also after a failure */

/* Waits for the next one. *step: all of it. */
int feed_next(struct feed *, const struct batch **, struct step *, struct err *);
/* Once its step is submitted: what the device may still be reading stays until the next one is. */
int feed_release(struct feed *, const struct batch *, struct err *);

#endif
