/* Center loss: lambda/(2m) sum |h - c_y|^2 over the m scored rows, and its gradient lambda (h - c_y)/m. Works
 * in host memory, whatever the layout of the features, so that cpu can use it too. */
#include "backend/ops/center.h"
#include "backend/ops/sum.h"
#include "ref.h"

struct center {
    struct backend *be;
    struct center_desc desc;
    size_t d;
};

static int plan(struct backend *be, const struct center_desc *d, struct op_plan *p, struct err *e)
{
    TRY(op_plan_init(p, sizeof(struct center), e));
    *(struct center *)p->self = (struct center){ be, *d, shape_row(d->in->shape) };
    struct shape all = d->in->shape;
    if (d->share.all > all.n) all.n = d->share.all;
    TRY(ref_bytes(all, sizeof(real), &p->scratch_bytes, e));
    p->scratch_bytes += (size_t)d->share.all * sizeof(int);
    return OK;
}

static int read_features(const struct center *s, const void *x, int rows, real *h)
{
    struct tensor in = *s->desc.in;
    in.data = (void *)x;
    return s->be->ops->read(s->be, &in, 0, rows, h);
}

/* Brings the scored rows of all processes together, and their labels behind them. Returns how many, or an
 * error. */
static int join(const struct center *s, const struct op_context *context, const void *x, const int **label)
{
    const struct share k = s->desc.share;
    const struct sum_ops *sum = s->be->ops->sum;
    real *h = context->scratch;
    int *joined = (int *)(void *)(h + (size_t)k.all * s->d);
    *label = context->label;
    TRY(read_features(s, x, context->scored, h + (size_t)k.first * s->d));
    if (!k.all) return context->scored;
    *label = joined;
    TRY(sum->join(s->be, k, context->label, sizeof *joined, joined));
    TRY(sum->join(s->be, k, h + (size_t)k.first * s->d, s->d * sizeof *h, h));
    return k.all;
}

/* c_j -= alpha sum_{rows of class j} (c_j - h) / (1 + n_j), and the sums begin anew. */
static void move_centers(const struct center *s, const struct center_state *state)
{
    real *c = state->centers, *sum = state->sum, *n = state->count;
    for (size_t j = 0; j < (size_t)s->desc.classes; j++) {
        for (size_t i = j * s->d; i < (j + 1) * s->d; i++) {
            c[i] -= (real)(s->desc.alpha * (double)sum[i] / (1 + (double)n[j]));
            sum[i] = 0;
        }
        n[j] = 0;
    }
}

static int forward(const struct op_plan *p, const struct op_context *context, const void *x,
                   const struct center_state *state, double *loss)
{
    const struct center *s = p->self;
    const real *h = context->scratch;
    const int reuse = context->reuse_detached;
    const int *label, rows = join(s, context, x, &label);
    double total = 0;
    if (rows < 0) return rows;
    if (!context->add && !reuse) move_centers(s, state);
    for (int i = 0; i < rows; i++, h += s->d) {
        const size_t j = (size_t)label[i];
        const real *c = state->centers + j * s->d;
        real *sum = state->sum + j * s->d;
        if (!reuse) state->count[j] += 1;
        for (size_t t = 0; t < s->d; t++) {
            double z = (double)h[t] - (double)c[t];
            total += z * z;
            if (!reuse) sum[t] -= (real)z;
        }
    }
    *loss = total / 2;
    return OK;
}

static int backward(const struct op_plan *p, const struct op_context *context, const void *x,
                    const struct center_state *state, void *gx, int add)
{
    const struct center *s = p->self;
    const struct center_desc *d = &s->desc;
    const struct step_state *now = context->state;
    const double lambda = d->lambda * warmup_share(d->warmup, now->iteration, now->ce_average, d->classes);
    struct tensor to = *d->in;
    real *g = context->scratch;
    to.data = gx;
    TRY(read_features(s, x, context->scored, g));
    for (int i = 0; i < d->rows_back; i++, g += s->d) {
        const real *c = i < context->scored ? state->centers + (size_t)context->label[i] * s->d : NULL;
        for (size_t t = 0; t < s->d; t++)
            g[t] = (real)(c ? lambda * ((double)g[t] - (double)c[t]) / context->scored_all : 0);
    }
    return s->be->ops->write(s->be, &to, 0, d->rows_back, context->scratch, add);
}

const struct center_ops ref_center = { plan, forward, backward };
