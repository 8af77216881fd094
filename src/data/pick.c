#include "pick.h"
#include "core/rng.h"

/* Selection sampling (Knuth, TAOCP 2, 3.4.2, algorithm S): every subset of that size is equally likely. */
int pick_takes(uint64_t key, int i, int left, int open)
{
    return rng_uniform(key, (uint64_t)i) * left < open;
}

int pick_open(struct pick *p, int total, const char *path, struct err *e)
{
    if (p->holdout && p->holdout >= total)
        return fail_at(e, E_FORMAT, path, 0, "has %d images: holdout=%d leaves none of them to train on",
                       total, p->holdout);
    p->total = total;
    p->asked = p->out = p->taken = 0;
    p->n = p->held ? p->holdout : total - p->holdout;
    if (p->limit && p->limit < p->n) p->n = p->limit;
    return OK;
}

int pick_next(struct pick *p)
{
    int left = p->total - p->asked, open = p->holdout - p->out;
    int held = p->holdout && pick_takes(rng_key(p->seed, RNG_HOLDOUT, 0), p->asked, left, open);
    p->asked++;
    p->out += held;
    if (held != p->held || p->taken == p->n) return 0;
    p->taken++;
    return 1;
}
