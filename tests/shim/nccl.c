/* NCCL on the host, for make GPU=host NCCL=1: memory is host memory, and MPI moves it. */
#include <limits.h>
#include <mpi.h>
#include "nccl.h"
#include <string.h>
#include "backend/cuda/kernel.h"
#include "core/mem.h"

struct ncclComm {
    MPI_Comm comm;
    float factor; /* of ncclPremultiplied, at most one at a time; 0: none */
};

static _Thread_local int depth; /* calls of ncclGroupStart that have not been ended */

ncclResult_t ncclGetVersion(int *v)
{
    *v = 22703; /* 2.27.3 */
    return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t rc) { return rc ? "failed" : "no error"; }
const char *ncclGetLastError(ncclComm_t c) { return (void)c, "MPI on the host"; }

/* Any 128 bytes: that all ranks have those of rank 0 is checked. */
ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    memset(id, 0, sizeof *id);
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    id->internal[0] = (char)(rank + 1);
    return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t *c, int size, ncclUniqueId id, int rank)
{
    int n, own;
    MPI_Comm_size(MPI_COMM_WORLD, &n);
    MPI_Comm_rank(MPI_COMM_WORLD, &own);
    *c = n == size && own == rank && id.internal[0] == 1 ? mem_alloc(1, sizeof **c) : NULL;
    return *c && !MPI_Comm_dup(MPI_COMM_WORLD, &(*c)->comm) ? ncclSuccess : ncclInternalError;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t c, ncclResult_t *state)
{
    return (void)c, *state = ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t c)
{
    MPI_Comm_free(&c->comm);
    mem_free(c);
    return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t c)
{
    mem_free(c);
    return ncclSuccess;
}

ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t *op, void *scalar, ncclDataType_t type,
                                      ncclScalarResidence_t where, ncclComm_t c)
{
    *op = ncclPremultiplied;
    if (c->factor != 0 || type != ncclFloat || where != ncclScalarHostImmediate) return ncclInternalError;
    c->factor = *(float *)scalar;
    return ncclSuccess;
}
ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t c)
{
    (void)op;
    c->factor = 0;
    return ncclSuccess;
}

ncclResult_t ncclGroupStart(void) { return depth++, ncclSuccess; }
ncclResult_t ncclGroupEnd(void) { return depth-- > 0 ? ncclSuccess : ncclInternalError; }

static MPI_Datatype type_of(ncclDataType_t type)
{
    return type == ncclFloat ? MPI_FLOAT : type == ncclDouble ? MPI_DOUBLE : MPI_BYTE;
}

struct exchange {
    const void *from;
    void *to;
    size_t n;
    ncclDataType_t type;
    float factor;
    int root;
    MPI_Comm comm;
};

static void reduce(const void *args)
{
    const struct exchange *x = args;
    const void *from = x->from == x->to ? MPI_IN_PLACE : x->from;
    for (size_t i = 0; x->factor != 0 && i < x->n; i++) ((float *)x->to)[i] *= x->factor; /* in place */
    MPI_Allreduce(from, x->to, (int)x->n, type_of(x->type), MPI_SUM, x->comm);
}

static void broadcast(const void *args)
{
    const struct exchange *x = args;
    int rank, size;
    MPI_Comm_rank(x->comm, &rank);
    MPI_Type_size(type_of(x->type), &size);
    if (rank == x->root && x->from != x->to) memmove(x->to, x->from, x->n * (size_t)size);
    MPI_Bcast(x->to, (int)x->n, type_of(x->type), x->root, x->comm);
}

/* As launches of kernels, all are counted and can be made to fail. (MPI itself ends what fails.) */
static ncclResult_t enqueue(const char *what, stream_t s, void (*run)(const void *), const struct exchange *x)
{
    const int way = x->n > INT_MAX ? E_MEM : shim_launch(what);
    if (way) return way < 0 ? ncclUnhandledCudaError : ncclSuccess;
    return shim_enqueue(s, run, x, sizeof *x) ? ncclInternalError : ncclSuccess;
}

ncclResult_t ncclAllReduce(const void *from, void *to, size_t n, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t c, stream_t s)
{
    const struct exchange x = { from, to, n, type, op == ncclPremultiplied ? c->factor : 0, 0, c->comm };
    return enqueue("sum over GPUs", s, reduce, &x);
}

ncclResult_t ncclBroadcast(const void *from, void *to, size_t n, ncclDataType_t type, int root, ncclComm_t c,
                           stream_t s)
{
    const struct exchange x = { from, to, n, type, 0, root, c->comm };
    return enqueue("rows to all GPUs", s, broadcast, &x);
}
