/* Vectors of numbers for norm.c: which channels their lanes belong to, where they lie in a tensor, and how
 * they are read and written. The functions become a part of code that is compiled for several instruction
 * sets. */
#ifndef BACKEND_CPU_NORM_VECTORS_H
#define BACKEND_CPU_NORM_VECTORS_H
#include <string.h>
#include "memory_format.h"
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#define INLINE static inline __attribute__((always_inline)) /* into code for one instruction set */
enum { LANES = 16 };

typedef float lanes __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int bits __attribute__((vector_size(4 * LANES), aligned(4)));

/* Channels are worked on in strips of up to LANES. In blocks of up to 16 channels a strip is a block, and
 * with smaller blocks several pixels share a vector; where channels come last a strip is 16 of them. */
struct geometry {
    size_t c, pixels, row; /* channels; of an image; numbers from one image to the next */
    size_t period;         /* lanes i and i + period belong to the same channel */
    size_t strips, apart;  /* how many; numbers from one to the next */
    size_t slots, stride;  /* numbers that the lanes of all strips share; from one vector to the next */
    size_t vectors, tail;  /* of an image: whole vectors; numbers left over */
};

static inline struct geometry geometry_of(const struct tensor *t)
{
    struct memory_format o = format_of(t->shape, t->layout);
    struct geometry g = { .c = o.c, .pixels = o.hw, .row = o.row };
    size_t run = o.hw * o.block; /* numbers of a block in an image */
    if (LANES % o.block || o.hw == 1) {
        g.slots = g.stride = o.row / o.hw;
        g.period = g.apart = LANES;
        g.strips = (g.slots + LANES - 1) / LANES;
        g.vectors = o.hw;
    } else {
        g.period = o.block;
        g.strips = o.blocks;
        g.apart = run;
        g.slots = g.strips * LANES;
        g.stride = LANES;
        g.vectors = run / LANES;
        g.tail = run % LANES;
    }
    return g;
}

/* The channel of a lane; c or more: of padding. */
static inline size_t channel(const struct geometry *g, size_t strip, size_t lane)
{
    return strip * g->period + lane % g->period;
}

INLINE void get(lanes *v, const float *p, size_t width)
{
    if (width == LANES) {
        *v = *(const lanes *)p;
        return;
    }
    *v = (lanes){ 0 };
    memcpy(v, p, width * sizeof *p);
}

/* streamed: past the caches; p is aligned to 16 bytes then. */
INLINE void put(float *p, const lanes *v, size_t width, int streamed)
{
#ifdef __SSE2__
    if (streamed) {
        const float *f = (const float *)v;
        for (int i = 0; i < LANES; i += 4) _mm_stream_ps(p + i, _mm_loadu_ps(f + i));
        return;
    }
#endif
    (void)streamed;
    memcpy(p, v, width * sizeof *p);
}

static inline void end_stream(void)
{
#ifdef __SSE2__
    _mm_sfence();
#endif
}

static inline void coefficients(const struct geometry *g, size_t strip, const float *of, lanes *v)
{
    for (size_t i = 0; i < LANES; i++) {
        size_t c = channel(g, strip, i);
        (*v)[i] = c < g->c ? of[c] : 0;
    }
}

/* What a strip has in each row: `count` vectors of `width` numbers from `at` on. */
struct span {
    size_t at, count, width;
};

/* The whole vectors, which a small image may lack, and where there is one the shorter one behind them. */
static inline int spans_of(const struct geometry *g, size_t strip, struct span span[2])
{
    size_t left = g->slots - strip * LANES, at = strip * g->apart;
    int n = 0;
    if (g->vectors) span[n++] = (struct span){ at, g->vectors, left < LANES ? left : LANES };
    if (g->tail) span[n++] = (struct span){ at + g->vectors * LANES, 1, g->tail };
    return n;
}

#endif
