/* What exchanges between processes take: mpirun -np N build/float-mpi/tests/bench/exchange [MIB]. Rank 0
 * prints medians: of a number that all agree on, of features that all get, and of a sum in the buckets of a
 * backward pass. */
#include <stdio.h>
#include <stdlib.h>
#include "core/clock.h"
#include "core/mem.h"
#include "group/group.h"

enum { TURNS = 31, ROWS = 150, FEATURES = 512, BUCKET = 1 << 22 };

static struct {
    struct group *group;
    real *x;
    size_t n;
} bench;

static int agree(void)
{
    int value = group_rank(bench.group);
    return group_max(bench.group, &value);
}

static int gather(void) { return group_gather(bench.group, bench.x, ROWS, FEATURES * sizeof *bench.x); }

static int sum(void)
{
    const size_t bucket = BUCKET / sizeof *bench.x;
    for (size_t at = 0; at < bench.n; at += bucket)
        TRY(group_sum_begin(bench.group, bench.x + at, bench.n - at < bucket ? bench.n - at : bucket));
    return group_sum_end(bench.group);
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static int measure(const char *what, int (*run)(void))
{
    double seconds[TURNS];
    for (int i = 0; i < TURNS; i++) {
        TRY(agree()); /* all begin together */
        seconds[i] = wall_clock();
        TRY(run());
        seconds[i] = wall_clock() - seconds[i];
    }
    qsort(seconds, TURNS, sizeof *seconds, ascending);
    if (group_leads(bench.group)) printf("%-8s %10.1f us\n", what, 1e6 * seconds[TURNS / 2]);
    return OK;
}

static int run(double mib)
{
    bench.n = (size_t)(mib * (1 << 20) / sizeof *bench.x);
    if (bench.n < ROWS * FEATURES) return E_ARG;
    bench.x = mem_alloc(bench.n, sizeof *bench.x);
    if (!bench.x) return E_MEM;
    TRY(measure("agree", agree));
    TRY(measure("gather", gather));
    return measure("sum", sum);
}

int main(int argc, char **argv)
{
    struct err e = { 0 };
    int rc = group_open(&bench.group, NULL, &e);
    if (!rc) rc = run(argc > 1 ? atof(argv[1]) : 42.6);
    mem_free(bench.x);
    group_close(bench.group);
    if (rc) fprintf(stderr, "exchange: %s\n", e.code ? e.msg : err_text(rc));
    return rc != OK;
}
