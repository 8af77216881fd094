/* The matching loss of ref/match.c, whose formulas and names these are. Nothing comes to the host, and the
 * launches depend on sizes only: labels, the iteration and what is in the memory are looked up here. Where
 * several processes match their rows together, each computes with the rows of all, and takes the gradient of
 * its own.
 *
 *   count_pools      rows of each pool
 *   collect          features as float, sorted by pool; S2 from the memory, and S1 into it
 *   measure          squared distances of all pairs of a pool, from differences
 *   select_digit     4 times: a digit of the medians: exact, from counts
 *   evaluate         the kernels, Q in parts, dQ/dd2
 *   finish           Match, and the factor of each pool's gradient
 *   descend          the gradient
 *
 * Distances and gradients are summed in float over 32 terms and in double from there on; Q is double. */
#include "backend/ops/sum.h"
#include "group/group.h"
#include "match_median.cuh"

enum { TILE = 32, SIDE = 16 };   /* rows of a tile of pairs; threads along it */
enum { COLUMNS = 64, ROWS = 8 }; /* of the gradient: features a tile, rows a thread */

static const double SMOOTH = 1e-6; /* e */

/* ---- rows, pools, pairs ---- */

DEVICE int is_conditional(const struct match_job *m)
{
    return m->o.conditional && m->now->iteration > m->unconditional;
}

/* The pool of a row of S1 and S2; m->pools: it is in none. */
DEVICE unsigned pool_of(const struct match_job *m, unsigned row)
{
    if (!is_conditional(m)) return 0;
    const int k = row < m->m1 || !m->old.h ? m->label[row] : (int)m->old.label[row - m->m1];
    return k >= 0 && (unsigned)k < m->pools ? (unsigned)k : m->pools;
}

/* Where the pair of places i < j lies, both of pool k. */
DEVICE size_t pair_at(const struct match_job *m, unsigned k, unsigned i, unsigned j)
{
    return (size_t)m->first_pair[k] + pairs_of(j - m->first[k]) + (i - m->first[k]);
}

DEVICE struct match_control control_of(const struct match_job *m)
{
    const struct step_state *now = m->now;
    struct match_control c = { 0 }; /* members and pairs: by collect */
    c.weight = m->lambda * warmup_share(m->warmup, now->iteration, now->ce_average, m->classes) *
               fade_share(m->full_rate, now->rate) * m->every / m->apart;
    c.applied = now->iteration % (uint64_t)m->every == 0 && (!m->old.h || *m->old.n > 0);
    return c;
}

/* A block a pool. */
KERNEL(count_pools, struct match_job m)
{
    SHARED(unsigned, n, 2 * THREADS);
    const unsigned k = blockIdx.x;
    PHASE
    {
        unsigned in[2] = { 0, 0 };
        for (unsigned row = threadIdx.x; row < m.m; row += blockDim.x)
            if (pool_of(&m, row) == k) in[row >= m.m1]++;
        n[2 * threadIdx.x] = in[0];
        n[2 * threadIdx.x + 1] = in[1];
    }
    BLOCK_SUM(n, THREADS, 2);
    PHASE
    {
        if (threadIdx.x) continue;
        m.n1[k] = n[0];
        m.n[k] = n[0] + n[1];
        if (!k) *m.control = control_of(&m);
    }
}

enum { MEMBERS_BEFORE, PAIRS_BEFORE, RANK, MEMBERS, PAIRS, COUNTS };

/* This thread's part of the counts that tell where a row of pool k goes. */
DEVICE void count_before(const struct match_job *m, unsigned row, unsigned k, unsigned *n)
{
    for (unsigned i = 0; i < COUNTS; i++) n[i] = 0;
    for (unsigned j = threadIdx.x; j < m->pools; j += blockDim.x) {
        if (j < k) n[MEMBERS_BEFORE] += m->n[j], n[PAIRS_BEFORE] += pairs_of(m->n[j]);
        n[MEMBERS] += m->n[j];
        n[PAIRS] += pairs_of(m->n[j]);
    }
    for (unsigned i = threadIdx.x; i < row; i += blockDim.x) n[RANK] += pool_of(m, i) == k;
}

/* Feature t of a row. What comes out of the memory makes room for the row that takes its place. */
DEVICE float feature(const struct match_job *m, unsigned row, unsigned t)
{
    float f, next;
    if (row < m->m1 || !m->old.h) {
        load(m->bf16, 1, m->h, (size_t)row * m->d + t, &f);
        return f;
    }
    float *old = m->old.h + (size_t)(row - m->m1) * m->d + dense_at(t, m->c, m->d / m->c);
    f = *old;
    load(m->bf16, 1, m->h, (size_t)(row - m->m1) * m->d + t, &next);
    if (!m->reuse_detached) *old = next;
    return f;
}

/* A block a row. */
KERNEL(collect, struct match_job m)
{
    SHARED(unsigned, n, COUNTS *THREADS);
    SHARED(unsigned, bad, THREADS);
    const unsigned row = blockIdx.x, k = pool_of(&m, row);
    PHASE count_before(&m, row, k, &n[COUNTS * threadIdx.x]);
    BLOCK_SUM(n, THREADS, COUNTS);
    const unsigned place = n[MEMBERS_BEFORE] + n[RANK];
    PHASE
    {
        float *x = m.x + (size_t)place * m.d;
        bad[threadIdx.x] = 0;
        for (unsigned t = threadIdx.x; t < m.d; t += blockDim.x) {
            x[t] = feature(&m, row, t);
            bad[threadIdx.x] |= !is_finite(x[t]);
        }
    }
    BLOCK_SUM(bad, THREADS, 1);
    PHASE
    {
        if (threadIdx.x) continue;
        m.order[place] = row;
        m.pool[place] = k;
        m.bad[row] = bad[0];
        if (k < m.pools && !n[RANK]) m.first[k] = n[MEMBERS_BEFORE], m.first_pair[k] = n[PAIRS_BEFORE];
        if (!row) m.control->members = n[MEMBERS], m.control->pairs = n[PAIRS];
    }
}

/* ---- distances ---- */

/* Feature t of the row at a place; what lies outside is 0. */
DEVICE float x_at(const struct match_job *m, unsigned place, unsigned t)
{
    return place < m->m && t < m->d ? m->x[(size_t)place * m->d + t] : 0;
}

/* TILE rows from place `first` on, TILE features from t on. */
DEVICE void load_tile(const struct match_job *m, unsigned first, unsigned t, float *tile)
{
    for (unsigned i = threadIdx.x; i < TILE * TILE; i += blockDim.x)
        tile[i / TILE * (TILE + 1) + i % TILE] = x_at(m, first + i / TILE, t + i % TILE);
}

/* Pair q of a thread: rows y, y + SIDE of one tile, and x, x + SIDE of the other. */
DEVICE unsigned tile_row(unsigned q) { return threadIdx.x / SIDE + q / 2 * SIDE; }
DEVICE unsigned tile_column(unsigned q) { return threadIdx.x % SIDE + q % 2 * SIDE; }

DEVICE void add_distances(const float *a, const float *b, double *d2)
{
    float s[4] = { 0 };
    for (unsigned t = 0; t < TILE; t++)
        for (unsigned q = 0; q < 4; q++) {
            const float z = a[tile_row(q) * (TILE + 1) + t] - b[tile_column(q) * (TILE + 1) + t];
            s[q] += z * z;
        }
    for (unsigned q = 0; q < 4; q++) d2[q] += (double)s[q];
}

/* A block a tile of pairs i < j. Tiles without a pool in common have none. */
KERNEL(measure, struct match_job m)
{
    const unsigned i0 = blockIdx.y * TILE, j0 = blockIdx.x * TILE;
    const unsigned last = i0 + TILE < m.m ? i0 + TILE - 1 : m.m - 1;
    if (!m.control->applied || j0 < i0 || (j0 > i0 && m.pool[last] != m.pool[j0])) return;
    SHARED(float, a, TILE *(TILE + 1));
    SHARED(float, b, TILE *(TILE + 1));
    PRIVATE(double, d2, 4);
    PHASE for (unsigned q = 0; q < 4; q++) MY(d2)[q] = 0;
    for (unsigned t = 0; t < m.d; t += TILE) {
        PHASE
        {
            load_tile(&m, i0, t, a);
            load_tile(&m, j0, t, b);
        }
        PHASE add_distances(a, b, MY(d2));
    }
    PHASE for (unsigned q = 0; q < 4; q++)
    {
        const unsigned i = i0 + tile_row(q), j = j0 + tile_column(q);
        if (i < j && j < m.m && m.pool[i] == m.pool[j] && m.pool[i] < m.pools)
            m.pair[pair_at(&m, m.pool[i], i, j)] = (float)MY(d2)[q];
    }
}

/* ---- Q ---- */

/* Weight of the pair of the i-th and the j-th row of a pool in Q: both orders within a half, hence the 2. */
DEVICE double pair_weight(double n1, double n2, int unbiased, int i_first, int j_first)
{
    if (j_first) return 2 / (n1 * (n1 - unbiased));
    return i_first ? -2 / (n1 * n2) : 2 / (n2 * (n2 - unbiased));
}

/* Returns weight times K - 1, and turns the distance into the derivative of that. */
DEVICE double pair_term(const struct match_options *o, float *d2, double weight, double s)
{
    double sum = 0, slope = 0;
    for (int l = 0; l < o->kernels; l++, s *= o->kernel_mul) {
        const double minus1 = expm1(-(double)*d2 / s);
        sum += minus1;
        slope -= (minus1 + 1) / s;
    }
    *d2 = (float)(weight / o->kernels * slope);
    return weight / o->kernels * sum;
}

/* A block a chunk of a pool: every chunks-th of its rows with those before. */
KERNEL(evaluate, struct match_job m)
{
    SHARED(unsigned, total, MATCH_DIGITS);
    SHARED(struct match_digit, found, 1);
    SHARED(double, q, SELECTORS);
    const unsigned k = blockIdx.y;
    if (!m.control->applied || !takes_part(&m, k)) return;
    double s = m.o.fixed;
    if (m.o.bandwidth != BANDWIDTH_FIXED) s = median_of(&m, m.lists > 1 ? k : 0, total, found);
    const unsigned n1 = m.n1[k], n = m.n[k];
    PHASE
    {
        double sum = 0;
        for (unsigned j = blockIdx.x + 1; s > 0 && j < n; j += m.chunks)
            for (unsigned i = threadIdx.x; i < j; i += SELECTORS)
                sum += pair_term(&m.o, &m.pair[(size_t)m.first_pair[k] + pairs_of(j) + i],
                                 pair_weight(n1, n - n1, m.o.unbiased, i < n1, j < n1), s);
        q[threadIdx.x] = sum;
    }
    BLOCK_SUM(q, SELECTORS, 1);
    PHASE if (!threadIdx.x) m.q[k * m.chunks + blockIdx.x] = q[0];
}

/* MMD of pool k, and dMMD/dQ into its factor. */
DEVICE double pool_value(const struct match_job *m, unsigned k)
{
    const double q = sum_of(m, m->q, k);
    m->factor[k] = 0;
    if (q <= 0 && !m->o.unbiased) return 0; /* rounding below 0: clamped, and no slope there */
    const double root = m->o.root ? sqrt(q + SMOOTH) : 0;
    m->factor[k] = m->o.root ? 1 / (2 * root) : 1;
    return m->o.root ? root - sqrt(SMOOTH) : q;
}

enum { VALUE, TAKERS, BAD, RESULTS };

/* One block. */
KERNEL(finish, struct match_job m)
{
    SHARED(double, sum, RESULTS *THREADS);
    const int applied = m.control->applied;
    PHASE
    {
        double *s = &sum[RESULTS * threadIdx.x];
        s[VALUE] = s[TAKERS] = s[BAD] = 0;
        for (unsigned k = threadIdx.x; applied && k < m.pools; k += THREADS)
            if (takes_part(&m, k)) s[VALUE] += pool_value(&m, k), s[TAKERS]++;
        for (unsigned i = threadIdx.x; applied && i < m.m; i += THREADS) s[BAD] += m.bad[i];
    }
    BLOCK_SUM(sum, THREADS, RESULTS);
    const double shares = !is_conditional(&m) ? 1 : m.o.present ? sum[TAKERS] : m.pools;
    PHASE
    {
        for (unsigned k = threadIdx.x; applied && k < m.pools; k += THREADS)
            if (takes_part(&m, k)) m.factor[k] *= 2 / shares;
        for (unsigned i = threadIdx.x; m.old.h && !m.reuse_detached && i < m.m - m.m1; i += THREADS)
            m.old.label[i] = (float)m.label[i];
        if (threadIdx.x) continue;
        if (m.old.h && !m.reuse_detached) *m.old.n = 1;
        *m.match = !applied          ? NO_MATCH
                   : sum[BAD] > 0    ? (double)NAN
                   : sum[TAKERS] > 0 ? sum[VALUE] / shares / m.apart
                                     : 0;
    }
}

/* ---- gradient: of row a, factor * sum_b 2 dQ/dd2(a,b) (a - b) ---- */

DEVICE float coefficient(const struct match_job *m, unsigned a, unsigned b)
{
    if (a == b || a >= m->m || b >= m->m || m->pool[a] != m->pool[b]) return 0;
    const unsigned k = m->pool[a];
    if (k == m->pools || !takes_part(m, k)) return 0;
    return m->pair[a < b ? pair_at(m, k, a, b) : pair_at(m, k, b, a)];
}

/* TILE x TILE coefficients; threads run along the side on which they lie together. */
DEVICE void load_coefficients(const struct match_job *m, unsigned a0, unsigned b0, float *tile)
{
    for (unsigned i = threadIdx.x; i < TILE * TILE; i += blockDim.x) {
        const unsigned slow = i / TILE, fast = i % TILE, a = b0 > a0 ? fast : slow, b = b0 > a0 ? slow : fast;
        tile[a * (TILE + 1) + b] = coefficient(m, a0 + a, b0 + b);
    }
}

/* Adds the terms of TILE rows b to the gradients of ROWS rows a at one feature. */
DEVICE void add_pulls(const float *coefficients, const float *a, const float *b, double *g)
{
    float s[ROWS] = { 0 };
    for (unsigned j = 0; j < TILE; j++)
        for (unsigned i = 0; i < ROWS; i++)
            s[i] += coefficients[i * (TILE + 1) + j] * (a[i] - b[j * COLUMNS]);
    for (unsigned i = 0; i < ROWS; i++) g[i] += (double)s[i];
}

/* The number of a row among those of this process; of another's row, one that has no gradient. */
DEVICE unsigned own_row(const struct match_job *m, unsigned row)
{
    const unsigned all = (unsigned)m->share.all, rows = (unsigned)m->share.rows;
    if (!all) return row;
    const unsigned at = row % all - (unsigned)m->share.first;
    return at < rows ? row / all * rows + at : m->rows_back;
}

/* The gradient of a place at feature t goes where the row is. */
DEVICE void put_gradient(const struct match_job *m, unsigned place, unsigned t, double g, void *gx, int add)
{
    if (place >= m->m || t >= m->d) return;
    const unsigned row = m->order[place], own = own_row(m, row), k = m->pool[place];
    if (own >= m->rows_back) return;
    const int learns = m->control->applied && row < m->learners && k < m->pools && takes_part(m, k);
    float f = learns ? (float)(m->control->weight * m->factor[k] * g) : 0;
    if (learns || !add) put(m->bf16, 1, gx, (size_t)own * m->d + t, &f, add);
}

/* Where the rows that share a pool with places [a0, a0 + TILE) end; they begin at m->first of the first. */
DEVICE unsigned end_of(const struct match_job *m, unsigned a0)
{
    const unsigned k = m->pool[a0 + TILE < m->m ? a0 + TILE - 1 : m->m - 1];
    return k < m->pools ? m->first[k] + m->n[k] : m->control->members;
}

/* A block takes TILE places and COLUMNS features. */
KERNEL(descend, struct match_job m, void *gx, int add)
{
    SHARED(float, coefficients, TILE *(TILE + 1));
    SHARED(float, x, TILE *COLUMNS);
    PRIVATE(float, own, ROWS);
    PRIVATE(double, g, ROWS);
    const unsigned a0 = blockIdx.x * TILE, t0 = blockIdx.y * COLUMNS, k = m.pool[a0];
    PHASE for (unsigned i = 0; i < ROWS; i++)
    {
        MY(own)[i] = x_at(&m, a0 + threadIdx.x / COLUMNS * ROWS + i, t0 + threadIdx.x % COLUMNS);
        MY(g)[i] = 0;
    }
    const unsigned first = k < m.pools ? m.first[k] : m.m, end = m.control->applied ? end_of(&m, a0) : 0;
    for (unsigned b0 = first; b0 < end; b0 += TILE) {
        PHASE
        {
            load_coefficients(&m, a0, b0, coefficients);
            for (unsigned i = threadIdx.x; i < TILE * COLUMNS; i += blockDim.x)
                x[i] = x_at(&m, b0 + i / COLUMNS, t0 + i % COLUMNS);
        }
        PHASE add_pulls(coefficients + threadIdx.x / COLUMNS * ROWS * (TILE + 1), MY(own),
                        x + threadIdx.x % COLUMNS, MY(g));
    }
    PHASE for (unsigned i = 0; i < ROWS; i++) put_gradient(&m, a0 + threadIdx.x / COLUMNS * ROWS + i,
                                                           t0 + threadIdx.x % COLUMNS, MY(g)[i], gx, add);
}

/* ---- plans ---- */

/* The next `bytes` of the workspace; without one only counts. */
static void *cut(char *workspace, size_t *at, size_t bytes)
{
    void *p = workspace ? workspace + *at : NULL;
    *at += (bytes + 255) / 256 * 256;
    return p;
}

/* Binds a job to its workspace; returns the size of it. */
static size_t lay_out(struct match_job *j, char *workspace)
{
    const size_t m = j->m, pools = j->pools, lists = j->lists, chunks = j->chunks;
    size_t at = 0;
#define CUT(name, type, n) j->name = (type *)cut(workspace, &at, (n) * sizeof(type))
    CUT(control, struct match_control, 1);
    CUT(n1, unsigned, pools);
    CUT(n, unsigned, pools);
    CUT(first, unsigned, pools);
    CUT(first_pair, unsigned, pools);
    CUT(order, unsigned, m);
    CUT(pool, unsigned, m);
    CUT(bad, unsigned, m);
    CUT(x, float, m * j->d);
    CUT(pair, float, m *(m - 1) / 2);
    CUT(count, unsigned, 2 * lists * chunks * MATCH_DIGITS);
    CUT(digit, struct match_digit, (MATCH_PASSES + 1) * lists);
    CUT(above, float, lists *chunks);
    CUT(sum, double, lists *chunks);
    CUT(q, double, pools *chunks);
    CUT(factor, double, pools);
    CUT(joined, char, j->halves * j->share.all * j->row_bytes);
    CUT(joined_label, int, j->halves * j->share.all);
#undef CUT
    return at;
}

/* Blocks that share a pool: all together fill the device about twice. */
static unsigned chunks_of(const struct cuda *cu, unsigned pools)
{
    unsigned n = 2 * (unsigned)cu->info.processors / pools;
    return n < 1 ? 1 : n > 64 ? 64 : n;
}

static int plan(struct backend *be, const struct match_desc *d, struct op_plan *p, struct err *e)
{
    TRY(op_plan_init(p, sizeof(struct match_job), e));
    const struct cuda *cu = cuda_of(be);
    const unsigned m1 = (unsigned)d->m1, m = m1 + (unsigned)d->m2;
    const unsigned pools = d->options.conditional ? (unsigned)d->classes : 1;
    if (m > 65535 || pools > 65535)
        return fail(e, E_ARG, "the matching loss of %u rows and %u classes: 65535 of either are the most", m,
                    pools);
    struct match_job *s = (struct match_job *)p->self;
    *s = (struct match_job){
        .be = be,
        .cu = cu,
        .o = d->options,
        .bf16 = cuda_is_bf16(d->in),
        .classes = d->classes,
        .every = d->every,
        .pools = pools,
        .m1 = m1,
        .m = m,
        .d = (unsigned)shape_row(d->in->shape),
        .c = (unsigned)d->in->shape.c,
        .rows_back = (unsigned)d->rows_back,
        .learners = d->gradient_first ? m1 : m,
        .lists = d->options.bandwidth == BANDWIDTH_MEDIAN ? pools : 1,
        .chunks = chunks_of(cu, pools),
        .lambda = d->lambda,
        .warmup = d->warmup,
        .full_rate = d->full_rate,
        .unconditional = (unsigned)d->unconditional,
        .share = d->share,
        .halves = d->share.all ? (unsigned)(d->in->shape.n / d->share.rows) : 0,
        .apart = d->share.all ? 1 : (unsigned)group_size(be->group),
        .row_bytes = shape_row(d->in->shape) * cuda_element(cuda_is_bf16(d->in)),
    };
    p->kept_bytes = lay_out(s, NULL);
    return OK;
}

/* The rows that each process has, brought together. */
static int join(struct match_job *m)
{
    const struct share k = m->share;
    const struct sum_ops *sum = m->be->ops->sum;
    for (unsigned i = 0; i < m->halves; i++) {
        const size_t own = (size_t)i * k.rows, all = (size_t)i * k.all;
        TRY(sum->join(m->be, k, (const char *)m->h + own * m->row_bytes, m->row_bytes,
                      m->joined + all * m->row_bytes));
        TRY(sum->join(m->be, k, m->label + own, sizeof *m->label, m->joined_label + all));
    }
    if (!m->halves) return OK;
    m->h = m->joined;
    m->label = m->joined_label;
    return OK;
}

static int forward(const struct op_plan *p, const struct op_context *context, const void *x,
                   const struct match_memory *memory, double *match, void *kept)
{
    struct match_job m = *(const struct match_job *)p->self;
    lay_out(&m, (char *)kept);
    m.now = context->state;
    m.h = x;
    m.label = context->label;
    m.reuse_detached = context->reuse_detached;
    m.match = match;
    if (memory) m.old = *memory;
    TRY(join(&m));
    const unsigned tiles = (m.m + TILE - 1) / TILE;
    LAUNCH(m.cu, count_pools, m.pools, 1, THREADS, m);
    LAUNCH(m.cu, collect, m.m, 1, THREADS, m);
    LAUNCH(m.cu, measure, tiles, tiles, SIDE * SIDE, m);
    for (int pass = 0; m.o.bandwidth != BANDWIDTH_FIXED && pass < MATCH_PASSES; pass++)
        LAUNCH(m.cu, select_digit, m.chunks, m.lists, SELECTORS, m, pass);
    LAUNCH(m.cu, evaluate, m.chunks, m.pools, SELECTORS, m);
    LAUNCH(m.cu, finish, 1, 1, THREADS, m);
    return m.apart > 1 ? m.be->ops->sum->add(m.be, match, 1) : OK;
}

static int backward(const struct op_plan *p, const struct op_context *, const void *kept, void *gx, int add)
{
    struct match_job m = *(const struct match_job *)p->self;
    lay_out(&m, (char *)kept);
    LAUNCH(m.cu, descend, (m.m + TILE - 1) / TILE, (m.d + COLUMNS - 1) / COLUMNS, TILE / ROWS * COLUMNS, m,
           gx, add);
    return OK;
}

const struct match_ops cuda_match = { plan, forward, backward };
