/* Convolution, directly: for every plane of the result, the planes it depends on and the cells of the window
 * ("taps"). The innermost loops run along a row of pixels: simple to read, and they vectorise. */
#include "backend/ops/conv.h"
#include <string.h>
#include "ref.h"

/* One cell of the window, and the outputs [y0, y1) x [x0, x1) for which it lies inside the image:
 * output (y, x) meets input (y * stride_y + dy, x * stride_x + dx). */
struct tap {
    int y0, y1, x0, x1;
    int dy, dx;
};

struct conv {
    struct linear_desc desc;
    struct shape in, out;
    int inputs, filters; /* of a group */
    int taps;            /* of a window */
    struct tap tap[];
};

/* Outputs [from, to) along one axis. */
static void inside(int shift, int stride, int in, int out, int *from, int *to)
{
    int last = in - 1 - shift;
    *from = shift < 0 ? (-shift + stride - 1) / stride : 0;
    *to = last < 0 ? 0 : last / stride + 1;
    if (*to > out) *to = out;
}

/* y += w * x, for one tap and a pair of planes. */
static void tap_forward(const struct conv *s, const struct tap *t, double w, const real *restrict x,
                        double *restrict y)
{
    for (int i = t->y0; i < t->y1; i++) {
        const real *restrict from = x + (ptrdiff_t)(i * s->desc.stride_y + t->dy) * s->in.w;
        double *restrict to = y + (ptrdiff_t)i * s->out.w;
        for (ptrdiff_t j = t->x0; j < t->x1; j++) to[j] += w * from[j * s->desc.stride_x + t->dx];
    }
}

/* gx += w * gy: the transpose. */
static void tap_back(const struct conv *s, const struct tap *t, double w, const real *restrict gy,
                     double *restrict gx)
{
    for (int i = t->y0; i < t->y1; i++) {
        const real *restrict from = gy + (ptrdiff_t)i * s->out.w;
        double *restrict to = gx + (ptrdiff_t)(i * s->desc.stride_y + t->dy) * s->in.w;
        for (ptrdiff_t j = t->x0; j < t->x1; j++) to[j * s->desc.stride_x + t->dx] += w * from[j];
    }
}

/* dLoss/dw of one tap, from one pair of planes: adds its parts to a row of out.w sums. */
static void tap_weight(const struct conv *s, const struct tap *t, const real *restrict x,
                       const real *restrict gy, double *restrict sum)
{
    for (int i = t->y0; i < t->y1; i++) {
        const real *restrict a = x + (ptrdiff_t)(i * s->desc.stride_y + t->dy) * s->in.w;
        const real *restrict b = gy + (ptrdiff_t)i * s->out.w;
        for (ptrdiff_t j = t->x0; j < t->x1; j++) sum[j] += (double)a[j * s->desc.stride_x + t->dx] * b[j];
    }
}

static ptrdiff_t pixels(struct shape s) { return (ptrdiff_t)s.h * s.w; }

/* Where the window of filter o over channel c lies, which is one of the filter's group. */
static ptrdiff_t window(const struct conv *s, int o, int c)
{
    return ((ptrdiff_t)o * s->inputs + c % s->inputs) * s->taps;
}

int ref_conv_plan(struct backend *be, const struct linear_desc *d, struct tensor *out, struct op_plan *p,
                  struct err *e)
{
    struct shape in = d->in->shape, o = out->shape,
                 plane = { 1, 1, in.h > o.h ? in.h : o.h, in.w > o.w ? in.w : o.w };
    int taps = d->size * d->size;
    TRY(op_plan_init(p, sizeof(struct conv) + (size_t)taps * sizeof(struct tap), e));
    struct conv *s = p->self;
    *s = (struct conv){ *d, in, o, in.c / d->groups, o.c / d->groups, taps };
    for (int k = 0; k < taps; k++) {
        struct tap *t = &s->tap[k];
        t->dy = k / d->size * d->dilation - d->pad, t->dx = k % d->size * d->dilation - d->pad;
        inside(t->dy, d->stride_y, in.h, o.h, &t->y0, &t->y1);
        inside(t->dx, d->stride_x, in.w, o.w, &t->x0, &t->x1);
    }
    TRY(ref_tensor(out, e));
    TRY(ref_bytes((struct shape){ o.c, s->inputs, d->size, d->size }, sizeof(real), &p->weight_bytes, e));
    p->fused = !d->train;
    return ref_bytes(plane, sizeof(double), &p->scratch_bytes, e); /* sums: of the output or of the input */
}

int ref_pack(const struct op_plan *p, const real *host, void *w)
{
    memcpy(w, host, p->weight_bytes);
    return OK;
}

int ref_unpack(const struct op_plan *p, const void *w, real *host)
{
    memcpy(host, w, p->weight_bytes);
    return OK;
}

/* sum += plane o of row n of the result. */
static void filter(const struct conv *s, int n, int o, const real *x, const real *w, double *sum)
{
    int first = o / s->filters * s->inputs;
    for (int c = first; c < first + s->inputs; c++)
        for (int k = 0; k < s->taps; k++)
            tap_forward(s, &s->tap[k], w[window(s, o, c) + k], x + ref_plane(s->in, n, c), sum);
}

int ref_conv_forward(const struct op_plan *p, const struct op_context *context, const void *x, const void *w,
                     const real *bias, void *y)
{
    const struct conv *s = p->self;
    enum act act = s->desc.train ? ACT_LINEAR : s->desc.act;
    double *sum = context->scratch;
    for (int n = 0; n < s->out.n; n++)
        for (int o = 0; o < s->out.c; o++) {
            real *to = (real *)y + ref_plane(s->out, n, o);
            for (ptrdiff_t i = 0; i < pixels(s->out); i++) sum[i] = bias ? bias[o] : 0;
            filter(s, n, o, x, w, sum);
            for (ptrdiff_t i = 0; i < pixels(s->out); i++) to[i] = act_apply(act, (real)sum[i]);
        }
    return OK;
}

static void back_data(const struct conv *s, const real *w, const real *gy, real *gx, double *sum)
{
    for (int n = 0; n < s->desc.rows_back; n++)
        for (int c = 0; c < s->in.c; c++) {
            int first = c / s->inputs * s->filters;
            real *to = gx + ref_plane(s->in, n, c);
            memset(sum, 0, (size_t)pixels(s->in) * sizeof *sum);
            for (int o = first; o < first + s->filters; o++)
                for (int k = 0; k < s->taps; k++)
                    tap_back(s, &s->tap[k], w[window(s, o, c) + k], gy + ref_plane(s->out, n, o), sum);
            for (ptrdiff_t i = 0; i < pixels(s->in); i++) ref_put(&to[i], sum[i], s->desc.add_gx);
        }
}

/* Of tap k of the window of filter o over channel c. */
static double back_weight(const struct conv *s, int o, int c, int k, const real *x, const real *gy,
                          double *sum)
{
    double all = 0;
    memset(sum, 0, (size_t)s->out.w * sizeof *sum);
    for (int n = 0; n < s->desc.rows_back; n++)
        tap_weight(s, &s->tap[k], x + ref_plane(s->in, n, c), gy + ref_plane(s->out, n, o), sum);
    for (int j = 0; j < s->out.w; j++) all += sum[j];
    return all;
}

static void back_weights(const struct conv *s, const real *x, const real *gy, real *gw, int add, double *sum)
{
    for (int o = 0; o < s->out.c; o++) {
        int first = o / s->filters * s->inputs;
        for (int c = first; c < first + s->inputs; c++)
            for (int k = 0; k < s->taps; k++)
                ref_put(&gw[window(s, o, c) + k], back_weight(s, o, c, k, x, gy, sum), add);
    }
}

static void back_bias(const struct conv *s, const real *gy, real *gbias, int add)
{
    for (int o = 0; o < s->out.c; o++) {
        double sum = 0;
        for (int n = 0; n < s->desc.rows_back; n++)
            for (ptrdiff_t i = 0; i < pixels(s->out); i++) sum += gy[ref_plane(s->out, n, o) + i];
        ref_put(&gbias[o], sum, add);
    }
}

int ref_conv_backward(const struct op_plan *p, const struct op_context *context, const void *x, const void *w,
                      const void *gy, void *gx, void *gw, real *gbias)
{
    const struct conv *s = p->self;
    if (gx) back_data(s, w, gy, gx, context->scratch);
    if (gw) back_weights(s, x, gy, gw, context->add, context->scratch);
    if (gbias) back_bias(s, gy, gbias, context->add);
    return OK;
}

const struct conv_ops ref_conv = { { ref_conv_plan, ref_pack, ref_unpack, ref_unpack, ref_conv_forward,
                                     ref_conv_backward, NULL } };
