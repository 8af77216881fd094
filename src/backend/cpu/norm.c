#include <math.h>
#include "cpu.h"
#include <string.h>
#include "core/mem.h"

enum { SPLITS = 2 };

/* Rows [row, row + rows): one forward pass as far as statistics go. */
struct half {
    int row, rows;
    size_t offset;       /* of its first row, bytes */
    size_t stats;        /* of its mean, and behind that its variance, in stats; bytes */
    size_t workspace;    /* offset, bytes */
    struct op run, back; /* back is not made where the backward pass leaves the half out */
};

struct norm {
    const struct cpu *cpu;
    struct half half[SPLITS];
    int nhalves, train, relu;
    size_t c, hw, vector;     /* channels, pixels; bytes for a number a channel, a multiple of 64 */
    size_t at_scale, at_bias; /* in scratch: gradients before they are added */
};

/* Where the arguments stand: see dnn_norm. */
enum { TRAIN_MASK = 6 };

static int plan_half(struct norm *s, struct half *h, const struct norm_desc *d, struct norm_plan *plan,
                     struct err *e)
{
    struct shape shape = d->in->shape;
    shape.n = h->rows;
    h->offset = cpu_rows_bytes(d->in, h->row);
    TRY(dnn_norm(&h->run, s->cpu, shape, d->in->layout, s->relu, d->train ? PASS_TRAIN : PASS_INFER, NULL,
                 e));
    plan->scratch_bytes = cpu_max(plan->scratch_bytes, h->run.scratch_bytes);
    if (!d->train) return OK;
    h->stats = cpu_carve(&plan->stats_bytes, 2 * s->vector);
    if (s->relu) h->workspace = cpu_carve(&plan->workspace_bytes, op_arg_bytes(&h->run, TRAIN_MASK));
    if (h->row + h->rows > d->rows_back) return OK;
    TRY(dnn_norm(&h->back, s->cpu, shape, d->in->layout, s->relu, PASS_DATA, &h->run, e));
    plan->scratch_bytes = cpu_max(plan->scratch_bytes, h->back.scratch_bytes);
    return OK;
}

static void norm_drop(struct norm_plan *plan)
{
    struct norm *s = plan->self;
    if (!s) return;
    for (int i = 0; i < SPLITS; i++) {
        op_drop(&s->half[i].run);
        op_drop(&s->half[i].back);
    }
    mem_free(s);
    plan->self = NULL;
}

static int plan_all(struct norm *s, const struct norm_desc *d, struct norm_plan *plan, struct err *e)
{
    int n = d->in->shape.n;
    s->nhalves = d->train ? d->splits : 1;
    s->half[0] = (struct half){ .rows = s->nhalves == 1 ? n : d->first };
    s->half[1] = (struct half){ .row = d->first, .rows = n - d->first };
    for (int i = 0; i < s->nhalves; i++) TRY(plan_half(s, &s->half[i], d, plan, e));
    if (d->train) {
        cpu_carve(&plan->scratch_bytes, 0);
        s->at_scale = cpu_carve(&plan->scratch_bytes, s->vector);
        s->at_bias = cpu_carve(&plan->scratch_bytes, s->vector);
    }
    return OK;
}

static int norm_plan(struct backend *be, const struct norm_desc *d, struct tensor *out,
                     struct norm_plan *plan, struct err *e)
{
    *plan = (struct norm_plan){ 0 };
    if (d->train && d->splits == SPLITS && (d->first < 1 || d->first >= d->in->shape.n))
        return fail(e, E_ARG, "batch normalisation of two halves: the first has %d of %d rows, both need one",
                    d->first, d->in->shape.n);
    TRY(order_tensor(out, d->in->layout, e));
    struct norm *s = mem_alloc(1, sizeof *s);
    if (!s) return fail(e, E_MEM, "no memory to plan a batch normalisation");
    plan->self = s;
    s->cpu = cpu_of(be);
    s->train = d->train;
    s->relu = d->act == ACT_RELU;
    s->c = (size_t)d->in->shape.c;
    s->hw = (size_t)d->in->shape.h * (size_t)d->in->shape.w;
    s->vector = (s->c + 15) / 16 * 16 * sizeof(float);
    plan->fused = s->relu || d->act == ACT_LINEAR;
    int rc = plan_all(s, d, plan, e);
    if (rc) norm_drop(plan);
    return rc;
}

/* Moves the running statistics once: r += pace * (batch - r), batch = the average over the halves. */
static void move_running(const struct norm *s, const void *stats, double pace, real *mean, real *var)
{
    int never = 1;
    for (size_t c = 0; c < s->c && never; c++) never = var[c] == 0;
    if (never) pace = 1;
    for (size_t c = 0; c < s->c; c++) {
        double m = 0, v = 0;
        for (int i = 0; i < s->nhalves; i++) {
            const float *of = (const float *)((const char *)stats + s->half[i].stats);
            double n = (double)s->half[i].rows * (double)s->hw;
            m += (double)of[c] / s->nhalves;
            v += (double)of[s->vector / sizeof(float) + c] * (n > 1 ? n / (n - 1) : 1) / s->nhalves;
        }
        if (!isfinite(m) || !isfinite(v)) continue; /* a net that blows up keeps the statistics it had */
        mean[c] = (real)((double)mean[c] + pace * (m - (double)mean[c]));
        var[c] = (real)((double)var[c] + pace * (v - (double)var[c]));
    }
}

static int forward_half(const struct norm *s, const struct half *h, const void *x, const real *scale,
                        const real *bias, void *stats, void *workspace, void *y, void *scratch)
{
    char *mean = cpu_at(stats, h->stats);
    void *mask = s->relu ? cpu_at(workspace, h->workspace) : NULL;
    return op_run(&h->run,
                  (const void *[]){ (const char *)x + h->offset, scale, bias, cpu_at(y, h->offset), mean,
                                    mean + s->vector, mask },
                  scratch);
}

static int norm_forward(const struct norm_plan *plan, const void *x, const real *scale, const real *bias,
                        real *mean, real *var, double pace, void *stats, void *workspace, void *y,
                        void *scratch)
{
    const struct norm *s = plan->self;
    if (!s->train) return op_run(&s->half[0].run, (const void *[]){ x, mean, var, scale, bias, y }, scratch);
    for (int i = 0; i < s->nhalves; i++)
        TRY(forward_half(s, &s->half[i], x, scale, bias, stats, workspace, y, scratch));
    move_running(s, stats, pace, mean, var);
    return OK;
}

static int backward_half(const struct norm *s, const struct half *h, const void *x, const real *scale,
                         const void *stats, const void *workspace, const void *gy, void *gx, real *gscale,
                         real *gbias, void *scratch)
{
    const char *mean = (const char *)stats + h->stats;
    const void *mask = s->relu ? (const char *)workspace + h->workspace : NULL;
    return op_run(&h->back,
                  (const void *[]){ (const char *)x + h->offset, mean, mean + s->vector,
                                    (const char *)gy + h->offset, scale, scale, cpu_at(gx, h->offset), gscale,
                                    gbias, mask },
                  scratch);
}

static int norm_backward(const struct norm_plan *plan, const void *x, const void *y, const real *scale,
                         const void *stats, const void *workspace, const void *gy, void *gx, real *gscale,
                         real *gbias, int add, void *scratch)
{
    const struct norm *s = plan->self;
    (void)y; /* a fused relu left a mask in the workspace */
    for (int i = 0; i < s->nhalves && s->half[i].back.primitive; i++) {
        int sum = add || i;
        float *gs = sum ? cpu_at(scratch, s->at_scale) : gscale,
              *gb = sum ? cpu_at(scratch, s->at_bias) : gbias;
        TRY(backward_half(s, &s->half[i], x, scale, stats, workspace, gy, gx, gs, gb, scratch));
        for (size_t c = 0; c < s->c && sum; c++) {
            gscale[c] += gs[c];
            gbias[c] += gb[c];
        }
    }
    return OK;
}

const struct norm_ops cpu_norm = {
    .plan = norm_plan,
    .forward = norm_forward,
    .backward = norm_backward,
    .drop = norm_drop,
};
