/* What the host reads late: the losses of a step, and the running mean of the CE. One thread: a few numbers.
 */
#include "kernel.h"

DEVICE void follow(const struct loss_ring_table *t, struct step_state *now, double ce, int last)
{
    const double sum = now->ce_sum + ce;
    now->ce_sum = last ? 0 : sum;
    if (last) now->ce_average = running_ce(now->ce_average, t->chance, sum / t->parts);
}

KERNEL(push, struct loss_ring_table t, struct step_state *now, int last)
{
    PHASE
    {
        double ce = 0, all = 0;
        if (threadIdx.x) continue;
        double *to = t.record + now->step % (uint64_t)t.capacity * (uint64_t)(t.n + 1);
        for (int i = 0; i < t.n; i++) {
            to[i] = *t.loss[i];
            all += to[i];
            if (t.is_ce[i]) ce += to[i] / t.scored;
        }
        if (!isfinite(all)) now->stop = STOP_LOSS;
        to[t.n] = now->stop;
        follow(&t, now, ce, last);
    }
}

LAUNCHERS
int kernel_record(const struct cuda *cu, const struct loss_ring_table *t, struct step_state *now, int last)
{
    LAUNCH(cu, push, 1, 1, 1, *t, now, last);
    return OK;
}
LAUNCHERS_END
