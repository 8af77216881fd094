/* The matching loss: what all its kernels know, and the medians of squared distances. */
#ifndef CUDA_MATCH_MEDIAN_CUH
#define CUDA_MATCH_MEDIAN_CUH
#include "backend/ops/match.h"
#include "kernel.h"

enum { SELECTORS = 128, COUNTABLE = 255 }; /* threads; values that a thread counts in bytes */
#define INFINITE 0x7f800000u               /* the bits of it */

/* A pool is a class, or all rows together. Rows are sorted by pool, those of S1
 * first; pairs i < j of a pool lie together, at first_pair + j (j - 1) / 2 + i. */
enum { MATCH_DIGITS = 256, MATCH_PASSES = 4 }; /* the median is found by digits of 8 bits of 32 */
struct match_control {
    double weight; /* in force in this step */
    int applied;
    unsigned members, pairs; /* of all pools together */
};
struct match_digit { /* what is known of a median: the leading digits, and its rank among those that share
                        them */
    uint32_t value;
    unsigned rank;
};
struct match_job {
    struct backend *be;
    const struct cuda *cu;
    struct match_options o;
    int bf16, classes, every;
    unsigned pools, m1, m, d, c;  /* rows of S1, and of both; features, and channels of them */
    unsigned rows_back, learners; /* rows that want a gradient; rows of S1 and S2 that have one */
    unsigned lists, chunks;       /* of values whose median is wanted; blocks that share one */
    double lambda, warmup, full_rate;
    unsigned unconditional; /* iterations */
    struct share share;     /* of the rows of S1, and as many of S2; all zero: these are all */
    unsigned halves;        /* of which others have rows, too: of S1 alone, or of both; 0: none */
    unsigned apart;         /* processes that match rows of their own */
    size_t row_bytes;
    /* what a pass gives */
    const struct step_state *now;
    const void *h;
    const int *label;
    struct match_memory old; /* h NULL: none */
    int reuse_detached;
    double *match;
    /* workspace */
    char *joined; /* with a share: the rows of all, those of S1 first; and their labels */
    int *joined_label;
    struct match_control *control;
    unsigned *n1, *n, *first, *first_pair; /* of a pool: rows, in S1 and in all; where rows and pairs begin */
    unsigned *order, *pool, *bad;          /* row at a place, and its pool; of a row: not finite */
    float *x;                              /* features in order of the places */
    float *pair;                           /* squared distances; then dQ/dd2 */
    unsigned *count;                       /* 2 x lists x chunks x MATCH_DIGITS */
    struct match_digit *digit;             /* (MATCH_PASSES + 1) x lists */
    float *above;                          /* lists x chunks: the least value with other leading digits */
    double *sum, *q, *factor;              /* lists x chunks; pools x chunks; pools */
};

DEVICE unsigned pairs_of(unsigned n) { return n * (n - 1) / 2; }

DEVICE int takes_part(const struct match_job *m, unsigned k)
{
    const unsigned least = m->o.unbiased ? 2 : 1;
    return m->n1[k] >= least && m->n[k] - m->n1[k] >= least;
}

/* ---- medians: squared distances are >= 0, so their bits have their order ---- */

DEVICE void list_of(const struct match_job *m, unsigned list, unsigned *first, unsigned *n)
{
    const int pooled = m->o.bandwidth == BANDWIDTH_POOLED;
    *n = pooled ? m->control->pairs : takes_part(m, list) ? pairs_of(m->n[list]) : 0;
    *first = pooled || !*n ? 0 : m->first_pair[list];
}

DEVICE unsigned digit_shift(int pass) { return 24 - 8 * (unsigned)pass; }
DEVICE unsigned *counts_of(const struct match_job *m, int pass, unsigned list)
{
    return m->count + ((size_t)(pass % 2) * m->lists + list) * m->chunks * MATCH_DIGITS;
}

/* After `passes` passes: what they tell of the median. Before any of them: of n values the lower middle one
 * is wanted. total: of each digit in the last pass, all chunks together. */
DEVICE void read_digit(const struct match_job *m, int passes, unsigned list, unsigned n, unsigned *total,
                       struct match_digit *found)
{
    const unsigned *counts = passes ? counts_of(m, passes - 1, list) : NULL;
    PHASE
    {
        if (!passes && !threadIdx.x) found->value = 0, found->rank = (n - 1) / 2;
        for (unsigned b = threadIdx.x; b < MATCH_DIGITS; b += blockDim.x) {
            total[b] = 0;
            for (unsigned i = 0; counts && i < m->chunks; i++) total[b] += counts[i * MATCH_DIGITS + b];
        }
    }
    if (!passes) return;
    const struct match_digit before = m->digit[(size_t)(passes - 1) * m->lists + list];
    PHASE for (unsigned b = threadIdx.x; b < MATCH_DIGITS; b += blockDim.x)
    {
        unsigned below = 0;
        for (unsigned i = 0; i < b; i++) below += total[i];
        if (before.rank < below || before.rank - below >= total[b]) continue;
        found->value = before.value | b << digit_shift(passes - 1);
        found->rank = before.rank - below;
    }
}

/* Counts the digits of this thread's values in bytes of its own. */
DEVICE void count_digits(const struct match_job *m, int pass, uint32_t value, unsigned from, unsigned to,
                         uint8_t *count)
{
    for (unsigned i = from + threadIdx.x; i < to; i += SELECTORS) {
        const uint32_t bits = float_bits(m->pair[i]);
        if (pass && (bits ^ value) >> (digit_shift(pass) + 8)) continue;
        count[(bits >> digit_shift(pass) & 255) * SELECTORS + threadIdx.x]++;
    }
}

/* Sum of the bytes of digit b; threads begin at different words, to read from different banks. */
DEVICE unsigned bytes_of(const uint32_t *count, unsigned b)
{
    unsigned sum = 0;
    for (unsigned i = 0; i < SELECTORS / 4; i++) {
        const uint32_t four = count[b * (SELECTORS / 4) + (i + threadIdx.x) % (SELECTORS / 4)];
        sum += (four & 255) + (four >> 8 & 255) + (four >> 16 & 255) + (four >> 24);
    }
    return sum;
}

/* Of the values [from, to): the least that is above all with these leading digits, and the sum. */
DEVICE void look_above(const struct match_job *m, uint32_t value, unsigned from, unsigned to, float *above,
                       double *sum)
{
    *above = bits_float(INFINITE);
    *sum = 0;
    for (unsigned i = from + threadIdx.x; i < to; i += SELECTORS) {
        const float f = m->pair[i];
        *sum += (double)f;
        if (float_bits(f) >> 8 > value >> 8 && f < *above) *above = f;
    }
}

/* A block a chunk of a list. */
KERNEL(select_digit, struct match_job m, int pass)
{
    SHARED(uint32_t, count, MATCH_DIGITS * SELECTORS / 4);
    SHARED(unsigned, total, MATCH_DIGITS);
    SHARED(struct match_digit, now, 1);
    SHARED(float, above, SELECTORS);
    SHARED(double, sum, SELECTORS);
    const unsigned list = blockIdx.y, chunk = list * m.chunks + blockIdx.x;
    unsigned first, n;
    if (!m.control->applied) return;
    list_of(&m, list, &first, &n);
    if (!n) return;
    read_digit(&m, pass, list, n, total, now);
    const unsigned each = (n + m.chunks - 1) / m.chunks, skip = each * blockIdx.x < n ? each * blockIdx.x : n;
    const unsigned from = first + skip, to = first + (n - skip < each ? n : skip + each);
    PHASE
    {
        if (!blockIdx.x && !threadIdx.x) m.digit[(size_t)pass * m.lists + list] = now[0];
        for (unsigned b = threadIdx.x; b < MATCH_DIGITS; b += SELECTORS) total[b] = 0;
    }
    for (unsigned at = from; at < to; at += SELECTORS * COUNTABLE) {
        PHASE for (unsigned i = threadIdx.x; i < MATCH_DIGITS * SELECTORS / 4; i += SELECTORS) count[i] = 0;
        PHASE count_digits(&m, pass, now[0].value, at,
                           to - at < SELECTORS * COUNTABLE ? to : at + SELECTORS * COUNTABLE,
                           (uint8_t *)count);
        PHASE for (unsigned b = threadIdx.x; b < MATCH_DIGITS; b += SELECTORS) total[b] += bytes_of(count, b);
    }
    PHASE for (unsigned b = threadIdx.x; b < MATCH_DIGITS; b += SELECTORS)
        counts_of(&m, pass, list)[blockIdx.x * MATCH_DIGITS + b] = total[b];
    if (pass < MATCH_PASSES - 1) return;
    PHASE look_above(&m, now[0].value, from, to, &above[threadIdx.x], &sum[threadIdx.x]);
    BLOCK_SUM(sum, SELECTORS, 1);
    PHASE
    {
        if (threadIdx.x) continue;
        m.sum[chunk] = sum[0];
        m.above[chunk] = above[0];
        for (unsigned i = 1; i < SELECTORS; i++)
            if (above[i] < m.above[chunk]) m.above[chunk] = above[i];
    }
}

/* What the chunks of a list, or of a pool, have added up. */
DEVICE double sum_of(const struct match_job *m, const double *part, unsigned list)
{
    double sum = 0;
    for (unsigned i = 0; i < m->chunks; i++) sum += part[list * m->chunks + i];
    return sum;
}

/* The value behind the one found, which is the last of its kind. */
DEVICE float next_above(const struct match_job *m, unsigned list, const unsigned *total, uint32_t value)
{
    for (unsigned b = (value & 255) + 1; b < MATCH_DIGITS; b++)
        if (total[b]) return bits_float((value & ~255u) | b);
    float above = bits_float(INFINITE);
    for (unsigned i = list * m->chunks; i < (list + 1) * m->chunks; i++)
        above = m->above[i] < above ? m->above[i] : above;
    return above;
}

/* Median of a list, or where that is 0 the mean. */
DEVICE double median_of(const struct match_job *m, unsigned list, unsigned *total, struct match_digit *found)
{
    unsigned first, n;
    list_of(m, list, &first, &n);
    read_digit(m, MATCH_PASSES, list, n, total, found);
    const float low = bits_float(found->value);
    float high = low;
    if (n % 2 == 0 && found->rank + 1 == total[found->value & 255])
        high = next_above(m, list, total, found->value);
    const double middle = (double)low + ((double)high - (double)low) / 2;
    if (middle > 0) return middle;
    return sum_of(m, m->sum, list) / n;
}

#endif
