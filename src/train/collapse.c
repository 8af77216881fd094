#include "collapse.h"
#include <math.h>

enum { STUCK_LIMIT = 200 };
static const double LEARNT_SHARE = .9; /* of ln K: a CE below it is better than guessing */

void collapse_watch(struct progress *p, const struct train_line *l, int classes, const struct notes *notes)
{
    double chance = log(classes);
    if (l->ce_smooth < LEARNT_SHARE * chance) p->marks |= HAS_LEARNT;
    if (l->ce_smooth < .99 * chance)
        p->stuck = 0;
    else if (l->lambda > 0 ? l->lambda <= p->lambda_peak : isfinite(l->match) && p->marks & HAS_LEARNT)
        p->stuck++;
    if (l->lambda > p->lambda_peak) p->lambda_peak = l->lambda;
    if (p->stuck < STUCK_LIMIT || p->marks & HAS_WARNED) return;
    p->marks |= HAS_WARNED;
    note(notes,
         "warning: for %d iterations the CE has been that of guessing (%.4f = ln %d) or worse, with [itra] "
         "at work: the features may have collapsed. In [itra] try a lower lambda, warmup=auto, root=0; in "
         "[net] a larger batch",
         STUCK_LIMIT, chance, classes);
}
