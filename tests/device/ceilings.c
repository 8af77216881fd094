/* What the GPU itself can do, straight from CUDA's libraries: the two ceilings that training is measured
 * against.
 *
 *   ceilings [SIDE [MIB]]        8192 1024
 *
 * Prints "matrix N TFLOP/s", a product of two SIDE x SIDE matrices of bfloat16, summed in float; and "copy N
 * TB/s", MIB copied within the device's memory, bytes read and bytes written both counted. */
#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { WARM_UPS = 3, ROUNDS = 10 };

static const char *failure; /* what the runtime or cuBLAS says; NULL while all is well */

static int cuda(cudaError_t rc)
{
    if (rc != cudaSuccess && !failure) failure = cudaGetErrorString(rc);
    return rc != cudaSuccess;
}
static int blas(cublasStatus_t rc)
{
    if (rc != CUBLAS_STATUS_SUCCESS && !failure) failure = cublasGetStatusString(rc);
    return rc != CUBLAS_STATUS_SUCCESS;
}

struct device {
    cudaStream_t stream;
    cudaEvent_t begin, end;
    cublasHandle_t blas;
};

static int device_open(struct device *d)
{
    return cuda(cudaSetDevice(0)) || cuda(cudaStreamCreate(&d->stream)) || cuda(cudaEventCreate(&d->begin)) ||
           cuda(cudaEventCreate(&d->end)) || blas(cublasCreate(&d->blas)) ||
           blas(cublasSetStream(d->blas, d->stream));
}

static void device_close(struct device *d)
{
    if (d->blas) cublasDestroy(d->blas);
    if (d->begin) cudaEventDestroy(d->begin);
    if (d->end) cudaEventDestroy(d->end);
    if (d->stream) cudaStreamDestroy(d->stream);
}

/* Random numbers, 0.25 <= |x| < 1: products of zeros draw less power and run faster. */
static void *random_matrix(size_t count)
{
    void *there = NULL;
    uint16_t *here = malloc(count * sizeof *here);
    uint32_t x = 2463534242u;
    if (!here) return NULL;
    for (size_t i = 0; i < count; i++) {
        x ^= x << 13, x ^= x >> 17, x ^= x << 5;
        /* sign, 7 bits of mantissa, exponents of [0.25, 1) */
        here[i] = (uint16_t)((x & 0x807fu) | (x & 0x100u ? 0x3f00u : 0x3e80u));
    }
    if (cuda(cudaMalloc(&there, count * sizeof *here)) ||
        cuda(cudaMemcpy(there, here, count * sizeof *here, cudaMemcpyHostToDevice))) {
        cudaFree(there);
        there = NULL;
    }
    free(here);
    return there;
}

/* Seconds of one of ROUNDS calls; < 0: failed. */
static double timed(struct device *d, int (*call)(struct device *, void **, size_t), void **p, size_t n)
{
    float ms = 0;
    for (int i = 0; i < WARM_UPS; i++)
        if (call(d, p, n)) return -1;
    if (cuda(cudaEventRecord(d->begin, d->stream))) return -1;
    for (int i = 0; i < ROUNDS; i++)
        if (call(d, p, n)) return -1;
    if (cuda(cudaEventRecord(d->end, d->stream)) || cuda(cudaEventSynchronize(d->end)) ||
        cuda(cudaEventElapsedTime(&ms, d->begin, d->end)))
        return -1;
    return ms * 1e-3 / ROUNDS;
}

static int multiply(struct device *d, void **p, size_t side)
{
    const float one = 1, zero = 0;
    int n = (int)side;
    return blas(cublasGemmEx(d->blas, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &one, p[0], CUDA_R_16BF, n, p[1],
                             CUDA_R_16BF, n, &zero, p[2], CUDA_R_16BF, n, CUBLAS_COMPUTE_32F,
                             CUBLAS_GEMM_DEFAULT));
}

static int copy(struct device *d, void **p, size_t bytes)
{
    return cuda(cudaMemcpyAsync(p[1], p[0], bytes, cudaMemcpyDeviceToDevice, d->stream));
}

static int matrix_rate(struct device *d, size_t side)
{
    void *p[3] = { random_matrix(side * side), random_matrix(side * side), NULL };
    double seconds = -1;
    if (p[0] && p[1] && !cuda(cudaMalloc(&p[2], side * side * 2))) seconds = timed(d, multiply, p, side);
    if (seconds > 0)
        printf("matrix %.1f TFLOP/s\n", 2e-12 * (double)side * (double)side * (double)side / seconds);
    for (int i = 0; i < 3; i++) cudaFree(p[i]);
    return seconds > 0 ? 0 : -1;
}

static int copy_rate(struct device *d, size_t bytes)
{
    void *p[2] = { NULL, NULL };
    double seconds = -1;
    if (!cuda(cudaMalloc(&p[0], bytes)) && !cuda(cudaMalloc(&p[1], bytes)) &&
        !cuda(cudaMemset(p[0], 1, bytes)))
        seconds = timed(d, copy, p, bytes);
    if (seconds > 0) printf("copy %.3f TB/s\n", 2e-12 * (double)bytes / seconds);
    for (int i = 0; i < 2; i++) cudaFree(p[i]);
    return seconds > 0 ? 0 : -1;
}

int main(int argc, char **argv)
{
    struct device d = { 0 };
    long side = argc > 1 ? atol(argv[1]) : 8192, mib = argc > 2 ? atol(argv[2]) : 1024;
    if (side < 1 || side > 65536 || mib < 1 || mib > 1 << 20) {
        fprintf(stderr, "usage: ceilings [SIDE [MIB]]\n");
        return 2;
    }
    int rc = device_open(&d);
    if (!rc) rc = matrix_rate(&d, (size_t)side);
    if (!rc) rc = copy_rate(&d, (size_t)mib << 20);
    if (rc) fprintf(stderr, "ceilings: %s\n", failure ? failure : "not enough memory");
    device_close(&d);
    return rc ? 1 : 0;
}
