/* The walk of norm.c: one pass over x or two, in three steps, each of which deals a tensor to threads by
 * strips of channels and chunks of rows, and goes through it in pieces. */
#ifndef BACKEND_CPU_NORM_STRIPS_H
#define BACKEND_CPU_NORM_STRIPS_H
#include "backend/activation.h"
#include "norm_vectors.h"

enum {
    PIECE_VECTORS = 256, /* of LANES: 16 KiB */
    CHUNKS = 8,          /* a strip's rows are shared out in so many parts, whatever the number of threads */
    SPLITS = 2,
    STRIP_CACHED = 1 << 20, /* bytes of a strip that stay in the second-level cache between two passes */
    STREAMED = 1 << 22      /* bytes of a result that has left the caches when it is read next */
};

/* Rows [from, to) have statistics of their own. */
struct half {
    size_t from, to;
};

/* What functions are compiled for: a type, and an activation without or behind a sum; or whatever there is.
 */
enum kind { LINEAR, RELU, SUM_RELU, HALF_LINES, ANY };
struct code {
    int bf16;
    enum kind kind;
};

struct norm {
    const struct cpu *cpu;
    struct geometry g;
    struct half half[SPLITS];
    int halves, halves_back;
    int train, streamed;
    enum act act;
    float below; /* slope of the left half-line, where act has two that meet in 0 */
    enum kind kind;
    struct backend *be;
    struct share share;      /* see struct norm_desc */
    int adds;                /* an addend before the activation */
    struct operand u, gu;    /* the addend, and its gradient */
    struct memory_format y;  /* what an activation may leave in its padding is zeroed */
    size_t bands;            /* of strips */
    size_t vector;           /* numbers in a vector over the channels */
    size_t at_made, at_sums; /* in scratch */
};

/* Kept for each half, a vector over the channels each: y = (x - MEAN) * GAIN + SHIFT. */
enum { MEAN, VAR, GAIN, SHIFT, KEPT };
/* In scratch: gx = GAIN * (g - LEVEL - (x - MEAN) * SLOPE), g the gradient before the activation. */
enum { LEVEL, SLOPE, MADE, LINES = KEPT + MADE };

/* ---- one pass over x or two, in three steps ---- */

/* Tensors, of float or bfloat16. With an addend u, gather puts the gradient before the activation into g,
 * from where apply reads it. */
struct data {
    const void *x, *u, *gy;
    void *y, *gx, *g;
};

struct job {
    const struct norm *s;
    struct half half;
    struct data data;
    const float *scale, *bias;
    float *gscale, *gbias;
    int add;
    float *kept, *made; /* vectors over the channels */
    double *sums;       /* 2 a channel: for join */
    struct part *part;  /* bands x CHUNKS x strips of a band */
    const struct steps *steps;
};

/* Of some rows of a strip, lane by lane. Forward: the number, the mean and the squares around it of x;
 * backward: first and second are the sums of g and of g * (x - mean). */
struct part {
    double n[LANES], first[LANES], second[LANES];
};

/* The strips of a band are gathered and applied side by side, and have parts side by side. */
struct steps {
    void (*gather)(const struct job *, size_t strip, struct half rows, struct part *);
    void (*settle)(const struct job *, size_t strip, const struct part *, size_t parts);
    void (*apply)(const struct job *, size_t strip, struct half rows);
    int (*join)(const struct job *); /* between settle and apply, where other processes have other rows */
};

static struct half rows_of(const struct job *k, size_t chunk)
{
    size_t n = k->half.to - k->half.from;
    return (struct half){ k->half.from + n * chunk / CHUNKS, k->half.from + n * (chunk + 1) / CHUNKS };
}

static void settle_band(const struct job *k, size_t strip, const struct part *part, size_t parts)
{
    for (size_t i = 0; i < band_at(&k->s->g, strip); i++) k->steps->settle(k, strip + i, part + i, parts);
}

static void whole_bands(void *ctx, size_t first, size_t last)
{
    const struct job *k = ctx;
    for (size_t i = first; i < last; i++) {
        size_t strip = i * k->s->g.band;
        struct part part[BAND];
        k->steps->gather(k, strip, k->half, part);
        settle_band(k, strip, part, 1);
        k->steps->apply(k, strip, k->half);
    }
    end_stream();
}

static void gather_chunks(void *ctx, size_t first, size_t last)
{
    const struct job *k = ctx;
    size_t band = k->s->g.band;
    for (size_t i = first; i < last; i++)
        k->steps->gather(k, i / CHUNKS * band, rows_of(k, i % CHUNKS), &k->part[i * band]);
}

static void settle_bands(void *ctx, size_t first, size_t last)
{
    const struct job *k = ctx;
    size_t band = k->s->g.band;
    for (size_t i = first; i < last; i++) settle_band(k, i * band, &k->part[i * CHUNKS * band], CHUNKS);
}

static void apply_chunks(void *ctx, size_t first, size_t last)
{
    const struct job *k = ctx;
    for (size_t i = first; i < last; i++)
        k->steps->apply(k, i / CHUNKS * k->s->g.band, rows_of(k, i % CHUNKS));
    end_stream();
}

static int run(struct job *k)
{
    const struct norm *s = k->s;
    size_t n = k->half.to - k->half.from, number = s->g.bf16 ? sizeof(bfloat16) : sizeof(float);
    if (n * s->g.row / s->bands * number <= STRIP_CACHED && s->bands >= CHUNKS && !s->share.all) {
        parallel_for(s->cpu, s->bands, 1, whole_bands, k);
        return OK;
    }
    parallel_for(s->cpu, s->bands * CHUNKS, 1, gather_chunks, k);
    parallel_for(s->cpu, s->bands, 16, settle_bands, k);
    if (s->share.all) TRY(k->steps->join(k));
    parallel_for(s->cpu, s->bands * CHUNKS, 1, apply_chunks, k);
    return OK;
}

/* ---- pieces ---- */

/* Some rows of a span, or a part of one row: rows x count vectors of `width` numbers from `at` on. */
struct piece {
    size_t at, rows, count, width, row, stride;
};
typedef void piece_fn(const struct job *, const struct piece *, const lanes of[LINES], struct part *,
                      struct code);

static void load(const struct job *k, size_t strip, lanes *of, int lines)
{
    for (int i = 0; i < lines; i++)
        coefficients(&k->s->g, strip,
                     i < KEPT ? k->kept + (size_t)i * k->s->vector
                              : k->made + (size_t)(i - KEPT) * k->s->vector,
                     &of[i]);
}

/* Calls fn for one piece. Whole vectors, of which there are many, have code for each frequent kind. */
INLINE void each_kind(const struct job *k, struct piece *piece, const lanes of[LINES], struct part *p,
                      piece_fn *fn, int bf16)
{
    enum kind kind = k->s->kind;
    if (piece->width != LANES || kind == ANY) {
        fn(k, piece, of, p, (struct code){ bf16, ANY });
        return;
    }
    piece->width = LANES;
    if (kind == LINEAR)
        fn(k, piece, of, p, (struct code){ bf16, LINEAR });
    else if (kind == RELU)
        fn(k, piece, of, p, (struct code){ bf16, RELU });
    else if (kind == SUM_RELU)
        fn(k, piece, of, p, (struct code){ bf16, SUM_RELU });
    else
        fn(k, piece, of, p, (struct code){ bf16, HALF_LINES });
}

/* Calls fn for the pieces of a band of strips, which it gives the first so many lines of coefficients. To be
 * inlined, with fn and bf16 constants. */
INLINE void each_piece(const struct job *k, size_t strip, struct half rows, int lines, struct part *p,
                       piece_fn *fn, int bf16)
{
    const struct geometry *g = &k->s->g;
    size_t band = band_at(g, strip);
    struct span span[BAND][2];
    lanes of[BAND][LINES];
    int spans = 0;
    for (size_t b = 0; b < band; b++) {
        spans = spans_of(g, strip + b, span[b]);
        load(k, strip + b, of[b], lines);
        if (p) p[b] = (struct part){ .n = { 0 } };
    }
    for (int j = 0; j < spans; j++) {
        size_t count = span[0][j].count, some = count < PIECE_VECTORS ? PIECE_VECTORS / count : 1;
        for (size_t r = rows.from; r < rows.to; r += some)
            for (size_t i = 0; i < count; i += PIECE_VECTORS)
                for (size_t b = 0; b < band; b++) {
                    const struct span *sp = &span[b][j];
                    struct piece piece = { r * g->row + sp->at + i * g->stride,
                                           min_size(rows.to - r, some),
                                           min_size(count - i, PIECE_VECTORS),
                                           sp->width,
                                           g->row,
                                           g->stride };
                    each_kind(k, &piece, of[b], p ? &p[b] : NULL, fn, bf16);
                }
    }
}

#endif
