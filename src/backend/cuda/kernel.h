/* One kernel source, two builds. A .cu is C++ of a plain kind: of what C lacks it uses templates only.
 *
 * nvcc: the macros are CUDA. The host's compiler (make GPU=host): a block runs in one host thread, a PHASE is
 * a loop over the threads of the block, and its end is the barrier. So index arithmetic, edge cases and
 * reductions are tested, measured for coverage and sanitised on a machine without a GPU.
 *
 * Rules for a kernel written this way:
 *  1. Whatever looks at threadIdx stands in a PHASE; between phases is only code that is the same for the
 *     whole block (loops and ifs over arguments and blockIdx).
 *  2. At the top level of a PHASE `continue` means "this thread has done the phase" (in an inner loop it is
 *     that loop's); no return, break or goto out of a phase.
 *  3. What a thread keeps from one phase to the next is PRIVATE and read through MY(); what the threads of a
 *     block share is SHARED.
 *  4. No thread reads in a phase what another writes in it. The host runs the threads in several orders
 *     (kernel_order): results that differ mean a missing barrier.
 *  5. No warp intrinsics, no atomics: sums have one order, so results have one value.
 * Elements are float or bfloat16 (`bf16`), read and written as float. V of them at once, 16 bytes' worth,
 * where the number of channels allows; else one. A kernel for which this matters is a template. */
#ifndef CUDA_KERNEL_H
#define CUDA_KERNEL_H
#include <stdint.h>
#include <string.h>
#include "backend/scalar.h"
#include "cuda.h"

enum { THREADS = 256 }; /* in a block, at most: unless it is of a KERNEL_WIDE, which may have SHIM_MAX */
enum { TOGETHER = 4 };  /* blocks on a multiprocessor that a KERNEL_TOGETHER is planned for */
enum { SHIM_MAX = 1024 };

#ifdef __CUDACC__

#include <cuda_bf16.h>
#define KERNEL(name, ...) static __global__ void name(__VA_ARGS__)
/* With so few registers that TOGETHER blocks of THREADS share a multiprocessor. */
#define KERNEL_TOGETHER(name, ...)                                                                           \
    static __global__ void __launch_bounds__(THREADS, TOGETHER) name(__VA_ARGS__)
/* With so few that a block may have SHIM_MAX threads. */
#define KERNEL_WIDE(name, ...) static __global__ void __launch_bounds__(SHIM_MAX) name(__VA_ARGS__)
#define DEVICE                 static __device__ __forceinline__
#define DEVICE_APART           static __device__ __noinline__ /* one copy, which is called */
#define PHASE                  for (int once_ = 1; once_; once_ = 0, __syncthreads())
#define SHARED(type, name, n)  __shared__ type name[n]
#define PRIVATE(type, name, n) type name[n]
#define MY(name)               name
#define UNROLL                 _Pragma("unroll")
/* Launches, and leaves the function with E_DEVICE where that fails; cuda_sync tells why. */
#define LAUNCH(cu, name, gx, gy, block, ...)                                                                 \
    do {                                                                                                     \
        const auto kernel_ = name;                                                                           \
        kernel_<<<dim3((unsigned)(gx), (unsigned)(gy)), (unsigned)(block), 0, (cu)->stream>>>(__VA_ARGS__);  \
        if (cudaPeekAtLastError() != cudaSuccess) return E_DEVICE;                                           \
    } while (0)

#else

struct shim_index {
    unsigned x, y;
};
/* The order in which the threads of a block run: 0 up, 1 down, 2 from both ends. */
extern __thread int kernel_order;
static __thread struct shim_index gridDim __attribute__((unused)), blockDim __attribute__((unused)),
    blockIdx __attribute__((unused)), threadIdx __attribute__((unused));

static inline unsigned shim_pick(unsigned t)
{
    unsigned n = blockDim.x;
    switch (kernel_order) {
    case 1: return n - 1 - t;
    case 2: return t % 2 ? n - 1 - t / 2 : t / 2;
    default: return t;
    }
}

#ifdef __cplusplus
extern "C" {
#endif
/* OK: a launch of what has this name runs; > 0: it does not; < 0: it fails with this. */
int shim_launch(const char *name);
/* In its turn in the stream: run, of a copy of its arguments. */
int shim_enqueue(stream_t, void (*run)(const void *args), const void *args, size_t bytes);
#ifdef __cplusplus
}
#endif

#define KERNEL(name, ...) static void name(__VA_ARGS__)
#define KERNEL_TOGETHER   KERNEL
#define KERNEL_WIDE       KERNEL
#define DEVICE            static inline
#define DEVICE_APART      static inline
#define PHASE             for (unsigned t_ = 0; t_ < blockDim.x && (threadIdx.x = shim_pick(t_), 1); t_++)
/* Filled with ones: NaN, or -1, until somebody writes. */
#define SHARED(type, name, n)                                                                                \
    type name[n];                                                                                            \
    memset(name, 0xff, sizeof name)
#define PRIVATE(type, name, n)                                                                               \
    type name[SHIM_MAX][n];                                                                                  \
    memset(name, 0xff, blockDim.x * sizeof *name)
#define MY(name) name[threadIdx.x]
#define UNROLL
#define LAUNCH(cu, name, gx, gy, block, ...)                                                                 \
    do {                                                                                                     \
        int way_ = shim_launch(#name);                                                                       \
        if (way_ < 0) return way_;                                                                           \
        if (way_) break;                                                                                     \
        TRY(shim_later((cu)->stream, (unsigned)(gx), (unsigned)(gy), (unsigned)(block), name, __VA_ARGS__)); \
    } while (0)

#ifdef __cplusplus
template <class F> void shim_run(const void *work) { (*(const F *)work)(); }

/* The arguments are those of now, as in CUDA. */
template <class... P, class... A>
static int shim_later(stream_t s, unsigned gx, unsigned gy, unsigned block, void (*kernel)(P...), A... args)
{
    auto work = [=] {
        gridDim.x = gx, gridDim.y = gy, blockDim.x = block;
        for (blockIdx.y = 0; blockIdx.y < gy; blockIdx.y++)
            for (blockIdx.x = 0; blockIdx.x < gx; blockIdx.x++) kernel(args...);
    };
    return shim_enqueue(s, shim_run<decltype(work)>, &work, sizeof work);
}
#endif

#endif

/* Aligned on the host too, where a sanitizer reports a misaligned load. */
typedef struct {
    uint32_t u[4];
} __attribute__((aligned(16), may_alias)) vec16;

SCALAR float bits_float(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}
SCALAR uint32_t float_bits(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}
SCALAR int is_finite(float f) { return (float_bits(f) & 0x7f800000u) != 0x7f800000u; }
SCALAR float bf16_get(uint16_t h) { return bits_float((uint32_t)h << 16); }
/* To the nearest, ties to even. */
SCALAR uint16_t bf16_put(float f)
{
#ifdef __CUDA_ARCH__
    return __bfloat16_as_ushort(__float2bfloat16_rn(f));
#else
    uint32_t u = float_bits(f);
    if ((u & 0x7fffffffu) > 0x7f800000u) return 0x7fff;
    return (uint16_t)((u + 0x7fffu + (u >> 16 & 1u)) >> 16);
#endif
}
/* What an element is after it was stored. */
SCALAR float rounded(int bf16, float f) { return bf16 ? bf16_get(bf16_put(f)) : f; }

/* V elements from number i on, V being 1, or 16 bytes' worth (then i * size is a multiple of 16). */
DEVICE void load(int bf16, unsigned V, const void *p, size_t i, float *f)
{
    if (V == 1) {
        f[0] = bf16 ? bf16_get(((const uint16_t *)p)[i]) : ((const float *)p)[i];
        return;
    }
    vec16 v = *(const vec16 *)(const void *)((const char *)p + i * (bf16 ? 2 : 4));
    for (int k = 0; k < 4; k++) {
        if (bf16)
            f[2 * k] = bits_float(v.u[k] << 16), f[2 * k + 1] = bits_float(v.u[k] & 0xffff0000u);
        else
            f[k] = bits_float(v.u[k]);
    }
}
DEVICE void store(int bf16, unsigned V, void *p, size_t i, const float *f)
{
    if (V == 1) {
        if (bf16)
            ((uint16_t *)p)[i] = bf16_put(f[0]);
        else
            ((float *)p)[i] = f[0];
        return;
    }
    vec16 v;
    for (int k = 0; k < 4; k++)
        v.u[k] =
            bf16 ? (uint32_t)bf16_put(f[2 * k]) | (uint32_t)bf16_put(f[2 * k + 1]) << 16 : float_bits(f[k]);
    *(vec16 *)(void *)((char *)p + i * (bf16 ? 2 : 4)) = v;
}
/* V floats from number c on, one for each of V channels; memory is asked for all of them at once. */
DEVICE void read_channels(unsigned V, const float *p, size_t c, float *f)
{
    if (V == 1) f[0] = p[c];
    UNROLL for (unsigned k = 0; k + 4 <= V; k += 4) load(0, 4, p, c + k, f + k);
}
/* Stores, or adds to what is there. */
DEVICE void put(int bf16, unsigned V, void *p, size_t i, float *f, int add)
{
    float old[8];
    if (add) {
        load(bf16, V, p, i, old);
        for (unsigned k = 0; k < V; k++) f[k] += old[k];
    }
    store(bf16, V, p, i, f);
}

/* Where element i of a tensor of c channels and hw pixels lies in the host's order: row n, channel k, pixel p
 * at (n * c + k) * hw + p instead of (n * hw + p) * c + k. */
DEVICE size_t dense_at(size_t i, size_t c, size_t hw)
{
    size_t n = i / (c * hw), p = i / c % hw;
    return (n * c + i % c) * hw + p;
}

/* Of a template <int bf16, unsigned V, ...> the kernel for this kind of element and this width. */
#define OF_FOUR(name, bf16, V, ...)                                                                          \
    ((bf16)     ? (V) == 1 ? name<1, 1, ##__VA_ARGS__> : name<1, 8, ##__VA_ARGS__>                           \
         : (V) == 1 ? name<0, 1, ##__VA_ARGS__>                                                              \
                : name<0, 4, ##__VA_ARGS__>)
#define LAUNCH_FOUR(cu, name, bf16, V, gx, gy, block, ...)                                                   \
    LAUNCH(cu, OF_FOUR(name, bf16, V), gx, gy, block, __VA_ARGS__)
/* Where the threads of the grid share n items of V elements each, by GRID_LOOP. */
#define LAUNCH_ITEMS(cu, name, bf16, V, n, ...)                                                              \
    LAUNCH_FOUR(cu, name, bf16, V, blocks_for(cu, n), 1, THREADS, __VA_ARGS__)

/* For a loop over n items that all threads of the grid share. */
#define GRID_LOOP(i, n)                                                                                      \
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < (n);                                  \
         i += (size_t)gridDim.x * blockDim.x)

/* Blocks for n items, an item a thread; more than fill the device a few times only wait. */
static inline unsigned blocks_for(const struct cuda *cu, size_t n)
{
    size_t want = (n + THREADS - 1) / THREADS, most = (size_t)cu->info.processors * 16;
    return (unsigned)(want < 1 ? 1 : want > most ? most : want);
}

/* Sums `count` rows of `width` floats in shared memory, s[row * width + column], into row 0: always in the
 * same order, one phase a level. */
#define BLOCK_SUM(s, count, width)                                                                           \
    for (int n_ = (count), h_ = (n_ + 1) / 2; n_ > 1; n_ = h_, h_ = (n_ + 1) / 2)                            \
    PHASE for (int i_ = (int)threadIdx.x; i_ < (n_ - h_) * (width); i_ += (int)blockDim.x) s[i_] +=          \
        s[i_ + h_ * (width)]

#endif
