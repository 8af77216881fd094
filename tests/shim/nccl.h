/* What src/backend/cuda/sum.c uses of NCCL, for make GPU=host NCCL=1: the names and numbers are NCCL's. */
#ifndef NCCL_H
#define NCCL_H
#include <stddef.h>
#include "backend/cuda/device.h"

typedef struct ncclComm *ncclComm_t;
typedef struct {
    char internal[128];
} ncclUniqueId;
typedef enum { ncclSuccess = 0, ncclUnhandledCudaError = 1, ncclInternalError = 3 } ncclResult_t;
typedef enum { ncclInt8 = 0, ncclFloat = 7, ncclDouble = 8 } ncclDataType_t;
typedef enum {
    ncclSum = 0,
    ncclPremultiplied = 5
} ncclRedOp_t; /* the latter: the first that a program makes */
typedef enum { ncclScalarHostImmediate = 1 } ncclScalarResidence_t;

ncclResult_t ncclGetVersion(int *);
const char *ncclGetErrorString(ncclResult_t);
const char *ncclGetLastError(ncclComm_t);
ncclResult_t ncclGetUniqueId(ncclUniqueId *);
ncclResult_t ncclCommInitRank(ncclComm_t *, int size, ncclUniqueId, int rank);
ncclResult_t ncclCommGetAsyncError(ncclComm_t, ncclResult_t *);
ncclResult_t ncclCommDestroy(ncclComm_t);
ncclResult_t ncclCommAbort(ncclComm_t);
ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t *, void *scalar, ncclDataType_t, ncclScalarResidence_t,
                                      ncclComm_t);
ncclResult_t ncclRedOpDestroy(ncclRedOp_t, ncclComm_t);
ncclResult_t ncclGroupStart(void);
ncclResult_t ncclGroupEnd(void);
ncclResult_t ncclAllReduce(const void *from, void *to, size_t n, ncclDataType_t, ncclRedOp_t, ncclComm_t,
                           stream_t);
ncclResult_t ncclBroadcast(const void *from, void *to, size_t n, ncclDataType_t, int root, ncclComm_t,
                           stream_t);

#endif
