#include "share.h"
#include <omp.h>

void parallel_for(const struct cpu *cpu, size_t n, size_t grain,
                  void (*fn)(void *ctx, size_t from, size_t to), void *ctx)
{
    size_t parts = (n + grain - 1) / grain, threads = min_size((size_t)cpu->threads, parts);
    if (threads <= 1) {
        if (n) fn(ctx, 0, n);
        return;
    }
#pragma omp parallel num_threads((int)threads)
    {
        /* OpenMP may start fewer threads than asked for: the bounds stay those of `threads`. */
        for (size_t t = (size_t)omp_get_thread_num(); t < threads; t += (size_t)omp_get_num_threads()) {
            size_t from = parts * t / threads * grain, to = parts * (t + 1) / threads * grain;
            fn(ctx, from, min_size(to, n));
        }
    }
}

CPU_CLONES static void accumulate_loop(size_t n, const float *x, float *y)
{
#pragma omp simd
    for (size_t i = 0; i < n; i++) y[i] += x[i];
}

void accumulate(size_t n, const float *x, float *y) { accumulate_loop(n, x, y); }

struct sum {
    const float *x;
    float *y;
};

static void accumulate_part(void *ctx, size_t from, size_t to)
{
    const struct sum *k = ctx;
    accumulate_loop(to - from, k->x + from, k->y + from);
}

void accumulate_all(const struct cpu *cpu, size_t n, const float *x, float *y)
{
    struct sum k = { x, y };
    parallel_for(cpu, n, 4096, accumulate_part, &k);
}

size_t scratch_reserve(size_t *end, size_t bytes)
{
    size_t at = *end;
    *end = (at + bytes + 63) / 64 * 64;
    return at;
}
