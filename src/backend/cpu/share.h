/* An open device of the cpu backend, and how its threads share work: included by every file here.
 *
 *   share.c          loops over several threads, scratch memory
 *   memory_format.c  where an element lies in memory; copies between memory formats
 *   dnn.c            oneDNN's primitives and descriptors
 *   onednn.h         what differs between its versions 2 and 3
 *   cpu.c            the device: opening it, memory, access by the host
 *   NAME.c           an operation: oneDNN's primitives where they are faster, else plain C
 */
#ifndef BACKEND_CPU_SHARE_H
#define BACKEND_CPU_SHARE_H
#include "backend/backend.h"

/* The signatures are every backend's: not every operation looks at all arguments. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

_Static_assert(sizeof(real) == sizeof(float), "oneDNN computes in float: build with ONEDNN=0 for double");

struct cpu {
    int threads;
    struct dnnl_engine *engine; /* dnn.c's */
    struct dnnl_stream *stream; /* likewise */
};
static inline const struct cpu *cpu_of(const struct backend *be) { return be->self; }

/* Calls fn on consecutive parts of [0, n), one a thread, whose bounds are multiples of `grain`; the bounds
 * depend on n and the number of threads only. Small n stay in the calling thread. */
void parallel_for(const struct cpu *, size_t n, size_t grain, void (*fn)(void *ctx, size_t from, size_t to),
                  void *ctx);

enum { PIECE = 1024 }; /* numbers that stay in the first-level cache from one loop to the next */

/* y += x: by the calling thread, and by all. */
void accumulate(size_t n, const float *x, float *y);
void accumulate_all(const struct cpu *, size_t n, const float *x, float *y);

/* Reserves bytes in scratch: returns their offset, a multiple of 64, and moves *end behind them. */
size_t scratch_reserve(size_t *end, size_t bytes);
static inline void *scratch_at(void *scratch, size_t offset) { return (char *)scratch + offset; }

static inline size_t min_size(size_t a, size_t b) { return a < b ? a : b; }
static inline size_t max_size(size_t a, size_t b) { return a > b ? a : b; }

/* Hot loops are compiled for several instruction sets, one of which is chosen when the program is loaded. For
 * static functions only: clang 14 gives the chosen one another name. Sanitizers cannot run the code that
 * chooses. */
#if defined(__x86_64__) && defined(__gnu_linux__) && !defined(__SANITIZE_ADDRESS__) &&                       \
    !defined(__SANITIZE_THREAD__)
#if defined(__clang__)
#if __has_attribute(target_clones) && !__has_feature(address_sanitizer) && !__has_feature(thread_sanitizer)
#define CPU_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#endif
#else
#define CPU_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#endif
#endif
#ifndef CPU_CLONES
#define CPU_CLONES
#endif
#if defined(__clang__)
/* The checks of sanitizers keep loops marked `omp simd` scalar. */
#pragma clang diagnostic ignored "-Wpass-failed"
#endif

#endif
