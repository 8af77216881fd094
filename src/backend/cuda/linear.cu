/* What a linear map needs beside the product: its bias and activation, and the gradient of the bias. */
#include "kernel.h"
#include "linear.h"

enum { ROWS = 4 }; /* of which a thread has the loads under way together */

/* What follows most maps is written out where it stands, all else is long and called. */
DEVICE_APART float any_act(enum act a, float z) { return act_apply(a, z); }
DEVICE_APART float any_slope(enum act a, float y) { return act_slope_y(a, y); }
DEVICE float activate(enum act a, float z)
{
    return a == ACT_LINEAR ? z : a == ACT_RELU ? act_apply(ACT_RELU, z) : any_act(a, z);
}
DEVICE float slope(enum act a, float y) { return a == ACT_RELU ? act_slope_y(ACT_RELU, y) : any_slope(a, y); }

/* In place, y = act(y + bias of the channel); bias may be NULL. n < 2^31 */
template <int bf16, unsigned V> KERNEL(finish, enum act a, const float *bias, void *y, size_t n, unsigned c)
{
    PHASE GRID_LOOP(i, n / V)
    {
        float f[8], b[8] = { 0 };
        load(bf16, V, y, i * V, f);
        if (bias) read_channels(V, bias, (unsigned)i * V % c, b);
        UNROLL for (unsigned k = 0; k < V; k++) f[k] = activate(a, f[k] + b[k]);
        store(bf16, V, y, i * V, f);
    }
}

/* Adds n rows to all, which are `step` numbers apart: x or, unless y is NULL, x times the slope of the
 * activation whose output is y, which then goes to g. */
DEVICE void add_up(int bf16, unsigned V, unsigned n, enum act a, const void *x, const void *y, void *g,
                   size_t at, size_t step, float *all)
{
    float f[ROWS][8], z[ROWS][8];
    UNROLL for (unsigned r = 0; r < n; r++)
    {
        load(bf16, V, x, at + r * step, f[r]);
        if (y) load(bf16, V, y, at + r * step, z[r]);
    }
    UNROLL for (unsigned r = 0; r < n; r++)
    {
        if (y) {
            UNROLL for (unsigned k = 0; k < V; k++) f[r][k] *= slope(a, z[r][k]);
            store(bf16, V, g, at + r * step, f[r]);
        }
        UNROLL for (unsigned k = 0; k < V; k++) all[k] += f[r][k];
    }
}

/* Sums over rows of a rows x c matrix, as add_up has them. Block x sums every gridDim.x-th set of rows, for
 * the columns of block y, into row x of `to`; `across` threads side by side, the rest of the block below one
 * another. */
template <int bf16, unsigned V>
KERNEL(sum, enum act a, const void *x, const void *y, void *g, size_t rows, size_t c, unsigned across,
       float *to, int add)
{
    SHARED(float, s, THREADS * 8);
    const unsigned deep = blockDim.x / across, wide = across * V;
    const size_t left = (size_t)blockIdx.y * wide;
    PHASE
    {
        const unsigned row = threadIdx.x / across, column = threadIdx.x % across * V;
        const size_t at = left + column, step = (size_t)gridDim.x * deep, last = at < c ? rows : 0;
        size_t r = (size_t)blockIdx.x * deep + row;
        float all[8] = { 0 };
        if (row >= deep) continue;
        for (; r + (ROWS - 1) * step < last; r += ROWS * step)
            add_up(bf16, V, ROWS, a, x, y, g, r * c + at, step * c, all);
        for (; r < last; r += step) add_up(bf16, V, 1, a, x, y, g, r * c + at, 0, all);
        for (unsigned k = 0; k < V; k++) s[row * wide + column + k] = all[k];
    }
    BLOCK_SUM(s, (int)deep, (int)wide);
    PHASE for (unsigned i = threadIdx.x; i < wide && left + i < c; i += blockDim.x)
    {
        float *sum_at = &to[blockIdx.x * c + left + i];
        *sum_at = add ? *sum_at + s[i] : s[i];
    }
}

/* How a matrix is cut into blocks. */
struct cut {
    unsigned V, across, columns, slices; /* threads side by side; blocks along the columns, along the rows */
};

static struct cut cut_of(const struct cuda *cu, int bf16, size_t rows, size_t c)
{
    struct cut t;
    t.V = cuda_vector(bf16, c);
    const size_t threads = c / t.V; /* for a row */
    t.across = (unsigned)(threads < 32 ? threads : 32);
    t.columns = (unsigned)((threads + t.across - 1) / t.across);
    /* Slices that a block reads in four goes, until the device is full twice. */
    size_t goes = (size_t)(THREADS / t.across) * 4, slices = (rows + goes - 1) / goes,
           most = (size_t)cu->info.processors * 2 / t.columns;
    if (most < 1) most = 1;
    t.slices = (unsigned)(slices < most ? slices : most);
    return t;
}

int cuda_linear_plan(struct linear *s, struct backend *be, const struct linear_desc *d, struct tensor *out,
                     size_t taps, struct op_plan *p, struct err *e)
{
    const int bf16 = cuda_is_bf16(d->in);
    TRY(cuda_tensor(out, bf16, e));
    const size_t row = shape_row(out->shape), outputs = (size_t)out->shape.c;
    *s = (struct linear){ .cu = cuda_of(be),
                          .weights = { .bf16 = bf16 },
                          .bf16 = bf16,
                          .tf32 = !bf16 && be->precision == PRECISION_TF32,
                          .outputs = outputs,
                          .inputs = (size_t)(d->in->shape.c / d->groups),
                          .wide = (size_t)(cuda_channels(d->in) / d->groups),
                          .taps = taps,
                          .rows = (size_t)out->shape.n * (row / outputs),
                          .rows_back = (size_t)d->rows_back * (row / outputs),
                          .act = d->act };
    size_t count;
    if (mem_mul(s->outputs, s->wide, &count) || mem_mul(count, taps, &count) || count > INT32_MAX)
        return fail(e, E_ARG, "a linear map of %zu x %zu x %zu weights has 2^31 and more", s->outputs,
                    s->inputs, taps);
    s->weights.count = count;
    p->weight_bytes = cuda_weight_bytes(&s->weights);
    p->weights = &s->weights;
    p->fused = !d->train || d->act != ACT_LINEAR;
    return OK;
}

/* Numbers of the host's weights; where in the packed ones number i of them lies. */
static size_t dense_count(const struct linear *s) { return s->outputs * s->inputs * s->taps; }
static size_t place(const struct linear *s, size_t i)
{
    size_t tap = i % s->taps, input = i / s->taps % s->inputs, output = i / s->taps / s->inputs;
    return (output * s->taps + tap) * s->wide + input;
}

int cuda_linear_pack(const struct op_plan *p, const real *host, void *w)
{
    const struct linear *s = (const struct linear *)p->self;
    const size_t n = s->weights.count;
    real *packed = (real *)mem_alloc(n, sizeof *packed);
    if (!packed) return E_MEM;
    for (size_t i = 0; i < dense_count(s); i++) packed[place(s, i)] = host[i];
    int rc = cuda_put(s->cu, w, packed, n * sizeof *packed);
    mem_free(packed);
    if (rc || !s->bf16) return rc;
    return kernel_convert(s->cu, w, 0, cuda_weight_copy(&s->weights, w), 1, n, 0);
}

static int unpack(const struct linear *s, int bf16, const void *w, real *host)
{
    const size_t bytes = s->weights.count * cuda_element(bf16);
    void *packed = mem_alloc(bytes, 1);
    if (!packed) return E_MEM;
    int rc = cuda_get(s->cu, packed, w, bytes);
    for (size_t i = 0; i < dense_count(s) && !rc; i++)
        host[i] =
            bf16 ? bf16_get(((const uint16_t *)packed)[place(s, i)]) : ((const float *)packed)[place(s, i)];
    mem_free(packed);
    return rc;
}

int cuda_linear_unpack(const struct op_plan *p, const void *w, real *host)
{
    return unpack((const struct linear *)p->self, 0, w, host);
}

int cuda_linear_unpack_gradient(const struct op_plan *p, const void *gw, real *host)
{
    const struct linear *s = (const struct linear *)p->self;
    return unpack(s, s->weights.bf16_gradient, cuda_weight_gradient(&s->weights, gw), host);
}

int cuda_linear_finish(const struct linear *s, const real *bias, void *y)
{
    const unsigned V = cuda_vector(s->bf16, s->outputs);
    const size_t n = s->rows * s->outputs;
    if (bias || s->act != ACT_LINEAR)
        LAUNCH_ITEMS(s->cu, finish, s->bf16, V, n / V, s->act, bias, y, n, (unsigned)s->outputs);
    return OK;
}

size_t cuda_linear_scratch(const struct linear *s)
{
    const struct cut t = cut_of(s->cu, s->bf16, s->rows_back, s->outputs);
    return t.slices > 1 ? t.slices * s->outputs * sizeof(float) : 0;
}

/* In two stages where there are several slices: their sums into scratch, then the sum of those. y, g: see
 * add_up. */
static int sum_rows(const struct linear *s, const void *gy, const void *y, void *g, real *gbias, int add,
                    void *scratch)
{
    const size_t c = s->outputs;
    const struct cut t = cut_of(s->cu, s->bf16, s->rows_back, c), end = cut_of(s->cu, 0, 1, c);
    const int apart = t.slices > 1;
    float *to = apart ? (float *)scratch : gbias;
    LAUNCH_FOUR(s->cu, sum, s->bf16, t.V, t.slices, t.columns, THREADS, s->act, gy, y, g, s->rows_back, c,
                t.across, to, !apart && add);
    if (apart)
        LAUNCH_FOUR(s->cu, sum, 0, end.V, end.slices, end.columns, THREADS, ACT_LINEAR, to, (void *)NULL,
                    (void *)NULL, t.slices, c, end.across, gbias, add);
    return OK;
}

int cuda_linear_back_bias(const struct linear *s, const void *gy, real *gbias, int add, void *scratch)
{
    return sum_rows(s, gy, NULL, NULL, gbias, add, scratch);
}

int cuda_linear_back_act(const struct op_plan *p, const struct op_context *context, const void *y, void *gy,
                         real *gbias)
{
    return sum_rows((const struct linear *)p->self, gy, y, gy, gbias, context->add, context->scratch);
}
