/* MPI: whatever mpirun, srun and the like start, over shared memory or a network.
 *
 * Sums run in a thread of their own, since many MPI libraries move data only while they are called. */
#include <limits.h>
#include <mpi.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include "core/clock.h"
#include "core/mem.h"
#include "group/kind.h"

enum { QUEUE = 64 };
static const double GRACE = 60;      /* seconds after a signal for what was under way */
static const double SPIN = 2e-4;     /* seconds of asking without a pause */
static const long PAUSE = 50 * 1000; /* nanoseconds between two questions */

struct bucket {
    real *x;
    int n;
};

struct mpi {
    MPI_Comm exchanges, sums; /* of the main thread; of the other one */
    int *count, *at;          /* bytes: of each rank, for a gather */
    pthread_t thread;
    pthread_mutex_t lock; /* of all below */
    pthread_cond_t change;
    struct bucket queue[QUEUE];
    size_t head, tail; /* buckets summed; buckets queued */
    int stop, failed;
    atomic_int wanted; /* the main thread waits for the sums */
    atomic_int lost;   /* a rank cannot be reached: no more waiting */
};

/* The first words of what the library tells, at length, of itself. */
static const char *version(void)
{
    static _Thread_local char text[MPI_MAX_LIBRARY_VERSION_STRING]; /* the same each time */
    int length;
    if (MPI_Get_library_version(text, &length)) return "MPI";
    text[strcspn(text, ",\n")] = 0;
    for (char *c = text; *c; c++)
        if (*c == '\t') *c = ' ';
    return text;
}

/* Asks again and again, with pauses while this process computes (wanted 0), and for no longer than GRACE once
 * a signal has asked for an end: a rank that is gone never answers. */
static int await(const struct group *g, MPI_Request *request, const atomic_int *wanted)
{
    struct mpi *m = g->self;
    const double began = wall_clock();
    double asked = 0;
    for (;;) {
        int done;
        if (MPI_Test(request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS)
            atomic_store(&m->lost, 1);
        else if (done)
            return OK;
        double now = wall_clock();
        if (g->stop && *g->stop && asked == 0) asked = now;
        if (asked > 0 && now - asked > GRACE) atomic_store(&m->lost, 1);
        if (atomic_load(&m->lost)) return E_GROUP;
        if (now - began < SPIN && (!wanted || atomic_load(wanted)))
            sched_yield();
        else
            nanosleep(&(struct timespec){ 0, PAUSE }, NULL);
    }
}

/* ---- sums ---- */

static int add_up(const struct group *g, const struct bucket *b)
{
    struct mpi *m = g->self;
    MPI_Datatype type = sizeof(real) == sizeof(float) ? MPI_FLOAT : MPI_DOUBLE;
    MPI_Request request;
    if (MPI_Iallreduce(MPI_IN_PLACE, b->x, b->n, type, MPI_SUM, m->sums, &request) != MPI_SUCCESS)
        return E_GROUP;
    return await(g, &request, &m->wanted);
}

static void *work(void *arg)
{
    struct group *g = arg;
    struct mpi *m = g->self;
    pthread_mutex_lock(&m->lock);
    for (;;) {
        while (m->head == m->tail && !m->stop) pthread_cond_wait(&m->change, &m->lock);
        if (m->head == m->tail) break;
        struct bucket b = m->queue[m->head % QUEUE];
        int failed = m->failed;
        pthread_mutex_unlock(&m->lock);
        if (!failed) failed = add_up(g, &b);
        pthread_mutex_lock(&m->lock);
        m->failed = failed;
        m->head++;
        pthread_cond_broadcast(&m->change);
    }
    pthread_mutex_unlock(&m->lock);
    return NULL;
}

static int sum_begin(struct group *g, real *x, size_t n)
{
    struct mpi *m = g->self;
    pthread_mutex_lock(&m->lock);
    while (n && !m->failed) {
        while (m->tail - m->head == QUEUE) pthread_cond_wait(&m->change, &m->lock);
        int part = n < INT_MAX / 2 ? (int)n : INT_MAX / 2;
        m->queue[m->tail++ % QUEUE] = (struct bucket){ x, part };
        x += part;
        n -= (size_t)part;
    }
    int rc = m->failed;
    pthread_cond_broadcast(&m->change);
    pthread_mutex_unlock(&m->lock);
    return rc;
}

static int sum_end(struct group *g)
{
    struct mpi *m = g->self;
    atomic_store(&m->wanted, 1);
    pthread_mutex_lock(&m->lock);
    while (m->head != m->tail) pthread_cond_wait(&m->change, &m->lock);
    int rc = m->failed;
    pthread_mutex_unlock(&m->lock);
    atomic_store(&m->wanted, 0);
    return rc;
}

/* ---- exchanges ---- */

static int gather(struct group *g, void *all, const size_t *at)
{
    struct mpi *m = g->self;
    MPI_Request request;
    if (at[g->size] > INT_MAX) return E_MEM;
    for (int r = 0; r < g->size; r++) {
        m->at[r] = (int)at[r];
        m->count[r] = (int)(at[r + 1] - at[r]);
    }
    if (MPI_Iallgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all, m->count, m->at, MPI_BYTE, m->exchanges,
                        &request) != MPI_SUCCESS)
        return E_GROUP;
    return await(g, &request, NULL);
}

/* ---- open, close ---- */

static int connect(struct mpi *m, struct err *e)
{
    int threads;
    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &threads) != MPI_SUCCESS)
        return fail(e, E_GROUP, "MPI does not start");
    if (threads < MPI_THREAD_MULTIPLE) {
        MPI_Finalize();
        return fail(e, E_GROUP, "this MPI is not for several threads (MPI_THREAD_MULTIPLE)");
    }
    MPI_Comm_dup(MPI_COMM_WORLD, &m->exchanges);
    MPI_Comm_dup(MPI_COMM_WORLD, &m->sums);
    MPI_Comm_set_errhandler(m->exchanges, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(m->sums, MPI_ERRORS_RETURN);
    return OK;
}

static int start(struct group *g, struct err *e)
{
    struct mpi *m = g->self;
    pthread_mutex_init(&m->lock, NULL);
    pthread_cond_init(&m->change, NULL);
    m->count = mem_alloc((size_t)g->size, sizeof *m->count);
    m->at = mem_alloc((size_t)g->size, sizeof *m->at);
    if (!m->count || !m->at) return fail(e, E_MEM, "not enough memory to connect %d processes", g->size);
    int rc = pthread_create(&m->thread, NULL, work, g);
    return rc ? fail(e, E_MEM, "a thread for sums cannot be started: %s", strerror(rc)) : OK;
}

static void release(struct mpi *m)
{
    pthread_cond_destroy(&m->change);
    pthread_mutex_destroy(&m->lock);
    mem_free(m->count);
    mem_free(m->at);
    mem_free(m);
}

static int local_rank(MPI_Comm all)
{
    MPI_Comm machine;
    int rank;
    MPI_Comm_split_type(all, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &machine);
    MPI_Comm_rank(machine, &rank);
    MPI_Comm_free(&machine);
    return rank;
}

static int open(struct group *g, struct err *e)
{
    struct mpi *m = g->self = mem_alloc(1, sizeof *m);
    if (!m) return fail(e, E_MEM, "not enough memory to connect to the other processes");
    int rc = connect(m, e);
    if (rc) {
        mem_free(m);
        return rc;
    }
    MPI_Comm_rank(m->exchanges, &g->rank);
    MPI_Comm_size(m->exchanges, &g->size);
    g->local_rank = local_rank(m->exchanges);
    rc = start(g, e);
    if (rc) release(m); /* without MPI_Finalize, which waits for ranks that wait for this one */
    return rc;
}

static void abandon(struct group *g)
{
    struct mpi *m = g->self;
    atomic_store(&m->lost, 1);
}

/* With a rank lost, MPI_Finalize would wait for it; whoever started this process then ends the others. */
static void close(struct group *g)
{
    struct mpi *m = g->self;
    pthread_mutex_lock(&m->lock);
    m->stop = 1;
    pthread_cond_broadcast(&m->change);
    pthread_mutex_unlock(&m->lock);
    pthread_join(m->thread, NULL);
    if (!atomic_load(&m->lost)) MPI_Finalize();
    release(m);
}

const struct group_kind group_mpi = { version, open, close, abandon, gather, sum_begin, sum_end };
