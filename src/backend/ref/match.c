/* A pool is the rows of a class k, or all rows where Match is not conditional. With its n1 rows in H1 and n2
 * rows in H2, and d2 = squared Euclidean distance:
 *
 *     K(a,b) = 1/L sum_i exp(-d2(a,b) / s_i)
 *     s_i    = kernel_mul^i s,    s = median of d2 over the pairs of the pool
 *     Q      = 1/n1^2 sum_{H1,H1} K + 1/n2^2 sum_{H2,H2} K - 2/(n1 n2) sum_{H1,H2} K    (V-statistic, >= 0)
 *     MMD    = sqrt(max(Q,0) + e) - sqrt(e), e = 1e-6    (root = 1)    or    max(Q,0)    (root = 0)
 *     Match  = 1/K sum_k MMD_k
 *
 * Unbiased, the U-statistic: the first two sums run over a != b and are divided by n (n-1); a pool with fewer
 * than two rows in a half has none and takes no part, and nothing is clamped: MMD = Q, which may be below 0.
 *
 * The weights of the three sums add up to 0, so K is replaced by K - 1 (expm1): no cancellation where rows
 * are close. With c(a,b) = dQ/dd2(a,b) the gradient of a row is sum_b 2 c(a,b) (a - b): each pair is computed
 * once, each row is summed by one thread in a fixed order. Distances come from differences and sums are
 * double, so that equal rows give exactly 0. s is data: no gradient passes through it. */
#include "match.h"
#include "backend/ops/sum.h"
#include "ref.h"
#include <stdlib.h>
#include <string.h>
#include "core/mem.h"
#include "group/group.h"

#define SMOOTH 1e-6 /* e */

/* Wide registers where the processor has them. The order of the sums is fixed, so the bits do not change. */
#if defined(__x86_64__) && defined(__gnu_linux__) && !defined(__clang__) && !defined(__SANITIZE_THREAD__) && \
    !defined(__SANITIZE_ADDRESS__)
#define WIDE __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define WIDE
#endif

/* Rows of H1, then rows of H2. */
struct pool {
    const real **row;
    real **g;
    int n1, n;
    double *d2;   /* n (n-1) / 2: pair (i, j), i < j, at pair(i, j); later dQ/dd2 */
    double *sort; /* as many */
};

static size_t pairs(int n) { return (size_t)n * (size_t)(n > 0 ? n - 1 : 0) / 2; }
static size_t pair(int i, int j) { return pairs(j) + (size_t)i; }

size_t match_bytes(int m)
{
    size_t doubles;
    if (m < 0 || m > 1 << 24 || mem_mul(pairs(m) + (size_t)m, 2 * sizeof(double), &doubles)) return 0;
    return doubles + 1;
}

WIDE static double distance(const real *a, const real *b, int d)
{
    double s[8] = { 0 };
    int t = 0;
    for (; t + 8 <= d; t += 8)
        for (int k = 0; k < 8; k++) {
            double z = (double)a[t + k] - (double)b[t + k];
            s[k] += z * z;
        }
    for (int k = 0; t < d; t++, k++) {
        double z = (double)a[t] - (double)b[t];
        s[k] += z * z;
    }
    return ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]));
}

/* g += c (a - b) on a block of features */
WIDE static void pull(double *g, double c, const real *a, const real *b, int n)
{
    for (int t = 0; t < n; t++) g[t] += c * ((double)a[t] - (double)b[t]);
}

static int count_pools(const struct match_problem *m) { return m->options.conditional ? m->classes : 1; }

/* Collects the rows of pool k in the work memory. */
static void gather(struct pool *p, int k, const struct match_problem *m)
{
    p->n = 0;
    for (int s = 0; s < 2; s++) {
        const struct match_half *half = &m->half[s];
        for (int i = 0; i < half->m; i++) {
            if (m->options.conditional && half->label[i] != k) continue;
            p->row[p->n] = half->h + (size_t)i * (size_t)m->d;
            p->g[p->n++] = half->g ? half->g + (size_t)i * (size_t)m->d : NULL;
        }
        if (!s) p->n1 = p->n;
    }
}

/* Threads pay off from some milliseconds of work on. */
static int team(const struct match_problem *m, const struct pool *p)
{
    return m->threads > 1 && pairs(p->n) * (size_t)m->d > 4000000 ? m->threads : 1;
}

static int takes_part(const struct match_options *o, const struct pool *p)
{
    const int least = o->unbiased ? 2 : 1;
    return p->n1 >= least && p->n - p->n1 >= least;
}

static int measure(const struct match_problem *m, struct pool *p)
{
    int finite = 1;
#pragma omp parallel for schedule(static, 4) reduction(&& : finite) num_threads(team(m, p))
    for (int j = 1; j < p->n; j++)
        for (int i = 0; i < j; i++) {
            double z = distance(p->row[i], p->row[j], m->d);
            p->d2[pair(i, j)] = z;
            finite = finite && isfinite(z);
        }
    return finite ? OK : E_NUMBER;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Median (numpy's: the mean of the two middle values), or the mean where it is 0. Sorts v. */
static double median(double *v, size_t n)
{
    if (!n) return 0;
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += v[i];
    qsort(v, n, sizeof *v, ascending);
    double low = v[(n - 1) / 2], high = v[n / 2], m = low + (high - low) / 2;
    return m > 0 ? m : sum / (double)n;
}

/* Weight of the pair in Q: both orders of a pair within a half, hence the 2. */
static double weight(const struct match_options *o, const struct pool *p, int i, int j)
{
    double n1 = p->n1, n2 = p->n - p->n1;
    if (j < p->n1) return 2 / (n1 * (n1 - o->unbiased));
    return i >= p->n1 ? 2 / (n2 * (n2 - o->unbiased)) : -2 / (n1 * n2);
}

/* Returns Q of the pool and turns d2 into dQ/dd2. */
static double statistic(const struct match_problem *m, struct pool *p, double s)
{
    const struct match_options *o = &m->options;
    /* The costly part first, in parallel: sort[] gets K - 1, d2[] its derivative. */
#pragma omp parallel for schedule(static, 4) num_threads(team(m, p))
    for (int j = 1; j < p->n; j++)
        for (int i = 0; i < j; i++) {
            double z = p->d2[pair(i, j)], sum = 0, slope = 0, si = s;
            for (int l = 0; l < o->kernels; l++, si *= o->kernel_mul) {
                double minus1 = expm1(-z / si);
                sum += minus1;
                slope -= (minus1 + 1) / si;
            }
            double w = weight(o, p, i, j) / o->kernels;
            p->sort[pair(i, j)] = w * sum;
            p->d2[pair(i, j)] = w * slope;
        }
    double q = 0;
    for (size_t k = 0; k < pairs(p->n); k++) q += p->sort[k];
    return q;
}

/* g(a) = factor * sum_b 2 dQ/dd2(a,b) (a - b) for each row a of the pool. */
static void descend(const struct match_problem *m, const struct pool *p, double factor)
{
    enum { BLOCK = 256 };
#pragma omp parallel for schedule(static, 4) num_threads(team(m, p))
    for (int a = 0; a < p->n; a++) {
        if (!p->g[a]) continue;
        for (int t = 0; t < m->d; t += BLOCK) {
            double g[BLOCK] = { 0 };
            int n = m->d - t < BLOCK ? m->d - t : BLOCK;
            for (int b = 0; b < p->n; b++)
                if (b != a)
                    pull(g, 2 * factor * p->d2[a < b ? pair(a, b) : pair(b, a)], p->row[a] + t, p->row[b] + t,
                         n);
            for (int i = 0; i < n; i++) p->g[a][t + i] = (real)g[i];
        }
    }
}

static void carve(struct pool *p, void *work, int m)
{
    p->d2 = work;
    p->sort = p->d2 + pairs(m);
    p->row = (const real **)(void *)(p->sort + pairs(m));
    p->g = (real **)(void *)(p->row + m);
}

/* One median over the pairs of all pools: together at most pairs(rows). */
static int pooled_median(const struct match_problem *m, struct pool *p, double *s)
{
    size_t n = 0;
    for (int k = 0; k < count_pools(m); k++) {
        gather(p, k, m);
        TRY(measure(m, p));
        memcpy(p->sort + n, p->d2, pairs(p->n) * sizeof(double));
        n += pairs(p->n);
    }
    *s = median(p->sort, n);
    return OK;
}

/* Adds share * MMD_k to *match and leaves the gradient of its rows. common: the bandwidth, unless it is the
 * median of the pool. */
static int match_pool(const struct match_problem *m, struct pool *p, double share, double common,
                      double *sigma, double *match)
{
    const struct match_options *o = &m->options;
    TRY(measure(m, p));
    if (!m->reuse_sigma) {
        memcpy(p->sort, p->d2, pairs(p->n) * sizeof(double));
        double own = median(p->sort, pairs(p->n)); /* 0: all rows are equal, nothing to match */
        *sigma = own > 0 && o->bandwidth != BANDWIDTH_MEDIAN ? common : own;
    }
    if (!(*sigma > 0)) return OK;
    double q = statistic(m, p, *sigma);
    if (!(q > 0) && !o->unbiased) return OK; /* rounding below 0: clamped, and no slope there */
    double root = o->root ? sqrt(q + SMOOTH) : 0;
    *match += share * (o->root ? root - sqrt(SMOOTH) : q);
    descend(m, p, share * (o->root ? 1 / (2 * root) : 1));
    return OK;
}

/* K, the number of pools that Match is the mean of. */
static int count_terms(const struct match_problem *m, struct pool *p)
{
    int n = 0;
    if (!m->options.conditional || !m->options.present) return count_pools(m);
    for (int k = 0; k < m->classes; k++) {
        gather(p, k, m);
        n += takes_part(&m->options, p);
    }
    return n;
}

int match_compute(const struct match_problem *m, double *match)
{
    struct pool p;
    double common = m->options.fixed;
    carve(&p, m->work, m->half[0].m + m->half[1].m);
    *match = 0;
    for (int s = 0; s < 2; s++) {
        const struct match_half *half = &m->half[s];
        size_t n = (size_t)half->m * (size_t)m->d;
        for (size_t i = 0; i < n; i++)
            if (!isfinite(half->h[i])) return E_NUMBER;
        if (half->g) memset(half->g, 0, n * sizeof *half->g);
    }
    int terms = count_terms(m, &p);
    if (m->options.bandwidth == BANDWIDTH_POOLED && !m->reuse_sigma) TRY(pooled_median(m, &p, &common));
    for (int k = 0; k < count_pools(m); k++) {
        gather(&p, k, m);
        if (takes_part(&m->options, &p))
            TRY(match_pool(m, &p, 1.0 / terms, common, &m->sigma[k], match));
        else
            m->sigma[k] = 0;
    }
    return OK;
}

/* ---- the operation: in host memory, whatever the layout of the features, so that cpu can use it too ---- */

struct match {
    struct backend *be;
    struct match_desc desc;
    size_t d;
    /* What reuse_detached takes from the pass before: */
    real *h;     /* features: m1 rows of S1, then those of S2 */
    int halves;  /* mini-batches in desc.in, of which other processes have other rows; 0: all are here */
    int *joined; /* labels of all rows of these */
    int *label;  /* of S2, where it comes from the memory */
    int m2;      /* rows of S2: 0 while the memory is empty */
    double *sigma;
};

static void release(void *self)
{
    struct match *s = self;
    mem_free(s->h);
    mem_free(s->label);
    mem_free(s->joined);
    mem_free(s->sigma);
}

/* Kept: the gradient. */
static int plan(struct backend *be, const struct match_desc *d, struct op_plan *p, struct err *e)
{
    TRY(op_plan_init(p, sizeof(struct match), e));
    struct match *s = p->self;
    const int rows = d->m1 + d->m2, learners = d->gradient_first ? d->m1 : rows;
    const int back = d->share.all ? d->rows_back / d->share.rows * d->share.all : d->rows_back;
    *s = (struct match){ .be = be, .desc = *d, .d = shape_row(d->in->shape) };
    if (d->share.all) s->halves = d->in->shape.n / d->share.rows;
    s->joined = mem_alloc((size_t)s->halves * (size_t)d->share.all, sizeof *s->joined);
    s->h = mem_alloc((size_t)rows * s->d, sizeof *s->h);
    s->label = mem_alloc((size_t)d->m2, sizeof *s->label);
    s->sigma = mem_alloc((size_t)d->classes, sizeof *s->sigma);
    p->release = release;
    p->kept_bytes = (size_t)(learners > back ? learners : back) * s->d * sizeof(real);
    p->scratch_bytes = match_bytes(rows);
    if (p->scratch_bytes && s->h && s->label && s->joined && s->sigma) return OK;
    return fail(e, E_MEM, "not enough memory to match %d rows of %zu features", rows, s->d);
}

/* The mini-batch before becomes S2, and S1 takes its place in the memory. */
static void exchange(struct match *s, const int *label, const struct match_memory *memory)
{
    size_t n = (size_t)s->desc.m2 * s->d;
    memcpy(s->h + n, memory->h, n * sizeof *s->h);
    memcpy(memory->h, s->h, n * sizeof *s->h);
    for (int i = 0; i < s->desc.m2; i++) {
        s->label[i] = (int)memory->label[i];
        memory->label[i] = (real)label[i];
    }
    s->m2 = *memory->n > 0 ? s->desc.m2 : 0;
    *memory->n = 1;
}

/* The rows that each process has, brought together; those of S2 follow those of S1. */
static int join(struct match *s, const struct op_context *context, const struct tensor *in)
{
    const struct share k = s->desc.share;
    const struct sum_ops *sum = s->be->ops->sum;
    for (int i = 0; i < s->halves; i++) {
        const size_t first = (size_t)i * (size_t)k.all;
        real *own = s->h + (first + (size_t)k.first) * s->d;
        TRY(s->be->ops->read(s->be, in, i * k.rows, k.rows, own));
        TRY(sum->join(s->be, k, own, s->d * sizeof *own, s->h + first * s->d));
        TRY(sum->join(s->be, k, context->label + i * k.rows, sizeof *s->joined, s->joined + first));
    }
    return OK;
}

/* Features of S1 and S2, and labels of S2. */
static int collect(struct match *s, const struct op_context *context, const void *x,
                   const struct match_memory *memory)
{
    int reuse_s2 = context->reuse_detached && s->desc.gradient_first;
    struct tensor in = *s->desc.in;
    in.data = (void *)x;
    if (s->halves)
        TRY(join(s, context, &in));
    else
        TRY(s->be->ops->read(s->be, &in, 0, reuse_s2 ? s->desc.m1 : in.shape.n, s->h));
    if (!memory)
        s->m2 = s->desc.m2;
    else if (!reuse_s2)
        exchange(s, s->halves ? s->joined : context->label, memory);
    return OK;
}

/* Where each process matches its own rows, Match is the mean of theirs, and a NaN is everybody's. */
static int average(const struct match *s, double *match)
{
    if (s->halves) return OK;
    *match /= group_size(s->be->group);
    return s->be->ops->sum->add(s->be, match, 1);
}

static int forward(const struct op_plan *p, const struct op_context *context, const void *x,
                   const struct match_memory *memory, double *match, void *kept)
{
    struct match *s = p->self;
    const struct match_desc *d = &s->desc;
    const struct step_state *now = context->state;
    const int applies = now->iteration % (uint64_t)d->every == 0;
    const size_t s2 = (size_t)d->m1 * s->d;
    const int *label = s->halves ? s->joined : context->label;
    real *g = kept;
    memset(g, 0, p->kept_bytes);
    *match = NO_MATCH;
    if (applies || memory) TRY(collect(s, context, x, memory));
    if (!applies || !s->m2) return OK;
    struct match_problem problem = {
        .options = d->options,
        .classes = d->classes,
        .d = (int)s->d,
        .half = { { s->h, label, d->m1, g },
                  { s->h + s2, memory ? s->label : label + d->m1, s->m2,
                    d->gradient_first ? NULL : g + s2 } },
        .sigma = s->sigma,
        .reuse_sigma = context->reuse_detached,
        .threads = s->be->threads,
        .work = context->scratch,
    };
    if (now->iteration <= (uint64_t)d->unconditional) problem.options.conditional = 0;
    if (match_compute(&problem, match)) *match = NAN;
    TRY(average(s, match));
    if (isnan(*match)) return OK;
    const double share = warmup_share(d->warmup, now->iteration, now->ce_average, d->classes) *
                         fade_share(d->full_rate, now->rate);
    const real factor = (real)(d->lambda * share * d->every / (s->halves ? 1 : group_size(s->be->group)));
    for (size_t i = 0; i < p->kept_bytes / sizeof *g; i++) g[i] *= factor;
    return OK;
}

static int backward(const struct op_plan *p, const struct op_context *context, const void *kept, void *gx,
                    int add)
{
    const struct match *s = p->self;
    struct tensor to = *s->desc.in;
    to.data = gx;
    const struct share k = s->desc.share;
    if (!s->halves) return s->be->ops->write(s->be, &to, 0, s->desc.rows_back, kept, add);
    for (int row = 0; row < s->desc.rows_back; row += k.rows) {
        const real *g = (const real *)kept + (size_t)share_row(k, row) * s->d;
        TRY(s->be->ops->write(s->be, &to, row, k.rows, g, add));
    }
    return OK;
}

const struct match_ops ref_match = { plan, forward, backward };
