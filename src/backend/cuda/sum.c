/* Sums over the GPUs of several processes, and rows brought together, by NCCL; the processes find one another
 * by src/group. All goes through one communicator, in a stream of its own, which waits for what was computed
 * before and is waited for by what needs the result: so it can be part of a recorded step, too. Only in
 * builds with NCCL=1. */
#include "backend/ops/sum.h"
#include <nccl.h>
#include <stdio.h>
#include <string.h>
#include "cuda.h"
#include "group/group.h"

struct peers {
    ncclComm_t comm;
    stream_t stream;
    event_t computed, exchanged;
};

/* What a process tells the others. */
struct card {
    unsigned char uuid[sizeof((struct dev_info *)0)->uuid];
    ncclUniqueId id; /* rank 0: where it awaits the others */
};

static int bare(ncclResult_t rc) { return rc == ncclSuccess ? OK : E_GROUP; }

static int explain(ncclResult_t rc, const char *what, struct err *e)
{
    if (rc == ncclSuccess) return OK;
    return fail(e, E_DEVICE, "%s: NCCL error %d, %s: %.300s", what, (int)rc, ncclGetErrorString(rc),
                ncclGetLastError(NULL));
}

static const char *version(void)
{
    static _Thread_local char text[40]; /* the same each time */
    int v = 0;
    ncclGetVersion(&v); /* of the library that was found, not of the header */
    snprintf(text, sizeof text, "NCCL %d.%d.%d", v / 10000, v / 100 % 100, v % 100);
    return text;
}

/* ---- open and close ---- */

static int prepare(struct cuda *cu, int leads, struct card *own, struct err *e)
{
    struct peers *p = cu->peers;
    memcpy(own->uuid, cu->info.uuid, sizeof own->uuid);
    TRY(dev_stream(&p->stream, e));
    TRY(dev_event(&p->computed, e));
    TRY(dev_event(&p->exchanged, e));
    return leads ? explain(ncclGetUniqueId(&own->id), "preparing NCCL", e) : OK;
}

/* NCCL would say no more than "invalid usage". */
static int check_cards(const struct card *card, int n, struct err *e)
{
    for (int i = 0; i < n; i++)
        for (int k = 0; k < i; k++)
            if (!memcmp(card[i].uuid, card[k].uuid, sizeof card->uuid))
                return fail(e, E_DEVICE,
                            "ranks %d and %d have the same GPU: start one process for each GPU, or name one "
                            "for each of a machine: -gpus 0,1,...",
                            k, i);
    return OK;
}

/* Nobody may wait for a process that has failed before. */
static int connect(struct backend *be, struct card *card, struct err *e)
{
    struct cuda *cu = cuda_of(be);
    struct group *g = be->group;
    const int rank = group_rank(g), n = group_size(g);
    int rc = cu->peers && card ? prepare(cu, !rank, &card[rank], e)
                               : fail(e, E_MEM, "no memory to connect %d GPUs", n);
    TRY(group_agree(g, rc, e));
    if (group_gather(g, card, n, sizeof *card)) return fail(e, E_GROUP, "%s", err_text(E_GROUP));
    TRY(check_cards(card, n, e));
    return explain(ncclCommInitRank(&cu->peers->comm, n, card->id, rank), "connecting the GPUs", e);
}

/* After an error the others may be gone: nothing is waited for. */
static void close(struct backend *be)
{
    struct cuda *cu = cuda_of(be);
    struct peers *p = cu->peers;
    ncclResult_t state;
    if (!p) return;
    if (p->comm && !group_is_abandoned(be->group) && ncclCommGetAsyncError(p->comm, &state) == ncclSuccess &&
        state == ncclSuccess)
        ncclCommDestroy(p->comm);
    else if (p->comm)
        ncclCommAbort(p->comm);
    dev_event_drop(p->computed);
    dev_event_drop(p->exchanged);
    dev_close(p->stream);
    mem_free(p);
    cu->peers = NULL;
}

static int open(struct backend *be, struct err *e)
{
    struct cuda *cu = cuda_of(be);
    if (cu->peers) return OK;
    struct card *card = mem_alloc((size_t)group_size(be->group), sizeof *card);
    cu->peers = mem_alloc(1, sizeof *cu->peers);
    int rc = connect(be, card, e);
    mem_free(card);
    if (rc) close(be);
    return rc;
}

/* ---- exchanges ---- */

static int after_computing(const struct cuda *cu)
{
    TRY(dev_mark(cu->peers->computed, cu->stream));
    return dev_wait(cu->peers->stream, cu->peers->computed);
}

static int before_computing(const struct cuda *cu)
{
    TRY(dev_mark(cu->peers->exchanged, cu->peers->stream));
    return dev_wait(cu->stream, cu->peers->exchanged);
}

static int sum(const struct peers *p, void *x, size_t n, ncclDataType_t type)
{
    return bare(ncclAllReduce(x, x, n, type, ncclSum, p->comm, p->stream));
}

static int begin(struct backend *be, real *x, size_t n)
{
    const struct cuda *cu = cuda_of(be);
    TRY(after_computing(cu));
    return sum(cu->peers, x, n, ncclFloat);
}

static int begin_mean(struct backend *be, struct share s, real *x, size_t n)
{
    const struct cuda *cu = cuda_of(be);
    const ncclComm_t comm = cu->peers->comm;
    const float weight = (float)share_weight(s);
    ncclRedOp_t weighted;
    TRY(after_computing(cu));
    TRY(bare(ncclRedOpCreatePreMulSum(&weighted, (void *)&weight, ncclFloat, ncclScalarHostImmediate, comm)));
    int rc = bare(ncclAllReduce(x, x, n, ncclFloat, weighted, comm, cu->peers->stream));
    ncclRedOpDestroy(weighted, comm);
    return rc;
}

static int end(struct backend *be) { return before_computing(cuda_of(be)); }

static int add(struct backend *be, double *x, size_t n)
{
    const struct cuda *cu = cuda_of(be);
    TRY(after_computing(cu));
    TRY(sum(cu->peers, x, n, ncclDouble));
    return before_computing(cu);
}

/* Shares may differ by a row: each rank gives its own to all. */
static int spread(const struct peers *p, const struct group *g, int rows, const void *own, size_t bytes,
                  char *all)
{
    for (int r = 0; r < group_size(g); r++) {
        const struct share s = group_share_of(g, r, rows);
        TRY(bare(ncclBroadcast(own, all + (size_t)s.first * bytes, (size_t)s.rows * bytes, ncclInt8, r,
                               p->comm, p->stream)));
    }
    return OK;
}

static int join(struct backend *be, struct share s, const void *own, size_t bytes, void *all)
{
    const struct cuda *cu = cuda_of(be);
    TRY(after_computing(cu));
    TRY(bare(ncclGroupStart()));
    int rc = spread(cu->peers, be->group, s.all, own, bytes, all);
    int ended = bare(ncclGroupEnd());
    TRY(rc ? rc : ended);
    return before_computing(cu);
}

const struct sum_ops cuda_sum = { version, open, close, begin, end, begin_mean, add, join };
