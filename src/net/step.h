/* A training step: one mini-batch forward and back, and the update that follows the last of an iteration. */
#ifndef NET_STEP_H
#define NET_STEP_H
#include "net/desc.h"
#include "net/model.h"

struct program;

/* The training programs of a net: for mini-batches of S1 alone, and with a second one where [itra] asks for
 * it. NULL: the net never needs it. */
struct step_programs {
    struct program *plain, *paired;
};
/* Opens those that are not open yet. */
int step_open(struct step_programs *, struct net *, struct err *);
/* Connects the devices of the processes that train together: once all have opened their programs. */
int step_connect(struct net *, struct err *);
void step_close(struct step_programs *);                                         /* also after a failure */
struct program *step_program(const struct step_programs *, const struct step *); /* by its rows */

/* A step without its data: all that follows from its number, which counts sub-mini-batches from 0. */
struct step step_at(const struct net *, uint64_t number);

/* Forward, backward, and the update where the step says so. An asynchronous device only has them submitted to
 * it, and always has something to do where their stats are read in windows: those of one when the next has
 * been submitted. */
int step_submit(struct program *, const struct step *, struct err *);
/* The most iterations in a window; 0: stats are to be read before the next iteration is submitted. */
int step_window(const struct program *);
/* Mark 0 or 1 stands behind the steps that were submitted to this program so far; step_wait waits until they
 * have been made. */
int step_mark(struct program *, int mark, struct err *);
int step_wait(struct program *, int mark, struct err *);
/* The stats of each step, in order, after step_wait; counts the images of an update and follows the CE.
 * E_NUMBER: something was not finite in that step, and no update has been made since. (On other devices
 * step_submit fails instead, and names the layer whose output or gradient is not finite.) */
int step_read_stats(struct program *, const struct step *, struct step_stats *, struct err *);

/* All three: one step, waited for. If something is not finite, the layer is named, on every device. */
int step_train(struct program *, const struct step *, struct step_stats *, struct err *);

#endif
