#include "group.h"
#include <stdlib.h>
#include <string.h>
#include "core/mem.h"
#include "group/kind.h"

#define GROUP(name) extern const struct group_kind group_##name;
#include "groups.inc"
#undef GROUP

static const struct group_kind *const kinds[] = {
#define GROUP(name) &group_##name,
#include "groups.inc"
#undef GROUP
    NULL,
};

const char *group_version(void) { return kinds[0] ? kinds[0]->version() : NULL; }

/* How many processes were started together, as their starter tells each of them: Open MPI; MPICH, Intel and
 * Slurm; Slurm by PMIx. 0: others by PMIx do not say. */
static int launched(void)
{
    static const char *const size[] = { "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS" };
    const int by_pmix = getenv("PMIX_RANK") != NULL;
    for (size_t i = 0; i < 2 + (size_t)by_pmix; i++) {
        const char *n = getenv(size[i]);
        if (n) return atoi(n);
    }
    return !by_pmix;
}

int group_open(struct group **out, const volatile sig_atomic_t *stop, struct err *e)
{
    const int processes = launched();
    *out = NULL;
    if (processes == 1) return OK;
    if (!kinds[0])
        return fail(e, E_ARG, "started as one of several processes, but built without MPI: make MPI=1");
    struct group *g = mem_alloc(1, sizeof *g);
    if (!g) return fail(e, E_MEM, "not enough memory to connect to the other processes");
    *g = (struct group){ .kind = kinds[0], .stop = stop };
    int rc = g->kind->open(g, e);
    if (rc) {
        mem_free(g);
        return rc;
    }
    g->at = mem_alloc((size_t)g->size + 1, sizeof *g->at);
    if (!g->at) {
        rc = fail(e, E_MEM, "not enough memory to connect to the other processes");
        g->kind->abandon(g);
    } else if (g->size > 1) {
        *out = g;
    } else if (processes > 1) {
        rc = fail(e, E_ARG,
                  "started as one of %d processes, but MPI finds none of the others: start them by the "
                  "mpirun of the MPI that this program was built with",
                  processes);
    }
    if (!*out) group_close(g);
    return rc;
}

void group_close(struct group *g)
{
    if (!g) return;
    g->kind->close(g);
    mem_free(g->at);
    mem_free(g->each);
    mem_free(g);
}

int group_rank(const struct group *g) { return g ? g->rank : 0; }
int group_size(const struct group *g) { return g ? g->size : 1; }
int group_local_rank(const struct group *g) { return g ? g->local_rank : 0; }

/* The first row of a rank. */
static int first_row(const struct group *g, int rank, int rows)
{
    return (int)((long long)rows * rank / group_size(g));
}

struct share group_share_of(const struct group *g, int rank, int rows)
{
    int first = first_row(g, rank, rows);
    return (struct share){ first, first_row(g, rank + 1, rows) - first, rows };
}

struct share group_share(const struct group *g, int rows) { return group_share_of(g, group_rank(g), rows); }

int group_gather(struct group *g, void *rows, int n, size_t bytes)
{
    if (!g) return OK;
    for (int r = 0; r <= g->size; r++) g->at[r] = (size_t)first_row(g, r, n) * bytes;
    return g->kind->gather(g, rows, g->at);
}

int group_gather_counted(struct group *g, void *rows, const int *count, size_t bytes)
{
    if (!g) return OK;
    g->at[0] = 0;
    for (int r = 0; r < g->size; r++) g->at[r + 1] = g->at[r] + (size_t)count[r] * bytes;
    return g->kind->gather(g, rows, g->at);
}

/* Brings together n numbers of each rank: those of rank r are g->each + r * n. */
static int exchange(struct group *g, const double *own, size_t n)
{
    if (n > g->capacity) {
        mem_free(g->each);
        g->each = mem_alloc((size_t)g->size * n, sizeof *g->each);
        g->capacity = g->each ? n : 0;
        if (!g->each) return E_MEM;
    }
    memcpy(g->each + (size_t)g->rank * n, own, n * sizeof *own);
    return group_gather(g, g->each, g->size, n * sizeof *own);
}

int group_add(struct group *g, double *x, size_t n)
{
    if (!g) return OK;
    TRY(exchange(g, x, n));
    memcpy(x, g->each, n * sizeof *x);
    for (int r = 1; r < g->size; r++)
        for (size_t i = 0; i < n; i++) x[i] += g->each[(size_t)r * n + i];
    return OK;
}

int group_max(struct group *g, int *value)
{
    const double own = *value;
    if (!g) return OK;
    TRY(exchange(g, &own, 1));
    for (int r = 0; r < g->size; r++)
        if (g->each[r] > *value) *value = (int)g->each[r];
    return OK;
}

static int lost(struct err *e) { return fail(e, E_GROUP, "%s", err_text(E_GROUP)); }

int group_agree(struct group *g, int rc, struct err *e)
{
    const double own = rc;
    struct err said = { 0 };
    int failed = 0;
    if (!g) return rc;
    if (rc == E_GROUP || exchange(g, &own, 1)) return lost(e);
    while (failed < g->size && g->each[failed] == 0) failed++;
    if (failed == g->size) return OK;
    g->agreed = 1;
    const int code = (int)g->each[failed];
    if (failed == g->rank && e) said = *e;
    for (int r = 0; r <= g->size; r++) g->at[r] = r > failed ? sizeof said : 0;
    if (g->kind->gather(g, &said, g->at)) return lost(e);
    if (failed == g->rank) return rc;
    return fail(e, code, "rank %d: %s", failed, said.msg[0] ? said.msg : err_text(code));
}

void group_abandon(struct group *g)
{
    if (!g || g->agreed) return;
    g->abandoned = 1;
    g->kind->abandon(g);
}

int group_is_abandoned(const struct group *g) { return g && g->abandoned; }

int group_sum_begin(struct group *g, real *x, size_t n) { return g ? g->kind->sum_begin(g, x, n) : OK; }
int group_sum_end(struct group *g) { return g ? g->kind->sum_end(g) : OK; }
