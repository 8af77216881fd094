/* The optimiser: learning rates, and one step of gradient descent, or of Adam, over all parameters. */
#ifndef NET_OPTIM_H
#define NET_OPTIM_H
#include "net/model.h"

/* The rate of an iteration (from 1), burn-in included: Darknet's policies. */
double net_rate(const struct net_config *, uint64_t seed, uint64_t iteration);

/* Plans the update of the parameters, which have been created for training, and the step state it reads. */
int optim_open(struct net *, struct err *);
void optim_close(struct net *);

/* E_NUMBER, naming the layer, unless all gradients are finite. Waits for the device. */
int optim_check(const struct net *, struct err *);

/* What the update of this iteration (from 1) reads of the step state. The averages begin where it is the
 * first in the second half of the run. */
void optim_prepare(struct net *, uint64_t iteration, double rate, struct step_state *);

/* One step from the gradients that were added up over `subdivisions` sub-mini-batches. Gradients that are not
 * finite leave the weights as they are, and fail as in optim_check. */
int optim_update(struct net *, uint64_t iteration, double rate, struct err *);

#endif
