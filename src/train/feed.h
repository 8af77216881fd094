/* What a net is fed with in training. */
#ifndef TRAIN_FEED_H
#define TRAIN_FEED_H
#include "data/loader.h"
#include "net/net.h"

/* A loader of the mini-batches that follow `iteration`: their rows of S1 and S2, or this process's share. */
int feed_open(struct loader **, struct net *, const struct data_file *, const struct dataset *train,
              uint64_t iteration, int workers, const struct notes *, struct err *);

#endif
