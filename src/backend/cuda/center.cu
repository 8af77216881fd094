/* Center loss, as ref/center.c computes it. */
#include "backend/ops/center.h"
#include "backend/ops/sum.h"
#include "kernel.h"

enum { FEATURES = 128 }; /* of a block */

struct center {
    struct backend *be;
    const struct cuda *cu;
    struct center_desc desc;
    int bf16;
    unsigned d, c;  /* features, and channels of them */
    unsigned parts; /* blocks that share a class */
    size_t row_bytes;
};

DEVICE float feature(const struct center *j, const void *x, size_t row, unsigned t)
{
    float f;
    load(j->bf16, 1, x, row * j->d + t, &f);
    return f;
}

/* A block takes a class and FEATURES features, a thread one of them: moves the center, sums the rows
 * of the class, in their order. Its part of the loss: sum (h - c)^2 / 2. */
KERNEL(pull, struct center j, const void *x, const int *label, unsigned scored, int move, int reuse_detached,
       struct center_state state, double *part)
{
    SHARED(double, loss, FEATURES);
    const unsigned k = blockIdx.x;
    PHASE
    {
        const unsigned t = blockIdx.y * FEATURES + threadIdx.x;
        loss[threadIdx.x] = 0;
        if (t >= j.d) continue;
        const size_t at = (size_t)k * j.d + dense_at(t, j.c, j.d / j.c);
        float c = state.centers[at], sum = state.sum[at];
        if (move) c -= (float)(j.desc.alpha * (double)sum / (1 + (double)state.count[k])), sum = 0;
        for (unsigned row = 0; row < scored; row++) {
            if (label[row] != (int)k) continue;
            const float z = feature(&j, x, row, t) - c;
            loss[threadIdx.x] += (double)z * (double)z / 2;
            sum -= z;
        }
        if (!reuse_detached) state.centers[at] = c, state.sum[at] = sum;
    }
    BLOCK_SUM(loss, FEATURES, 1);
    PHASE if (!threadIdx.x) part[k * j.parts + blockIdx.y] = loss[0];
}

/* One block: the counts, once all centers have moved, and the loss. */
KERNEL(finish, struct center j, const int *label, unsigned scored, int move, int reuse_detached, float *count,
       const double *part, double *loss)
{
    SHARED(double, sum, THREADS);
    PHASE
    {
        for (unsigned k = threadIdx.x; !reuse_detached && k < (unsigned)j.desc.classes; k += THREADS) {
            unsigned n = 0;
            for (unsigned row = 0; row < scored; row++) n += label[row] == (int)k;
            count[k] = (move ? 0 : count[k]) + (float)n;
        }
        sum[threadIdx.x] = 0;
        for (unsigned i = threadIdx.x; i < (unsigned)j.desc.classes * j.parts; i += THREADS)
            sum[threadIdx.x] += part[i];
    }
    BLOCK_SUM(sum, THREADS, 1);
    PHASE if (!threadIdx.x) *loss = sum[0];
}

KERNEL(pull_back, struct center j, const struct step_state *now, const void *x, const int *label,
       unsigned scored, unsigned scored_all, const float *centers, void *gx, size_t n, int add)
{
    PHASE
    {
        const double share = warmup_share(j.desc.warmup, now->iteration, now->ce_average, j.desc.classes);
        const double factor = j.desc.lambda * share / scored_all;
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

/* In scratch: parts of the loss; where there are several processes, the rows of all, and their labels. */
static size_t part_bytes(const struct center *s)
{
    return ((size_t)s->desc.classes * s->parts * sizeof(double) + 15) / 16 * 16;
}
static size_t rows_bytes(const struct center *s)
{
    return ((size_t)s->desc.share.all * s->row_bytes + 15) / 16 * 16;
}

static int plan(struct backend *be, const struct center_desc *d, struct op_plan *p, struct err *e)
{
    const unsigned features = (unsigned)shape_row(d->in->shape), parts = (features + FEATURES - 1) / FEATURES;
    TRY(op_plan_init(p, sizeof(struct center), e));
    struct center *s = (struct center *)p->self;
    *s = (struct center){ .be = be,
                          .cu = cuda_of(be),
                          .desc = *d,
                          .bf16 = cuda_is_bf16(d->in),
                          .d = features,
                          .c = (unsigned)d->in->shape.c,
                          .parts = parts,
                          .row_bytes = features * cuda_element(cuda_is_bf16(d->in)) };
    p->scratch_bytes = part_bytes(s) + rows_bytes(s) + (size_t)d->share.all * sizeof(int);
    return OK;
}

static int forward(const struct op_plan *p, const struct op_context *context, const void *x,
                   const struct center_state *state, double *loss)
{
    const struct center *s = (const struct center *)p->self;
    const int reuse = context->reuse_detached, move = !context->add && !reuse;
    const struct share k = s->desc.share;
    const int *label = context->label;
    int rows = context->scored;
    double *part = (double *)context->scratch;
    if (k.all) {
        char *joined = (char *)context->scratch + part_bytes(s), *labels = joined + rows_bytes(s);
        TRY(s->be->ops->sum->join(s->be, k, x, s->row_bytes, joined));
        TRY(s->be->ops->sum->join(s->be, k, label, sizeof *label, labels));
        x = joined;
        label = (const int *)(void *)labels;
        rows = k.all;
    }
    LAUNCH(s->cu, pull, s->desc.classes, s->parts, FEATURES, *s, x, label, rows, move, reuse, *state, part);
    LAUNCH(s->cu, finish, 1, 1, THREADS, *s, label, rows, move, reuse, state->count, part, loss);
    return OK;
}

static int backward(const struct op_plan *p, const struct op_context *context, const void *x,
                    const struct center_state *state, void *gx, int add)
{
    const struct center *s = (const struct center *)p->self;
    const size_t n = (size_t)s->desc.rows_back * s->d;
    LAUNCH(s->cu, pull_back, blocks_for(s->cu, n), 1, THREADS, *s, context->state, x, context->label,
           context->scored, context->scored_all, state->centers, gx, n, add);
    return OK;
}

const struct center_ops cuda_center = { plan, forward, backward };
