/* Every backend against ref, in every precision it has: every operation, forward and backward, over shapes
 * that are awkward for blocked memory orders. Memory is NaN before it is written, guarded behind its end, and
 * the padding of what comes out must be zero. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "backend/ops/act.h"
#include "backend/ops/add.h"
#include "backend/ops/center.h"
#include "backend/ops/concat.h"
#include "backend/ops/conv.h"
#include "backend/ops/dense.h"
#include "backend/ops/dropout.h"
#include "backend/ops/images.h"
#include "backend/ops/loss_ring.h"
#include "backend/ops/match.h"
#include "backend/ops/norm.h"
#include "backend/ops/pool.h"
#include "backend/ops/sgd.h"
#include "backend/ops/softmax.h"
#include "backend/scalar.h"
#include "core/mem.h"
#include "core/rng.h"
#include "data/augment.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h> /* last: its macro fail would hide err.h's function */

/* A context: .scratch, and what else is named. */
#define WITH(...)                                                                                            \
    &(const struct op_context) { .scratch = __VA_ARGS__ }

enum { GUARD = 256, ROOM = 64, OUTPUTS = 8 };

/* One device with the memory taken from it, and the results for comparison. */
struct bench {
    struct backend *be;
    void *mem[ROOM];
    size_t bytes[ROOM];
    void *host[ROOM];
    int nmem, nhost;
    int coarse; /* inputs are numbers that bfloat16 holds exactly */
    const char *name[OUTPUTS];
    real *out[OUTPUTS];
    size_t len[OUTPUTS];
    int nout;
};

static void *host(struct bench *b, size_t count, size_t size)
{
    assert_true(b->nhost < ROOM);
    void *p = mem_alloc(count, size);
    assert_non_null(p);
    return b->host[b->nhost++] = p;
}

/* Device memory full of NaN, the guard included. */
static void *grab(struct bench *b, size_t bytes)
{
    struct err e;
    assert_true(b->nmem < ROOM);
    void *p, *fill = host(b, bytes + GUARD, 1);
    assert_int_equal(b->be->ops->alloc(b->be, bytes + GUARD, &p, &e), OK);
    memset(fill, 0xff, bytes + GUARD);
    b->be->ops->upload(b->be, p, fill, bytes + GUARD);
    b->mem[b->nmem] = p;
    b->bytes[b->nmem++] = bytes;
    return p;
}

static real bf16_of(real x)
{
    float f = (float)x;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    bits &= 0xffff0000u;
    memcpy(&f, &bits, sizeof f);
    return (real)f;
}

static real *noise(struct bench *b, size_t n, uint64_t key)
{
    real *x = host(b, n, sizeof *x);
    for (size_t i = 0; i < n; i++)
        x[i] = b->coarse ? bf16_of((real)rng_normal(key, i)) : (real)rng_normal(key, i);
    return x;
}

static void *grab_noise(struct bench *b, size_t n, uint64_t key)
{
    void *p = grab(b, n * sizeof(real));
    b->be->ops->upload(b->be, p, noise(b, n, key), n * sizeof(real));
    return p;
}

/* A tensor of noise; key 0: of NaN. */
static void fill(struct bench *b, struct tensor *t, uint64_t key)
{
    t->data = grab(b, t->bytes);
    if (key)
        assert_int_equal(b->be->ops->write(b->be, t, 0, t->shape.n, noise(b, shape_count(t->shape), key), 0),
                         OK);
}

static struct tensor gradient(struct bench *b, const struct tensor *of, uint64_t key)
{
    struct tensor g = *of;
    fill(b, &g, key);
    return g;
}

static void keep(struct bench *b, const char *name, real *v, size_t n)
{
    assert_true(b->nout < OUTPUTS);
    b->name[b->nout] = name;
    b->out[b->nout] = v;
    b->len[b->nout++] = n;
}

static void keep_vector(struct bench *b, const char *name, const void *p, size_t n)
{
    real *v = host(b, n, sizeof *v);
    b->be->ops->download(b->be, v, p, n * sizeof *v);
    keep(b, name, v, n);
}

/* The first rows of a tensor. Padding is zero if no more than the numbers of the tensor add to the sum of
 * all. */
static void keep_tensor(struct bench *b, const char *name, const struct tensor *t, int rows)
{
    size_t n = shape_row(t->shape) * (size_t)rows, bytes = t->bytes / (size_t)t->shape.n * (size_t)rows;
    real *v = host(b, n, sizeof *v), *raw = host(b, bytes, 1);
    assert_int_equal(b->be->ops->read(b->be, t, 0, rows, v), OK);
    b->be->ops->download(b->be, raw, t->data, bytes);
    double in = 0, all = 0;
    keep(b, name, v, n);
    if (b->be->precision == PRECISION_BF16) return;
    for (size_t i = 0; i < n; i++) in += fabs((double)v[i]);
    for (size_t i = 0; i < bytes / sizeof *raw; i++) all += fabs((double)raw[i]);
    if (!(fabs(all - in) <= 1e-9 * in)) fail_msg("%s: padding is not zero", name);
}

static struct tensor dense(struct bench *b, struct shape s)
{
    struct tensor t = { .shape = s };
    struct err e;
    assert_int_equal(b->be->ops->image(b->be, &t, &e), OK);
    return t;
}

/* What a convolution makes of it: a tensor in the backend's favourite memory order; the plan must outlive it.
 */
static struct tensor favourite(struct bench *b, struct shape s, struct op_plan *plan)
{
    struct err e;
    struct tensor in = dense(b, s), out = { .shape = s };
    struct linear_desc d = { .in = &in, .size = 1, .stride = 1, .groups = 1 };
    assert_int_equal(b->be->ops->conv->linear.plan(b->be, &d, &out, plan, &e), OK);
    return out;
}

/* ---- comparison ---- */

static void bench_open(struct bench *b, const char *device, int threads)
{
    struct err e;
    memset(b, 0, sizeof *b);
    if (!backend_open(&b->be, device, threads, &e)) return;
    print_message("skipped: %s\n", e.msg);
    skip();
}

static void bench_close(struct bench *b)
{
    for (int i = 0; i < b->nmem; i++) {
        unsigned char guard[GUARD];
        b->be->ops->download(b->be, guard, (char *)b->mem[i] + b->bytes[i], GUARD);
        for (int k = 0; k < GUARD; k++) assert_int_equal(guard[k], 0xff);
        b->be->ops->free(b->be, b->mem[i]);
    }
    backend_close(b->be);
    for (int i = 0; i < b->nhost; i++) mem_free(b->host[i]);
}

/* Relative, of a whole result. fp32: sums of up to a few thousand terms in another order, and the rounding of
 * Winograd's transforms. tf32: factors of 11 bits. bf16: results of 8 bits, which are rounded once or twice.
 */
static const double tolerance[PRECISION_COUNT] = { 1e-5, 1e-3, 4e-3 };

static void compare(const struct bench *a, const struct bench *b, const char *what)
{
    enum precision p = b->be->precision;
    assert_int_equal(a->nout, b->nout);
    for (int i = 0; i < a->nout; i++) {
        double diff = 0, size = 0;
        assert_int_equal(a->len[i], b->len[i]);
        for (size_t k = 0; k < a->len[i]; k++) {
            double d = (double)a->out[i][k] - (double)b->out[i][k];
            diff += d * d;
            size += (double)a->out[i][k] * (double)a->out[i][k];
        }
        if (!(sqrt(diff) <= tolerance[p] * sqrt(size) + 1e-12))
            fail_msg("%s in %s, %s: off by %g of %g", what, precision_names[p], a->name[i], sqrt(diff),
                     sqrt(size));
    }
}

/* Runs `fn` on ref and on the device that the state names, and compares what they kept. */
static void against_ref(void **state, void (*fn)(struct bench *, const void *), const void *arg,
                        const char *what)
{
    for (int p = 0; p < PRECISION_COUNT; p++) {
        struct bench ref, dev;
        bench_open(&dev, *state, 2);
        if (dev.be->ops->precisions & 1u << p) {
            bench_open(&ref, "ref", 2);
            dev.be->precision = (enum precision)p;
            ref.coarse = dev.coarse = p == PRECISION_BF16;
            fn(&ref, arg);
            fn(&dev, arg);
            compare(&ref, &dev, what);
            bench_close(&ref);
        }
        bench_close(&dev);
    }
}

/* How the cases are checked. */
static void (*both)(void **state, void (*fn)(struct bench *, const void *), const void *arg,
                    const char *what) = against_ref;

/* ---- activation after an operation that did not fuse it ---- */

static void apply(struct bench *b, struct tensor *y, enum act act)
{
    struct err e;
    struct op_plan p;
    struct act_desc d = { .in = y, .act = act };
    struct tensor out = { .shape = y->shape };
    assert_int_equal(b->be->ops->act->plan(b->be, &d, &out, &p, &e), OK);
    assert_int_equal(b->be->ops->act->forward(&p, WITH(grab(b, p.scratch_bytes)), y->data, y->data), OK);
    op_destroy(&p);
}

static void apply_slope(struct bench *b, const struct tensor *y, struct tensor *g, enum act act, int rows)
{
    struct err e;
    struct op_plan p;
    struct act_desc d = { .in = y, .act = act, .train = 1, .rows_back = rows };
    struct tensor out = { .shape = y->shape };
    assert_int_equal(b->be->ops->act->plan(b->be, &d, &out, &p, &e), OK);
    assert_int_equal(
        b->be->ops->act->backward(&p, WITH(grab(b, p.scratch_bytes)), NULL, y->data, g->data, g->data, 0),
        OK);
    op_destroy(&p);
}

/* ---- convolution, dense ---- */

struct linear_case {
    struct shape in;
    int out, size, stride, pad, groups, rows_back, blocked, bias, add, add_gx, is_dense;
    enum act act; /* in a second plan for inference, over the same packed weights and one row less */
};

static void linear_infer(struct bench *b, const struct linear_case *k, const struct tensor *x,
                         struct tensor *y, const struct op_plan *train, const void *w, const real *bias)
{
    struct err e;
    const struct linear_ops *ops = k->is_dense ? &b->be->ops->dense->linear : &b->be->ops->conv->linear;
    struct tensor less = *x;
    struct op_plan p;
    less.shape.n--;
    less.bytes -= x->bytes / (size_t)x->shape.n;
    y->shape.n--;
    struct linear_desc d = { .in = &less,
                             .size = k->size,
                             .stride = k->stride,
                             .pad = k->pad,
                             .groups = k->groups,
                             .act = k->act,
                             .weights = train->weights };
    assert_int_equal(ops->plan(b->be, &d, y, &p, &e), OK);
    assert_int_equal(p.weight_bytes, train->weight_bytes);
    fill(b, y, 0);
    assert_int_equal(ops->forward(&p, WITH(grab(b, p.scratch_bytes)), x->data, w, bias, y->data), OK);
    if (!p.fused) apply(b, y, k->act);
    keep_tensor(b, "inference", y, y->shape.n);
    op_destroy(&p);
}

static void linear(struct bench *b, const void *arg)
{
    const struct linear_case *k = arg;
    struct err e;
    struct op_plan maker = { 0 }, p;
    struct tensor x = k->blocked ? favourite(b, k->in, &maker) : dense(b, k->in),
                  y = { .shape = { k->in.n, k->out, 1, 1 } };
    const struct linear_ops *ops = k->is_dense ? &b->be->ops->dense->linear : &b->be->ops->conv->linear;
    if (!k->is_dense) {
        y.shape.h = (k->in.h + 2 * k->pad - k->size) / k->stride + 1;
        y.shape.w = (k->in.w + 2 * k->pad - k->size) / k->stride + 1;
    }
    size_t nw =
        (size_t)k->out * (k->is_dense ? shape_row(k->in) : (size_t)(k->in.c / k->groups * k->size * k->size));
    struct linear_desc d = { .in = &x,
                             .size = k->size,
                             .stride = k->stride,
                             .pad = k->pad,
                             .groups = k->groups,
                             .train = 1,
                             .rows_back = k->rows_back,
                             .need_gx = 1,
                             .add_gx = k->add_gx };
    if (ops->plan(b->be, &d, &y, &p, &e)) fail_msg("%s", e.msg);
    void *w = grab(b, p.weight_bytes), *gw = grab(b, p.weight_bytes), *scratch = grab(b, p.scratch_bytes);
    real *host_w = noise(b, nw, 1), *back = host(b, nw, sizeof *back),
         *bias = grab_noise(b, (size_t)k->out, 2);
    real *gbias = grab_noise(b, (size_t)k->out, 3);
    assert_int_equal(ops->pack(&p, host_w, w), OK);
    assert_int_equal(ops->unpack(&p, w, back), OK);
    assert_memory_equal(host_w, back, nw * sizeof *back);
    fill(b, &x, 4);
    fill(b, &y, 0);
    assert_int_equal(ops->forward(&p, WITH(scratch), x.data, w, k->bias ? bias : NULL, y.data), OK);
    keep_tensor(b, "y", &y, y.shape.n);
    struct tensor gy = gradient(b, &y, 5), gx = gradient(b, &x, k->add_gx ? 6 : 0);
    assert_int_equal(ops->pack(&p, noise(b, nw, 7), gw), OK);
    assert_int_equal(ops->backward(&p, WITH(scratch, .add = k->add), x.data, w, gy.data, gx.data, gw,
                                   k->bias ? gbias : NULL),
                     OK);
    keep_tensor(b, "gx", &gx, k->rows_back);
    real *host_gw = host(b, nw, sizeof *host_gw);
    assert_int_equal(ops->unpack(&p, gw, host_gw), OK);
    keep(b, "gw", host_gw, nw);
    keep_vector(b, "gbias", gbias, (size_t)k->out);
    linear_infer(b, k, &x, &y, &p, w, k->bias ? bias : NULL);
    op_destroy(&p);
    op_destroy(&p);
    op_destroy(&maker);
}

static void conv(void **state)
{
    /* shape, outputs, size, stride, pad, groups, rows_back, blocked, bias, add, add_gx, dense, activation */
    static const struct linear_case cases[] = {
        { { 4, 3, 7, 7 }, 20, 3, 1, 1, 1, 4, 0, 1, 0, 0, 0, ACT_RELU },
        { { 4, 3, 8, 8 }, 64, 3, 1, 1, 1, 4, 0, 0, 1, 0, 0, ACT_LEAKY },
        { { 4, 64, 8, 8 }, 64, 3, 1, 1, 1, 4, 1, 0, 0, 0, 0, ACT_RELU },
        { { 4, 64, 8, 8 }, 80, 3, 1, 1, 1, 2, 1, 1, 1, 1, 0, ACT_LOGISTIC },
        { { 16, 64, 8, 8 }, 64, 3, 1, 1, 1, 12, 1, 1, 1, 1, 0, ACT_LEAKY },
        { { 3, 64, 5, 7 }, 32, 3, 2, 1, 1, 3, 1, 1, 1, 1, 0, ACT_SWISH },
        { { 3, 32, 7, 5 }, 64, 1, 2, 0, 1, 2, 1, 0, 0, 1, 0, ACT_LINEAR },
        { { 3, 17, 5, 5 }, 50, 3, 1, 1, 1, 3, 1, 1, 1, 0, 0, ACT_TANH },
        { { 3, 17, 5, 5 }, 17, 3, 2, 1, 1, 2, 0, 1, 0, 1, 0, ACT_MISH },
        { { 3, 20, 7, 7 }, 10, 1, 1, 0, 1, 3, 1, 1, 0, 0, 0, ACT_LOGISTIC },
        { { 3, 20, 7, 7 }, 40, 3, 1, 1, 4, 3, 1, 1, 1, 1, 0, ACT_GELU },
        { { 3, 32, 7, 7 }, 32, 3, 2, 1, 32, 2, 1, 1, 1, 0, 0, ACT_RELU6 },
        { { 3, 24, 7, 7 }, 24, 3, 1, 1, 24, 3, 1, 1, 0, 1, 0, ACT_ELU },
        { { 2, 6, 9, 9 }, 12, 5, 3, 2, 2, 2, 0, 1, 0, 0, 0, ACT_SELU },
        { { 2, 16, 1, 1 }, 32, 1, 1, 0, 1, 2, 1, 1, 1, 1, 0, ACT_HARDTAN },
        { { 2, 50, 1, 1 }, 3, 1, 1, 0, 1, 2, 0, 1, 0, 0, 0, ACT_PLSE },
        { { 2, 1, 9, 9 }, 6, 5, 1, 0, 1, 2, 0, 1, 0, 0, 0, ACT_RELIE },
        { { 2, 128, 4, 4 }, 128, 3, 1, 0, 1, 1, 1, 1, 1, 0, 0, ACT_STAIR },
        { { 2, 3, 10, 10 }, 16, 3, 2, 0, 1, 2, 0, 1, 0, 0, 0, ACT_RAMP },
        { { 5, 32, 2, 2 }, 48, 3, 1, 1, 1, 5, 1, 1, 1, 1, 0, ACT_RELU }, /* these are dense maps:
                                                                            conv_as_gemm.c */
        { { 5, 48, 2, 2 }, 16, 3, 1, 1, 1, 3, 0, 1, 0, 1, 0, ACT_LOGISTIC },
        { { 5, 16, 2, 2 }, 32, 3, 1, 1, 1, 4, 0, 0, 1, 0, 0, ACT_LEAKY },
        { { 4, 16, 1, 2 }, 16, 3, 1, 1, 1, 4, 1, 1, 0, 0, 0, ACT_MISH },
        { { 4, 16, 2, 1 }, 32, 3, 1, 1, 1, 2, 0, 1, 1, 1, 0, ACT_LINEAR },
        { { 4, 32, 1, 1 }, 16, 3, 1, 1, 1, 4, 1, 1, 0, 1, 0, ACT_TANH },
        { { 4, 17, 2, 2 }, 20, 3, 1, 1, 1, 4, 1, 1, 0, 1, 0, ACT_TANH }, /* and this is none */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char what[20];
        snprintf(what, sizeof what, "conv %zu", i);
        both(state, linear, &cases[i], what);
    }
}

static void dense_map(void **state)
{
    static const struct linear_case cases[] = {
        { { 5, 20, 1, 1 }, 17, 1, 1, 0, 1, 5, 0, 1, 0, 0, 1, ACT_RELU },
        { { 5, 17, 3, 2 }, 10, 1, 1, 0, 1, 3, 1, 1, 1, 1, 1, ACT_LOGISTIC },
        { { 5, 32, 3, 3 }, 7, 1, 1, 0, 1, 5, 1, 0, 0, 0, 1, ACT_GELU },
        { { 5, 3, 4, 4 }, 64, 1, 1, 0, 1, 4, 0, 1, 1, 1, 1, ACT_LINEAR },
        { { 3, 5, 2, 1 }, 299, 1, 1, 0, 1, 2, 0, 1, 0, 0, 1, ACT_RELU },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char what[20];
        snprintf(what, sizeof what, "dense %zu", i);
        both(state, linear, &cases[i], what);
    }
}

/* ---- batch normalisation ---- */

struct norm_case {
    struct shape in;
    int splits, rows_s1, rows_back, blocked, add, in_place, started;
    enum act act;
    int offset; /* is added to x */
};

static void norm_infer(struct bench *b, const struct norm_case *k, const struct tensor *x, const real *v[4])
{
    struct err e;
    struct op_plan p;
    struct norm_desc d = { .in = x, .splits = 1, .act = k->act };
    struct tensor y = { .shape = k->in };
    assert_int_equal(b->be->ops->norm->plan(b->be, &d, &y, &p, &e), OK);
    fill(b, &y, 0);
    assert_int_equal(b->be->ops->norm->forward(&p, WITH(grab(b, p.scratch_bytes)), x->data, NULL, v[0], v[1],
                                               (real *)v[2], (real *)v[3], 0, NULL, y.data),
                     OK);
    if (!p.fused) apply(b, &y, k->act);
    keep_tensor(b, "inference", &y, y.shape.n);
    op_destroy(&p);
}

/* Adds to every number, which stays one that bfloat16 holds exactly. */
static void shift(struct bench *b, struct tensor *t, real by)
{
    size_t n = shape_count(t->shape);
    real *v = host(b, n, sizeof *v);
    assert_int_equal(b->be->ops->read(b->be, t, 0, t->shape.n, v), OK);
    for (size_t i = 0; i < n; i++) v[i] = bf16_of(v[i] + by);
    assert_int_equal(b->be->ops->write(b->be, t, 0, t->shape.n, v, 0), OK);
}

static void norm(struct bench *b, const void *arg)
{
    const struct norm_case *k = arg;
    struct err e;
    struct op_plan maker = { 0 }, p;
    struct tensor x = k->blocked ? favourite(b, k->in, &maker) : dense(b, k->in), y = { .shape = k->in };
    struct norm_desc d = { &x, 1, k->splits, k->rows_s1, k->rows_back, k->act, NULL };
    const struct norm_ops *ops = b->be->ops->norm;
    assert_int_equal(ops->plan(b->be, &d, &y, &p, &e), OK);
    size_t c = (size_t)k->in.c;
    real *scale = grab_noise(b, c, 1), *bias = grab_noise(b, c, 2), *mean = grab_noise(b, c, 3),
         *var = grab(b, c * sizeof(real));
    real *gscale = grab_noise(b, c, 4), *gbias = grab_noise(b, c, 5), *host_var = host(b, c, sizeof(real));
    for (size_t i = 0; i < c && k->started; i++) host_var[i] = (real)(1 + rng_uniform(6, i));
    b->be->ops->upload(b->be, var, host_var, c * sizeof(real));
    void *kept = grab(b, p.kept_bytes), *scratch = grab(b, p.scratch_bytes);
    fill(b, &x, 7);
    if (k->offset) shift(b, &x, (real)k->offset);
    fill(b, &y, 0);
    assert_int_equal(ops->forward(&p, WITH(scratch), x.data, NULL, scale, bias, mean, var, 0.1, kept, y.data),
                     OK);
    if (!p.fused) apply(b, &y, k->act);
    keep_tensor(b, "y", &y, y.shape.n);
    keep_vector(b, "mean", mean, c);
    keep_vector(b, "var", var, c);
    struct tensor gy = gradient(b, &y, 8), gx = k->in_place ? gy : gradient(b, &x, 0);
    if (!p.fused) apply_slope(b, &y, &gy, k->act, k->rows_back);
    assert_int_equal(ops->backward(&p, WITH(scratch, .add = k->add), x.data, y.data, scale, kept, gy.data,
                                   gx.data, NULL, gscale, gbias),
                     OK);
    keep_tensor(b, "gx", &gx, k->rows_back);
    keep_vector(b, "gscale", gscale, c);
    keep_vector(b, "gbias", gbias, c);
    norm_infer(b, k, &x, (const real *[]){ scale, bias, mean, var });
    op_destroy(&p);
    op_destroy(&p);
    op_destroy(&maker);
}

static void batch_norm(void **state)
{
    /* shape, splits, rows_s1, rows_back, blocked, add, in place, running statistics there, activation, mean
     */
    static const struct norm_case cases[] = {
        { { 4, 64, 5, 5 }, 1, 4, 4, 1, 0, 0, 0, ACT_RELU, 0 },
        { { 4, 17, 5, 5 }, 1, 4, 4, 1, 1, 1, 1, ACT_RELU, 0 },
        { { 6, 32, 7, 7 }, 2, 3, 6, 1, 0, 1, 1, ACT_RELU, 0 },
        { { 6, 20, 5, 1 }, 2, 3, 3, 1, 1, 0, 0, ACT_LINEAR, 0 },
        { { 6, 50, 5, 5 }, 2, 4, 6, 1, 0, 0, 1, ACT_LEAKY, 0 },
        { { 5, 3, 7, 7 }, 1, 5, 5, 0, 0, 1, 1, ACT_LOGISTIC, 0 },
        { { 8, 20, 1, 1 }, 1, 8, 8, 0, 0, 0, 1, ACT_RELU, 0 },
        { { 8, 64, 1, 1 }, 2, 4, 4, 0, 1, 1, 0, ACT_RELU, 0 },
        { { 4, 17, 7, 7 }, 1, 4, 4, 0, 0, 0, 1, ACT_RELU, 0 },
        { { 8, 17, 1, 1 }, 2, 4, 8, 1, 1, 1, 0, ACT_LINEAR, 0 },
        { { 4, 160, 3, 3 }, 1, 4, 4, 1, 0, 0, 0, ACT_RELU, 0 }, /* many channels, each small */
        { { 6, 20, 3, 3 }, 2, 3, 6, 0, 0, 1, 1, ACT_RELU, 0 },  /* less than a vector of each in an image */
        { { 5, 3, 2, 1 }, 1, 5, 5, 0, 1, 0, 0, ACT_LINEAR, 0 },
        { { 48, 32, 28, 28 }, 2, 20, 48, 1, 1, 0, 0, ACT_RELU, 0 }, /* results past the caches */
        { { 48, 32, 28, 28 }, 2, 20, 20, 1, 0, 1, 1, ACT_LINEAR, 0 },
        { { 40, 32, 32, 32 }, 1, 40, 40, 0, 0, 0, 0, ACT_RELU, 0 },
        { { 40, 32, 32, 32 }, 1, 40, 40, 0, 0, 0, 0, ACT_TANH, 0 },
        { { 3, 263, 2, 1 }, 1, 3, 3, 0, 0, 0, 1, ACT_LEAKY, 0 }, /* more channels than a block has threads */
        { { 7, 2056, 1, 3 }, 2, 2, 7, 0, 1, 0, 0, ACT_RELU, 0 },
        { { 7, 2056, 1, 3 }, 2, 5, 5, 0, 0, 1, 1, ACT_LOGISTIC, 0 },
        { { 1, 17, 1, 1 }, 1, 1, 1, 0, 0, 0, 0, ACT_LINEAR, 0 }, /* no variance */
        { { 9, 16, 1, 1 }, 2, 1, 9, 0, 1, 0, 1, ACT_LINEAR, 0 },
        { { 9, 5, 1, 1 }, 2, 7, 7, 0, 0, 1, 0, ACT_RELIE, 0 },
        { { 16, 24, 5, 5 }, 2, 7, 16, 0, 0, 0, 1, ACT_RELU, 64 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char what[20];
        snprintf(what, sizeof what, "norm %zu", i);
        both(state, norm, &cases[i], what);
    }
    for (enum act a = 0; a < ACT_COUNT; a++) {
        const struct norm_case wide = { { 6, 16, 5, 3 }, 2, 2, 6, 1, 0, 1, 1, a, 0 },
                               odd = { { 5, 11, 3, 3 }, 1, 5, 5, 0, 1, 0, 0, a, 0 };
        if (!act_from_output(a)) continue;
        both(state, norm, &wide, act_names[a]);
        both(state, norm, &odd, act_names[a]);
    }
}

/* The running statistics where some are still 0, which counts as updated, and where a channel has a number
 * that is none, which leaves them alone. */
static void running(struct bench *b, const void *arg)
{
    const struct shape *shape = arg;
    struct err e;
    struct op_plan p;
    struct tensor x = dense(b, *shape), y = x;
    struct norm_desc d = { &x, 1, 2, 1, shape->n, ACT_LINEAR, NULL };
    size_t c = (size_t)shape->c, n = shape_count(*shape);
    real *value = noise(b, n, 1), *host_var = host(b, c, sizeof *host_var);
    assert_int_equal(b->be->ops->norm->plan(b->be, &d, &y, &p, &e), OK);
    real *scale = grab_noise(b, c, 2), *bias = grab_noise(b, c, 3), *mean = grab_noise(b, c, 4),
         *var = grab(b, c * sizeof(real));
    value[n / (size_t)shape->n] = (real)NAN; /* channel 0 of the second row */
    value[n / (size_t)shape->n / c] = (real)INFINITY;
    host_var[c - 1] = 1;
    b->be->ops->upload(b->be, var, host_var, c * sizeof(real));
    fill(b, &x, 0);
    fill(b, &y, 0);
    assert_int_equal(b->be->ops->write(b->be, &x, 0, shape->n, value, 0), OK);
    assert_int_equal(b->be->ops->norm->forward(&p, WITH(grab(b, p.scratch_bytes)), x.data, NULL, scale, bias,
                                               mean, var, 0.25, grab(b, p.kept_bytes), y.data),
                     OK);
    keep_vector(b, "mean", mean, c);
    keep_vector(b, "var", var, c);
    op_destroy(&p);
}

static void running_norm(void **state)
{
    static const struct shape shapes[] = { { 3, 16, 2, 3 }, { 4, 11, 1, 2 }, { 3, 300, 1, 1 } };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        both(state, running, &shapes[i], "running statistics");
}

/* Normalisation, a sum, an activation: as one operation where the device has it, else as two. */
struct sum_case {
    struct shape in;
    int splits, rows_s1, rows_back, add, no_gaddend;
    enum act act;
};

static void normed_sum(struct bench *b, const void *arg)
{
    const struct sum_case *k = arg;
    const struct backend_ops *ops = b->be->ops;
    struct err e;
    struct op_plan p, sum = { 0 };
    struct tensor x = dense(b, k->in), y = { .shape = k->in }, z = { .shape = k->in }, u = x;
    int fused = ops->norm->adds && ops->norm->adds(k->act);
    struct norm_desc d = { .in = &x,
                           .train = 1,
                           .splits = k->splits,
                           .rows_s1 = k->rows_s1,
                           .rows_back = k->rows_back,
                           .act = fused ? k->act : ACT_LINEAR,
                           .addend = fused ? &u : NULL };
    assert_int_equal(ops->norm->plan(b->be, &d, fused ? &y : &z, &p, &e), OK);
    size_t c = (size_t)k->in.c;
    real *scale = grab_noise(b, c, 1), *bias = grab_noise(b, c, 2), *mean = grab_noise(b, c, 3),
         *var = grab_noise(b, c, 4), *gscale = grab_noise(b, c, 5), *gbias = grab_noise(b, c, 6);
    void *kept = grab(b, p.kept_bytes), *scratch = grab(b, p.scratch_bytes);
    fill(b, &x, 7);
    fill(b, &u, 8);
    if (!fused) {
        struct add_desc a = { &z, &u, 1, 1, k->act, 1, k->rows_back, 0, 0 };
        assert_int_equal(ops->add->plan(b->be, &a, &y, &sum, &e), OK);
        assert_int_equal(sum.fused, 1);
        fill(b, &z, 0);
    }
    fill(b, &y, 0);
    assert_int_equal(ops->norm->forward(&p, WITH(scratch), x.data, fused ? u.data : NULL, scale, bias, mean,
                                        var, .1, kept, fused ? y.data : z.data),
                     OK);
    if (!fused)
        assert_int_equal(ops->add->forward(&sum, WITH(grab(b, sum.scratch_bytes)), z.data, u.data, y.data),
                         OK);
    keep_tensor(b, "y", &y, y.shape.n);
    struct tensor gy = gradient(b, &y, 9), gu = gradient(b, &u, 0), gz = gy;
    if (!fused) {
        gz = gradient(b, &z, 0);
        assert_int_equal(
            ops->add->backward(&sum, WITH(grab(b, sum.scratch_bytes)), y.data, gy.data, gz.data, gu.data),
            OK);
    }
    assert_int_equal(ops->norm->backward(&p, WITH(scratch, .add = k->add), x.data, fused ? y.data : z.data,
                                         scale, kept, gz.data, gz.data, k->no_gaddend ? NULL : gu.data,
                                         gscale, gbias),
                     OK);
    keep_tensor(b, "gx", &gz, k->rows_back);
    if (!k->no_gaddend) keep_tensor(b, "gaddend", &gu, k->rows_back);
    keep_vector(b, "gscale", gscale, c);
    keep_vector(b, "gbias", gbias, c);
    op_destroy(&p);
    op_destroy(&sum);
}

static void normed_sums(void **state)
{
    static const struct sum_case cases[] = {
        { { 4, 17, 5, 7 }, 1, 4, 4, 0, 0, ACT_RELU },    { { 6, 64, 8, 8 }, 1, 6, 6, 1, 0, ACT_RELU },
        { { 6, 64, 8, 8 }, 2, 4, 6, 1, 0, ACT_LEAKY },   { { 5, 24, 3, 3 }, 2, 2, 2, 0, 0, ACT_RELU },
        { { 5, 300, 2, 2 }, 1, 5, 5, 0, 1, ACT_LINEAR }, { { 3, 2056, 1, 2 }, 2, 1, 3, 1, 0, ACT_RELIE },
        { { 9, 8, 16, 16 }, 1, 9, 9, 0, 0, ACT_RELU },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char what[20];
        snprintf(what, sizeof what, "normed sum %zu", i);
        both(state, normed_sum, &cases[i], what);
    }
}

/* A channel that is the same everywhere has no variance, however large it is: y is the bias. */
static void constant_norm(void **state)
{
    const struct shape shape = { 4, 32, 9, 9 };
    struct err e;
    for (int blocked = 0; blocked < 2; blocked++) {
        struct bench b;
        bench_open(&b, *state, 2);
        struct op_plan maker = { 0 }, p;
        struct tensor x = blocked ? favourite(&b, shape, &maker) : dense(&b, shape), y = { .shape = shape };
        struct norm_desc d = { &x, 1, 1, shape.n, shape.n, ACT_LINEAR, NULL };
        assert_int_equal(b.be->ops->norm->plan(b.be, &d, &y, &p, &e), OK);
        size_t c = (size_t)shape.c, n = shape_count(shape);
        real *scale = grab_noise(&b, c, 1), *bias = grab_noise(&b, c, 2), *mean = grab_noise(&b, c, 3),
             *var = grab_noise(&b, c, 4), *value = host(&b, n, sizeof *value);
        for (size_t i = 0; i < n; i++) value[i] = (real)(1e6 / 3);
        fill(&b, &x, 0);
        fill(&b, &y, 0);
        assert_int_equal(b.be->ops->write(b.be, &x, 0, shape.n, value, 0), OK);
        assert_int_equal(b.be->ops->norm->forward(&p, WITH(grab(&b, p.scratch_bytes)), x.data, NULL, scale,
                                                  bias, mean, var, 1, grab(&b, p.kept_bytes), y.data),
                         OK);
        assert_int_equal(b.be->ops->read(b.be, &y, 0, shape.n, value), OK);
        for (size_t i = 0; i < n; i++) assert_true(value[i] == bias[i / (n / 4 / c) % c]);
        for (size_t i = 0; i < c; i++) assert_true(var[i] == 0);
        op_destroy(&p);
        op_destroy(&maker);
        bench_close(&b);
    }
}

/* ---- activations, dropout ---- */

struct act_case {
    struct shape in;
    int rows_back, blocked, add;
    enum act act;
};

static void act(struct bench *b, const void *arg)
{
    const struct act_case *k = arg;
    struct err e;
    struct op_plan maker = { 0 }, p;
    struct tensor x = k->blocked ? favourite(b, k->in, &maker) : dense(b, k->in), y = { .shape = k->in };
    struct act_desc d = { &x, 1, k->rows_back, k->act };
    assert_int_equal(b->be->ops->act->plan(b->be, &d, &y, &p, &e), OK);
    void *scratch = grab(b, p.scratch_bytes);
    fill(b, &x, 1);
    fill(b, &y, 0);
    assert_int_equal(b->be->ops->act->forward(&p, WITH(scratch), x.data, y.data), OK);
    keep_tensor(b, "y", &y, y.shape.n);
    struct tensor gy = gradient(b, &y, 2), gx = k->add ? gradient(b, &x, 3) : gy;
    int from_y = act_from_output(k->act);
    assert_int_equal(b->be->ops->act->backward(&p, WITH(scratch), from_y ? NULL : x.data,
                                               from_y ? y.data : NULL, gy.data, gx.data, k->add),
                     OK);
    keep_tensor(b, "gx", &gx, k->rows_back);
    op_destroy(&p);
    op_destroy(&p);
    op_destroy(&maker);
}

static void activations(void **state)
{
    for (enum act a = 0; a < ACT_COUNT; a++) {
        struct act_case blocked = { { 4, 17, 5, 7 }, 3, 1, 1, a }, flat = { { 4, 3, 9, 6 }, 4, 0, 0, a },
                        odd = { { 3, 1, 5, 5 }, 3, 0, 1, a };
        both(state, act, &blocked, act_names[a]);
        both(state, act, &flat, act_names[a]);
        both(state, act, &odd, act_names[a]);
    }
}

static void drop(struct bench *b, const void *arg)
{
    const struct act_case *k = arg;
    struct err e;
    struct op_plan maker = { 0 }, p;
    struct tensor x = k->blocked ? favourite(b, k->in, &maker) : dense(b, k->in), y = { .shape = k->in };
    struct dropout_desc d = { &x, k->rows_back, 0.3, 77 };
    struct step_state now = { .step = 5 };
    void *then = grab(b, sizeof now);
    b->be->ops->upload(b->be, then, &now, sizeof now);
    assert_int_equal(b->be->ops->dropout->plan(b->be, &d, &y, &p, &e), OK);
    void *scratch = grab(b, p.scratch_bytes);
    fill(b, &x, 1);
    fill(b, &y, 0);
    assert_int_equal(b->be->ops->dropout->forward(&p, WITH(scratch, .state = then), x.data, y.data), OK);
    keep_tensor(b, "y", &y, y.shape.n);
    struct tensor gy = gradient(b, &y, 2), gx = gradient(b, &x, k->add ? 3 : 0);
    assert_int_equal(
        b->be->ops->dropout->backward(&p, WITH(scratch, .state = then), gy.data, gx.data, k->add), OK);
    keep_tensor(b, "gx", &gx, k->rows_back);
    op_destroy(&p);
    op_destroy(&p);
    op_destroy(&maker);
}

static void dropout(void **state)
{
    static const struct act_case cases[] = { { { 4, 17, 5, 7 }, 3, 1, 1, 0 },
                                             { { 4, 32, 3, 3 }, 4, 1, 0, 0 },
                                             { { 4, 3, 9, 5 }, 4, 0, 1, 0 },
                                             { { 4, 20, 1, 1 }, 4, 1, 0, 0 } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) both(state, drop, &cases[i], "dropout");
}

/* ---- pooling ---- */

struct pool_case {
    struct shape in;
    enum pool_kind kind;
    int size, stride, pad, rows_back, blocked, add, ties;
};

/* Ties: small whole numbers, so that most windows have several equal maxima. */
static void coarsen(struct bench *b, struct tensor *t)
{
    real *v = host(b, shape_count(t->shape), sizeof *v);
    assert_int_equal(b->be->ops->read(b->be, t, 0, t->shape.n, v), OK);
    for (size_t i = 0; i < shape_count(t->shape); i++) v[i] = (real)(v[i] > 0 ? -1 : -2);
    assert_int_equal(b->be->ops->write(b->be, t, 0, t->shape.n, v, 0), OK);
}

static void pool(struct bench *b, const void *arg)
{
    const struct pool_case *k = arg;
    struct err e;
    struct op_plan maker = { 0 }, p;
    struct tensor x = k->blocked ? favourite(b, k->in, &maker) : dense(b, k->in), y = { .shape = k->in };
    y.shape.h = k->kind == POOL_MAX ? (k->in.h + k->pad - k->size) / k->stride + 1 : 1;
    y.shape.w = k->kind == POOL_MAX ? (k->in.w + k->pad - k->size) / k->stride + 1 : 1;
    struct pool_desc d = { &x, k->kind, k->size, k->stride, k->pad, 1, k->rows_back };
    if (b->be->ops->pool->plan(b->be, &d, &y, &p, &e)) fail_msg("%s", e.msg);
    void *kept = grab(b, p.kept_bytes), *scratch = grab(b, p.scratch_bytes);
    fill(b, &x, 1);
    if (k->ties) coarsen(b, &x);
    fill(b, &y, 0);
    assert_int_equal(b->be->ops->pool->forward(&p, WITH(scratch), x.data, y.data, kept), OK);
    keep_tensor(b, "y", &y, y.shape.n);
    struct tensor gy = gradient(b, &y, 2), gx = gradient(b, &x, k->add ? 3 : 0);
    assert_int_equal(b->be->ops->pool->backward(&p, WITH(scratch), kept, gy.data, gx.data, k->add), OK);
    keep_tensor(b, "gx", &gx, k->rows_back);
    op_destroy(&p);
    op_destroy(&p);
    d.train = 0;
    assert_int_equal(b->be->ops->pool->plan(b->be, &d, &y, &p, &e), OK);
    assert_int_equal(b->be->ops->pool->forward(&p, WITH(scratch), x.data, y.data, NULL), OK);
    keep_tensor(b, "inference", &y, y.shape.n);
    op_destroy(&p);
    op_destroy(&maker);
}

static void pooling(void **state)
{
    /* shape, kind, size, stride, pad, rows_back, blocked, add, ties */
    static const struct pool_case cases[] = {
        { { 3, 32, 8, 8 }, POOL_MAX, 2, 2, 1, 3, 1, 0, 0 },
        { { 3, 17, 7, 5 }, POOL_MAX, 2, 2, 1, 2, 1, 1, 1 },
        { { 3, 3, 7, 7 }, POOL_MAX, 3, 2, 2, 3, 0, 0, 1 },
        { { 3, 20, 7, 7 }, POOL_MAX, 3, 2, 2, 3, 1, 1, 1 },
        { { 3, 16, 5, 5 }, POOL_MAX, 2, 1, 1, 2, 1, 0, 1 },
        { { 3, 20, 9, 9 }, POOL_MAX, 3, 3, 0, 3, 0, 0, 0 },
        { { 3, 16, 8, 8 }, POOL_MAX, 2, 3, 0, 3, 1, 0, 0 },
        { { 2, 16, 1, 1 }, POOL_MAX, 2, 2, 1, 2, 0, 0, 0 },
        { { 2, 3, 19, 20 }, POOL_MAX, 17, 1, 16, 1, 0, 1, 0 }, /* windows of more cells than a byte counts */
        { { 2, 16, 20, 19 }, POOL_MAX, 17, 2, 16, 2, 1, 0, 1 },
        { { 3, 17, 5, 5 }, POOL_AVERAGE, 0, 0, 0, 2, 1, 1, 0 },
        { { 2, 320, 2, 3 }, POOL_AVERAGE, 0, 0, 0, 2, 1, 0, 0 },
        { { 2, 37, 1, 1 }, POOL_AVERAGE, 0, 0, 0, 1, 0, 1, 0 },
        { { 3, 64, 4, 4 }, POOL_AVERAGE, 0, 0, 0, 3, 1, 0, 0 },
        { { 3, 3, 7, 7 }, POOL_AVERAGE, 0, 0, 0, 3, 0, 0, 0 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char what[20];
        snprintf(what, sizeof what, "pool %zu", i);
        both(state, pool, &cases[i], what);
    }
}

/* ---- joining ---- */

struct join_case {
    struct shape a, b, c; /* c: a third input, concatenation only; n = 0: none */
    int concat, blocked[3], rows_back, add[3];
    double alpha, beta;
    enum act act;
    int single;  /* bits: inputs that are float whatever the precision, as a [softmax] makes */
    int self;    /* addition of a to itself: one input, one gradient */
    int without; /* bits: inputs whose gradient nobody wants */
};

static struct tensor join_input(struct bench *b, struct shape s, int blocked, int single,
                                struct op_plan *maker)
{
    enum precision p = b->be->precision;
    if (single) b->be->precision = PRECISION_FP32;
    struct tensor t = blocked ? favourite(b, s, maker) : dense(b, s);
    b->be->precision = p;
    return t;
}

static void join(struct bench *b, const void *arg)
{
    const struct join_case *k = arg;
    const struct shape shapes[3] = { k->a, k->b, k->c };
    const struct add_ops *add = b->be->ops->add;
    const struct concat_ops *concat = b->be->ops->concat;
    int nin = k->c.n ? 3 : 2;
    struct err e;
    struct op_plan maker[3] = { 0 };
    struct op_plan p;
    struct tensor in[3], g[3], y = { .shape = k->a };
    const struct tensor *const ins[3] = { &in[0], &in[1], &in[2] };
    for (int i = 0; i < nin; i++)
        in[i] = join_input(b, shapes[i], k->blocked[i], k->single >> i & 1, &maker[i]);
    if (k->concat) y.shape.c = k->a.c + k->b.c + (k->c.n ? k->c.c : 0);
    struct add_desc d = { &in[0], &in[1], k->alpha, k->beta, k->act, 1, k->rows_back, k->add[0], k->add[1] };
    struct concat_desc c = { ins, nin, 1, k->rows_back };
    int rc = k->concat ? concat->plan(b->be, &c, &y, &p, &e) : add->plan(b->be, &d, &y, &p, &e);
    if (rc) fail_msg("%s", e.msg);
    void *scratch = grab(b, p.scratch_bytes);
    for (int i = 0; i < nin; i++) fill(b, &in[i], 10 + (uint64_t)i);
    if (k->self) in[1] = in[0];
    fill(b, &y, 0);
    rc = k->concat ? concat->forward(&p, WITH(scratch),
                                     (const void *[]){ in[0].data, in[1].data, nin > 2 ? in[2].data : NULL },
                                     y.data)
                   : add->forward(&p, WITH(scratch), in[0].data, in[1].data, y.data);
    assert_int_equal(rc, OK);
    keep_tensor(b, "y", &y, y.shape.n);
    struct tensor gy = gradient(b, &y, 2);
    for (int i = 0; i < nin; i++) g[i] = gradient(b, &in[i], k->add[i] ? 20 + (uint64_t)i : 0);
    if (k->self) g[1] = g[0];
    void *gx[3] = { 0 };
    for (int i = 0; i < nin; i++) gx[i] = k->without >> i & 1 ? NULL : g[i].data;
    rc = k->concat ? concat->backward(&p, WITH(scratch), gy.data, gx, k->add)
                   : add->backward(&p, WITH(scratch), y.data, gy.data, gx[0], gx[1]);
    assert_int_equal(rc, OK);
    for (int i = 0; i < nin; i++)
        if (gx[i]) keep_tensor(b, i == 0 ? "ga" : i == 1 ? "gb" : "gc", &g[i], k->rows_back);
    op_destroy(&p);
    op_destroy(&p);
    for (int i = 0; i < nin; i++) op_destroy(&maker[i]);
}

static void joining(void **state)
{
    /* shapes, concat, blocked, rows_back, add, alpha, beta, activation, single, self, without */
    static const struct join_case cases[] = {
        { { 4, 32, 5, 5 }, { 4, 32, 5, 5 }, { 0 }, 0, { 1, 1 }, 4, { 0, 1 }, 1, 1, ACT_RELU, 0, 0, 0 },
        { { 4, 17, 5, 5 }, { 4, 17, 5, 5 }, { 0 }, 0, { 1, 0 }, 3, { 1, 0 }, 0.5, 2, ACT_LEAKY, 0, 0, 0 },
        { { 4, 17, 5, 5 }, { 4, 17, 5, 5 }, { 0 }, 0, { 0, 1 }, 3, { 0, 1 }, 0.5, 2, ACT_LOGISTIC, 0, 0, 0 },
        { { 4, 17, 5, 5 }, { 4, 17, 5, 5 }, { 0 }, 0, { 1, 1 }, 4, { 1, 1 }, 1, 1, ACT_PLSE, 0, 0, 0 },
        { { 4, 32, 4, 4 }, { 4, 16, 8, 8 }, { 0 }, 0, { 1, 1 }, 4, { 0, 0 }, 1, 1, ACT_RELU, 0, 0, 0 },
        { { 4, 20, 8, 8 }, { 4, 32, 4, 4 }, { 0 }, 0, { 1, 1 }, 3, { 1, 1 }, 2, 0.5, ACT_LOGISTIC, 0, 0, 0 },
        { { 4, 17, 4, 4 }, { 4, 3, 4, 4 }, { 0 }, 0, { 1, 0 }, 4, { 0, 0 }, 0.5, 1, ACT_LINEAR, 0, 0, 0 },
        { { 3, 32, 5, 5 },
          { 3, 16, 5, 5 },
          { 3, 48, 5, 5 },
          1,
          { 1, 1, 1 },
          3,
          { 0, 1, 0 },
          0,
          0,
          0,
          0,
          0,
          0 },
        { { 3, 17, 5, 5 },
          { 3, 20, 5, 5 },
          { 3, 3, 5, 5 },
          1,
          { 1, 0, 1 },
          2,
          { 1, 0, 1 },
          0,
          0,
          0,
          0,
          0,
          0 },
        { { 3, 32, 5, 5 }, { 3, 17, 5, 5 }, { 0 }, 1, { 1, 1 }, 3, { 0, 0 }, 0, 0, 0, 0, 0, 0 },
        { { 3, 3, 5, 5 }, { 3, 32, 5, 5 }, { 0 }, 1, { 0, 1 }, 3, { 0, 1 }, 0, 0, 0, 0, 0, 0 },
        { { 3, 16, 1, 1 }, { 3, 17, 1, 1 }, { 0 }, 1, { 1, 1 }, 3, { 0, 1 }, 0, 0, 0, 0, 0, 0 },
        { { 4, 32, 5, 5 }, { 4, 32, 5, 5 }, { 0 }, 0, { 1, 1 }, 3, { 0, 1 }, 2, 1, ACT_RELU, 0, 1, 0 },
        { { 4, 32, 5, 5 }, { 4, 32, 5, 5 }, { 0 }, 0, { 1, 1 }, 3, { 1, 0 }, 2, 1, ACT_RELU, 0, 0, 1 },
        { { 4, 32, 5, 5 }, { 4, 32, 5, 5 }, { 0 }, 0, { 1, 1 }, 3, { 0, 0 }, 2, 1, 0, 0, 0, 2 },
        { { 4, 32, 3, 6 }, { 4, 16, 6, 12 }, { 0 }, 0, { 1, 1 }, 3, { 0, 1 }, 2, 1, ACT_RELU, 0, 0, 1 },
        { { 4, 32, 6, 12 }, { 4, 48, 3, 6 }, { 0 }, 0, { 1, 1 }, 4, { 0, 1 }, 2, 1, 0, 0, 0, 2 },
        { { 4, 32, 5, 5 }, { 4, 32, 5, 5 }, { 0 }, 0, { 0, 0 }, 4, { 0, 1 }, 1, 1, ACT_RELU, 2, 0, 0 },
        { { 4, 32, 6, 6 }, { 4, 16, 3, 3 }, { 0 }, 0, { 0, 0 }, 3, { 1, 0 }, .5, 2, ACT_RELU, 1, 0, 0 },
        { { 3, 32, 5, 5 }, { 3, 16, 5, 5 }, { 3, 8, 5, 5 }, 1, { 0 }, 3, { 0, 1, 0 }, 0, 0, 0, 2, 0, 0 },
        { { 3, 32, 5, 5 }, { 3, 16, 5, 5 }, { 3, 8, 5, 5 }, 1, { 0 }, 3, { 0 }, 0, 0, 0, 0, 0, 4 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char what[20];
        snprintf(what, sizeof what, "join %zu", i);
        both(state, join, &cases[i], what);
    }
}

/* ---- softmax ---- */

struct softmax_case {
    struct shape in;
    int groups, blocked, rows_back, scored, gy, add;
    double temperature, smooth, scale;
};

static void softmax(struct bench *b, const void *arg)
{
    const struct softmax_case *k = arg;
    const struct softmax_ops *ops = b->be->ops->softmax;
    struct err e;
    struct op_plan maker = { 0 }, p;
    struct tensor x = k->blocked ? favourite(b, k->in, &maker) : dense(b, k->in), y = { .shape = k->in };
    struct softmax_desc d = { &x, k->groups, k->temperature, k->smooth, k->rows_back };
    if (ops->plan(b->be, &d, &y, &p, &e)) fail_msg("%s", e.msg);
    int n = k->in.n, *label = host(b, (size_t)n, sizeof *label), *dev = grab(b, (size_t)n * sizeof *label);
    for (int i = 0; i < n; i++) label[i] = (int)rng_below(9, (uint64_t)i, shape_row(k->in));
    b->be->ops->upload(b->be, dev, label, (size_t)n * sizeof *label);
    double *loss = grab(b, sizeof *loss), got;
    void *scratch = grab(b, p.scratch_bytes);
    real *logits = noise(b, shape_count(k->in), 1);
    for (size_t i = 0; i < shape_count(k->in); i++) logits[i] *= (real)k->scale;
    fill(b, &x, 0);
    assert_int_equal(b->be->ops->write(b->be, &x, 0, n, logits, 0), OK);
    fill(b, &y, 0);
    assert_int_equal(ops->forward(&p, WITH(scratch, .label = dev, .scored = k->scored), x.data, y.data, loss),
                     OK);
    keep_tensor(b, "p", &y, n);
    b->be->ops->download(b->be, &got, loss, sizeof got);
    real *kept = host(b, 1, sizeof *kept);
    *kept = (real)got;
    keep(b, "loss", kept, 1);
    struct tensor other = gradient(b, &y, 0);
    assert_int_equal(ops->forward(&p, WITH(scratch), x.data, other.data, NULL), OK);
    keep_tensor(b, "p without labels", &other, n);
    struct tensor gy = gradient(b, &y, 2), gx = gradient(b, &x, k->add ? 3 : 0);
    assert_int_equal(ops->backward(&p, WITH(scratch, .label = k->scored ? dev : NULL, .scored = k->scored),
                                   y.data, k->gy ? gy.data : NULL, gx.data, k->add),
                     OK);
    keep_tensor(b, "gx", &gx, k->rows_back);
    op_destroy(&p);
    op_destroy(&p);
    op_destroy(&maker);
}

static void softmaxes(void **state)
{
    /* shape, groups, blocked, rows_back, scored, gy, add, temperature, smoothing, size of the logits */
    static const struct softmax_case cases[] = {
        { { 6, 10, 1, 1 }, 1, 0, 6, 6, 0, 0, 1, 0, 1 },
        { { 6, 17, 1, 1 }, 1, 1, 3, 3, 1, 1, 2, 0.1, 1 },
        { { 6, 20, 2, 3 }, 4, 1, 6, 4, 1, 1, 0.5, 0.2, 1 },
        { { 6, 20, 1, 1 }, 1, 0, 6, 6, 0, 0, 1, 0.1, 200 },
        { { 6, 10, 1, 1 }, 1, 0, 6, 0, 1, 0, 1, 0, 1 },
        { { 6, 10, 1, 1 }, 1, 0, 4, 0, 0, 1, 1, 0.1, 1 },
        { { 3, 1, 1, 1 }, 1, 0, 3, 3, 1, 0, 1, 0.1, 1 },
        { { 3, 1000, 1, 1 }, 1, 0, 2, 3, 1, 1, 1, 0, 4 },
        { { 2, 33, 5, 3 }, 3, 0, 2, 2, 0, 0, 3, 0.1, 4 },
        { { 2, 21841, 1, 1 }, 1, 0, 2, 2, 0, 0, 1, 0.1, 4 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char what[20];
        snprintf(what, sizeof what, "softmax %zu", i);
        both(state, softmax, &cases[i], what);
    }
}

/* ---- losses of features ---- */

enum grain { FINE, WHOLE, NEAR, FEW, EQUAL, BAD };

struct match_case {
    int m1, m2, classes, memory;
    struct shape row; /* of a feature map */
    int rows_back, first, add, every;
    double warmup;
    enum grain grain; /* features: any; whole numbers; nearly those; most of them 0; all 0; one NaN */
    struct match_options o;
    int reuse_detached;
};

struct match_bed {
    const struct match_case *k;
    struct tensor x, gx;
    int *label, *dev_label;
    struct step_state now;
    void *then;
    double value;
};

static real grained(enum grain grain, real x, size_t i)
{
    switch (grain) {
    case WHOLE: return round(x);
    case NEAR: return round(x) * (1 + (real)i / (1 << 22));
    case FEW: return i % 37 ? 0 : x;
    case EQUAL: return 0;
    case BAD: return i == 20 ? (real)NAN : x;
    case FINE:
    default: return x;
    }
}

/* Features and labels of step number s; some labels are none. */
static void match_step(struct bench *b, struct match_bed *t, uint64_t s)
{
    const struct match_case *k = t->k;
    size_t n = shape_count(t->x.shape), rows = (size_t)t->x.shape.n;
    real *x = noise(b, n, 30 + s);
    for (size_t i = 0; i < n; i++) x[i] = grained(k->grain, x[i], i);
    assert_int_equal(b->be->ops->write(b->be, &t->x, 0, (int)rows, x, 0), OK);
    for (size_t i = 0; i < rows; i++) t->label[i] = (int)rng_below(40 + s, i, (uint64_t)k->classes + 2) - 1;
    b->be->ops->upload(b->be, t->dev_label, t->label, rows * sizeof(int));
    t->now = (struct step_state){ .iteration = 6 + s, .ce_average = s ? -1 : .5 };
    b->be->ops->upload(b->be, t->then, &t->now, sizeof t->now);
}

static void match_run(struct bench *b, struct match_bed *t, const struct op_plan *p, void *kept,
                      const struct match_memory *old)
{
    double *loss = grab(b, sizeof *loss);
    const struct match_ops *ops = b->be->ops->match;
    const struct op_context *context = WITH(grab(b, p->scratch_bytes), .state = t->then,
                                            .label = t->dev_label, .reuse_detached = t->k->reuse_detached);
    assert_int_equal(ops->forward(p, context, t->x.data, old, loss, kept), OK);
    b->be->ops->download(b->be, &t->value, loss, sizeof *loss);
    if (isnan(t->value)) t->value = -2;
    assert_int_equal(ops->backward(p, context, kept, t->gx.data, t->k->add), OK);
}

static struct match_bed match_bed(struct bench *b, const struct match_case *k)
{
    struct match_bed t = { .k = k };
    struct shape s = k->row;
    s.n = k->memory ? k->m1 : k->m1 + k->m2;
    t.x = dense(b, s);
    fill(b, &t.x, 1);
    t.label = host(b, (size_t)s.n, sizeof(int));
    t.dev_label = grab(b, (size_t)s.n * sizeof(int));
    t.then = grab(b, sizeof t.now);
    return t;
}

/* Two steps, so that there is something in the memory. */
static void match(struct bench *b, const void *arg)
{
    const struct match_case *k = arg;
    const struct match_ops *ops = b->be->ops->match;
    struct match_bed t = match_bed(b, k);
    struct op_plan p = { 0 };
    struct err e;
    size_t m2 = (size_t)k->m2;
    struct match_memory old = { grab(b, m2 * shape_row(k->row) * sizeof(real)), grab(b, m2 * sizeof(real)),
                                grab(b, sizeof(real)) };
    b->be->ops->upload(b->be, old.n, &(real){ 0 }, sizeof(real));
    b->be->ops->upload(b->be, old.h, host(b, m2 * shape_row(k->row), sizeof(real)),
                       m2 * shape_row(k->row) * sizeof(real));
    struct match_desc desc = { &t.x,     k->m1, k->m2, k->classes, k->rows_back,
                               k->first, k->o,  .7,    k->warmup,  k->every };
    if (ops->plan(b->be, &desc, &p, &e)) fail_msg("%s", e.msg);
    void *kept = grab(b, p.kept_bytes);
    for (uint64_t i = 0; i < 2; i++) {
        real *value = host(b, 1, sizeof *value);
        match_step(b, &t, i);
        t.gx = gradient(b, &t.x, k->add ? 3 : 0);
        match_run(b, &t, &p, kept, k->memory ? &old : NULL);
        *value = (real)t.value;
        keep(b, "match", value, 1);
        if (k->grain != BAD) keep_tensor(b, "gx", &t.gx, k->rows_back);
        if (k->memory) keep_vector(b, "memory", old.h, shape_count(t.x.shape));
    }
    op_destroy(&p);
    op_destroy(&p);
}

static void matching(void **state)
{
    static const struct match_options c = { 1, 5, 2, BANDWIDTH_MEDIAN, 0, 1, 0 },
                                      squared = { 1, 3, 1.7, BANDWIDTH_FIXED, 40, 0, 0 },
                                      present = { 1, 2, 2, BANDWIDTH_POOLED, 0, 1, 1 },
                                      plain = { 0, 5, 2, BANDWIDTH_MEDIAN, 0, 1, 1 };
    const struct match_case cases[] = {
        /* rows of S1 and S2, classes, memory, features, rows_back, first, add, every, warmup, grain, options,
           hold */
        { 20, 17, 3, 0, { 0, 7, 1, 1 }, 37, 0, 0, 1, 0, FINE, c, 0 },
        { 90, 81, 2, 0, { 0, 70, 1, 1 }, 171, 0, 1, 1, 10, FINE, c, 0 },
        { 20, 20, 3, 0, { 0, 64, 1, 1 }, 20, 1, 0, 2, -1, FINE, c, 0 },
        { 21, 20, 3, 0, { 0, 5, 3, 2 }, 41, 1, 1, 1, 0, FINE, squared, 0 },
        { 21, 20, 3, 0, { 0, 5, 3, 2 }, 41, 1, 0, 1, 0, FINE, present, 0 },
        { 30, 30, 3, 0, { 0, 33, 1, 1 }, 60, 0, 0, 1, 0, FINE, plain, 0 },
        { 18, 18, 3, 1, { 0, 5, 2, 3 }, 18, 1, 0, 1, 0, FINE, c, 0 },
        { 18, 18, 3, 1, { 0, 5, 2, 3 }, 18, 1, 1, 1, 0, FINE, plain, 0 },
        { 18, 18, 3, 1, { 0, 5, 2, 3 }, 18, 1, 0, 3, 0, FINE, c, 0 },
        { 18, 18, 3, 1, { 0, 5, 2, 3 }, 18, 1, 0, 1, 0, FINE, c, 1 },
        { 50, 49, 3, 0, { 0, 1, 1, 1 }, 99, 0, 0, 1, 0, NEAR, c, 0 },
        { 50, 50, 3, 0, { 0, 1, 1, 1 }, 100, 0, 0, 1, 0, NEAR, plain, 0 },
        { 18, 18, 40, 0, { 0, 9, 1, 1 }, 36, 0, 1, 1, 0, FINE, c, 0 }, /* hardly a pair */
        { 18, 18, 40, 0, { 0, 9, 1, 1 }, 36, 0, 0, 1, 0, FINE, present, 0 },
        { 1, 1, 900, 0, { 0, 3, 1, 1 }, 2, 0, 0, 1, 0, FINE, present, 0 },
        { 1, 1, 1, 0, { 0, 3, 1, 1 }, 2, 0, 0, 1, 0, FINE, plain, 0 },
        { 50, 49, 3, 0, { 0, 6, 1, 1 }, 99, 0, 0, 1, 0, WHOLE, c, 0 },
        { 50, 50, 3, 0, { 0, 2, 1, 1 }, 100, 0, 0, 1, 0, WHOLE, present, 0 },
        { 50, 49, 3, 0, { 0, 6, 1, 1 }, 99, 0, 0, 1, 0, FEW, c, 0 },
        { 50, 49, 3, 0, { 0, 6, 1, 1 }, 99, 0, 0, 1, 0, EQUAL, c, 0 },
        { 50, 49, 3, 0, { 0, 6, 1, 1 }, 99, 0, 0, 1, 0, EQUAL, present, 0 },
        { 20, 20, 3, 0, { 0, 9, 1, 1 }, 40, 0, 0, 1, 0, BAD, c, 0 },
        { 400, 330, 3, 0, { 0, 3, 1, 1 }, 730, 0, 0, 1, 0, FINE, plain, 0 }, /* more than bytes count */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char what[20];
        snprintf(what, sizeof what, "match %zu", i);
        both(state, match, &cases[i], what);
    }
}

struct center_case {
    int classes;
    struct shape in;
    int rows_back, scored, add, move, reuse_detached;
};

static double center_run(struct bench *b, const struct center_case *k, const struct tensor *x,
                         const void *label, const struct center_state *state, struct tensor *gx)
{
    const struct center_ops *ops = b->be->ops->center;
    struct center_desc d = { x, k->classes, k->rows_back, .7, 4, .3 };
    struct step_state now = { .iteration = 3, .ce_average = -1 };
    struct op_plan p;
    struct err e;
    void *then = grab(b, sizeof now), *loss = grab(b, sizeof(double));
    double value;
    b->be->ops->upload(b->be, then, &now, sizeof now);
    assert_int_equal(ops->plan(b->be, &d, &p, &e), OK);
    const struct op_context *context =
        WITH(grab(b, p.scratch_bytes), .state = then, .label = label, .scored = k->scored, .add = !k->move,
             .reuse_detached = k->reuse_detached);
    assert_int_equal(ops->forward(&p, context, x->data, state, loss), OK);
    b->be->ops->download(b->be, &value, loss, sizeof value);
    assert_int_equal(ops->backward(&p, context, x->data, state, gx->data, k->add), OK);
    op_destroy(&p);
    op_destroy(&p);
    return value;
}

static void center(struct bench *b, const void *arg)
{
    const struct center_case *k = arg;
    size_t n = (size_t)k->in.n, d = shape_row(k->in), classes = (size_t)k->classes;
    struct tensor x = dense(b, k->in), gx;
    struct center_state state = { grab_noise(b, classes * d, 1), grab_noise(b, classes * d, 2),
                                  grab(b, classes * sizeof(real)) };
    int *label = host(b, n, sizeof *label);
    void *dev_label = grab(b, n * sizeof *label);
    real *count = host(b, classes, sizeof *count);
    for (size_t i = 0; i < n; i++) label[i] = (int)rng_below(5, i, classes);
    for (size_t i = 0; i < classes; i++) count[i] = (real)i;
    b->be->ops->upload(b->be, state.count, count, classes * sizeof *count);
    b->be->ops->upload(b->be, dev_label, label, n * sizeof *label);
    fill(b, &x, 4);
    gx = gradient(b, &x, k->add ? 3 : 0);
    *count = (real)center_run(b, k, &x, dev_label, &state, &gx);
    keep(b, "loss", count, 1);
    keep_tensor(b, "gx", &gx, k->rows_back);
    keep_vector(b, "centers", state.centers, classes * d);
    keep_vector(b, "sum", state.sum, classes * d);
    keep_vector(b, "count", state.count, classes);
}

static void centering(void **state)
{
    static const struct center_case cases[] = {
        /* classes, features, rows_back, scored, add, move, hold */
        { 3, { 7, 5, 1, 1 }, 7, 7, 0, 1, 0 },
        { 9, { 20, 130, 1, 1 }, 18, 10, 1, 0, 0 },
        { 300, { 12, 6, 2, 3 }, 12, 6, 0, 0, 1 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char what[20];
        snprintf(what, sizeof what, "center %zu", i);
        both(state, center, &cases[i], what);
    }
}

/* ---- optimiser, the device ---- */

static void update(struct bench *b, const void *arg)
{
    (void)arg;
    size_t n = 20001, few = 13;
    void *w = grab_noise(b, n, 1), *g = grab_noise(b, n, 2), *v = grab_noise(b, n, 3);
    void *w2 = grab_noise(b, few, 4), *g2 = grab_noise(b, few, 5), *v2 = grab_noise(b, few, 6);
    const struct sgd_item item[] = { { w, v, g, n * sizeof(real), NULL, 1, 5e-4 },
                                     { w2, v2, g2, few * sizeof(real), NULL, 2, 0 } };
    struct sgd_desc d = { item, 2, 0.9, 0.25 };
    struct op_plan p;
    struct step_state now = { .rate = .1 };
    struct err e;
    void *then = grab(b, sizeof now);
    b->be->ops->upload(b->be, then, &now, sizeof now);
    assert_int_equal(b->be->ops->sgd->plan(b->be, &d, &p, &e), OK);
    assert_int_equal(b->be->ops->sgd->update(&p, then), OK);
    keep_vector(b, "w", w, n);
    keep_vector(b, "v", v, n);
    keep_vector(b, "w of the second", w2, few);
    keep_vector(b, "v of the second", v2, few);
    const real odd[] = { (real)INFINITY, (real)-INFINITY, (real)NAN };
    int bad = 1;
    assert_int_equal(b->be->ops->sgd->check(&p, &bad), OK);
    assert_int_equal(bad, -1);
    for (int i = 0; i < 3; i++) {
        b->be->ops->upload(b->be, (char *)g2 + (few - 1) * sizeof(real), &odd[i], sizeof(real));
        assert_int_equal(b->be->ops->sgd->check(&p, &bad), OK);
        assert_int_equal(bad, 1);
    }
    b->be->ops->upload(b->be, (char *)g + (n - 1) * sizeof(real), &odd[2], sizeof(real));
    assert_int_equal(b->be->ops->sgd->check(&p, &bad), OK);
    assert_int_equal(bad, 0);
    op_destroy(&p);
}

static void sgd(void **state) { both(state, update, NULL, "sgd"); }

/* What the host reads late: losses of the last steps, the running mean of the CE, and the stop. */
static void records(void **state)
{
    enum { KEPT = 3 };
    struct bench b;
    struct err e;
    struct op_plan p;
    struct step_state now = { .ce_average = -1 };
    bench_open(&b, *state, 2);
    const struct loss_ring_ops *ops = b.be->ops->loss_ring;
    double *loss = grab(&b, 2 * sizeof *loss), average = 2;
    const double *const losses[] = { loss, loss + 1 };
    const int is_ce[] = { 1, 0 };
    struct loss_ring_desc d = { losses, is_ce, 2, KEPT, 10, 2, 2 };
    struct step_state *then = grab(&b, sizeof now);
    if (ops) assert_int_equal(ops->plan(b.be, &d, &p, &e), OK);
    for (int step = 0; ops && step < 8;
         step++) { /* iterations of two; the last has a loss that is not finite */
        double value[] = { 10. + step, step < 7 ? (double)step : (double)NAN }, record[KEPT * 3];
        now.step = (uint64_t)step;
        b.be->ops->upload(b.be, loss, value, sizeof value);
        b.be->ops->upload(b.be, then, &now, step ? offsetof(struct step_state, ce_sum) : sizeof now);
        assert_int_equal(ops->push(&p, then, step % 2), OK);
        assert_int_equal(ops->pull(&p, record), OK);
        assert_true(record[step % KEPT * 3] == 10. + step);
        assert_true(step == 7 || record[step % KEPT * 3 + 1] == step);
        assert_true(record[step % KEPT * 3 + 2] == (step < 7 ? 0 : STOP_LOSS));
        if (step > 0) assert_true(record[(step - 1) % KEPT * 3] == 9. + step);
        if (step % 2) average = .9 * average + .1 * ((9. + step) / 10 + (10. + step) / 10) / 2;
    }
    if (ops) {
        b.be->ops->download(b.be, &now, then, sizeof now);
        assert_true(fabs(now.ce_average - average) < 1e-12);
        assert_true(now.ce_sum == 0 && now.stop == STOP_LOSS);
        op_destroy(&p);
        op_destroy(&p);
    }
    bench_close(&b);
}

/* Where losses are read late a gradient that is not finite stops the updates too. */
static void guarded(void **state)
{
    struct bench b;
    struct err e;
    struct op_plan p;
    struct step_state now = { .rate = .1 };
    bench_open(&b, *state, 2);
    const struct sgd_ops *ops = b.be->ops->sgd;
    real w[4] = { 1, 2, 3, 4 }, g[4] = { 1, 1, 1, 1 }, got[4];
    void *at[3] = { grab(&b, sizeof w), grab(&b, sizeof w), grab(&b, sizeof w) };
    struct step_state *then = grab(&b, sizeof now);
    const struct sgd_item item = { at[0], at[1], at[2], sizeof w, NULL, 1, 0 };
    struct sgd_desc d = { &item, 1, 0, 1 };
    assert_int_equal(ops->plan(b.be, &d, &p, &e), OK);
    b.be->ops->upload(b.be, at[0], w, sizeof w);
    b.be->ops->upload(b.be, at[1], (const real[4]){ 0 }, sizeof w);
    b.be->ops->upload(b.be, then, &now, sizeof now);
    for (int step = 0; ops->guard && step < 3;
         step++) { /* one that is good, one that is not, one that is good */
        g[2] = step == 1 ? (real)INFINITY : 1;
        b.be->ops->upload(b.be, at[2], g, sizeof g);
        assert_int_equal(ops->guard(&p, then), OK);
        assert_int_equal(ops->update(&p, then), OK);
        b.be->ops->download(b.be, got, at[0], sizeof got);
        for (int i = 0; i < 4; i++) assert_true(fabs((double)(got[i] - (w[i] - (real).1))) < 1e-6);
        b.be->ops->download(b.be, &now, then, sizeof now);
        assert_int_equal(now.stop, step ? STOP_GRADIENT : 0);
    }
    op_destroy(&p);
    bench_close(&b);
}

/* The device shows what the loader would have made, to the last bit. */
static void images(void **state)
{
    enum { N = 5, C = 3, H = 6, W = 7, ROWS = 9 };
    const struct augment a = {
        .w = W, .h = H, .c = C, .pad_crop = 4, .flip = 1, .mean = { .1, .2, .3 }, .std = { .5, 0, .25 }
    };
    struct bench b;
    struct op_plan p;
    struct crop move[ROWS];
    uint8_t pixels[N * C * H * W];
    float mean[4], scale[4], made[C * H * W];
    struct err e;
    bench_open(&b, *state, 2);
    const struct images_ops *ops = b.be->ops->images;
    for (int i = 0; i < N * C * H * W; i++) pixels[i] = (uint8_t)rng_bits(3, (uint64_t)i);
    augment_normaliser(&a, mean, scale);
    struct images_desc d = { pixels, N, C, H, W, mean, scale };
    struct tensor x = dense(&b, (struct shape){ ROWS + 1, C, H, W });
    fill(&b, &x, 1);
    if (ops) assert_int_equal(ops->plan(b.be, &d, &p, &e), OK);
    for (int i = 0; i < ROWS; i++) {
        move[i].image = (i * 3) % N;
        augment_move(&a, rng_bits(4, (uint64_t)i), &move[i]);
    }
    void *there = grab(&b, sizeof move);
    b.be->ops->upload(b.be, there, move, sizeof move);
    if (ops) assert_int_equal(ops->show(&p, there, ROWS, &x), OK);
    for (int i = 0; ops && i < ROWS; i++) {
        real shown[C * H * W];
        assert_int_equal(b.be->ops->read(b.be, &x, i, 1, shown), OK);
        assert_int_equal(
            augment_image(&a, rng_bits(4, (uint64_t)i), pixels + move[i].image * C * H * W, W, H, made, &e),
            OK);
        for (int k = 0; k < C * H * W; k++) assert_true(shown[k] == made[k]);
    }
    real last[C * H * W], *noisy = noise(&b, shape_count(x.shape), 1) + ROWS * C * H * W;
    assert_int_equal(b.be->ops->read(b.be, &x, ROWS, 1, last), OK);
    assert_memory_equal(last, noisy, sizeof last);
    if (ops) op_destroy(&p);
    if (ops) op_destroy(&p);
    bench_close(&b);
}

static void rows(void **state)
{
    struct bench b;
    struct op_plan maker = { 0 };
    bench_open(&b, *state, 2);
    struct shape s = { 5, 17, 3, 5 };
    size_t row = shape_row(s);
    struct tensor t = favourite(&b, s, &maker);
    fill(&b, &t, 1);
    real *whole = noise(&b, shape_count(s), 1), *part = noise(&b, 2 * row, 2),
         *back = host(&b, shape_count(s), sizeof *back);
    assert_int_equal(b.be->ops->write(b.be, &t, 3, 2, part, 1), OK);
    assert_int_equal(b.be->ops->write(b.be, &t, 1, 1, part, 0), OK);
    assert_int_equal(b.be->ops->read(b.be, &t, 0, 5, back), OK);
    assert_memory_equal(back, whole, row * sizeof *back);
    assert_memory_equal(back + row, part, row * sizeof *back);
    for (size_t i = 0; i < 2 * row; i++) assert_true(back[3 * row + i] == whole[3 * row + i] + part[i]);
    assert_int_equal(b.be->ops->read(b.be, &t, 4, 1, part), OK);
    assert_memory_equal(part, back + 4 * row, row * sizeof *back);
    assert_int_equal(b.be->ops->read(b.be, &t, 4, 2, part), E_ARG);
    assert_int_equal(b.be->ops->write(b.be, &t, -1, 1, part, 0), E_ARG);
    op_destroy(&maker);
    bench_close(&b);
}

/* Two devices with different numbers of threads in turn; the same bits from run to run. */
static void repeatable(void **state)
{
    static const struct linear_case k = { { 4, 64, 8, 8 }, 64, 3, 1, 1, 1, 4, 1, 1, 0, 0, 0, ACT_RELU };
    struct bench one, two, again;
    bench_open(&one, *state, 1);
    bench_open(&two, *state, 2);
    bench_open(&again, *state, 2);
    linear(&two, &k);
    linear(&one, &k);
    linear(&again, &k);
    compare(&one, &two, "threads");
    for (int i = 0; i < two.nout; i++)
        assert_memory_equal(two.out[i], again.out[i], two.len[i] * sizeof(real));
    bench_close(&one);
    bench_close(&two);
    bench_close(&again);
}

static void refusals(void **state)
{
    struct bench b;
    struct backend *none;
    struct err e;
    struct add_desc d = { .act = ACT_LINEAR };
    struct op_plan p = { 0 };
    char next[20];
    bench_open(&b, *state, 1);
    snprintf(next, sizeof next, "%s:99", b.be->ops->name);
    assert_int_equal(backend_open(&none, next, 1, &e), E_DEVICE);
    assert_null(none);
    struct tensor a = dense(&b, (struct shape){ 1, 4, 4, 4 }), c = dense(&b, (struct shape){ 1, 4, 3, 3 }),
                  y = a;
    d.a = &a;
    d.b = &c;
    assert_int_equal(b.be->ops->add->plan(b.be, &d, &y, &p, &e), E_ARG);
    op_destroy(&p);
    bench_close(&b);
}

static int suite(const char *device)
{
    void *name = (void *)(uintptr_t)device;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(conv, name),         cmocka_unit_test_prestate(dense_map, name),
        cmocka_unit_test_prestate(batch_norm, name),   cmocka_unit_test_prestate(constant_norm, name),
        cmocka_unit_test_prestate(running_norm, name), cmocka_unit_test_prestate(normed_sums, name),
        cmocka_unit_test_prestate(activations, name),  cmocka_unit_test_prestate(dropout, name),
        cmocka_unit_test_prestate(pooling, name),      cmocka_unit_test_prestate(joining, name),
        cmocka_unit_test_prestate(softmaxes, name),    cmocka_unit_test_prestate(sgd, name),
        cmocka_unit_test_prestate(matching, name),     cmocka_unit_test_prestate(centering, name),
        cmocka_unit_test_prestate(images, name),       cmocka_unit_test_prestate(records, name),
        cmocka_unit_test_prestate(guarded, name),      cmocka_unit_test_prestate(rows, name),
        cmocka_unit_test_prestate(repeatable, name),   cmocka_unit_test_prestate(refusals, name),
    };
    print_message("%s\n", device);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#ifndef WITHOUT_MAIN /* tests/cuda/orders.c includes this file and checks the cases in another way */
int main(void)
{
    int failed = 0;
    for (int i = 0; backend_at(i); i++)
        if (strcmp(backend_at(i)->name, "ref")) failed += suite(backend_at(i)->name);
    return failed;
}
#endif
