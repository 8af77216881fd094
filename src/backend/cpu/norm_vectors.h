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

/* For functions on bfloat16, which cpu.c refuses on processors without these. Of what is one
 * instruction there, gcc makes 4 to 10. */
#if defined(__x86_64__) && defined(__GNUC__)
#define BF16_CODE __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")))
#if defined(__OPTIMIZE__) &&                                                                                 \
    !defined(__clang__) /* else its instructions would be in code for float as well */
#define BF16_AVX512
#endif
#else
#define BF16_CODE
#endif

enum { LANES = 16, BAND = 2 };

typedef float lanes __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int bits __attribute__((vector_size(4 * LANES), aligned(4)));
typedef uint32_t words __attribute__((vector_size(4 * LANES), aligned(4)));
typedef bfloat16 shorts __attribute__((vector_size(2 * LANES), aligned(2), may_alias));

/* Channels are worked on in strips of up to LANES. In blocks of up to 16 channels a strip is a block, and
 * with smaller blocks several pixels share a vector; where channels come last a strip is 16 of them, and in
 * bfloat16, where that is half a cache line, two strips are worked on side by side. */
struct geometry {
    int bf16;
    size_t c, pixels, row; /* channels; of an image; numbers from one image to the next */
    size_t period;         /* lanes i and i + period belong to the same channel */
    size_t strips, apart;  /* how many; numbers from one to the next */
    size_t band;           /* strips side by side: up to BAND */
    size_t slots, stride;  /* numbers that the lanes of all strips share; from one vector to the next */
    size_t vectors, tail;  /* of an image: whole vectors; numbers left over */
};

static inline struct geometry geometry_of(const struct tensor *t)
{
    struct memory_format o = format_of(t->shape, t->layout);
    struct geometry g = { .bf16 = o.bf16, .c = o.c, .pixels = o.hw, .row = o.row, .band = 1 };
    size_t run = o.hw * o.block; /* numbers of a block in an image */
    if (LANES % o.block || o.hw == 1) {
        g.slots = g.stride = o.row / o.hw;
        g.period = g.apart = LANES;
        g.strips = (g.slots + LANES - 1) / LANES;
        g.vectors = o.hw;
        if (o.bf16) g.band = BAND;
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

/* Whole vectors and halves of one are copied in place, without a call. */
INLINE void copy(void *to, const void *from, size_t n, size_t size)
{
    if (n == LANES)
        memcpy(to, from, LANES * size);
    else if (n == LANES / 2)
        memcpy(to, from, LANES / 2 * size);
    else
        memcpy(to, from, n * size);
}

INLINE void widen(const shorts *h, lanes *v)
{
#ifdef BF16_AVX512
    words w;
    __asm__("vpmovzxwd %1, %0" : "=v"(w) : "vm"(*h));
    *v = (lanes)(w << 16);
#else
    *v = (lanes)(__builtin_convertvector(*h, words) << 16);
#endif
}

/* Reads `width` numbers of either type, from number `at` on. */
INLINE void get(lanes *v, const void *p, size_t at, size_t width, int bf16)
{
    if (bf16) {
        const bfloat16 *from = (const bfloat16 *)p + at;
        shorts h = { 0 };
        if (width == LANES)
            h = *(const shorts *)from;
        else
            copy(&h, from, width, sizeof *from);
        widen(&h, v);
        return;
    }
    const float *from = (const float *)p + at;
    if (width == LANES) {
        *v = *(const lanes *)from;
        return;
    }
    *v = (lanes){ 0 };
    copy(v, from, width, sizeof *from);
}

/* To the nearest, ties to even; a NaN stays one. */
INLINE void narrow(const lanes *v, shorts *to)
{
#ifdef BF16_AVX512
    __asm__("vcvtneps2bf16 %1, %0" : "=v"(*to) : "v"(*v)); /* takes subnormal numbers for 0 */
#else
    words w = (words)*v, nan = (words)(*v != *v);
    w = (w + 0x7fff + (w >> 16 & 1)) | (nan & 0x7fff0000);
    *to = __builtin_convertvector(w >> 16, shorts);
#endif
}

/* Past the caches; `to` is aligned to 16 bytes. */
INLINE void stream(void *to, const void *from, size_t bytes)
{
#ifdef __SSE2__
    for (size_t i = 0; i < bytes / sizeof(__m128i); i++)
        _mm_stream_si128((__m128i *)to + i, _mm_loadu_si128((const __m128i *)from + i));
#else
    memcpy(to, from, bytes);
#endif
}

/* streamed: past the caches. */
INLINE void put(void *p, size_t at, const lanes *v, size_t width, int bf16, int streamed)
{
    if (bf16) {
        shorts h;
        narrow(v, &h);
        if (streamed)
            stream((bfloat16 *)p + at, &h, sizeof h);
        else
            copy((bfloat16 *)p + at, &h, width, sizeof(bfloat16));
    } else if (streamed) {
        stream((float *)p + at, v, sizeof *v);
    } else {
        copy((float *)p + at, v, width, sizeof(float));
    }
}

static inline void end_stream(void)
{
#ifdef __SSE2__
    _mm_sfence();
#endif
}

/* Strips of the band from this one on: the last may lack some. */
static inline size_t band_at(const struct geometry *g, size_t strip)
{
    return min_size(g->band, g->strips - strip);
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
