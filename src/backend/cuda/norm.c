/* Batch normalisation: plans. Kept from forward to backward: mean and 1 / sqrt(var + eps) of each split, and
 * the bias. In scratch: what the blocks added up, then what one kernel leaves for the next. */
#include "norm.h"
#include "backend/scalar.h"

struct norm {
    const struct cuda *cu;
    struct norm_job job, back; /* forward; backward, which may be of the first split only */
    int train;
};

/* Numbers in scratch: what the blocks added up; behind that the means that backward takes, or one flag. */
static size_t partials(const struct norm_job *j) { return (size_t)j->splits * j->blocks * 2 * j->channels; }
static size_t means(const struct norm_job *j) { return (size_t)j->splits * 2 * j->channels; }

/* Two half-lines that meet in 0. */
static int is_relu_like(enum act a)
{
    return a == ACT_LINEAR || a == ACT_RELU || a == ACT_LEAKY || a == ACT_RELIE;
}

static struct norm_job job_of(const struct norm_desc *d)
{
    const struct tensor *in = d->in;
    const unsigned pixels = (unsigned)(in->shape.h * in->shape.w);
    const int bf16 = cuda_is_bf16(in), relu_like = is_relu_like(d->act);
    return (struct norm_job){
        .bf16 = bf16,
        .mode = d->addend   ? NORM_ADDED
                : relu_like ? NORM_RELU_LIKE
                            : NORM_ANY,
        .act = d->act,
        .below = relu_like ? act_slope_y(d->act, -1) : 0,
        .V = cuda_vector(bf16, (size_t)in->shape.c),
        .channels = (unsigned)in->shape.c,
        .splits = (unsigned)d->splits,
        .rows_s1 = d->splits == 2 ? (unsigned)d->rows_s1 * pixels : 0,
        .rows = (unsigned)in->shape.n * pixels,
    };
}

static struct norm_job back_of(struct norm_job j, const struct norm_desc *d)
{
    if (d->splits == 1 || d->rows_back == d->in->shape.n) return j;
    j.splits = 1;
    j.rows = j.rows_s1;
    j.rows_s1 = 0;
    return j;
}

static int plan(struct backend *be, const struct norm_desc *d, struct tensor *out, struct op_plan *p,
                struct err *e)
{
    TRY(op_plan_init(p, sizeof(struct norm), e));
    if (d->splits == 2 && (d->rows_s1 < 1 || d->rows_s1 >= d->in->shape.n))
        return fail(e, E_ARG, "batch normalisation of two halves: the first has %d of %d rows, both need one",
                    d->rows_s1, d->in->shape.n);
    TRY(cuda_tensor(out, cuda_is_bf16(d->in), e));
    struct norm *s = p->self;
    *s = (struct norm){ .cu = cuda_of(be), .job = job_of(d), .train = d->train };
    s->back = back_of(s->job, d);
    s->job.blocks = kernel_norm_blocks(s->cu, &s->job);
    s->back.blocks = kernel_norm_blocks(s->cu, &s->back);
    p->fused = 1;
    if (!d->train) return OK;
    const size_t sums = partials(&s->job), back = partials(&s->back);
    p->kept_bytes = (means(&s->job) + s->job.channels) * sizeof(float);
    p->scratch_bytes = ((sums > back ? sums : back) + means(&s->job)) * sizeof(float);
    return OK;
}

static struct norm_at kept(const struct norm *s, const float *stats, const float *scale)
{
    return (struct norm_at){ stats, stats + s->job.channels, scale, stats + means(&s->job), 0 };
}

static int adds(enum act act) { return is_relu_like(act); }

static int forward(const struct op_plan *p, const struct op_context *context, const void *x,
                   const void *addend, const real *scale, const real *bias, real *mean, real *var,
                   double bn_momentum, void *stats, void *y)
{
    const struct norm *s = p->self;
    struct norm_at at = { mean, var, scale, bias, 1 };
    if (s->train) {
        float *partial = context->scratch;
        int *fresh = (int *)(void *)(partial + partials(&s->job));
        TRY(kernel_norm_stats(s->cu, &s->job, x, bias, mean, var, bn_momentum, stats, partial, fresh));
        at = kept(s, stats, scale);
    }
    return kernel_norm_apply(s->cu, &s->job, &at, x, addend, y);
}

static int backward(const struct op_plan *p, const struct op_context *context, const void *x, const void *y,
                    const real *scale, const void *stats, const void *gy, void *gx, void *gaddend,
                    real *gscale, real *gbias)
{
    const struct norm *s = p->self;
    const struct norm_at at = kept(s, stats, scale);
    float *partial = context->scratch, *mean_g = partial + partials(&s->back);
    const int added = s->back.mode == NORM_ADDED;
    void *g = gaddend ? gaddend : gx; /* with an addend: where gy times the slope goes */
    TRY(kernel_norm_sums(s->cu, &s->back, &at, x, y, gy, g, gscale, gbias, context->add, partial, mean_g));
    return gx ? kernel_norm_back(s->cu, &s->back, &at, mean_g, x, added ? g : gy, gx) : OK;
}

const struct norm_ops cuda_norm = { plan, forward, backward, adds };
