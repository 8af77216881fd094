/* Private to src/net: the passes that steps and inference are made of. */
#ifndef NET_RUN_H
#define NET_RUN_H
#include "net/compiled.h"

/* Brings a step's images and labels to the device, and in training what changes from step to step; fills
 * *pass. */
int run_fill(struct program *, const struct step *, struct pass *, struct err *);
int run_forward(struct program *, const struct pass *, struct err *);
int run_backward(struct program *, const struct pass *, struct err *);
/* Makes l->loss, which is what forward left in memory, a mean over the scored rows. */
int run_finish_loss(struct layer *, int scored, struct err *);
/* Fetches the losses of a pass with labels into the layers. Waits. */
int run_fetch_losses(struct program *, const struct pass *);
/* The losses of the layers, as they stand. */
struct step_stats run_stats(const struct program *);
/* E_NUMBER, naming the first layer whose output is not finite, if there is one: runs the forward pass again.
 */
int run_find_bad_output(struct program *, const struct pass *, struct err *);
/* Calls refresh of each layer. */
int run_refresh(struct program *, struct err *);

#endif
