/* Center loss, as ref/center.c computes it. */
#include "kernel.h"

DEVICE float feature(const struct center_job *j, const void *x, size_t row, unsigned t)
{
    float f;
    load(j->bf16, 1, x, row * j->d + t, &f);
    return f;
}

/* A block takes a class and CENTER_FEATURES features, a thread one of them: moves the center, sums the rows
 * of the class, in their order. Its part of the loss: sum (h - c)^2 / 2. */
KERNEL(pull, struct center_job j, const void *x, const int *label, unsigned scored, int move,
       int reuse_detached, struct center_state state, double *part)
{
    SHARED(double, loss, CENTER_FEATURES);
    const unsigned k = blockIdx.x;
    PHASE
    {
        const unsigned t = blockIdx.y * CENTER_FEATURES + threadIdx.x;
        loss[threadIdx.x] = 0;
        if (t >= j.d) continue;
        const size_t at = (size_t)k * j.d + dense_at(t, j.c, j.d / j.c);
        float c = state.centers[at], sum = state.sum[at];
        if (move) c -= (float)(j.alpha * (double)sum / (1 + (double)state.count[k])), sum = 0;
        for (unsigned row = 0; row < scored; row++) {
            if (label[row] != (int)k) continue;
            const float z = feature(&j, x, row, t) - c;
            loss[threadIdx.x] += (double)z * (double)z / 2;
            sum -= z;
        }
        if (!reuse_detached) state.centers[at] = c, state.sum[at] = sum;
    }
    BLOCK_SUM(loss, CENTER_FEATURES, 1);
    PHASE if (!threadIdx.x) part[k * gridDim.y + blockIdx.y] = loss[0];
}

/* One block: the counts, once all centers have moved, and the loss. */
KERNEL(settle, struct center_job j, const int *label, unsigned scored, int move, int reuse_detached,
       float *count, const double *part, unsigned parts, double *loss)
{
    SHARED(double, sum, THREADS);
    PHASE
    {
        for (unsigned k = threadIdx.x; !reuse_detached && k < (unsigned)j.classes; k += THREADS) {
            unsigned n = 0;
            for (unsigned row = 0; row < scored; row++) n += label[row] == (int)k;
            count[k] = (move ? 0 : count[k]) + (float)n;
        }
        sum[threadIdx.x] = 0;
        for (unsigned i = threadIdx.x; i < parts; i += THREADS) sum[threadIdx.x] += part[i];
    }
    BLOCK_SUM(sum, THREADS, 1);
    PHASE if (!threadIdx.x) *loss = sum[0];
}

KERNEL(pull_back, struct center_job j, const struct step_state *now, const void *x, const int *label,
       unsigned scored, const float *centers, void *gx, size_t n, int add)
{
    PHASE
    {
        const double share = warmup_share(j.warmup, now->iteration, now->ce_average, j.classes);
        const double factor = j.lambda * share / scored;
        GRID_LOOP(i, n)
        {
            const unsigned row = (unsigned)(i / j.d), t = (unsigned)(i % j.d);
            float g = 0;
            if (row < scored) {
                const float c = centers[(size_t)label[row] * j.d + dense_at(t, j.c, j.d / j.c)];
                g = (float)(factor * (double)(feature(&j, x, row, t) - c));
            }
            put(j.bf16, 1, gx, i, &g, add);
        }
    }
}

LAUNCHERS
int kernel_center(const struct cuda *cu, const struct center_job *j, const void *x, const int *label,
                  unsigned scored, int move, int reuse_detached, const struct center_state *state,
                  double *loss_part, double *loss)
{
    const unsigned parts = (j->d + CENTER_FEATURES - 1) / CENTER_FEATURES;
    LAUNCH(cu, pull, j->classes, parts, CENTER_FEATURES, *j, x, label, scored, move, reuse_detached, *state,
           loss_part);
    LAUNCH(cu, settle, 1, 1, THREADS, *j, label, scored, move, reuse_detached, state->count, loss_part,
           (unsigned)j->classes * parts, loss);
    return OK;
}

int kernel_center_back(const struct cuda *cu, const struct center_job *j, const struct step_state *now,
                       const void *x, const int *label, unsigned scored, const struct center_state *state,
                       void *gx, int add)
{
    const size_t n = (size_t)j->rows_back * j->d;
    LAUNCH(cu, pull_back, blocks_for(cu, n), 1, THREADS, *j, now, x, label, scored, state->centers, gx, n,
           add);
    return OK;
}
LAUNCHERS_END
