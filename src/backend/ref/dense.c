/* y = W x + b. W is O x I, I = c*h*w: in memory as in the .weights file. */
#include "backend/ops/dense.h"
#include "ref.h"

struct dense {
    int rows, rows_back, add_gx;
    ptrdiff_t inputs, outputs;
    enum act act; /* applied by forward */
};

static int plan(struct backend *be, const struct linear_desc *d, struct tensor *out, struct op_plan *p,
                struct err *e)
{
    (void)be;
    struct shape in = d->in->shape;
    const struct dense s = { .rows = in.n,
                             .rows_back = d->rows_back,
                             .add_gx = d->add_gx,
                             .inputs = (ptrdiff_t)shape_row(in),
                             .outputs = out->shape.c,
                             .act = d->train ? ACT_LINEAR : d->act };
    TRY(ref_plan(p, &s, sizeof s, out, e));
    TRY(ref_bytes((struct shape){ out->shape.c, in.c, in.h, in.w }, sizeof(real), &p->weight_bytes, e));
    p->fused = !d->train;
    return ref_bytes((struct shape){ 1, in.c, in.h, in.w }, sizeof(double), &p->scratch_bytes, e); /* sums */
}

static double dot(const real *restrict a, const real *restrict b, ptrdiff_t n)
{
    double sum = 0;
    for (ptrdiff_t i = 0; i < n; i++) sum += (double)a[i] * b[i];
    return sum;
}

static int forward(const struct op_plan *p, const struct op_context *context, const void *x, const void *w,
                   const real *bias, void *y)
{
    (void)context;
    const struct dense *s = p->self;
    for (int n = 0; n < s->rows; n++)
        for (ptrdiff_t o = 0; o < s->outputs; o++) {
            double sum = dot((const real *)w + o * s->inputs, (const real *)x + n * s->inputs, s->inputs);
            ((real *)y)[n * s->outputs + o] = act_apply(s->act, (real)(sum + (bias ? bias[o] : 0)));
        }
    return OK;
}

/* to (+)= sum over k < count of factor[k * skip] * row[k], a row being `n` numbers. */
static void combine(const real *factor, ptrdiff_t skip, const real *row, ptrdiff_t count, ptrdiff_t n,
                    real *to, int add, double *restrict sum)
{
    for (ptrdiff_t i = 0; i < n; i++) sum[i] = 0;
    for (ptrdiff_t k = 0; k < count; k++) {
        double f = factor[k * skip];
        for (ptrdiff_t i = 0; i < n; i++) sum[i] += f * row[k * n + i];
    }
    for (ptrdiff_t i = 0; i < n; i++) ref_put(&to[i], sum[i], add);
}

static int backward(const struct op_plan *p, const struct op_context *context, const void *x, const void *w,
                    const void *gy, void *gx, void *gw, real *gbias)
{
    const struct dense *s = p->self;
    const int add = context->add;
    const real *g = gy;
    double *sum = context->scratch;
    for (int n = 0; gx && n < s->rows_back; n++)
        combine(g + n * s->outputs, 1, w, s->outputs, s->inputs, (real *)gx + n * s->inputs, s->add_gx, sum);
    for (ptrdiff_t o = 0; gw && o < s->outputs; o++)
        combine(g + o, s->outputs, x, s->rows_back, s->inputs, (real *)gw + o * s->inputs, add, sum);
    for (ptrdiff_t o = 0; gbias && o < s->outputs; o++) {
        double all = 0;
        for (int n = 0; n < s->rows_back; n++) all += g[n * s->outputs + o];
        ref_put(&gbias[o], all, add);
    }
    return OK;
}

const struct dense_ops ref_dense = { { plan, ref_pack, ref_unpack, forward, backward } };
