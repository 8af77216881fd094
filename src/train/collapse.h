/* [itra] may win before the classes have come apart: all features are then one point, for good. */
#ifndef TRAIN_COLLAPSE_H
#define TRAIN_COLLAPSE_H
#include "train/checkpoint.h"
#include "train/metrics.h"

/* Warns once when, for 200 iterations with a match, the smoothed CE has stayed within 1 % of ln K or
 * above. An iteration without a match (every=k) does not count, nor does one whose lambda is higher than ever
 * before: the warm-up is still raising it. warmup=auto takes lambda back to 0 when what was learnt is lost;
 * such iterations do count. */
void collapse_watch(struct progress *, const struct train_line *, int classes, const struct notes *);

#endif
