/* The reference backend, one operation a file: on numbers worked out by hand, and each gradient against
 * central differences. Tolerances are relative to max(1, |expected|): rounding of `real` in what is exact,
 * and the error of the difference quotient elsewhere. */
#ifndef REF_BED_H
#define REF_BED_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include "backend/backend.h"
#include "backend/scalar.h"
#include <cmocka.h> /* last: it makes a macro of fail */

enum { IS_DOUBLE = sizeof(real) == sizeof(double), MOST = 512 };

static const double exact = IS_DOUBLE ? 1e-12 : 1e-5; /* a few roundings */
static const double smooth = IS_DOUBLE ? 1e-7 : 2e-3; /* a central difference of something curved */
static const double width = IS_DOUBLE ? 1e-5 : 1e-2;  /* its step */

static struct backend *be;
static const struct backend_ops *ops;
static double scratch[MOST];
static const struct op_context context = { .scratch = scratch };
#define WITH(...)                                                                                            \
    &(const struct op_context) { .scratch = scratch, __VA_ARGS__ }

static inline int open_ref(void **state)
{
    (void)state;
    struct err e;
    if (backend_open(&be, "ref", 1, &e)) return -1;
    ops = be->ops;
    return 0;
}

static inline int close_ref(void **state)
{
    (void)state;
    backend_close(be);
    return 0;
}

static inline void near_at(double got, double expected, double tolerance, const char *what, int i, int line)
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
static inline void noise(real *x, size_t n, uint64_t seed)
{
    for (size_t i = 0; i < n; i++) x[i] = (real)(2 * rng_uniform(seed, i) - 1);
}

static inline void set(real *x, size_t n, double v)
{
    for (size_t i = 0; i < n; i++) x[i] = (real)v;
}

static inline struct tensor tensor(int n, int c, int h, int w)
{
    return (struct tensor){ .shape = { n, c, h, w } };
}

static inline double inner(const real *a, const real *b, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += (double)a[i] * b[i];
    return sum;
}

/* Slope of f(ctx) along *x. */
static inline double slope(real *x, double step, double (*f)(const void *), const void *ctx)
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
static inline void check_slopes(const char *what, real *x, const real *g, size_t n, double start, double step,
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
static inline void untouched(const real *x, size_t n, double v)
{
    for (size_t i = 0; i < n; i++) NEAR(x[i], v, 0);
}

#define RUN_REF(tests) cmocka_run_group_tests(tests, open_ref, close_ref)

#endif
