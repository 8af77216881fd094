/* For class k with the n1 rows of H1 and the n2 rows of H2 that carry it, d2 = squared Euclidean distance:
 *
 *     K(a,b) = 1/L sum_i exp(-d2(a,b) / s_i)
 *     s_i    = kernel_mul^i s,    s = median of d2 over the pairs of the pool
 *     Q      = 1/n1^2 sum_{H1,H1} K + 1/n2^2 sum_{H2,H2} K - 2/(n1 n2) sum_{H1,H2} K    (V-statistic, >= 0)
 *     MMD    = sqrt(max(Q,0) + e) - sqrt(e), e = 1e-6    (root = 1)    or    max(Q,0)    (root = 0)
 *     Match  = 1/K sum_k MMD_k
 *
 * The weights of the three sums add up to 0, so K is replaced by K - 1 (expm1): no cancellation where rows
 * are close. With c(a,b) = dQ/dd2(a,b) the gradient of a row is sum_b 2 c(a,b) (a - b): each pair is computed
 * once, each row is summed by one thread in a fixed order. Distances come from differences and sums are
 * double, so that equal rows give exactly 0. s is data: no gradient passes through it. */
#include "match.h"
#include <math.h>
#include <stdint.h>
#include <string.h>
#include "core/mem.h"

#define SMOOTH 1e-6 /* e */

/* Wide registers where the processor has them; the sums below have a fixed shape, so the bits do not change.
 */
#if defined(__x86_64__) && defined(__gnu_linux__) && !defined(__clang__) && !defined(__SANITIZE_THREAD__) && \
    !defined(__SANITIZE_ADDRESS__)
#define WIDE __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define WIDE
#endif

/* The pool of a class: rows of H1, then rows of H2. */
struct pool {
    const real **row;
    real **g;
    int n1, n;
    double *d2;   /* n (n-1) / 2: pair (i, j), i < j, at pair(i, j); later dQ/dd2 */
    double *sort; /* as many */
};

static size_t pairs(int n) { return (size_t)n * (size_t)(n > 0 ? n - 1 : 0) / 2; }
static size_t pair(int i, int j) { return pairs(j) + (size_t)i; }

size_t match_bytes(int m, int classes)
{
    size_t doubles, pointers, start;
    if (m < 0 || m > 1 << 24 || mem_mul(pairs(m) * 2, sizeof(double), &doubles) ||
        mem_mul((size_t)m, 2 * sizeof(void *), &pointers) ||
        mem_mul((size_t)classes + 2, sizeof(int), &start))
        return 0;
    return doubles + pointers + start + 64;
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

/* Collects the rows of class k (all rows when k < 0) into the work memory. */
static void gather(struct pool *p, int k, const struct match_half *one, const struct match_half *two, int d)
{
    const struct match_half *half[2] = { one, two };
    p->n = 0;
    for (int s = 0; s < 2; s++) {
        for (int i = 0; i < half[s]->m; i++) {
            if (k >= 0 && half[s]->label[i] != k) continue;
            p->row[p->n] = half[s]->h + (size_t)i * (size_t)d;
            p->g[p->n++] = half[s]->g ? half[s]->g + (size_t)i * (size_t)d : NULL;
        }
        if (!s) p->n1 = p->n;
    }
}

/* Threads pay from some milliseconds of work on. */
static int team(const struct match_options *o, const struct pool *p, int d)
{
    return o->threads > 1 && pairs(p->n) * (size_t)d > 4000000 ? o->threads : 1;
}

static int takes_part(const struct pool *p) { return p->n1 > 0 && p->n > p->n1; }

static int measure(const struct match_options *o, struct pool *p, int d)
{
    int finite = 1;
#pragma omp parallel for schedule(static, 4) reduction(&& : finite) num_threads(team(o, p, d))
    for (int j = 1; j < p->n; j++)
        for (int i = 0; i < j; i++) {
            double z = distance(p->row[i], p->row[j], d);
            p->d2[pair(i, j)] = z;
            finite = finite && isfinite(z);
        }
    return finite ? OK : E_NUMBER;
}

/* Partial sort: the k-th smallest (from 0) goes to place k, smaller ones before it. Hoare's selection. */
static double nth(double *v, size_t n, size_t k)
{
    size_t lo = 0, hi = n - 1;
    while (lo < hi) {
        double pivot = v[lo + (hi - lo) / 2];
        size_t i = lo, j = hi;
        for (;;) {
            while (v[i] < pivot) i++;
            while (v[j] > pivot) j--;
            if (i >= j) break;
            double z = v[i];
            v[i++] = v[j];
            v[j--] = z;
        }
        if (k <= j) /* everything up to j is <= pivot, everything behind it >= pivot */
            hi = j;
        else
            lo = j + 1;
    }
    return v[k];
}

/* Median (numpy's: the mean of the two middle values), or the mean where it is 0. Reorders v. */
static double median(double *v, size_t n)
{
    if (!n) return 0;
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += v[i];
    double high = nth(v, n, n / 2), low = high;
    if (n % 2 == 0) {
        low = v[0];
        for (size_t i = 1; i < n / 2; i++) low = v[i] > low ? v[i] : low;
    }
    double m = low + (high - low) / 2;
    return m > 0 ? m : sum / (double)n;
}

/* Weight of the pair in Q: both orders of a pair within a half, hence the 2. */
static double weight(const struct pool *p, int i, int j)
{
    double n1 = p->n1, n2 = p->n - p->n1;
    return j < p->n1 ? 2 / (n1 * n1) : i >= p->n1 ? 2 / (n2 * n2) : -2 / (n1 * n2);
}

/* Returns Q of the pool and turns d2 into dQ/dd2. */
static double statistic(const struct match_options *o, struct pool *p, int d, double s)
{
    /* The costly part first, in parallel: sort[] gets K - 1, d2[] its derivative. */
#pragma omp parallel for schedule(static, 4) num_threads(team(o, p, d))
    for (int j = 1; j < p->n; j++)
        for (int i = 0; i < j; i++) {
            double z = p->d2[pair(i, j)], sum = 0, slope = 0, si = s;
            for (int l = 0; l < o->kernels; l++, si *= o->kernel_mul) {
                double minus1 = expm1(-z / si);
                sum += minus1;
                slope -= (minus1 + 1) / si;
            }
            double w = weight(p, i, j) / o->kernels;
            p->sort[pair(i, j)] = w * sum;
            p->d2[pair(i, j)] = w * slope;
        }
    double q = 0;
    for (size_t k = 0; k < pairs(p->n); k++) q += p->sort[k];
    return q;
}

/* g(row a) = factor * sum_b 2 dQ/dd2(a,b) (a - b) */
static void descend(const struct match_options *o, const struct pool *p, double factor, int d)
{
    enum { BLOCK = 256 };
#pragma omp parallel for schedule(static, 4) num_threads(team(o, p, d))
    for (int a = 0; a < p->n; a++) {
        if (!p->g[a]) continue;
        for (int t = 0; t < d; t += BLOCK) {
            double g[BLOCK] = { 0 };
            int n = d - t < BLOCK ? d - t : BLOCK;
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

/* One median over all same-class pairs of the two halves together. */
static int pooled_median(const struct match_options *o, struct pool *p, int classes, int d,
                         const struct match_half *one, const struct match_half *two, double *s)
{
    size_t n = 0;
    for (int k = o->conditional ? 0 : -1; k < (o->conditional ? classes : 0); k++) {
        gather(p, k, one, two, d);
        TRY(measure(o, p, d));
        /* The classes' pairs together are at most pairs(m). */
        memcpy(p->sort + n, p->d2, pairs(p->n) * sizeof(double));
        n += pairs(p->n);
    }
    *s = median(p->sort, n);
    return OK;
}

/* Adds MMD_k to *match and leaves the gradient of its rows; 1/K is applied through `share`. */
static int one_class(const struct match_options *o, struct pool *p, int d, double share, double common,
                     double *sigma, double *match)
{
    TRY(measure(o, p, d));
    if (!o->reuse_detached) {
        memcpy(p->sort, p->d2, pairs(p->n) * sizeof(double));
        double own = median(p->sort, pairs(p->n)); /* 0: all rows are equal, nothing to match */
        *sigma = own > 0 && o->bandwidth != BANDWIDTH_MEDIAN ? common : own;
    }
    if (!(*sigma > 0)) return OK;
    double q = statistic(o, p, d, *sigma);
    if (!(q > 0)) return OK; /* rounding below 0: clamped, and no slope there */
    double root = sqrt(q + SMOOTH);
    *match += share * (o->root ? root - sqrt(SMOOTH) : q);
    descend(o, p, share * (o->root ? 1 / (2 * root) : 1), d);
    return OK;
}

static int all_finite(const struct match_half *half, int d)
{
    double zero = 0; /* stays 0 unless a feature is NaN or infinite */
    for (size_t i = 0; i < (size_t)half->m * (size_t)d; i++) zero += (double)half->h[i] * 0;
    return zero == 0;
}

static int count_present(struct pool *p, int classes, int d, const struct match_half *one,
                         const struct match_half *two)
{
    int n = 0;
    for (int k = 0; k < classes; k++) {
        gather(p, k, one, two, d);
        n += takes_part(p);
    }
    return n;
}

int match_compute(const struct match_options *o, int classes, int d, const struct match_half *one,
                  const struct match_half *two, double *sigma, double *match, void *work)
{
    struct pool p;
    carve(&p, work, one->m + two->m);
    *match = 0;
    if (!all_finite(one, d) || !all_finite(two, d)) return E_NUMBER;
    if (one->g) memset(one->g, 0, (size_t)one->m * (size_t)d * sizeof *one->g);
    if (two->g) memset(two->g, 0, (size_t)two->m * (size_t)d * sizeof *two->g);
    int from = o->conditional ? 0 : -1, to = o->conditional ? classes : 0;
    int k_total = !o->conditional ? 1 : o->present ? count_present(&p, classes, d, one, two) : classes;
    double common = o->fixed;
    if (o->bandwidth == BANDWIDTH_POOLED && !o->reuse_detached)
        TRY(pooled_median(o, &p, classes, d, one, two, &common));
    for (int k = from; k < to; k++) {
        double *s = sigma + (k < 0 ? 0 : k);
        gather(&p, k, one, two, d);
        if (!takes_part(&p)) {
            *s = 0;
            continue;
        }
        TRY(one_class(o, &p, d, 1.0 / k_total, common, s, match));
    }
    return OK;
}
