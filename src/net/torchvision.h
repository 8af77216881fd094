/* State dicts of torchvision's classifiers. */
#ifndef NET_TORCHVISION_H
#define NET_TORCHVISION_H
#include "net/state_dict.h"

/* The parameters of the net from a state dict, module by module: see named_load. host: as params_host gives
 * it. */
int torchvision_read(struct net *, struct state_dict *, real *host, struct err *);

#endif
