/* Images mixed from several, as AlexeyAB's Darknet mixes them for classifiers, and the shares of their
 * labels. There a whole part of a batch is mixed, or none of it; here each row with probability 1/2. */
#ifndef DATA_MIX_H
#define DATA_MIX_H
#include <stdint.h>
#include "core/mixed.h"

enum mix {
    MIX_NONE,
    MIX_UP,           /* the mean of two images */
    MIX_CUT,          /* CutMix: a rectangle, .3 to .8 of either side, comes from a second one */
    MIX_MOSAIC,       /* four quarters, which meet between .2 and .8 of either side */
    MIX_CUT_OR_MOSAIC /* one or the other */
};

/* How a row is mixed. Part 0 is the row's own image. */
struct mixture {
    int parts; /* 1: not at all */
    int blend; /* the parts are averaged; otherwise each but the first covers a rectangle: */
    struct {
        int left, top, right, bottom;
    } at[MIXED];
    float share[MIXED];
};

/* key decides everything; w x h is the size of the input. */
struct mixture mix_choose(enum mix, uint64_t key, int w, int h);
/* Brings part i, c planes of h x w, into x, which holds those before it. */
void mix_add(const struct mixture *, int i, const float *part, float *x, int c, int h, int w);
/* The label with the largest share; the first of those that are equal. */
int mixed_main(const struct mixed_label *);

#endif
