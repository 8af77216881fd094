/* One launch for all parameters. The numbers of each are cut into chunks; a block takes a chunk and finds
 * whose it is. */
#include "kernel.h"

/* The part that chunk `chunk` belongs to: the last that begins at or before it. */
DEVICE int part_of(const struct sgd_part *part, int n, size_t chunk)
{
    int low = 0;
    for (int high = n; high - low > 1;) {
        int middle = low + (high - low) / 2;
        if (part[middle].before <= chunk * SGD_CHUNK)
            low = middle;
        else
            high = middle;
    }
    return low;
}

KERNEL(step, const struct sgd_part *part, int n, float momentum, float average, const struct step_state *now)
{
    PHASE
    {
        const struct sgd_part p = part[part_of(part, n, blockIdx.x)]; /* read once, whatever is written */
        const size_t first = (size_t)blockIdx.x * SGD_CHUNK - p.before;
        const float rate = (float)(now->rate * p.rate);
        if (now->stop) continue; /* the last good weights stay */
        for (size_t i = first + threadIdx.x; i < first + SGD_CHUNK && i < p.count; i += blockDim.x) {
            const float v = momentum * p.v[i] + (average * p.g[i] + p.decay * p.w[i]), w = p.w[i] - rate * v;
            p.v[i] = v;
            p.w[i] = w;
            if (p.copy) p.copy[i] = bf16_put(w);
        }
    }
}

KERNEL(find_bad, const struct sgd_part *part, int n, int *bad, int *stop)
{
    PHASE
    {
        const int k = part_of(part, n, blockIdx.x);
        const struct sgd_part *p = &part[k];
        const size_t first = (size_t)blockIdx.x * SGD_CHUNK - p->before;
        for (size_t i = first + threadIdx.x; i < first + SGD_CHUNK && i < p->count; i += blockDim.x)
            if ((float_bits(p->g[i]) & 0x7f800000u) == 0x7f800000u) {
                bad[k] = 1; /* whoever does it: the number is the same */
                if (stop) *stop = STOP_GRADIENT;
            }
    }
}

LAUNCHERS
int kernel_sgd(const struct cuda *cu, const struct sgd_part *part, int n, size_t chunks, float momentum,
               float average, const struct step_state *now)
{
    if (chunks) LAUNCH(cu, step, chunks, 1, THREADS, part, n, momentum, average, now);
    return OK;
}

int kernel_finite(const struct cuda *cu, const struct sgd_part *part, int n, size_t chunks, int *bad,
                  int *stop)
{
    if (chunks) LAUNCH(cu, find_bad, chunks, 1, THREADS, part, n, bad, stop);
    return OK;
}
LAUNCHERS_END
