/* Softmax and cross-entropy. A block takes one group of one row: blockIdx.x the row, blockIdx.y the group; a
 * short group is a warp's work, a long one that of all threads that a block can have. In a group, with
 * temperature T, z = (x - max) / T, truth t, and t' the sum of t:
 *   log p_k = z_k - log sum exp z,  loss = -sum t_k log p_k,  dloss/dx_k = (t' p_k - t_k) / T
 * What decides how exact the loss is (its terms and all sums) is double, the exponentials are float. */
#include "backend/ops/softmax.h"
#include "kernel.h"

/* A row is channels * pixels classes, in groups of `length`; x and gx are float or bfloat16, p and gy float.
 */
struct softmax {
    const struct cuda *cu;
    int bf16;
    unsigned rows, rows_back, groups, length, channels, pixels;
    double temperature;
    double on, off; /* truth of the class, and of every other one */
};

enum { EACH = 8 };    /* classes that a thread should have */
enum { MOST = 1024 }; /* threads of a block */
enum { NO_LABEL = -1 };

/* Where class k of a row lies, which is counted in C,H,W order. */
DEVICE size_t place(const struct softmax *j, unsigned k)
{
    const size_t row = (size_t)blockIdx.x * j->channels * j->pixels;
    return row + (size_t)(k % j->pixels) * j->channels + k / j->pixels;
}

DEVICE int label_of(const int *label, unsigned scored)
{
    return label && blockIdx.x < scored ? label[blockIdx.x] : NO_LABEL;
}

DEVICE double truth(const struct softmax *j, unsigned k, int label, const struct mixed_label *mixed)
{
    if (label == NO_LABEL) return 0;
    if (mixed) return mixed_truth(&mixed[blockIdx.x], (int)k, j->on, j->off);
    return (int)k == label ? j->on : j->off;
}

#define EACH_CLASS(k, j)                                                                                     \
    for (unsigned k = blockIdx.y * (j).length + threadIdx.x; k < (blockIdx.y + 1) * (j).length;              \
         k += blockDim.x)

/* part: of the labelled rows, [row][group]. */
KERNEL_WIDE(classify, struct softmax j, const void *x, const int *label, const struct mixed_label *mixed,
            unsigned scored, float *p, double *part)
{
    SHARED(float, max, MOST);
    SHARED(double, sum, MOST);
    SHARED(double, loss, MOST);
    const float factor = (float)(1 / j.temperature);
    const int class_ = label_of(label, scored);
    PHASE
    {
        float f, most = -INFINITY;
        EACH_CLASS(k, j)
        {
            load(j.bf16, 1, x, place(&j, k), &f);
            most = f > most ? f : most;
        }
        max[threadIdx.x] = most;
    }
    for (unsigned h = blockDim.x / 2; h; h /= 2) /* a power of two */
        PHASE if (threadIdx.x < h && max[threadIdx.x + h] > max[threadIdx.x]) max[threadIdx.x] =
            max[threadIdx.x + h];
    PHASE
    {
        float f;
        double mine = 0;
        EACH_CLASS(k, j)
        {
            load(j.bf16, 1, x, place(&j, k), &f);
            mine += (double)expf((f - max[0]) * factor);
        }
        sum[threadIdx.x] = mine;
    }
    BLOCK_SUM(sum, (int)blockDim.x, 1);
    PHASE
    {
        float f;
        double mine = 0;
        const double log_sum = class_ == NO_LABEL ? 0 : log(sum[0]);
        const float each = (float)(1 / sum[0]);
        EACH_CLASS(k, j)
        {
            const double t = truth(&j, k, class_, mixed);
            load(j.bf16, 1, x, place(&j, k), &f);
            f -= max[0];
            if (t != 0) mine -= t * ((double)f / j.temperature - log_sum);
            p[place(&j, k)] = expf(f * factor) * each;
        }
        loss[threadIdx.x] = mine;
    }
    if (class_ == NO_LABEL) return;
    BLOCK_SUM(loss, (int)blockDim.x, 1);
    PHASE if (threadIdx.x == 0) part[blockIdx.x * j.groups + blockIdx.y] = loss[0];
}

/* One block. */
KERNEL(total, const double *part, unsigned n, double *loss)
{
    SHARED(double, sum, THREADS);
    PHASE
    {
        double mine = 0;
        for (unsigned i = threadIdx.x; i < n; i += blockDim.x) mine += part[i];
        sum[threadIdx.x] = mine;
    }
    BLOCK_SUM(sum, THREADS, 1);
    PHASE if (threadIdx.x == 0) *loss = sum[0];
}

/* The sum of what is true in this group. */
DEVICE double truths(const struct softmax *j, int label, const struct mixed_label *mixed)
{
    double here = 0; /* the share of the classes in this group */
    if (label == NO_LABEL) return 0;
    for (int i = 0; mixed && i < MIXED; i++)
        if ((unsigned)mixed[blockIdx.x].label[i] / j->length == blockIdx.y)
            here += (double)mixed[blockIdx.x].share[i];
    if (!mixed) here = (unsigned)label / j->length == blockIdx.y;
    return here * (j->on - j->off) + j->length * j->off;
}

KERNEL_WIDE(classify_back, struct softmax j, const float *p, const int *label,
            const struct mixed_label *mixed, unsigned scored, unsigned scored_all, const float *gy, void *gx,
            int add)
{
    SHARED(double, dot, MOST);
    const int class_ = label_of(label, scored);
    const double weight = class_ == NO_LABEL ? 0 : 1. / scored_all, all = truths(&j, class_, mixed);
    PHASE
    {
        double mine = 0;
        if (gy) EACH_CLASS(k, j) mine += (double)gy[place(&j, k)] * (double)p[place(&j, k)];
        dot[threadIdx.x] = mine;
    }
    BLOCK_SUM(dot, gy ? (int)blockDim.x : 1, 1);
    PHASE EACH_CLASS(k, j)
    {
        const double of = (double)p[place(&j, k)];
        double g = weight * (all * of - truth(&j, k, class_, mixed));
        if (gy) g += of * ((double)gy[place(&j, k)] - dot[0]);
        float f = (float)(g / j.temperature);
        put(j.bf16, 1, gx, place(&j, k), &f, add);
    }
}

static unsigned threads_for(unsigned length)
{
    unsigned n = 32;
    while (n < MOST && n * EACH < length) n *= 2;
    return n;
}

static int plan(struct backend *be, const struct softmax_desc *d, struct tensor *out, struct op_plan *p,
                struct err *e)
{
    TRY(op_plan_init(p, sizeof(struct softmax), e));
    const struct shape in = d->in->shape;
    const size_t k = shape_row(in);
    TRY(cuda_tensor(out, 0, e));
    *(struct softmax *)p->self = (struct softmax){ .cu = cuda_of(be),
                                                   .bf16 = cuda_is_bf16(d->in),
                                                   .rows = (unsigned)in.n,
                                                   .rows_back = (unsigned)d->rows_back,
                                                   .groups = (unsigned)d->groups,
                                                   .length = (unsigned)k / d->groups,
                                                   .channels = (unsigned)in.c,
                                                   .pixels = (unsigned)(in.h * in.w),
                                                   .temperature = d->temperature,
                                                   .on = 1 - d->smooth,
                                                   .off = k > 1 ? d->smooth / (double)(k - 1) : 0 };
    p->scratch_bytes = (size_t)in.n * d->groups * sizeof(double);
    return OK;
}

static int forward(const struct op_plan *made, const struct op_context *context, const void *x, void *p,
                   double *loss)
{
    const struct softmax *s = (const struct softmax *)made->self;
    double *part = (double *)context->scratch;
    LAUNCH(s->cu, classify, s->rows, s->groups, threads_for(s->length), *s, x, context->label, context->mixed,
           context->scored, (float *)p, part);
    if (context->label) LAUNCH(s->cu, total, 1, 1, THREADS, part, context->scored * s->groups, loss);
    return OK;
}

static int backward(const struct op_plan *made, const struct op_context *context, const void *p,
                    const void *gy, void *gx, int add)
{
    const struct softmax *s = (const struct softmax *)made->self;
    if (gx)
        LAUNCH(s->cu, classify_back, s->rows_back, s->groups, threads_for(s->length), *s, (const float *)p,
               context->label, context->mixed, context->scored, context->scored_all, (const float *)gy, gx,
               add);
    return OK;
}

const struct softmax_ops cuda_softmax = { plan, forward, backward };
