/* The iterations that were submitted and not yet reported. On an asynchronous device they come in windows:
 * the first is reported when the second has been submitted, so that the device always has something to do. */
#ifndef TRAIN_FLIGHT_H
#define TRAIN_FLIGHT_H
#include "net/net.h"

enum { MOST_IN_FLIGHT = 32 };

/* All zero at first. */
struct flight {
    struct program *program[MOST_IN_FLIGHT]; /* of each iteration, in order */
    int n, marked;  /* so many; the first of them, those of the window that will be reported next */
    int mark;       /* of the window that is being filled: 0 and 1 in turn */
    double began;   /* when the first iteration was submitted, or others were waited for last */
    double loading; /* seconds since then that were spent waiting for images */
};

/* Before an iteration is submitted; and once it is. */
void flight_begin(struct flight *);
void flight_add(struct flight *, struct program *);

/* Iterations whose losses are there: as if equally long, with as long waits for images. */
struct landed {
    int n;
    struct program *program[MOST_IN_FLIGHT];
    double seconds, loading; /* of each */
};
/* Ends the window that is being filled, and waits for the one before it, which then is no longer in flight.
 */
int flight_land(struct flight *, const struct step_programs *, struct landed *, struct err *);

#endif
