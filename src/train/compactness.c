#include "compactness.h"
#include <math.h>
#include <string.h>
#include "core/mem.h"
#include "core/rng.h"
#include "data/pick.h"
#include "group/group.h"

enum { SAMPLE_ROWS = 2000 };

int sample_open(struct sample *s, int total, size_t size, uint64_t seed, struct err *e)
{
    size_t n;
    *s = (struct sample){ .size = size, .total = total };
    s->capacity = total < SAMPLE_ROWS ? total : SAMPLE_ROWS;
    s->key = rng_key(seed, RNG_SAMPLE, 0);
    if (mem_mul((size_t)s->capacity, size, &n)) n = SIZE_MAX; /* refused by mem_alloc */
    s->x = mem_alloc(n, sizeof *s->x);
    s->label = mem_alloc((size_t)s->capacity, sizeof *s->label);
    if (s->x && s->label) return OK;
    sample_close(s);
    return fail(e, E_MEM, "no memory for %d feature vectors of %zu numbers", s->capacity, size);
}

void sample_close(struct sample *s)
{
    mem_free(s->x);
    mem_free(s->label);
    s->x = NULL;
    s->label = NULL;
}

int sample_wants(struct sample *s)
{
    int take = pick_takes(s->key, s->asked, s->total - s->asked, s->capacity - s->chosen);
    s->asked++;
    s->chosen += take;
    return take;
}

void sample_add(struct sample *s, int label, const real *row)
{
    memcpy(s->x + (size_t)s->n * s->size, row, s->size * sizeof *row);
    s->label[s->n++] = label;
}

static int join(struct sample *s, struct group *g, int *count)
{
    const int own = s->n, rank = group_rank(g);
    int before = 0;
    count[rank] = own;
    TRY(group_gather(g, count, group_size(g), sizeof *count));
    for (int r = 0; r < group_size(g); r++) {
        if (r < rank) before += count[r];
        s->n += r == rank ? 0 : count[r];
    }
    memmove(s->x + (size_t)before * s->size, s->x, (size_t)own * s->size * sizeof *s->x);
    memmove(s->label + before, s->label, (size_t)own * sizeof *s->label);
    TRY(group_gather_counted(g, s->x, count, s->size * sizeof *s->x));
    return group_gather_counted(g, s->label, count, sizeof *s->label);
}

int sample_join(struct sample *s, struct group *g, struct err *e)
{
    if (!g) return OK;
    int *count = mem_alloc((size_t)group_size(g), sizeof *count);
    int rc = count ? join(s, g, count) : E_MEM;
    mem_free(count);
    return rc ? fail(e, rc, "the features of all processes: %s", err_text(rc)) : OK;
}

static double distance(const real *a, const real *b, size_t n)
{
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (size_t i = 0; i < n; i++) {
        double d = (double)a[i] - (double)b[i];
        sum += d * d;
    }
    return sqrt(sum);
}

/* Row i against the rows before it. */
struct row_sum {
    double same, all;
    int pairs; /* of one class */
};
static struct row_sum row_distances(const struct sample *s, int i)
{
    struct row_sum r = { 0, 0, 0 };
    const real *x = s->x + (size_t)i * s->size;
    for (int j = 0; j < i; j++) {
        double d = distance(x, s->x + (size_t)j * s->size, s->size);
        int same = s->label[i] == s->label[j];
        r.all += d;
        r.same += same ? d : 0;
        r.pairs += same;
    }
    return r;
}

/* Rows are summed apart and then in order, so that the result does not depend on the number of threads. */
int sample_distances(const struct sample *s, int threads, double *same, double *all, struct err *e)
{
    struct row_sum *row = mem_alloc((size_t)s->n, sizeof *row);
    if (!row) return fail(e, E_MEM, "no memory for the distances of %d rows", s->n);
#pragma omp parallel for schedule(dynamic, 16) num_threads(threads)
    for (int i = 0; i < s->n; i++) row[i] = row_distances(s, i);
    double pairs = 0, count = .5 * s->n * (s->n - 1.);
    *same = *all = 0;
    for (int i = 0; i < s->n; i++) {
        *same += row[i].same;
        *all += row[i].all;
        pairs += row[i].pairs;
    }
    mem_free(row);
    *same = pairs > 0 ? *same / pairs : -1;
    *all = count > 0 ? *all / count : 0;
    return OK;
}
