#include "backend/ops/local.h"
#include <string.h>
#include "ref.h"

struct local {
    struct linear_desc desc;
    struct shape in, out;
    int taps;         /* cells of a window, in all channels */
    ptrdiff_t pixels; /* of the output */
};

static int plan(struct backend *be, const struct linear_desc *d, struct tensor *out, struct op_plan *p,
                struct err *e)
{
    struct shape in = d->in->shape, o = out->shape;
    const struct local s = { *d, in, o, in.c * d->size * d->size, (ptrdiff_t)o.h * o.w };
    TRY(ref_plan(p, &s, sizeof s, out, e));
    TRY(ref_bytes((struct shape){ o.h * o.w, o.c, s.taps, 1 }, sizeof(real), &p->weight_bytes, e));
    p->fused = !d->train;
    return ref_bytes((struct shape){ 1, in.c, in.h, in.w }, sizeof(double), &p->scratch_bytes, e);
}

/* The place in a row of the input of tap k of the window of output pixel i, or -1: outside. */
static ptrdiff_t cell(const struct local *s, ptrdiff_t i, int k)
{
    const struct linear_desc *d = &s->desc;
    int row = (int)(i / s->out.w) * d->stride_y + k / d->size % d->size - d->pad,
        column = (int)(i % s->out.w) * d->stride_x + k % d->size - d->pad;
    if (row < 0 || row >= s->in.h || column < 0 || column >= s->in.w) return -1;
    return ref_plane(s->in, 0, k / d->size / d->size) + (ptrdiff_t)row * s->in.w + column;
}

static int forward(const struct op_plan *p, const struct op_context *context, const void *x, const void *w,
                   const real *bias, void *y)
{
    const struct local *s = p->self;
    enum act act = s->desc.train ? ACT_LINEAR : s->desc.act;
    for (int n = 0; n < s->in.n; n++)
        for (ptrdiff_t i = 0; i < s->pixels; i++)
            for (int o = 0; o < s->out.c; o++) {
                const real *from = (const real *)x + ref_rows(s->in, n),
                           *weight = (const real *)w + (i * s->out.c + o) * s->taps;
                double sum = bias ? bias[o * s->pixels + i] : 0;
                for (int k = 0; k < s->taps; k++) {
                    ptrdiff_t at = cell(s, i, k);
                    if (at >= 0) sum += (double)weight[k] * from[at];
                }
                ((real *)y)[ref_plane(s->out, n, o) + i] = act_apply(act, (real)sum);
            }
    return OK;
}

static void back_data(const struct local *s, const real *w, const real *gy, real *gx, double *sum)
{
    ptrdiff_t row = ref_rows(s->in, 1);
    for (int n = 0; n < s->desc.rows_back; n++, gx += row) {
        memset(sum, 0, (size_t)row * sizeof *sum);
        for (ptrdiff_t i = 0; i < s->pixels; i++)
            for (int k = 0; k < s->taps; k++) {
                ptrdiff_t at = cell(s, i, k);
                for (int o = 0; at >= 0 && o < s->out.c; o++)
                    sum[at] += (double)gy[ref_plane(s->out, n, o) + i] * w[(i * s->out.c + o) * s->taps + k];
            }
        for (ptrdiff_t i = 0; i < row; i++) ref_put(&gx[i], sum[i], s->desc.add_gx);
    }
}

static void back_weights(const struct local *s, const real *x, const real *gy, real *gw, int add)
{
    for (ptrdiff_t i = 0; i < s->pixels; i++)
        for (int o = 0; o < s->out.c; o++)
            for (int k = 0; k < s->taps; k++, gw++) {
                ptrdiff_t at = cell(s, i, k);
                double sum = 0;
                for (int n = 0; at >= 0 && n < s->desc.rows_back; n++)
                    sum += (double)x[ref_rows(s->in, n) + at] * gy[ref_plane(s->out, n, o) + i];
                ref_put(gw, sum, add);
            }
}

static int backward(const struct op_plan *p, const struct op_context *context, const void *x, const void *w,
                    const void *gy, void *gx, void *gw, real *gbias)
{
    const struct local *s = p->self;
    if (gx) back_data(s, w, gy, gx, context->scratch);
    if (gw) back_weights(s, x, gy, gw, context->add);
    for (ptrdiff_t i = 0; gbias && i < ref_rows(s->out, 1); i++) {
        double sum = 0;
        for (int n = 0; n < s->desc.rows_back; n++) sum += ((const real *)gy)[ref_rows(s->out, n) + i];
        ref_put(&gbias[i], sum, context->add);
    }
    return OK;
}

const struct local_ops ref_local = { { plan, ref_pack, ref_unpack, ref_unpack, forward, backward, NULL } };
