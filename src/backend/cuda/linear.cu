/* What a linear map needs beside the product: its bias and activation, and the gradient of the bias. */
#include "kernel.h"
#include "linear.h"

/* In place, y = act(y + bias of the channel); bias may be NULL. */
template <int bf16, unsigned V> KERNEL(finish, enum act a, const float *bias, void *y, size_t n, size_t c)
{
    PHASE GRID_LOOP(i, n / V)
    {
        float f[8];
        load(bf16, V, y, i * V, f);
        for (unsigned k = 0; k < V; k++) f[k] = act_apply(a, bias ? f[k] + bias[i * V % c + k] : f[k]);
        store(bf16, V, y, i * V, f);
    }
}

/* Sums over rows of a rows x c matrix. Block x sums every gridDim.x-th set of rows, for the columns of block
 * y, into row x of `to`; `across` threads side by side, the rest of the block below one another. */
template <int bf16, unsigned V>
KERNEL(sum, const void *x, size_t rows, size_t c, unsigned across, float *to, int add)
{
    SHARED(float, s, THREADS * 8);
    const unsigned deep = blockDim.x / across, wide = across * V;
    const size_t left = (size_t)blockIdx.y * wide;
    PHASE
    {
        const unsigned row = threadIdx.x / across, column = threadIdx.x % across * V;
        float f[8], all[8] = { 0 };
        if (row >= deep) continue;
        for (size_t r = (size_t)blockIdx.x * deep + row; r < rows && left + column < c;
             r += (size_t)gridDim.x * deep) {
            load(bf16, V, x, r * c + left + column, f);
            for (unsigned k = 0; k < V; k++) all[k] += f[k];
        }
        for (unsigned k = 0; k < V; k++) s[row * wide + column + k] = all[k];
    }
    BLOCK_SUM(s, (int)deep, (int)wide);
    PHASE for (unsigned i = threadIdx.x; i < wide && left + i < c; i += blockDim.x)
    {
        float *at = &to[blockIdx.x * c + left + i];
        *at = add ? *at + s[i] : s[i];
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

static int add_rows(const struct cuda *cu, struct cut t, int bf16, const void *x, size_t rows, size_t c,
                    float *to, int add)
{
    LAUNCH_FOUR(cu, sum, bf16, t.V, t.slices, t.columns, THREADS, x, rows, c, t.across, to, add);
    return OK;
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
                          .act = d->train ? ACT_LINEAR : d->act };
    size_t count;
    if (mem_mul(s->outputs, s->wide, &count) || mem_mul(count, taps, &count) || count > INT32_MAX)
        return fail(e, E_ARG, "a linear map of %zu x %zu x %zu weights has 2^31 and more", s->outputs,
                    s->inputs, taps);
    s->weights.count = count;
    p->weight_bytes = cuda_weight_bytes(&s->weights);
    p->weights = &s->weights;
    p->fused = !d->train;
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
        LAUNCH_ITEMS(s->cu, finish, s->bf16, V, n / V, s->act, bias, y, n, s->outputs);
    return OK;
}

size_t cuda_linear_scratch(const struct linear *s)
{
    const struct cut t = cut_of(s->cu, s->bf16, s->rows_back, s->outputs);
    return t.slices > 1 ? t.slices * s->outputs * sizeof(float) : 0;
}

/* In two stages where there are several slices: their sums into scratch, then the sum of those. */
int cuda_linear_back_bias(const struct linear *s, const void *gy, real *gbias, int add, void *scratch)
{
    const size_t c = s->outputs;
    const struct cut first = cut_of(s->cu, s->bf16, s->rows_back, c), second = cut_of(s->cu, 0, 1, c);
    if (first.slices == 1) return add_rows(s->cu, first, s->bf16, gy, s->rows_back, c, gbias, add);
    TRY(add_rows(s->cu, first, s->bf16, gy, s->rows_back, c, (float *)scratch, 0));
    return add_rows(s->cu, second, 0, scratch, first.slices, c, gbias, add);
}
