/* The reference backend: every operation on numbers worked out by hand, and every gradient against central
 * differences. Tolerances are relative to max(1, |expected|): rounding of `real` in what is exact, and the
 * error of the difference quotient elsewhere. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include "backend/ops/act.h"
#include "backend/ops/add.h"
#include "backend/ops/concat.h"
#include "backend/ops/conv.h"
#include "backend/ops/dense.h"
#include "backend/ops/dropout.h"
#include "backend/ops/norm.h"
#include "backend/ops/pool.h"
#include "backend/ops/sgd.h"
#include "backend/ops/softmax.h"
#include "backend/scalar.h"
#include <cmocka.h> /* last: it makes a macro of fail */

enum { IS_DOUBLE = sizeof(real) == sizeof(double), MOST = 512 };

static const double exact = IS_DOUBLE ? 1e-12 : 1e-5; /* a few roundings */
static const double smooth = IS_DOUBLE ? 1e-7 : 2e-3; /* a central difference of something curved */
static const double width = IS_DOUBLE ? 1e-5 : 1e-2;  /* its step */

static struct backend *be;
static const struct backend_ops *ops;
static double scratch[MOST], kept[MOST];
static const struct op_context context = { .scratch = scratch };
#define WITH(...)                                                                                            \
    &(const struct op_context) { .scratch = scratch, __VA_ARGS__ }

static int open_ref(void **state)
{
    (void)state;
    struct err e;
    if (backend_open(&be, "ref", 1, &e)) return -1;
    ops = be->ops;
    return 0;
}

static int close_ref(void **state)
{
    (void)state;
    backend_close(be);
    return 0;
}

static void near_at(double got, double expected, double tolerance, const char *what, int i, int line)
{
    double size = fabs(expected) > 1 ? fabs(expected) : 1;
    if (fabs(got - expected) <= tolerance * size) return; /* NaN is not <= */
    fail_msg("line %d: %s[%d] is %.10g, expected %.10g", line, what, i, got, expected);
}
#define DONE(call)                     assert_int_equal(call, OK)
#define NEAR(got, expected, tolerance) near_at(got, expected, tolerance, #got, 0, __LINE__)
#define SAME(got, ...)                                                                                       \
    do {                                                                                                     \
        const double want_[] = { __VA_ARGS__ };                                                              \
        for (size_t i_ = 0; i_ < sizeof want_ / sizeof *want_; i_++)                                         \
            near_at((got)[i_], want_[i_], exact, #got, (int)i_, __LINE__);                                   \
    } while (0)

/* n numbers in [-1, 1), different for every seed. */
static void noise(real *x, size_t n, uint64_t seed)
{
    for (size_t i = 0; i < n; i++) x[i] = (real)(2 * rng_uniform(seed, i) - 1);
}

static void set(real *x, size_t n, double v)
{
    for (size_t i = 0; i < n; i++) x[i] = (real)v;
}

static struct tensor tensor(int n, int c, int h, int w) { return (struct tensor){ .shape = { n, c, h, w } }; }

static double inner(const real *a, const real *b, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += (double)a[i] * b[i];
    return sum;
}

/* Slope of f(ctx) along *x. */
static double slope(real *x, double step, double (*f)(const void *), const void *ctx)
{
    real was = *x, up = (real)(was + step), down = (real)(was - step);
    *x = up;
    double high = f(ctx);
    *x = down;
    double low = f(ctx);
    *x = was;
    return (high - low) / ((double)up - down);
}

/* g[0..n) must be start + the slopes of f along x[0..n). */
static void check_slopes(const char *what, real *x, const real *g, size_t n, double start, double step,
                         double tolerance, double (*f)(const void *), const void *ctx)
{
    double largest = 0;
    for (size_t i = 0; i < n; i++) {
        double s = slope(&x[i], step, f, ctx);
        near_at(g[i], start + s, tolerance, what, (int)i, __LINE__);
        if (fabs(s) > largest) largest = fabs(s);
    }
    if (!(largest > .01)) fail_msg("%s: nothing to compare, all slopes are 0", what);
}

/* What backward must leave alone. */
static void untouched(const real *x, size_t n, double v)
{
    for (size_t i = 0; i < n; i++) NEAR(x[i], v, 0);
}

/* ---- the device ---------------------------------------------------------------------------------- */

static void device(void **state)
{
    (void)state;
    struct err e = { 0, "" };
    struct backend *other;
    assert_int_equal(backend_open(&other, "ref:1", 1, &e), E_DEVICE);
    assert_null(other);
    assert_true(strlen(e.msg) > 0 && strlen(ops->version()) > 0);
    void *p;
    assert_int_equal(ops->alloc(be, SIZE_MAX - 8, &p, &e), E_MEM);
    DONE(ops->alloc(be, 6 * sizeof(real), &p, &e));
    assert_int_equal((uintptr_t)p % 64, 0);
    untouched(p, 6, 0);
    struct tensor t = tensor(3, 2, 1, 1);
    t.data = p;
    real host[6] = { 1, 2, 3, 4 }, back[6] = { 0 };
    DONE(ops->write(be, &t, 1, 2, host, 0));
    DONE(ops->write(be, &t, 2, 1, host, 1));
    DONE(ops->read(be, &t, 0, 3, back));
    SAME(back, 0, 0, 1, 2, 4, 6);
    DONE(ops->read(be, &t, 2, 1, back));
    SAME(back, 4, 6, 1, 2);
    DONE(ops->upload(be, p, host, sizeof host));
    DONE(ops->download(be, back, p, sizeof back));
    SAME(back, 1, 2, 3, 4, 0, 0);
    DONE(ops->sync(be, &e));
    ops->free(be, p);
    ops->free(be, NULL);
}

static void sizes_that_do_not_fit(void **state)
{
    (void)state;
    struct err e;
    const int big = 0x7fffffff;
    struct tensor in = tensor(big, big, big, big), out = in;
    struct act_desc d = { .in = &in, .act = ACT_RELU };
    struct op_plan p;
    assert_int_equal(ops->act->plan(be, &d, &out, &p, &e), E_ARG);
    op_destroy(&p);
    out = tensor(1, 0, 1, 1);
    assert_int_equal(ops->act->plan(be, &d, &out, &p, &e), E_ARG);
    op_destroy(&p);
}

/* ---- activations --------------------------------------------------------------------------------- */

static void act_values(void **state)
{
    (void)state;
    static const struct {
        enum act act;
        double x, y;
    } cases[] = {
        { ACT_LINEAR, -3, -3 },
        { ACT_RELU, -1, 0 },
        { ACT_RELU, 2, 2 },
        { ACT_RELU6, -1, 0 },
        { ACT_RELU6, 2, 2 },
        { ACT_RELU6, 7, 6 },
        { ACT_LEAKY, -2, -.2 },
        { ACT_LEAKY, 2, 2 },
        { ACT_RELIE, -2, -.02 },
        { ACT_RELIE, 2, 2 },
        { ACT_RAMP, -2, -.2 },
        { ACT_RAMP, 2, 2.2 },
        { ACT_LOGISTIC, 2, .8807970779778823 },
        { ACT_LOGGY, 2, .7615941559557646 },
        { ACT_TANH, .5, .46211715726000973 },
        { ACT_ELU, -1, -.6321205588285577 },
        { ACT_ELU, 2, 2 },
        { ACT_SELU, -1, -1.1112876898668622 },
        { ACT_SELU, 2, 2.1014 },
        { ACT_GELU, 1, .8411919989069876 },
        { ACT_SWISH, -1, -.2689414213699951 },
        { ACT_MISH, 1, .8650983882673103 },
        { ACT_MISH, -3, -.1456474612756246 },
        { ACT_HARD_MISH, -3, 0 },
        { ACT_HARD_MISH, -1, -.5 },
        { ACT_HARD_MISH, 2, 2 },
        { ACT_PLSE, 0, .5 },
        { ACT_PLSE, -6, -.02 },
        { ACT_PLSE, 5, 1.01 },
        { ACT_HARDTAN, -2, -1 },
        { ACT_HARDTAN, .5, .5 },
        { ACT_HARDTAN, 2, 1 },
        { ACT_LHTAN, -1, -.001 },
        { ACT_LHTAN, .5, .5 },
        { ACT_LHTAN, 2, 1.001 },
        { ACT_STAIR, 2.5, 1 },
        { ACT_STAIR, 3.25, 1.25 },
        { ACT_STAIR, -.5, -.5 },
        { ACT_STAIR, -1.5, -1 },
    };
    int seen[ACT_COUNT] = { 0 };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        near_at(act_apply(cases[i].act, (real)cases[i].x), cases[i].y, exact, act_names[cases[i].act], (int)i,
                __LINE__);
        seen[cases[i].act]++;
    }
    for (int a = 0; a < ACT_COUNT; a++) assert_true(seen[a]);
}

static double apply(const void *ctx)
{
    const struct {
        enum act act;
        real x;
    } *at = ctx;
    return act_apply(at->act, at->x);
}

/* Every activation through the operation: 2 rows forward, 1 back, the gradient added to 3. */
static void act_gradient(void **state)
{
    (void)state;
    static const real points[] = { (real)-7.3, (real)-3.1, (real)-2.4, (real)-1.3, (real)-.6, (real).3,
                                   (real).7,   (real)1.6,  (real)2.3,  (real)3.4,  (real)4.6, (real)7.7 };
    enum { N = sizeof points / sizeof *points };
    for (int a = 0; a < ACT_COUNT; a++) {
        struct tensor in = tensor(2, 3, 2, 2), out = in;
        struct act_desc d = { .in = &in, .train = 1, .rows_back = 1, .act = (enum act)a };
        struct op_plan p;
        struct err e;
        real x[2 * N], y[2 * N], gy[2 * N], gx[2 * N];
        memcpy(x, points, sizeof points);
        memcpy(x + N, points, sizeof points);
        DONE(ops->act->plan(be, &d, &out, &p, &e));
        assert_int_equal(out.bytes, sizeof y);
        DONE(ops->act->forward(&p, &context, x, y));
        set(gy, 2 * N, 2);
        set(gx, 2 * N, 3);
        int kind = act_from_output(d.act);
        DONE(ops->act->backward(&p, &context, kind ? NULL : x, kind ? y : NULL, gy, gx, 1));
        for (int i = 0; i < N; i++) {
            struct {
                enum act act;
                real x;
            } at = { d.act, points[i] };
            near_at(y[N + i], act_apply(d.act, points[i]), exact, act_names[a], i, __LINE__);
            double s = slope(&at.x, width, apply, &at);
            near_at(gx[i], 3 + 2 * s, smooth, act_names[a], i, __LINE__);
            near_at(act_slope_x(d.act, points[i]), s, smooth, act_names[a], i, __LINE__);
        }
        untouched(gx + N, N, 3);
        DONE(ops->act->backward(&p, &context, kind ? NULL : x, kind ? y : NULL, gy, gy, 0)); /* in place */
        for (int i = 0; i < N; i++) near_at(gy[i], gx[i] - 3, exact, act_names[a], i, __LINE__);
        op_destroy(&p);
        op_destroy(&p);
    }
}

static void act_kinks(void **state)
{
    (void)state;
    static const struct {
        enum act act;
        double x, slope;
    } cases[] = {
        { ACT_RELU, 0, 0 },     { ACT_RELU6, 0, 0 },    { ACT_RELU6, 6, 0 },      { ACT_LEAKY, 0, .1 },
        { ACT_RELIE, 0, .01 },  { ACT_RAMP, 0, .1 },    { ACT_ELU, 0, 1 },        { ACT_SELU, 0, 1.0507 },
        { ACT_PLSE, -4, .125 }, { ACT_PLSE, 4, .125 },  { ACT_HARDTAN, -1, 0 },   { ACT_HARDTAN, 1, 0 },
        { ACT_LHTAN, 0, .001 }, { ACT_LHTAN, 1, .001 }, { ACT_HARD_MISH, -2, 0 }, { ACT_HARD_MISH, 0, 1 },
        { ACT_STAIR, 2, 0 },    { ACT_STAIR, 3, 0 },    { ACT_STAIR, -1, 0 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        near_at(act_slope_x(cases[i].act, (real)cases[i].x), cases[i].slope, exact, act_names[cases[i].act],
                (int)i, __LINE__);
}

static void act_extremes(void **state)
{
    (void)state;
    static const real large[] = { (real)1e2, (real)1e4, (real)1e20, (real)(IS_DOUBLE ? 1e300 : 1e30) };
    for (int a = 0; a < ACT_COUNT; a++) {
        for (int i = 0; i < 8; i++) {
            real x = i % 2 ? large[i / 2] : -large[i / 2];
            if (!isfinite(act_apply((enum act)a, x)) || !isfinite(act_slope_x((enum act)a, x)))
                fail_msg("%s(%g) or its slope is not finite", act_names[a], (double)x);
        }
        if (!isnan(act_apply((enum act)a, (real)NAN))) fail_msg("%s hides a NaN", act_names[a]);
        assert_int_equal(!isnan(act_slope_y((enum act)a, (real).5)), act_from_output((enum act)a));
    }
    NEAR(act_apply(ACT_MISH, 1000), 1000, exact);
    NEAR(act_apply(ACT_TANH, -1000), -1, exact);
    NEAR(act_slope_x(ACT_SWISH, 1000), 1, exact);
}

static void dropout(void **state)
{
    (void)state;
    enum { N = 400 };
    struct tensor in = tensor(2, 2, 10, 10), out = in;
    struct op_plan p;
    struct err e;
    real x[N], y[N], g[N];
    noise(x, N, 1);
    for (int third = 0; third <= 3; third++) {
        double probability = third / 3.0;
        struct dropout_desc d = { &in, 1, probability, 77 };
        const struct step_state now = { .step = 5 };
        uint64_t key = rng_key(77, RNG_DROPOUT, 5);
        DONE(ops->dropout->plan(be, &d, &out, &p, &e));
        DONE(ops->dropout->forward(&p, WITH(.state = &now), x, y));
        set(g, N, 1);
        DONE(ops->dropout->backward(&p, WITH(.state = &now), x, g, 1));
        int dropped = 0;
        for (int i = 0; i < N; i++) {
            int keep = rng_uniform(key, (uint64_t)i) >= probability;
            dropped += !keep;
            NEAR(y[i], keep ? x[i] / (1 - probability) : 0, exact);
            NEAR(g[i], i < N / 2 ? 1 + y[i] : 1, exact);
        }
        NEAR(dropped / (double)N, probability, .08); /* 3.5 standard deviations */
        op_destroy(&p);
    }
    assert_true(dropout_keep(77, 5, rng_uniform(77, 5))); /* >= */
}

/* ---- convolution and dense ----------------------------------------------------------------------- */

struct linear {
    const struct linear_ops *ops;
    struct linear_desc d;
    struct tensor in, out;
    struct op_plan p;
    real x[MOST], w[MOST], bias[MOST], y[MOST], r[MOST];
};

static struct linear linear(const struct linear_ops *o, struct tensor in, struct tensor out)
{
    return (struct linear){
        .ops = o, .in = in, .out = out, .d = { .size = 1, .stride = 1, .groups = 1, .train = 1 }
    };
}

static void linear_run(struct linear *t)
{
    struct err e;
    t->d.in = &t->in;
    DONE(t->ops->plan(be, &t->d, &t->out, &t->p, &e));
    assert_true(t->p.scratch_bytes <= sizeof scratch && t->p.weight_bytes <= sizeof t->w);
    assert_int_equal(t->out.bytes, shape_count(t->out.shape) * sizeof(real));
    DONE(t->ops->forward(&t->p, &context, t->x, t->w, t->bias, t->y));
}

static void conv_by_hand(void **state)
{
    (void)state;
    struct linear t = linear(&ops->conv->linear, tensor(1, 1, 3, 3), tensor(1, 1, 3, 3));
    for (int i = 0; i < 9; i++) t.x[i] = (real)(i + 1), t.w[i] = 1;
    t.bias[0] = 1;
    t.d.size = 3, t.d.pad = 1;
    linear_run(&t);
    SAME(t.y, 13, 22, 17, 28, 46, 34, 25, 40, 29);
    DONE(t.ops->forward(&t.p, &context, t.x, t.w, NULL, t.y));
    SAME(t.y, 12, 21, 16, 27, 45, 33, 24, 39, 28);
    set(t.w, 9, 0);
    t.w[1] = 1; /* the cell above the centre: a convolution with a flipped window would take the one below */
    DONE(t.ops->forward(&t.p, &context, t.x, t.w, NULL, t.y));
    SAME(t.y, 0, 0, 0, 1, 2, 3, 4, 5, 6);
    op_destroy(&t.p);
}

static void conv_strides_and_groups(void **state)
{
    (void)state;
    struct linear t = linear(&ops->conv->linear, tensor(1, 1, 3, 3), tensor(1, 1, 2, 2));
    for (int i = 0; i < 9; i++) t.x[i] = (real)(i + 1), t.w[i] = 1;
    t.d.size = 3, t.d.pad = 1, t.d.stride = 2;
    linear_run(&t);
    SAME(t.y, 12, 16, 24, 28);
    op_destroy(&t.p);
    t = linear(&ops->conv->linear, tensor(1, 4, 1, 1), tensor(1, 2, 1, 1)); /* w: 2 filters of 2 inputs */
    for (int i = 0; i < 4; i++) t.x[i] = (real)(i + 1), t.w[i] = (real)(10 - i);
    t.d.groups = 2, t.d.train = 0, t.d.act = ACT_LEAKY;
    t.bias[1] = -100;
    linear_run(&t);
    assert_true(t.p.fused);
    SAME(t.y, 10 + 18, .1 * (24 + 28 - 100));
    op_destroy(&t.p);
    struct err e;
    t.d.groups = 3;
    assert_int_equal(t.ops->plan(be, &t.d, &t.out, &t.p, &e), E_ARG);
    op_destroy(&t.p);
}

static double linear_value(const void *ctx)
{
    const struct linear *t = ctx;
    static real y[MOST];
    DONE(t->ops->forward(&t->p, &context, t->x, t->w, t->bias, y));
    return inner(y, t->r, shape_row(t->out.shape) * (size_t)t->d.rows_back);
}

/* The map is linear in x, w and bias: differences with step 1 are exact. All but one row go back. */
static void linear_gradients(struct linear *t, size_t nw)
{
    size_t row = shape_row(t->in.shape), nx = row * (size_t)(t->in.shape.n - 1), nb = (size_t)t->out.shape.c;
    real gx[MOST], gw[MOST], gb[MOST];
    noise(t->x, shape_count(t->in.shape), 1);
    noise(t->w, nw, 2);
    noise(t->bias, nb, 3);
    noise(t->r, shape_count(t->out.shape), 4);
    t->d.rows_back = t->in.shape.n - 1;
    for (int i = 0; i < 4; i++) {
        int add = i & 1, add_gx = i >> 1;
        t->d.add_gx = add_gx;
        linear_run(t);
        assert_int_equal(t->p.weight_bytes, nw * sizeof(real));
        assert_false(t->p.fused);
        set(gx, MOST, 5);
        set(gw, MOST, 5);
        set(gb, MOST, 5);
        DONE(t->ops->backward(&t->p, WITH(.add = add), t->x, t->w, t->r, gx, gw, gb));
        check_slopes("gx", t->x, gx, nx, add_gx * 5, 1, exact, linear_value, t);
        check_slopes("gw", t->w, gw, nw, add * 5, 1, exact, linear_value, t);
        check_slopes("gbias", t->bias, gb, nb, add * 5, 1, exact, linear_value, t);
        untouched(gx + nx, MOST - nx, 5);
        untouched(gw + nw, MOST - nw, 5);
        DONE(t->ops->backward(&t->p, &context, t->x, t->w, t->r, NULL, gw, NULL));
        op_destroy(&t->p);
    }
}

static void conv_gradient(void **state)
{
    (void)state;
    static const struct {
        int c, h, w, o, size, stride, pad, groups;
    } cases[] = {
        { 2, 5, 4, 3, 3, 1, 1, 1 }, { 4, 5, 6, 6, 3, 2, 1, 2 }, { 3, 4, 4, 3, 3, 1, 1, 3 },
        { 2, 5, 5, 2, 1, 2, 0, 1 }, { 2, 3, 3, 2, 2, 1, 0, 1 }, { 1, 2, 2, 2, 5, 3, 4, 1 },
        { 2, 3, 3, 2, 1, 1, 1, 1 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int k = cases[i].size, s = cases[i].stride, p = cases[i].pad, g = cases[i].groups;
        struct linear t =
            linear(&ops->conv->linear, tensor(3, cases[i].c, cases[i].h, cases[i].w),
                   tensor(3, cases[i].o, (cases[i].h + 2 * p - k) / s + 1, (cases[i].w + 2 * p - k) / s + 1));
        t.d.size = k, t.d.stride = s, t.d.pad = p, t.d.groups = g;
        linear_gradients(&t, (size_t)(cases[i].o * cases[i].c / g * k * k));
    }
}

static void dense_by_hand(void **state)
{
    (void)state;
    struct linear t = linear(&ops->dense->linear, tensor(2, 1, 1, 2), tensor(2, 3, 1, 1));
    const real x[] = { 1, 2, 3, 4 }, w[] = { 1, 0, 0, 1, 1, -1 };
    real host[6];
    memcpy(t.x, x, sizeof x);
    t.bias[0] = 10;
    linear_run(&t);
    DONE(t.ops->pack(&t.p, w, t.w));
    DONE(t.ops->unpack(&t.p, t.w, host));
    SAME(host, 1, 0, 0, 1, 1, -1);
    DONE(t.ops->forward(&t.p, &context, t.x, t.w, t.bias, t.y));
    SAME(t.y, 11, 2, -1, 13, 4, -1);
    op_destroy(&t.p);
    t.d.train = 0, t.d.act = ACT_RELU;
    linear_run(&t);
    assert_true(t.p.fused);
    SAME(t.y, 11, 2, 0, 13, 4, 0);
    op_destroy(&t.p);
}

static void dense_gradient(void **state)
{
    (void)state;
    struct linear t = linear(&ops->dense->linear, tensor(3, 2, 2, 3), tensor(3, 5, 1, 1));
    linear_gradients(&t, 60);
}

/* ---- batch normalisation ------------------------------------------------------------------------- */

struct norm {
    struct norm_desc d;
    struct tensor in, out;
    struct op_plan p;
    real x[MOST], y[MOST], r[MOST], scale[4], bias[4], mean[4], var[4];
};

static void norm_plan(struct norm *t)
{
    struct err e;
    t->d.in = &t->in;
    t->out = t->in;
    DONE(ops->norm->plan(be, &t->d, &t->out, &t->p, &e));
    assert_true(t->p.kept_bytes <= sizeof kept && t->p.fused);
}

static void norm_forward(struct norm *t, double bn_momentum)
{
    DONE(ops->norm->forward(&t->p, &context, t->x, NULL, t->scale, t->bias, t->mean, t->var, bn_momentum,
                            t->d.train ? kept : NULL, t->y));
}

static void norm_by_hand(void **state)
{
    (void)state;
    const double root = sqrt(1 + 1e-5);
    struct norm t = { .d = { .train = 1, .splits = 1, .rows_back = 2 }, .in = tensor(2, 2, 1, 1) };
    t.scale[0] = 3, t.bias[0] = .5, t.scale[1] = 1, t.bias[1] = 7;
    t.x[0] = 1, t.x[2] = 3, t.x[1] = t.x[3] = 4; /* channel 1 is constant */
    norm_plan(&t);
    norm_forward(&t, .1); /* the first update takes the batch's statistics whole */
    SAME(t.y, .5 - 3 / root, 7, .5 + 3 / root, 7);
    SAME(t.mean, 2, 4);
    SAME(t.var, 2, 0); /* biased 1, unbiased 2 */
    t.x[0] = 4, t.x[2] = 8;
    norm_forward(&t, .1);
    SAME(t.mean, 2 + .1 * (6 - 2), 4);
    SAME(t.var, 2 + .1 * (8 - 2), 0); /* one variance is not 0: not the first update */
    op_destroy(&t.p);
    t.d.train = 0;
    t.d.act = ACT_RELU;
    norm_plan(&t);
    assert_int_equal(t.p.kept_bytes, 0);
    norm_forward(&t, .1);
    SAME(t.y, .5 + 3 * (4 - 2.4) / sqrt(2.6 + 1e-5), 7, .5 + 3 * (8 - 2.4) / sqrt(2.6 + 1e-5), 7);
    SAME(t.mean, 2.4, 4);
    op_destroy(&t.p);
}

/* Rows 0,1 and 2,3,4 apart: outputs as of two passes, running statistics moved once. */
static void norm_halves(void **state)
{
    (void)state;
    struct norm t = { .d = { .train = 1, .splits = 2, .rows_s1 = 2, .rows_back = 5 },
                      .in = tensor(5, 1, 1, 1) };
    const real x[] = { 1, 3, 10, 14, 12 };
    const double a = sqrt(1 + 1e-5), b = sqrt(8 / 3. + 1e-5);
    memcpy(t.x, x, sizeof x);
    t.scale[0] = 1;
    norm_plan(&t);
    norm_forward(&t, .01);
    SAME(t.y, -1 / a, 1 / a, -2 / b, 2 / b, 0);
    SAME(t.mean, 7);
    SAME(t.var, (2 + 4) / 2.);
    norm_forward(&t, .01);
    SAME(t.mean, 7);
    SAME(t.var, 3);
    op_destroy(&t.p);
    struct err e;
    t.d.rows_s1 = 5;
    assert_int_equal(ops->norm->plan(be, &t.d, &t.out, &t.p, &e), E_ARG);
    op_destroy(&t.p);
}

static void norm_of_one_value(void **state)
{
    (void)state;
    struct norm t = { .d = { .train = 1, .splits = 1, .rows_back = 1 }, .in = tensor(1, 1, 1, 1) };
    t.x[0] = 9, t.scale[0] = 2, t.bias[0] = 1;
    norm_plan(&t);
    norm_forward(&t, .1);
    SAME(t.y, 1);
    SAME(t.mean, 9);
    SAME(t.var, 0);
    op_destroy(&t.p);
}

static double norm_value(const void *ctx)
{
    struct norm t = *(const struct norm *)ctx;
    double stats[MOST];
    DONE(ops->norm->forward(&t.p, &context, t.x, NULL, t.scale, t.bias, t.mean, t.var, .1, stats, t.y));
    return inner(t.y, t.r, shape_row(t.in.shape) * (size_t)t.d.rows_back);
}

static void norm_gradients(struct norm *t, int add)
{
    size_t nx = shape_row(t->in.shape) * (size_t)t->d.rows_back, all = shape_count(t->in.shape);
    real gx[MOST], gs[4], gb[4];
    noise(t->x, all, 1);
    noise(t->r, all, 2);
    noise(t->scale, 4, 3);
    noise(t->bias, 4, 4);
    norm_plan(t);
    norm_forward(t, .1);
    memcpy(gx, t->r, sizeof gx); /* in place */
    set(gs, 4, 5);
    set(gb, 4, 5);
    const real *y = t->d.act == ACT_LINEAR ? NULL : t->y;
    DONE(ops->norm->backward(&t->p, WITH(.add = add), t->x, y, t->scale, kept, gx, gx, NULL, gs, gb));
    check_slopes("gx", t->x, gx, nx, 0, width, smooth, norm_value, t);
    check_slopes("gscale", t->scale, gs, (size_t)t->in.shape.c, add * 5, width, smooth, norm_value, t);
    check_slopes("gbias", t->bias, gb, (size_t)t->in.shape.c, add * 5, width, smooth, norm_value, t);
    for (size_t i = nx; i < all; i++) NEAR(gx[i], t->r[i], 0);
    op_destroy(&t->p);
}

static void norm_gradient(void **state)
{
    (void)state;
    static const struct {
        int splits, rows_s1, rows_back;
        enum act act;
    } cases[] = {
        { 1, 0, 5, ACT_LINEAR }, { 1, 0, 5, ACT_LOGISTIC }, { 2, 2, 5, ACT_TANH },
        { 2, 2, 2, ACT_LOGGY },  { 2, 3, 3, ACT_LINEAR },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int add = 0; add < 2; add++) {
            struct norm t = { .d = { .train = 1,
                                     .splits = cases[i].splits,
                                     .rows_s1 = cases[i].rows_s1,
                                     .rows_back = cases[i].rows_back,
                                     .act = cases[i].act },
                              .in = tensor(5, 3, 2, 2) };
            norm_gradients(&t, add);
        }
}

/* ---- pooling ------------------------------------------------------------------------------------- */

struct pool {
    struct pool_desc d;
    struct tensor in, out;
    struct op_plan p;
    real x[MOST], y[MOST], g[MOST];
};

/* On 1, 2, 3, ... with gradients of 1. */
static struct pool pool(enum pool_kind kind, int size, int stride, int pad, struct tensor in,
                        struct tensor out)
{
    struct pool t = { .d = { NULL, kind, size, stride, pad, 1, in.shape.n }, .in = in, .out = out };
    for (int i = 0; i < MOST; i++) t.x[i] = (real)(i + 1), t.g[i] = 1;
    return t;
}

static void pool_run(struct pool *t)
{
    struct err e;
    t->d.in = &t->in;
    DONE(ops->pool->plan(be, &t->d, &t->out, &t->p, &e));
    assert_true(t->p.kept_bytes <= sizeof kept);
    DONE(ops->pool->forward(&t->p, &context, t->x, t->y, t->d.train ? kept : NULL));
}

static void max_by_hand(void **state)
{
    (void)state;
    real gx[MOST];
    struct pool t = pool(POOL_MAX, 2, 1, 1, tensor(1, 1, 3, 3), tensor(1, 1, 3, 3));
    pool_run(&t); /* windows overhang on the right and below */
    SAME(t.y, 5, 6, 6, 8, 9, 9, 8, 9, 9);
    set(gx, 9, 2);
    DONE(ops->pool->backward(&t.p, &context, kept, t.g, gx, 0));
    SAME(gx, 0, 0, 0, 0, 1, 2, 0, 2, 4);
    DONE(ops->pool->backward(&t.p, &context, kept, t.g, gx, 1));
    SAME(gx, 0, 0, 0, 0, 2, 4, 0, 4, 8);
    for (int i = 0; i < 9; i++) t.x[i] = (real)(i - 10); /* outside is -infinity, not 0 */
    DONE(ops->pool->forward(&t.p, &context, t.x, t.y, kept));
    SAME(t.y, -6, -5, -5, -3, -2, -2, -3, -2, -2);
    op_destroy(&t.p);
    t = pool(POOL_MAX, 3, 2, 2, tensor(1, 1, 4, 4), tensor(1, 1, 2, 2));
    pool_run(&t); /* windows start at -1 and 1 */
    SAME(t.y, 6, 8, 14, 16);
    op_destroy(&t.p);
    t = pool(POOL_MAX, 3, 2, 0, tensor(1, 1, 5, 5), tensor(1, 1, 2, 2));
    pool_run(&t);
    SAME(t.y, 13, 15, 23, 25);
    op_destroy(&t.p);
    t = pool(POOL_MAX, 2, 2, 1, tensor(1, 1, 1, 1), tensor(1, 1, 1, 1));
    pool_run(&t);
    SAME(t.y, 1);
    op_destroy(&t.p);
}

static void max_ties_and_rows(void **state)
{
    (void)state;
    real gx[MOST];
    struct pool t = pool(POOL_MAX, 2, 2, 0, tensor(2, 2, 2, 4), tensor(2, 2, 1, 2));
    pool_run(&t);
    SAME(t.y, 6, 8, 14, 16, 22, 24, 30, 32);
    op_destroy(&t.p);
    t.d.rows_back = 1;
    set(t.x, 32, 3);
    pool_run(&t);
    set(gx, 32, 5);
    DONE(ops->pool->backward(&t.p, &context, kept, t.g, gx, 0));
    SAME(gx, 1, 0, 1, 0, 0, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 0, 5, 5);
    op_destroy(&t.p);
    t.d.train = 0;
    pool_run(&t);
    assert_int_equal(t.p.kept_bytes, 0);
    SAME(t.y, 3, 3, 3, 3);
    op_destroy(&t.p);
}

static void average_by_hand(void **state)
{
    (void)state;
    real gx[MOST];
    struct pool t = pool(POOL_AVERAGE, 0, 0, 0, tensor(2, 2, 2, 2), tensor(2, 2, 1, 1));
    pool_run(&t);
    SAME(t.y, 2.5, 6.5, 10.5, 14.5);
    set(gx, 16, 1);
    DONE(ops->pool->backward(&t.p, &context, kept, t.y, gx, 1));
    SAME(gx, 1.625, 1.625, 1.625, 1.625, 2.625, 2.625, 2.625, 2.625, 3.625);
    op_destroy(&t.p);
}

/* ---- addition, concatenation
 * ------------------------------------------------------------------------------------- */

struct add {
    struct add_desc d;
    struct tensor a, b, out;
    struct op_plan p;
    real xa[MOST], xb[MOST], y[MOST], r[MOST];
};

/* a is 1, 2, 3, ... and b 100, 200, 300, ... */
static struct add addition(struct tensor a, struct tensor b, double alpha, double beta)
{
    struct add t = {
        .d = { .alpha = alpha, .beta = beta, .train = 1, .rows_back = 1 }, .a = a, .b = b, .out = a
    };
    for (int i = 0; i < MOST; i++) t.xa[i] = (real)(i + 1), t.xb[i] = (real)(100 * (i + 1));
    return t;
}

static void add_run(struct add *t)
{
    struct err e;
    t->d.a = &t->a, t->d.b = &t->b;
    DONE(ops->add->plan(be, &t->d, &t->out, &t->p, &e));
    assert_true(t->p.fused);
    DONE(ops->add->forward(&t->p, &context, t->xa, t->xb, t->y));
}

static void add_by_hand(void **state)
{
    (void)state;
    struct add t = addition(tensor(1, 2, 2, 2), tensor(1, 1, 4, 4), 2, 1); /* b larger: every second pixel */
    add_run(&t);
    SAME(t.y, 102, 304, 906, 1108, 5, 6, 7, 8); /* channel 1 is outside of the overlap: no alpha either */
    op_destroy(&t.p);
    t = addition(tensor(2, 1, 4, 2), tensor(2, 3, 2, 1), 1,
                 .5); /* b smaller: scattered; and with more channels */
    add_run(&t);
    SAME(t.y, 51, 2, 3, 4, 105, 6, 7, 8, 359, 10, 11, 12, 413, 14, 15, 16);
    op_destroy(&t.p);
    t = addition(tensor(1, 1, 1, 3), tensor(1, 1, 1, 3), 1, -.01);
    t.xa[2] = 0;
    t.d.act = ACT_LEAKY;
    add_run(&t);
    SAME(t.y, 0, 0, -.3);
    op_destroy(&t.p);
    struct err e;
    t.b = tensor(1, 1, 1, 2);
    assert_int_equal(ops->add->plan(be, &t.d, &t.out, &t.p, &e), E_ARG);
    op_destroy(&t.p);
    t.b = tensor(1, 1, 2, 3);
    assert_int_equal(ops->add->plan(be, &t.d, &t.out, &t.p, &e), E_ARG);
    op_destroy(&t.p);
}

static double add_value(const void *ctx)
{
    const struct add *t = ctx;
    real y[MOST];
    DONE(ops->add->forward(&t->p, &context, t->xa, t->xb, y));
    return inner(y, t->r, shape_row(t->out.shape) * (size_t)t->d.rows_back);
}

static void add_gradients(struct add *t, int add_a, int add_b)
{
    size_t na = shape_row(t->a.shape) * (size_t)t->d.rows_back,
           nb = shape_row(t->b.shape) * (size_t)t->d.rows_back;
    real ga[MOST], gb[MOST];
    noise(t->xa, MOST, 1);
    noise(t->xb, MOST, 2);
    noise(t->r, MOST, 3);
    t->d.add_a = add_a, t->d.add_b = add_b;
    add_run(t);
    set(ga, MOST, 5);
    set(gb, MOST, 5);
    DONE(ops->add->backward(&t->p, &context, t->d.act == ACT_LINEAR ? NULL : t->y, t->r, ga, gb));
    check_slopes("ga", t->xa, ga, na, 5 * add_a, width, smooth, add_value, t);
    check_slopes("gb", t->xb, gb, nb, 5 * add_b, width, smooth, add_value, t);
    untouched(ga + na, MOST - na, 5);
    untouched(gb + nb, MOST - nb, 5);
    DONE(ops->add->backward(&t->p, &context, t->y, t->r, NULL, NULL));
    op_destroy(&t->p);
}

static void add_gradient(void **state)
{
    (void)state;
    const struct tensor small = tensor(2, 2, 2, 3), large = tensor(2, 3, 4, 6), thin = tensor(2, 1, 2, 3);
    const struct tensor pairs[][2] = {
        { small, large }, { large, small }, { small, thin }, { small, small }
    };
    for (int i = 0; i < 8; i++) {
        struct add t = addition(pairs[i / 2][0], pairs[i / 2][1], .7, -1.3);
        t.d.act = i % 2 ? ACT_TANH : ACT_LINEAR;
        add_gradients(&t, i % 2, i / 2 % 2);
    }
}

static void add_to_itself(void **state)
{
    (void)state;
    struct add t = addition(tensor(1, 1, 1, 2), tensor(1, 1, 1, 2), 2, 3);
    real g[2], gy[2] = { 1, 10 };
    t.d.add_b = 1;
    add_run(&t);
    DONE(ops->add->backward(&t.p, &context, t.y, gy, g, g));
    SAME(g, 5, 50);
    op_destroy(&t.p);
}

static void concat_by_hand(void **state)
{
    (void)state;
    struct tensor a = tensor(2, 1, 1, 2), b = tensor(2, 2, 1, 2), out = tensor(2, 3, 1, 2);
    const struct tensor *const in[] = { &a, &b };
    struct concat_desc d = { in, 2, 1, 1 };
    struct op_plan p;
    struct err e;
    const real xa[] = { 1, 2, 3, 4 }, xb[] = { 10, 20, 30, 40, 50, 60, 70, 80 };
    real y[12], ga[4] = { 5, 5, 5, 5 }, gb[8] = { 5, 5, 5, 5, 5, 5, 5, 5 };
    DONE(ops->concat->plan(be, &d, &out, &p, &e));
    assert_int_equal(out.bytes, sizeof y);
    DONE(ops->concat->forward(&p, &context, (const void *[]){ xa, xb }, y));
    SAME(y, 1, 2, 10, 20, 30, 40, 3, 4, 50, 60, 70, 80);
    DONE(ops->concat->backward(&p, &context, y, (void *[]){ ga, gb }, (const int[]){ 0, 1 }));
    SAME(ga, 1, 2, 5, 5);
    SAME(gb, 15, 25, 35, 45, 5, 5, 5, 5);
    DONE(ops->concat->backward(&p, &context, y, (void *[]){ NULL, gb }, (const int[]){ 0, 0 }));
    SAME(gb, 10, 20, 30, 40, 5, 5, 5, 5);
    op_destroy(&p);
}

/* ---- softmax ------------------------------------------------------------------------------------- */

struct softmax {
    struct softmax_desc d;
    struct tensor in, out;
    struct op_plan p;
    real x[MOST], y[MOST], r[MOST];
    int label[4], scored;
    double loss;
};

static void softmax_run(struct softmax *t)
{
    struct err e;
    t->d.in = &t->in;
    t->out = t->in;
    DONE(ops->softmax->plan(be, &t->d, &t->out, &t->p, &e));
    DONE(ops->softmax->forward(&t->p, WITH(.label = t->label, .scored = t->scored), t->x, t->y, &t->loss));
}

static void softmax_by_hand(void **state)
{
    (void)state;
    struct softmax t = {
        .d = { NULL, 1, 1, 0, 2 }, .in = tensor(2, 2, 1, 1), .label = { 1, 0 }, .scored = 2
    };
    t.x[1] = (real)log(3), t.x[2] = 1000, t.x[3] = -1000; /* row 1: a sure answer */
    softmax_run(&t);
    SAME(t.y, .25, .75, 1, 0);
    NEAR(t.loss, -log(.75), exact);
    t.label[1] = 1; /* the other class: -log p from the logits, where p is 0 */
    DONE(ops->softmax->forward(&t.p, WITH(.label = t.label, .scored = 2), t.x, t.y, &t.loss));
    NEAR(t.loss, 2000 - log(.75), exact);
    DONE(ops->softmax->forward(&t.p, WITH(.label = t.label, .scored = 1), t.x, t.y,
                               &t.loss)); /* row 1 does not count */
    NEAR(t.loss, -log(.75), exact);
    DONE(ops->softmax->forward(&t.p, &context, t.x, t.y, NULL));
    SAME(t.y, .25, .75, 1, 0);
    op_destroy(&t.p);
    t.d.temperature = .5; /* squares the odds */
    softmax_run(&t);
    SAME(t.y, .1, .9);
    op_destroy(&t.p);
}

static void softmax_groups_and_smoothing(void **state)
{
    (void)state;
    struct softmax t = { .d = { NULL, 2, 1, .3, 1 }, .in = tensor(1, 2, 2, 1), .label = { 2 }, .scored = 1 };
    t.x[0] = (real)log(4), t.x[2] = (real)log(9);
    softmax_run(&t); /* truth .1 .1 | .7 .1 */
    SAME(t.y, .8, .2, .9, .1);
    NEAR(t.loss, -.1 * log(.8) - .1 * log(.2) - .7 * log(.9) - .1 * log(.1), exact);
    real g[4];
    DONE(ops->softmax->backward(&t.p, WITH(.label = t.label, .scored = 1), t.y, NULL, g, 0));
    SAME(g, .2 * .8 - .1, .2 * .2 - .1, .8 * .9 - .7, .8 * .1 - .1);
    op_destroy(&t.p);
    struct err e;
    t.d.groups = 3;
    assert_int_equal(ops->softmax->plan(be, &t.d, &t.out, &t.p, &e), E_ARG);
    op_destroy(&t.p);
}

/* The mean loss of the scored rows, plus <r, p> over the rows that go back. */
static double softmax_value(const void *ctx)
{
    struct softmax t = *(const struct softmax *)ctx;
    DONE(ops->softmax->forward(&t.p, WITH(.label = t.label, .scored = t.scored), t.x, t.y, &t.loss));
    return t.loss / t.scored + inner(t.y, t.r, shape_row(t.in.shape) * (size_t)t.d.rows_back);
}

static void softmax_gradient(void **state)
{
    (void)state;
    for (int i = 0; i < 8; i++) {
        struct softmax t = { .d = { NULL, i & 1 ? 3 : 1, 1.7, i & 2 ? .2 : 0, 3 },
                             .in = tensor(4, 3, 2, 1),
                             .label = { 5, 0, 2, 1 },
                             .scored = 2 };
        real g[MOST];
        noise(t.x, 24, 1);
        if (i & 4) noise(t.r, 24, 2); /* else: the loss alone */
        softmax_run(&t);
        set(g, MOST, 5);
        DONE(ops->softmax->backward(&t.p, WITH(.label = t.label, .scored = 2), t.y, i & 4 ? t.r : NULL, g,
                                    i & 1));
        check_slopes("gx", t.x, g, 18, i & 1 ? 5 : 0, width, smooth, softmax_value, &t);
        untouched(g + 18, MOST - 18, 5);
        DONE(ops->softmax->backward(&t.p, &context, t.y, NULL, g, 0));
        untouched(g, 18, 0);
        op_destroy(&t.p);
    }
}

/* ---- optimiser ----------------------------------------------------------------------------------- */

static void sgd_by_hand(void **state)
{
    (void)state;
    real w[3] = { 1, -2, 3 }, v[3] = { (real).5, 0, 0 };
    const real g[3] = { 2, 8, 1 };
    const struct sgd_item item[2] = {
        { .w = w, .v = v, .g = g, .bytes = 2 * sizeof(real), .rate = 1, .decay = .1 },
        { .w = w + 2, .v = v + 2, .g = g + 2, .bytes = sizeof(real), .rate = 2 },
    };
    struct sgd_desc d = { item, 2, .9, .5 };
    struct op_plan p;
    struct err e;
    DONE(ops->sgd->plan(be, &d, &p, &e));
    DONE(ops->sgd->update(&p, &(struct step_state){ .rate = .01 }));
    SAME(v, .9 * .5 + .5 * 2 + .1 * 1, .5 * 8 - .1 * 2, .5);
    SAME(w, 1 - .01 * 1.55, -2 - .01 * 3.8, 3 - .02 * .5);
    op_destroy(&p);
    op_destroy(&p);
}

static void sgd_check(void **state)
{
    (void)state;
    real g[5] = { 0, 1, -2, (real)1e30, 0 };
    const struct sgd_item item[2] = { { .g = g, .bytes = 4 * sizeof *g },
                                      { .g = g + 4, .bytes = sizeof *g } };
    struct sgd_desc d = { item, 2, .9, .5 };
    struct op_plan p;
    struct err e;
    int bad = 7;
    DONE(ops->sgd->plan(be, &d, &p, &e));
    DONE(ops->sgd->check(&p, &bad));
    assert_int_equal(bad, -1);
    g[4] = (real)INFINITY;
    DONE(ops->sgd->check(&p, &bad));
    assert_int_equal(bad, 1);
    g[0] = (real)NAN;
    DONE(ops->sgd->check(&p, &bad));
    assert_int_equal(bad, 0);
    op_destroy(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(device),
        cmocka_unit_test(sizes_that_do_not_fit),
        cmocka_unit_test(act_values),
        cmocka_unit_test(act_gradient),
        cmocka_unit_test(act_kinks),
        cmocka_unit_test(act_extremes),
        cmocka_unit_test(dropout),
        cmocka_unit_test(conv_by_hand),
        cmocka_unit_test(conv_strides_and_groups),
        cmocka_unit_test(conv_gradient),
        cmocka_unit_test(dense_by_hand),
        cmocka_unit_test(dense_gradient),
        cmocka_unit_test(norm_by_hand),
        cmocka_unit_test(norm_halves),
        cmocka_unit_test(norm_of_one_value),
        cmocka_unit_test(norm_gradient),
        cmocka_unit_test(max_by_hand),
        cmocka_unit_test(max_ties_and_rows),
        cmocka_unit_test(average_by_hand),
        cmocka_unit_test(add_by_hand),
        cmocka_unit_test(add_gradient),
        cmocka_unit_test(add_to_itself),
        cmocka_unit_test(concat_by_hand),
        cmocka_unit_test(softmax_by_hand),
        cmocka_unit_test(softmax_groups_and_smoothing),
        cmocka_unit_test(softmax_gradient),
        cmocka_unit_test(sgd_by_hand),
        cmocka_unit_test(sgd_check),
    };
    return cmocka_run_group_tests(tests, open_ref, close_ref);
}
