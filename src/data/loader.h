/* Mini-batches in the background. One feeder thread per lane decides which samples come next and queues one
 * job per image; shared workers decode and augment straight into the row of a slot; slots are handed out in
 * order.
 *
 * Everything random is a function of (seed, lane, number): the bytes do not depend on the number of workers,
 * and a loader opened at `start` continues as if it had run from 0. */
#ifndef DATA_LOADER_H
#define DATA_LOADER_H
#include <stdint.h>
#include "core/crop.h"
#include "core/mixed.h"
#include "data/dataset.h"
#include "data/order.h"
#include "group/group.h"

struct batch {
    int rows, rows_s1;       /* rows 0..rows_s1-1 are S1, rows_s1..rows-1 are S2 */
    const float *x;          /* rows x c x h x w, host; NULL where there is: */
    const struct crop *move; /* rows */
    const int *label;        /* rows */
    const struct mixed_label
        *mixed;        /* rows, label being the one with the largest share; NULL: none is mixed */
    const int *sample; /* rows: index into the dataset; -1 - i for an unreadable image of a validation */
    uint64_t number;
};

struct loader;
int loader_open(struct loader **, const struct dataset *, const struct loader_options *, const struct notes *,
                struct err *);

/* Blocks until the next batch is ready; the batch is the loader's until loader_release. *batch is NULL after
 * the last one (validation only). Training: an unreadable image is named once in a note (the first 100 are),
 * counted, and replaced by another draw (by seed, lane, number, attempt; of the same class in a PAIR_CLASS
 * batch); once more than 1 % of the dataset's images were found unreadable it is an error. A damaged image
 * that could be read all the same is named in the same way, no more. Validation: it is a row of zeros with
 * sample < 0, which the caller counts as wrong. Errors and notes come in the order of the batches. One thread
 * takes batches; at most three may be held at once. */
int loader_next(struct loader *, const struct batch **, struct err *);
void loader_release(struct loader *, const struct batch *);
void loader_close(struct loader *); /* accepts NULL; safe while loader_next blocks: that fails then */

/* Of a group, whose processes all call it at once: the unreadable images are then those that any has found,
 * and too many of them an error. For the thread that takes batches, as what follows. */
int loader_join(struct loader *, struct group *, struct err *);
/* Different unreadable images so far. */
uint64_t loader_unreadable(const struct loader *);

#endif
