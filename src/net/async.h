/* Private to src/net: training steps on a device that works on its own. The host submits them and reads their
 * losses later; meanwhile the device keeps the losses of the last steps, follows the CE, and stops by itself
 * at a loss or a gradient that is not finite. A step is captured once and then launched whole. */
#ifndef NET_ASYNC_H
#define NET_ASYNC_H
#include "net/compiled.h"

/* Sets p->async where the device can and no layer needs the host; else leaves it NULL. */
int async_open(struct program *, struct err *);
void async_close(struct program *);
int async_max_in_flight(const struct program *); /* iterations */

/* Starts to capture a step, if it is the second of its kind: operations are then recorded instead of run,
 * until async_end_capture, which gets what they returned. A step that cannot be captured is noted, and run as
 * it is. */
int async_begin_capture(struct program *, const struct step *);
void async_end_capture(struct program *, const struct step *, int rc, struct err *);
/* The captured step of this kind, or NULL. */
const struct capture *async_captured(const struct program *, const struct step *);

/* The end of a step: its losses go into the ring, and the update is made, unless something was not finite. */
int async_update(struct program *, int update);

/* Waits for what was submitted, and fetches its losses. */
int async_wait(struct program *, struct err *);
/* The losses of a step that was waited for, into the layers. E_NUMBER: something was not finite in it. */
int async_read(struct program *, const struct step *, struct err *);

#endif
