/* cuBLAS. */
#include "blas.h"
#include <cublas_v2.h>
#include "core/mem.h"

struct blas {
    cublasHandle_t handle;
    void *workspace; /* its own: results do not depend on what else runs, and recordings need no other */
};

/* The vendor's advice: Hopper's kernels want more. */
static size_t workspace_bytes(const struct dev_info *info)
{
    return (size_t)(info->major >= 9 ? 32 : 4) << 20;
}

/* The workspace after the stream: setting a stream goes back to memory that cuBLAS takes itself. */
static cublasStatus_t prepare(struct blas *b, stream_t s, size_t bytes)
{
    cublasStatus_t rc = cublasCreate(&b->handle);
    if (!rc) rc = cublasSetStream(b->handle, s);
    if (!rc) rc = cublasSetWorkspace(b->handle, b->workspace, bytes);
    if (rc) return rc;
    return cublasSetMathMode(b->handle,
                             CUBLAS_DEFAULT_MATH | CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION);
}

int blas_open(struct blas **out, stream_t s, const struct dev_info *info, struct err *e)
{
    *out = NULL;
    struct blas *b = mem_alloc(1, sizeof *b);
    if (!b) return fail(e, E_MEM, "no memory to open cuBLAS");
    int rc = dev_alloc(&b->workspace, workspace_bytes(info), e);
    cublasStatus_t status = rc ? CUBLAS_STATUS_SUCCESS : prepare(b, s, workspace_bytes(info));
    if (status)
        rc = fail(e, E_DEVICE, "cuBLAS %d.%d does not start: %s: compute on the CPU with -nogpu",
                  CUBLAS_VER_MAJOR, CUBLAS_VER_MINOR, cublasGetStatusString(status));
    if (rc)
        blas_close(b);
    else
        *out = b;
    return rc;
}

void blas_close(struct blas *b)
{
    if (!b) return;
    if (b->handle) cublasDestroy(b->handle);
    dev_free(b->workspace);
    mem_free(b);
}

/* Pedantic: no other arithmetic in place of float's. */
static cublasComputeType_t compute(const struct blas_product *p)
{
    return p->bf16   ? CUBLAS_COMPUTE_32F
           : p->tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32
                     : CUBLAS_COMPUTE_32F_PEDANTIC;
}

/* cuBLAS is column-major: what it takes for a matrix is our transpose. So C^T = B^T A^T, with the operands as
 * they are. */
int blas_multiply(struct blas *blas, const struct blas_product *p, const void *a, const void *b, void *c)
{
    const cudaDataType_t in = p->bf16 ? CUDA_R_16BF : CUDA_R_32F, out = p->bf16_c ? CUDA_R_16BF : CUDA_R_32F;
    const int m = (int)p->m, n = (int)p->n, k = (int)p->k; /* of tensors below 2^31 numbers */
    const float one = 1;
    cublasStatus_t rc = cublasGemmEx(
        blas->handle, p->tb ? CUBLAS_OP_T : CUBLAS_OP_N, p->ta ? CUBLAS_OP_T : CUBLAS_OP_N, n, m, k, &one, b,
        in, p->tb ? k : n, a, in, p->ta ? m : k, &p->beta, c, out, n, compute(p), CUBLAS_GEMM_DEFAULT);
    return rc ? E_DEVICE : OK;
}
