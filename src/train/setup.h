/* From the [net] section to the loader's augmentation. */
#ifndef TRAIN_SETUP_H
#define TRAIN_SETUP_H
#include "data/augment.h"
#include "net/net.h"

/* The augmentation as the [net] section asks for it; an error for a net that takes no images. */
int augment_from_net(const struct net *, struct augment *, struct err *);

#endif
