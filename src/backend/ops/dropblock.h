/* DropBlock, as AlexeyAB's Darknet has it: in each channel of a row at most one square block of pixels
 * becomes 0, and what is left of the row is scaled by how many numbers it had over how many it has. Chance
 * and size of a block rise with the iterations. Nothing is stored: a draw is a function of the step and of
 * the plane's number, row * c + channel. */
#ifndef BACKEND_OPS_DROPBLOCK_H
#define BACKEND_OPS_DROPBLOCK_H
#ifdef __cplusplus
#include <math.h>
#else
#include <tgmath.h>
#endif
#include "backend/backend.h"
#include "core/rng.h"

struct dropblock_desc {
    const struct tensor *in;
    int rows_back;
    double probability; /* that a block starts at a pixel, times size^2 */
    double size;        /* height and width of a block, at most the map's */
    double ramp;        /* iterations until both have their value; 0: from the first on */
    uint64_t key;       /* of this layer; that of a step is rng_key(key, RNG_DROPOUT, step) */
    struct share share; /* of S1: rows are numbered as in the whole mini-batch */
};
struct dropblock_ops {
    int (*plan)(struct backend *, const struct dropblock_desc *, struct tensor *out, struct op_plan *,
                struct err *);
    int (*forward)(const struct op_plan *, const struct op_context *, const void *x, void *y);
    int (*backward)(const struct op_plan *, const struct op_context *, const void *gy, void *gx, int add);
};

/* What holds in a step. */
struct dropblock_now {
    uint64_t key;
    double chance; /* that a channel has a block */
    int size, h, w;
};

SCALAR struct dropblock_now dropblock_at(const struct dropblock_desc *d, int h, int w,
                                         const struct step_state *state)
{
    double share = d->ramp > 0 ? fmin(1., (double)state->iteration / d->ramp) : 1;
    int size = (int)(d->size * share);
    struct dropblock_now now = { rng_key(d->key, RNG_DROPOUT, state->step), 0, size > 1 ? size : 1, h, w };
    double start = d->probability * share / ((double)now.size * now.size);
    now.chance = -expm1((double)h * w * log1p(-start));
    return now;
}

/* The first pixel of the block of a plane, or -1. A block that would leave the map begins that much further
 * left or up, which is where Darknet puts it. */
SCALAR int dropblock_corner(const struct dropblock_now *now, uint64_t plane)
{
    if (rng_uniform(now->key, 2 * plane) >= now->chance) return -1;
    int at = (int)rng_below(now->key, 2 * plane + 1, (uint64_t)now->h * (uint64_t)now->w);
    int y = at / now->w, x = at % now->w, bottom = now->h - now->size, right = now->w - now->size;
    if (y > bottom) y = y - bottom < bottom ? y - bottom : bottom;
    if (x > right) x = x - right < right ? x - right : right;
    return y * now->w + x;
}

/* What a number of plane `plane` at pixel p is multiplied by, but for the scale of the row. */
SCALAR int dropblock_keeps(const struct dropblock_now *now, int corner, int p)
{
    int y = p / now->w - corner / now->w, x = p % now->w - corner % now->w;
    return corner < 0 || y < 0 || y >= now->size || x < 0 || x >= now->size;
}

/* Of a row of c channels, `blocks` of which have a block. */
SCALAR double dropblock_scale(const struct dropblock_now *now, int c, int blocks)
{
    double all = (double)c * now->h * now->w, left = all - (double)blocks * now->size * now->size;
    return left > 0 ? all / left : 0;
}

#endif
