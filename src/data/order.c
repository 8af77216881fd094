#include "order.h"
#include "core/pairing.h"
#include "core/rng.h"
#include "data/pick.h"

enum { LANES = 2 };

int order_is_paired(const struct loader_options *o, uint64_t number)
{
    return o->pairing != PAIR_NONE && is_paired_iteration(number / (uint64_t)o->subdivisions + 1, o->every);
}

uint64_t order_next_paired(const struct loader_options *o, uint64_t number)
{
    uint64_t s = (uint64_t)o->subdivisions, every = (uint64_t)o->every, iteration = number / s + 1;
    uint64_t wanted = (iteration + every - 1) / every * every;
    return wanted == iteration ? number : (wanted - 1) * s;
}

/* How many batches with this lane come before `number`: so a lane knows its place without having run. */
static uint64_t lane_before(const struct loader_options *o, int lane, uint64_t number)
{
    if (lane == 0) return number;
    uint64_t s = (uint64_t)o->subdivisions;
    return number / s / (uint64_t)o->every * s + (order_is_paired(o, number) ? number % s : 0);
}

/* The number of a row in its lane. */
static uint64_t index_of(const struct loader_options *o, struct place p)
{
    return lane_before(o, p.lane, p.number) * (uint64_t)o->rows + (uint64_t)p.row;
}

static struct place in_lane(struct place p, int lane)
{
    p.lane = lane;
    return p;
}

static int draw(const struct loader_options *o, const struct dataset *d, struct place p)
{
    uint64_t index = index_of(o, p);
    if (!o->training) return o->only ? o->only[index] : (int)index;
    if (p.lane == 1 && o->pairing == PAIR_CLASS) {
        int mate = draw(o, d, in_lane(p, 0)), k = d->label[mate];
        return sampler_mate(o->seed, index, d->of_class + d->start[k], d->count[k], mate);
    }
    return sampler_at(o->seed, p.lane, index, d->n, o->replacement);
}

/* Redraws for class-matched rows: the lanes take turns along their class from a random place, so that the
 * rows stay of one class and different samples whichever was redrawn, without one having to wait for the
 * other. -1: none left. */
static int redraw_matched(const struct dataset *d, uint64_t key, int lane, int a, int b, int attempt)
{
    int k = d->label[a];
    uint64_t n = (uint64_t)d->count[k], from = rng_below(key, 0, n);
    for (uint64_t i = (uint64_t)lane; i < n; i += LANES) {
        int sample = d->of_class[(uint64_t)d->start[k] + (from + i) % n];
        if (sample != a && sample != b && --attempt == 0) return sample;
    }
    return attempt == 1 ? (lane ? a : b) : -1;
}

uint64_t order_mix_key(const struct loader_options *o, struct place p)
{
    return rng_bits(rng_key(o->seed, RNG_MIX, (uint64_t)p.lane), index_of(o, p));
}

uint64_t order_augment_key(const struct loader_options *o, struct place p, int part)
{
    if (part) return rng_key(order_mix_key(o, p), 2, (uint64_t)part);
    return rng_bits(rng_key(o->seed, RNG_AUGMENT, (uint64_t)p.lane), index_of(o, p));
}

int order_sample(const struct loader_options *o, const struct dataset *d, struct place p, int part,
                 int attempt)
{
    const uint64_t n = (uint64_t)d->n, times = (uint64_t)attempt;
    if (part) return (int)rng_below(rng_key(order_mix_key(o, p), 1, (uint64_t)part), times, n);
    if (!attempt) return draw(o, d, p);
    int matched = o->pairing == PAIR_CLASS && order_is_paired(o, p.number), stream = matched ? 0 : p.lane;
    /* sub-stream 1 of the order; 0 holds the epochs */
    uint64_t key = rng_key(rng_key(o->seed, RNG_ORDER, (uint64_t)stream), 1, index_of(o, in_lane(p, stream)));
    if (!matched) return (int)rng_below(key, times, n);
    return redraw_matched(d, key, p.lane, draw(o, d, in_lane(p, 0)), draw(o, d, in_lane(p, 1)), attempt);
}
