/* Batch normalisation, in the form of ref/norm.c.
 *
 * It does little arithmetic for each number that it moves, so its time is that of memory. oneDNN reads x
 * twice for the statistics, and what it writes is first fetched from memory to be overwritten. Here a piece
 * that fits the first-level cache comes from memory once, for its mean and its squares around that mean, and
 * pieces are put together by Chan's formula (Chan, Golub, LeVeque 1983); large results go round the caches;
 * and a relu needs no mask, because whether it was on follows from x. */
#include "backend/ops/norm.h"
#include <math.h>
#include <string.h>
#include "norm_vectors.h"

#define EPS 1e-5
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

struct norm {
    const struct cpu *cpu;
    struct geometry g;
    struct half half[SPLITS];
    int halves, halves_back;
    int train, relu, streamed;
    size_t vector;  /* numbers in a vector over the channels */
    size_t at_made; /* in scratch */
};

/* Kept for each half, a vector over the channels each: y = (x - MEAN) * GAIN + SHIFT. */
enum { MEAN, VAR, GAIN, SHIFT, KEPT };
/* In scratch: gx = GAIN * (g - LEVEL - (x - MEAN) * SLOPE), g the gradient of y where the relu is on. */
enum { LEVEL, SLOPE, MADE };

/* ---- one pass over x or two, in three steps ---- */

struct job {
    const struct norm *s;
    struct half half;
    const float *x, *gy, *scale, *bias;
    float *y, *gx, *gscale, *gbias;
    int add;
    float *kept, *made; /* vectors over the channels */
    struct part *part;  /* strips x CHUNKS */
    const struct steps *steps;
};

/* Of some rows of a strip, lane by lane. Forward: the number, the mean and the squares around it of x;
 * backward: first and second are the sums of g and of g * (x - mean). */
struct part {
    double n[LANES], first[LANES], second[LANES];
};

struct steps {
    void (*gather)(const struct job *, size_t strip, struct half rows, struct part *);
    void (*settle)(const struct job *, size_t strip, const struct part *, size_t parts);
    void (*apply)(const struct job *, size_t strip, struct half rows);
};

static struct half rows_of(const struct job *k, size_t chunk)
{
    size_t n = k->half.to - k->half.from;
    return (struct half){ k->half.from + n * chunk / CHUNKS, k->half.from + n * (chunk + 1) / CHUNKS };
}

static void whole_strips(void *ctx, size_t first, size_t last)
{
    const struct job *k = ctx;
    for (size_t strip = first; strip < last; strip++) {
        struct part part;
        k->steps->gather(k, strip, k->half, &part);
        k->steps->settle(k, strip, &part, 1);
        k->steps->apply(k, strip, k->half);
    }
    end_stream();
}

static void gather_chunks(void *ctx, size_t first, size_t last)
{
    const struct job *k = ctx;
    for (size_t i = first; i < last; i++)
        k->steps->gather(k, i / CHUNKS, rows_of(k, i % CHUNKS), &k->part[i]);
}

static void settle_strips(void *ctx, size_t first, size_t last)
{
    const struct job *k = ctx;
    for (size_t strip = first; strip < last; strip++)
        k->steps->settle(k, strip, &k->part[strip * CHUNKS], CHUNKS);
}

static void apply_chunks(void *ctx, size_t first, size_t last)
{
    const struct job *k = ctx;
    for (size_t i = first; i < last; i++) k->steps->apply(k, i / CHUNKS, rows_of(k, i % CHUNKS));
    end_stream();
}

static void run(struct job *k)
{
    const struct norm *s = k->s;
    size_t strips = s->g.strips, n = k->half.to - k->half.from;
    if (n * s->g.row / strips * sizeof(float) <= STRIP_CACHED && strips >= CHUNKS) {
        parallel_for(s->cpu, strips, 1, whole_strips, k);
        return;
    }
    parallel_for(s->cpu, strips * CHUNKS, 1, gather_chunks, k);
    parallel_for(s->cpu, strips, 16, settle_strips, k);
    parallel_for(s->cpu, strips * CHUNKS, 1, apply_chunks, k);
}

/* ---- pieces ---- */

/* Some rows of a span, or a part of one row: rows x count vectors of `width` numbers from `at` on. */
struct piece {
    size_t at, rows, count, width;
};
typedef void piece_fn(const struct job *, const struct piece *, const lanes *of, struct part *);

/* Calls fn for the pieces of a strip. To be inlined, with fn and, nearly always, the width a constant. */
INLINE void each_piece(const struct job *k, size_t strip, struct half rows, const lanes *of, struct part *p,
                       piece_fn *fn)
{
    const struct geometry *g = &k->s->g;
    struct span span[2];
    int spans = spans_of(g, strip, span);
    memset(p, 0, sizeof *p);
    for (int j = 0; j < spans; j++) {
        const struct span *sp = &span[j];
        size_t some = sp->count < PIECE_VECTORS ? PIECE_VECTORS / sp->count : 1;
        for (size_t r = rows.from; r < rows.to; r += some)
            for (size_t i = 0; i < sp->count; i += PIECE_VECTORS) {
                struct piece piece = { r * g->row + sp->at + i * g->stride,
                                       rows.to - r < some ? rows.to - r : some,
                                       sp->count - i < PIECE_VECTORS ? sp->count - i : PIECE_VECTORS, LANES };
                if (sp->width == LANES) {
                    fn(k, &piece, of, p);
                } else {
                    piece.width = sp->width;
                    fn(k, &piece, of, p);
                }
            }
    }
}

/* ---- forward ---- */

/* Adds the moments of n more numbers in each of `width` lanes. */
INLINE void merge(struct part *p, double n, const lanes *mean, const lanes *squares, size_t width)
{
    for (size_t i = 0; i < width; i++) {
        double all = p->n[i] + n, apart = (double)(*mean)[i] - p->first[i];
        p->second[i] += (double)(*squares)[i] + apart * apart * p->n[i] * n / all;
        p->first[i] += apart * n / all;
        p->n[i] = all;
    }
}

/* Two sums, so that an addition need not wait for the one before. They are of differences to the first
 * vector: a mean far from zero costs no digits, and a channel that is constant has a variance of exactly 0.
 */
INLINE void measure_piece(const struct job *k, const struct piece *piece, const lanes *of, struct part *p)
{
    const struct geometry *g = &k->s->g;
    lanes sum[2] = { { 0 } }, squares[2] = { { 0 } }, v, start;
    get(&start, k->x + piece->at, piece->width);
    for (size_t r = 0; r < piece->rows; r++)
        for (size_t i = 0; i < piece->count; i++) {
            get(&v, k->x + piece->at + r * g->row + i * g->stride, piece->width);
            sum[i & 1] += v - start;
        }
    lanes mean = start + (sum[0] + sum[1]) / (float)(piece->rows * piece->count);
    for (size_t r = 0; r < piece->rows; r++)
        for (size_t i = 0; i < piece->count; i++) {
            get(&v, k->x + piece->at + r * g->row + i * g->stride, piece->width);
            v -= mean;
            squares[i & 1] += v * v;
        }
    squares[0] += squares[1];
    merge(p, (double)(piece->rows * piece->count), &mean, &squares[0], piece->width);
}

CPU_CLONES static void measure(const struct job *k, size_t strip, struct half rows, struct part *p)
{
    each_piece(k, strip, rows, NULL, p, measure_piece);
}

/* The moments of the channel that starts at this lane. */
static void moments(const struct geometry *g, const struct part *p, size_t parts, size_t lane, double *mean,
                    double *var)
{
    double n = 0, m = 0, squares = 0;
    for (size_t j = 0; j < parts; j++)
        for (size_t i = lane; i < LANES; i += g->period) {
            double more = p[j].n[i], apart = p[j].first[i] - m;
            if (more == 0) continue;
            squares += p[j].second[i] + apart * apart * n * more / (n + more);
            m += apart * more / (n + more);
            n += more;
        }
    *mean = m;
    *var = squares / n;
}

static void set_line(const struct job *k, size_t c, double mean, double var)
{
    float *kept = k->kept;
    size_t n = k->s->vector;
    kept[MEAN * n + c] = (float)mean;
    kept[VAR * n + c] = (float)var;
    kept[GAIN * n + c] = (float)((double)k->scale[c] / sqrt(var + EPS));
    kept[SHIFT * n + c] = k->bias[c];
}

static void settle_moments(const struct job *k, size_t strip, const struct part *p, size_t parts)
{
    const struct geometry *g = &k->s->g;
    for (size_t i = 0; i < g->period; i++) {
        size_t c = channel(g, strip, i);
        double mean, var;
        if (c >= g->c) break;
        moments(g, p, parts, i, &mean, &var);
        set_line(k, c, mean, var);
    }
}

/* Zero where y is negative; a NaN stays. */
INLINE void rectify(lanes *y) { *y = (lanes)((bits)*y & ~(*y < 0)); }

INLINE void normalise_span(const struct job *k, const struct span *sp, struct half rows, size_t width,
                           const lanes of[KEPT], int streamed)
{
    const struct geometry *g = &k->s->g;
    for (size_t r = rows.from; r < rows.to; r++)
        for (size_t i = 0; i < sp->count; i++) {
            size_t at = r * g->row + sp->at + i * g->stride;
            lanes v;
            get(&v, k->x + at, width);
            v = (v - of[MEAN]) * of[GAIN] + of[SHIFT];
            if (k->s->relu) rectify(&v);
            put(k->y + at, &v, width, streamed);
        }
}

static void load(const struct job *k, size_t strip, lanes of[KEPT])
{
    for (int i = 0; i < KEPT; i++) coefficients(&k->s->g, strip, k->kept + (size_t)i * k->s->vector, &of[i]);
}

CPU_CLONES static void normalise(const struct job *k, size_t strip, struct half rows)
{
    struct span span[2];
    int spans = spans_of(&k->s->g, strip, span);
    lanes of[KEPT];
    load(k, strip, of);
    for (int j = 0; j < spans; j++) {
        if (span[j].width != LANES)
            normalise_span(k, &span[j], rows, span[j].width, of, 0);
        else if (k->s->streamed)
            normalise_span(k, &span[j], rows, LANES, of, 1);
        else
            normalise_span(k, &span[j], rows, LANES, of, 0);
    }
}

/* Moves the running statistics once: r += bn_momentum * (batch - r), batch = the average over the halves. */
static void move_running(const struct norm *s, const float *stats, double bn_momentum, real *mean, real *var)
{
    int never = 1;
    for (size_t c = 0; c < s->g.c && never; c++) never = var[c] == 0;
    if (never) bn_momentum = 1;
    for (size_t c = 0; c < s->g.c; c++) {
        double m = 0, v = 0;
        for (int i = 0; i < s->halves; i++) {
            const float *of = stats + (size_t)i * KEPT * s->vector;
            double n = (double)((s->half[i].to - s->half[i].from) * s->g.pixels);
            m += (double)of[MEAN * s->vector + c] / s->halves;
            v += (double)of[VAR * s->vector + c] * (n > 1 ? n / (n - 1) : 1) / s->halves;
        }
        if (!isfinite(m) || !isfinite(v)) continue; /* a net that blows up keeps the statistics it had */
        mean[c] = (real)((double)mean[c] + bn_momentum * (m - (double)mean[c]));
        var[c] = (real)((double)var[c] + bn_momentum * (v - (double)var[c]));
    }
}

static const struct steps forward_steps = { measure, settle_moments, normalise };

static int forward(const struct op_plan *p, const struct op_context *context, const void *x,
                   const void *addend, const real *scale, const real *bias, real *mean, real *var,
                   double bn_momentum, void *kept, void *y)
{
    const struct norm *s = p->self;
    struct job k = { .s = s, .x = x, .scale = scale, .bias = bias, .y = y, .steps = &forward_steps };
    if (!s->train) {
        k.half = s->half[0];
        k.kept = context->scratch;
        for (size_t c = 0; c < s->g.c; c++) set_line(&k, c, mean[c], var[c]);
        parallel_for(s->cpu, s->g.strips * CHUNKS, 1, apply_chunks, &k);
        return OK;
    }
    k.part = context->scratch;
    for (int i = 0; i < s->halves; i++) {
        k.half = s->half[i];
        k.kept = (float *)kept + (size_t)i * KEPT * s->vector;
        run(&k);
    }
    move_running(s, kept, bn_momentum, mean, var);
    return OK;
}

/* ---- backward ---- */

/* The gradient of what the relu lets through, and x around its mean. */
INLINE void pull(const struct job *k, size_t at, size_t width, const lanes of[KEPT], lanes *g, lanes *x)
{
    get(g, k->gy + at, width);
    get(x, k->x + at, width);
    *x -= of[MEAN];
    if (k->s->relu) *g = (lanes)((bits)*g & (*x * of[GAIN] + of[SHIFT] > 0));
}

INLINE void sum_piece(const struct job *k, const struct piece *piece, const lanes *of, struct part *p)
{
    const struct geometry *s = &k->s->g;
    lanes sum[2] = { { 0 } }, product[2] = { { 0 } }, g, x;
    for (size_t r = 0; r < piece->rows; r++)
        for (size_t i = 0; i < piece->count; i++) {
            pull(k, piece->at + r * s->row + i * s->stride, piece->width, of, &g, &x);
            sum[i & 1] += g;
            product[i & 1] += g * x;
        }
    sum[0] += sum[1];
    product[0] += product[1];
    for (size_t i = 0; i < piece->width; i++) {
        p->first[i] += (double)sum[0][i];
        p->second[i] += (double)product[0][i];
    }
}

CPU_CLONES static void sum_gradients(const struct job *k, size_t strip, struct half rows, struct part *p)
{
    lanes of[KEPT];
    load(k, strip, of);
    each_piece(k, strip, rows, of, p, sum_piece);
}

static void settle_gradients(const struct job *k, size_t strip, const struct part *p, size_t parts)
{
    const struct geometry *g = &k->s->g;
    size_t n = k->s->vector;
    double count = (double)((k->half.to - k->half.from) * g->pixels);
    for (size_t i = 0; i < g->period; i++) {
        size_t c = channel(g, strip, i);
        double sum = 0, product = 0;
        if (c >= g->c) break;
        for (size_t j = 0; j < parts; j++)
            for (size_t lane = i; lane < LANES; lane += g->period) {
                sum += p[j].first[lane];
                product += p[j].second[lane];
            }
        double square = 1 / ((double)k->kept[VAR * n + c] + EPS);
        k->made[LEVEL * n + c] = (float)(sum / count);
        k->made[SLOPE * n + c] = (float)(product * square / count);
        k->gscale[c] = (float)(product * sqrt(square)) + (k->add ? k->gscale[c] : 0);
        k->gbias[c] = (float)sum + (k->add ? k->gbias[c] : 0);
    }
}

INLINE void differentiate_span(const struct job *k, const struct span *sp, struct half rows, size_t width,
                               const lanes of[KEPT], const lanes made[MADE], int streamed)
{
    const struct geometry *s = &k->s->g;
    for (size_t r = rows.from; r < rows.to; r++)
        for (size_t i = 0; i < sp->count; i++) {
            size_t at = r * s->row + sp->at + i * s->stride;
            lanes g, x;
            pull(k, at, width, of, &g, &x);
            g = of[GAIN] * (g - made[LEVEL] - x * made[SLOPE]);
            put(k->gx + at, &g, width, streamed);
        }
}

CPU_CLONES static void differentiate(const struct job *k, size_t strip, struct half rows)
{
    struct span span[2];
    int spans = spans_of(&k->s->g, strip, span);
    lanes of[KEPT], made[MADE];
    load(k, strip, of);
    for (int i = 0; i < MADE; i++)
        coefficients(&k->s->g, strip, k->made + (size_t)i * k->s->vector, &made[i]);
    for (int j = 0; j < spans; j++) {
        if (span[j].width != LANES)
            differentiate_span(k, &span[j], rows, span[j].width, of, made, 0);
        else if (k->s->streamed && k->gx != k->gy)
            differentiate_span(k, &span[j], rows, LANES, of, made, 1);
        else
            differentiate_span(k, &span[j], rows, LANES, of, made, 0);
    }
}

static const struct steps backward_steps = { sum_gradients, settle_gradients, differentiate };

static int backward(const struct op_plan *p, const struct op_context *context, const void *x, const void *y,
                    const real *scale, const void *kept, const void *gy, void *gx, void *gaddend,
                    real *gscale, real *gbias)
{
    const struct norm *s = p->self;
    struct job k = { .s = s,
                     .x = x,
                     .gy = gy,
                     .gx = gx,
                     .gscale = gscale,
                     .gbias = gbias,
                     .part = context->scratch,
                     .made = scratch_at(context->scratch, s->at_made),
                     .steps = &backward_steps };
    for (int i = 0; i < s->halves_back; i++) {
        k.half = s->half[i];
        k.kept = (float *)kept + (size_t)i * KEPT * s->vector;
        k.add = context->add || i;
        run(&k);
    }
    return OK;
}

/* ---- plan ---- */

static int plan(struct backend *be, const struct norm_desc *d, struct tensor *out, struct op_plan *p,
                struct err *e)
{
    size_t n = (size_t)d->in->shape.n, first = (size_t)d->rows_s1;
    int halves = d->train ? d->splits : 1;
    TRY(op_plan_init(p, sizeof(struct norm), e));
    TRY(format_tensor(out, d->in->layout, e));
    struct norm *s = p->self;
    *s = (struct norm){ .cpu = cpu_of(be),
                        .g = geometry_of(d->in),
                        .half = { { 0, halves == SPLITS ? first : n }, { first, n } },
                        .halves = halves,
                        .halves_back = (size_t)d->rows_back < n ? 1 : halves,
                        .train = d->train,
                        .relu = d->act == ACT_RELU };
    const struct geometry *g = &s->g;
    s->vector = (g->c + LANES - 1) / LANES * LANES;
    s->streamed = out->bytes >= STREAMED && g->stride == LANES && !g->tail;
    p->fused = s->relu || d->act == ACT_LINEAR;
    if (!d->train) {
        p->scratch_bytes = KEPT * s->vector * sizeof(float);
        return OK;
    }
    p->kept_bytes = (size_t)halves * KEPT * s->vector * sizeof(float);
    scratch_reserve(&p->scratch_bytes, g->strips * CHUNKS * sizeof(struct part));
    s->at_made = scratch_reserve(&p->scratch_bytes, MADE * s->vector * sizeof(float));
    return OK;
}

const struct norm_ops cpu_norm = { .plan = plan, .forward = forward, .backward = backward };
