/* Batch normalisation, in the form of ref/norm.c.
 *
 * It does little arithmetic for each number that it moves, so its time is that of memory. oneDNN reads x
 * twice for the statistics, and what it writes is first fetched from memory to be overwritten. Here a piece
 * that fits the first-level cache comes from memory once, for its mean and its squares around that mean, and
 * pieces are put together by Chan's formula (Chan, Golub, LeVeque 1983); large results go round the caches;
 * and a relu needs no mask, because whether it was on follows from x, or from y behind a sum. */
#include "backend/ops/norm.h"
#include <math.h>
#include "act.h"
#include "backend/scalar.h"
#include "norm_join.h"

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

INLINE void add_moments(const void *x, size_t at, size_t width, int bf16, const lanes *about, lanes *sum,
                        lanes *squares)
{
    lanes v;
    get(&v, x, at, width, bf16);
    v -= *about;
    if (sum) *sum += v;
    if (squares) *squares += v * v;
}

/* Adds to sum[i % 2] and squares[i % 2] for vector i of each row: an addition need not wait for the one
 * before. Either may be NULL. */
INLINE void add_piece(const void *x, const struct piece *piece, int bf16, const lanes *about, lanes *sum,
                      lanes *squares)
{
    for (size_t r = 0; r < piece->rows; r++) {
        size_t at = piece->at + r * piece->row, i = 0;
        for (; i + 1 < piece->count; i += 2, at += 2 * piece->stride) {
            add_moments(x, at, piece->width, bf16, about, sum, squares);
            add_moments(x, at + piece->stride, piece->width, bf16, about, sum ? sum + 1 : NULL,
                        squares ? squares + 1 : NULL);
        }
        if (i < piece->count) add_moments(x, at, piece->width, bf16, about, sum, squares);
    }
}

/* Zero where y is negative; a NaN stays. */
INLINE void rectify(lanes *y) { *y = (lanes)((bits)*y & ~(*y < 0)); }

/* Sums are of differences to the first vector: a mean far from zero costs no digits, and a channel that is
 * constant has a variance of exactly 0. In bfloat16, which has few digits to lose, their squares are summed
 * with them: as the first vector is one of n, these are at most n times those around the mean. */
INLINE void measure_piece(const struct job *k, const struct piece *piece, const lanes of[LINES],
                          struct part *p, struct code code)
{
    const int bf16 = code.bf16;
    lanes sum[2] = { { 0 } }, squares[2] = { { 0 } }, start;
    float n = (float)(piece->rows * piece->count);
    const void *x = k->data.x;
    get(&start, x, piece->at, piece->width, bf16);
    add_piece(x, piece, bf16, &start, sum, bf16 ? squares : NULL);
    sum[0] += sum[1];
    lanes mean = start + sum[0] / n;
    if (!bf16) add_piece(x, piece, bf16, &mean, NULL, squares);
    squares[0] += squares[1];
    if (bf16) {
        squares[0] -= sum[0] * sum[0] / n;
        rectify(&squares[0]);
    }
    merge(p, (double)(piece->rows * piece->count), &mean, &squares[0], piece->width);
}

CPU_CLONES static void measure(const struct job *k, size_t strip, struct half rows, struct part *p)
{
    each_piece(k, strip, rows, 0, p, measure_piece, 0);
}

BF16_CODE static void measure_bf16(const struct job *k, size_t strip, struct half rows, struct part *p)
{
    each_piece(k, strip, rows, 0, p, measure_piece, 1);
}

/* The moments of the channel that starts at this lane. */
static void moments(const struct geometry *g, const struct part *p, size_t parts, size_t lane, double *mean,
                    double *var)
{
    double n = 0, m = 0, squares = 0;
    for (size_t j = 0; j < parts; j++, p += g->band)
        for (size_t i = lane; i < LANES; i += g->period) {
            double more = p->n[i], apart = p->first[i] - m;
            if (more == 0) continue;
            squares += p->second[i] + apart * apart * n * more / (n + more);
            m += apart * more / (n + more);
            n += more;
        }
    *mean = m;
    *var = squares / n;
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

/* v where z is positive, else v times the slope. */
INLINE void bend(lanes *v, const lanes *z, float below)
{
    bits positive = *z > 0;
    *v = (lanes)(((bits)*v & positive) | ((bits)(*v * below) & ~positive));
}

/* Is there a sum before the activation? */
INLINE int sums(const struct norm *s, struct code code)
{
    return code.kind == SUM_RELU || (code.kind >= HALF_LINES && s->adds);
}

INLINE void activate(const struct norm *s, lanes *y, struct code code)
{
    if (code.kind == RELU || code.kind == SUM_RELU || (code.kind == ANY && s->act == ACT_RELU))
        rectify(y);
    else if (code.kind == HALF_LINES || (code.kind == ANY && s->kind != ANY))
        bend(y, y, s->below);
    else if (code.kind == ANY)
        act_map(s->act, LANES, (const float *)y, (float *)y);
}

INLINE void normalise_rows(const struct job *k, const struct piece *piece, const lanes of[LINES],
                           struct code code, int streamed)
{
    const struct data d = k->data;
    for (size_t r = 0; r < piece->rows; r++) {
        size_t at = piece->at + r * piece->row;
        for (size_t i = 0; i < piece->count; i++, at += piece->stride) {
            lanes v;
            get(&v, d.x, at, piece->width, code.bf16);
            v = (v - of[MEAN]) * of[GAIN] + of[SHIFT];
            if (sums(k->s, code)) {
                lanes u;
                get(&u, d.u, at, piece->width, code.bf16);
                v += u;
            }
            activate(k->s, &v, code);
            put(d.y, at, &v, piece->width, code.bf16, streamed);
        }
    }
}

INLINE void normalise_piece(const struct job *k, const struct piece *piece, const lanes of[LINES],
                            struct part *p, struct code code)
{
    if (piece->width == LANES && k->s->streamed)
        normalise_rows(k, piece, of, code, 1);
    else
        normalise_rows(k, piece, of, code, 0);
}

CPU_CLONES static void normalise(const struct job *k, size_t strip, struct half rows)
{
    each_piece(k, strip, rows, KEPT, NULL, normalise_piece, 0);
}

BF16_CODE static void normalise_bf16(const struct job *k, size_t strip, struct half rows)
{
    each_piece(k, strip, rows, KEPT, NULL, normalise_piece, 1);
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
            double n = share_total(s->share, (double)((s->half[i].to - s->half[i].from) * s->g.pixels));
            m += (double)of[MEAN * s->vector + c] / s->halves;
            v += (double)of[VAR * s->vector + c] * (n > 1 ? n / (n - 1) : 1) / s->halves;
        }
        if (!isfinite(m) || !isfinite(v)) continue; /* a net that blows up keeps the statistics it had */
        mean[c] = (real)((double)mean[c] + bn_momentum * (m - (double)mean[c]));
        var[c] = (real)((double)var[c] + bn_momentum * (v - (double)var[c]));
    }
}

/* Of float and of bfloat16. */
static const struct steps forward_steps[2] = {
    { measure, settle_moments, normalise, join_moments },
    { measure_bf16, settle_moments, normalise_bf16, join_moments },
};

static void zero_padding(const struct norm *s, void *y)
{
    if (s->kind == ANY && act_apply(s->act, 0) != 0)
        format_pad(s->cpu, &s->y, (size_t)s->half[s->halves - 1].to, y);
}

static int forward(const struct op_plan *p, const struct op_context *context, const void *x,
                   const void *addend, const real *scale, const real *bias, real *mean, real *var,
                   double bn_momentum, void *kept, void *y)
{
    const struct norm *s = p->self;
    struct job k = { .s = s,
                     .data = { .x = x, .u = operand_get(s->cpu, &s->u, addend, context->scratch), .y = y },
                     .scale = scale,
                     .bias = bias,
                     .steps = &forward_steps[s->g.bf16] };
    if (!s->train) {
        k.half = s->half[0];
        k.kept = context->scratch;
        for (size_t c = 0; c < s->g.c; c++) set_line(&k, c, mean[c], var[c]);
        parallel_for(s->cpu, s->bands * CHUNKS, 1, apply_chunks, &k);
        zero_padding(s, y);
        return OK;
    }
    k.part = context->scratch;
    k.sums = scratch_at(context->scratch, s->at_sums);
    for (int i = 0; i < s->halves; i++) {
        k.half = s->half[i];
        k.kept = (float *)kept + (size_t)i * KEPT * s->vector;
        TRY(run(&k));
    }
    move_running(s, kept, bn_momentum, mean, var);
    zero_padding(s, y);
    return OK;
}

/* ---- backward ---- */

/* From the gradient behind the activation to that before it. z: before the activation, or behind one of two
 * half-lines. */
INLINE void activate_back(const struct norm *s, lanes *g, lanes *z, struct code code)
{
    if (code.kind == RELU || code.kind == SUM_RELU || (code.kind == ANY && s->act == ACT_RELU)) {
        *g = (lanes)((bits)*g & (*z > 0));
    } else if (code.kind == HALF_LINES || (code.kind == ANY && s->kind != ANY)) {
        bend(g, z, s->below);
    } else if (code.kind == ANY) {
        act_map(s->act, LANES, (const float *)z, (float *)z);
        act_grad(s->act, LANES, (const float *)z, (const float *)g, (float *)g);
    }
}

/* The gradient before the activation, and x around its mean. */
INLINE void pull(const struct norm *s, const struct data *d, size_t at, size_t width, struct code code,
                 const lanes of[LINES], lanes *g, lanes *x)
{
    get(x, d->x, at, width, code.bf16);
    *x -= of[MEAN];
    if (sums(s, code)) {
        get(g, d->g, at, width, code.bf16);
    } else {
        lanes z = *x * of[GAIN] + of[SHIFT];
        get(g, d->gy, at, width, code.bf16);
        activate_back(s, g, &z, code);
    }
}

/* Behind a sum, d->g is made from y. */
INLINE void add_gradients(const struct norm *s, const struct data *d, size_t at, size_t width,
                          struct code code, const lanes of[LINES], lanes *sum, lanes *product)
{
    lanes g, x;
    if (sums(s, code)) {
        lanes y;
        get(&g, d->gy, at, width, code.bf16);
        get(&y, d->y, at, width, code.bf16);
        activate_back(s, &g, &y, code);
        put(d->g, at, &g, width, code.bf16, 0);
        get(&x, d->x, at, width, code.bf16);
        x -= of[MEAN];
    } else {
        pull(s, d, at, width, code, of, &g, &x);
    }
    *sum += g;
    *product += g * x;
}

INLINE void sum_piece(const struct job *k, const struct piece *piece, const lanes of[LINES], struct part *p,
                      struct code code)
{
    const struct data d = k->data;
    lanes sum[2] = { { 0 } }, product[2] = { { 0 } };
    for (size_t r = 0; r < piece->rows; r++) {
        size_t at = piece->at + r * piece->row, i = 0;
        for (; i + 1 < piece->count; i += 2, at += 2 * piece->stride) {
            add_gradients(k->s, &d, at, piece->width, code, of, &sum[0], &product[0]);
            add_gradients(k->s, &d, at + piece->stride, piece->width, code, of, &sum[1], &product[1]);
        }
        if (i < piece->count) add_gradients(k->s, &d, at, piece->width, code, of, &sum[0], &product[0]);
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
    each_piece(k, strip, rows, KEPT, p, sum_piece, 0);
}

BF16_CODE static void sum_gradients_bf16(const struct job *k, size_t strip, struct half rows, struct part *p)
{
    each_piece(k, strip, rows, KEPT, p, sum_piece, 1);
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
                sum += p[j * g->band].first[lane];
                product += p[j * g->band].second[lane];
            }
        double square = 1 / ((double)k->kept[VAR * n + c] + NORM_EPSILON);
        k->made[LEVEL * n + c] = (float)(sum / count);
        k->made[SLOPE * n + c] = (float)(product * square / count);
        k->gscale[c] = (float)(product * sqrt(square)) + (k->add ? k->gscale[c] : 0);
        k->gbias[c] = (float)sum + (k->add ? k->gbias[c] : 0);
    }
}

INLINE void differentiate_rows(const struct job *k, const struct piece *piece, const lanes of[LINES],
                               struct code code, int streamed)
{
    const struct data d = k->data;
    const lanes *made = of + KEPT;
    for (size_t r = 0; r < piece->rows; r++) {
        size_t at = piece->at + r * piece->row;
        for (size_t i = 0; i < piece->count; i++, at += piece->stride) {
            lanes g, x;
            pull(k->s, &d, at, piece->width, code, of, &g, &x);
            g = of[GAIN] * (g - made[LEVEL] - x * made[SLOPE]);
            put(d.gx, at, &g, piece->width, code.bf16, streamed);
        }
    }
}

INLINE void differentiate_piece(const struct job *k, const struct piece *piece, const lanes of[LINES],
                                struct part *p, struct code code)
{
    if (piece->width == LANES && k->s->streamed && k->data.gx != (k->data.g ? k->data.g : k->data.gy))
        differentiate_rows(k, piece, of, code, 1);
    else
        differentiate_rows(k, piece, of, code, 0);
}

CPU_CLONES static void differentiate(const struct job *k, size_t strip, struct half rows)
{
    each_piece(k, strip, rows, LINES, NULL, differentiate_piece, 0);
}

BF16_CODE static void differentiate_bf16(const struct job *k, size_t strip, struct half rows)
{
    each_piece(k, strip, rows, LINES, NULL, differentiate_piece, 1);
}

static const struct steps backward_steps[2] = {
    { sum_gradients, settle_gradients, differentiate, join_gradients },
    { sum_gradients_bf16, settle_gradients, differentiate_bf16, join_gradients },
};

static int backward(const struct op_plan *p, const struct op_context *context, const void *x, const void *y,
                    const real *scale, const void *kept, const void *gy, void *gx, void *gaddend,
                    real *gscale, real *gbias)
{
    const struct norm *s = p->self;
    struct job k = { .s = s,
                     .data = { .x = x, .y = (void *)y, .gy = gy, .gx = gx },
                     .gscale = gscale,
                     .gbias = gbias,
                     .part = context->scratch,
                     .made = scratch_at(context->scratch, s->at_made),
                     .sums = scratch_at(context->scratch, s->at_sums),
                     .steps = &backward_steps[s->g.bf16] };
    if (s->adds) k.data.g = gaddend ? operand_place(&s->gu, gaddend, context->scratch) : gx;
    for (int i = 0; i < s->halves_back; i++) {
        k.half = s->half[i];
        k.kept = (float *)kept + (size_t)i * KEPT * s->vector;
        k.add = context->add || i;
        TRY(run(&k));
    }
    operand_put(s->cpu, &s->gu, gaddend, context->scratch, 0);
    return OK;
}

/* ---- plan ---- */

/* Two half-lines that meet in 0. */
static int half_lines(enum act a)
{
    return a == ACT_LINEAR || a == ACT_RELU || a == ACT_LEAKY || a == ACT_RELIE;
}

static int plan(struct backend *be, const struct norm_desc *d, struct tensor *out, struct op_plan *p,
                struct err *e)
{
    size_t n = (size_t)d->in->shape.n, first = (size_t)d->rows_s1;
    int halves = d->train ? d->splits : 1;
    TRY(op_plan_init(p, sizeof(struct norm), e));
    TRY(format_tensor(out, d->in->layout, e));
    struct norm *s = p->self;
    *s = (struct norm){ .cpu = cpu_of(be),
                        .be = be,
                        .g = geometry_of(d->in),
                        .half = { { 0, halves == SPLITS ? first : n }, { first, n } },
                        .halves = halves,
                        .halves_back = (size_t)d->rows_back < n ? 1 : halves,
                        .train = d->train,
                        .share = d->share,
                        .act = d->act,
                        .adds = d->addend != NULL,
                        .y = format_of(out->shape, d->in->layout) };
    const struct geometry *g = &s->g;
    s->bands = (g->strips + g->band - 1) / g->band;
    s->vector = (g->c + LANES - 1) / LANES * LANES;
    s->streamed = out->bytes >= STREAMED && g->stride == LANES && !g->tail;
    /* In bfloat16 every activation is fused: to round what lies between costs digits. */
    p->fused = s->g.bf16 || half_lines(d->act);
    if (!p->fused) s->act = ACT_LINEAR;
    if (!half_lines(s->act))
        s->kind = ANY;
    else if (s->act == ACT_RELU)
        s->kind = s->adds ? SUM_RELU : RELU;
    else
        s->kind = s->adds || s->act != ACT_LINEAR ? HALF_LINES : LINEAR;
    if (s->kind != ANY) s->below = (float)act_slope_y(s->act, -1);
    if (!d->train) {
        p->scratch_bytes = KEPT * s->vector * sizeof(float);
        return OK;
    }
    p->kept_bytes = (size_t)halves * KEPT * s->vector * sizeof(float);
    scratch_reserve(&p->scratch_bytes, s->bands * g->band * CHUNKS * sizeof(struct part));
    s->at_made = scratch_reserve(&p->scratch_bytes, MADE * s->vector * sizeof(float));
    s->at_sums = scratch_reserve(&p->scratch_bytes, d->share.all ? 2 * s->g.c * sizeof(double) : 0);
    if (s->adds) {
        s->u = operand_of(d->addend, (int)n, d->in->layout);
        s->gu = operand_of(d->addend, d->rows_back, d->in->layout);
        operand_reserve(&s->u, &p->scratch_bytes);
        operand_reserve(&s->gu, &p->scratch_bytes);
    }
    return OK;
}

const struct norm_ops cpu_norm = {
    .plan = plan, .forward = forward, .backward = backward, .adds = half_lines
};
