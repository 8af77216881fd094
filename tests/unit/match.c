/* The matching loss: hand-computed values, and properties that hold for any data. Golden vectors are in
 * tests/golden/itra.c, edge cases in itra_edge.c. */
#include "tiny.h"
#include "backend/ref/match.h"

enum { MOST = 200, CLASSES = 5 };

static const struct match_options plain = { .conditional = 1, .kernels = 5, .kernel_mul = 2, .root = 1 };

struct sample {
    int d, threads, reuse_sigma;
    struct match_half half[2];
    int label[2][MOST];
    real *h[2], *g[2];
};

static struct sample sample_new(int m1, int m2, int d)
{
    struct sample s = { .d = d };
    const int m[2] = { m1, m2 };
    for (int k = 0; k < 2; k++) {
        s.h[k] = mem_alloc((size_t)m[k] * (size_t)d, sizeof(real));
        s.g[k] = mem_alloc((size_t)m[k] * (size_t)d, sizeof(real));
        assert_true(s.h[k] && s.g[k]);
        s.half[k] = (struct match_half){ s.h[k], NULL, m[k], s.g[k] };
    }
    return s;
}

static void sample_free(struct sample *s)
{
    for (int k = 0; k < 2; k++) mem_free(s->h[k]), mem_free(s->g[k]);
}

/* Random features, classes a little apart; random labels, some of them not classes. */
static struct sample sample_random(uint64_t seed, int m1, int m2, int d)
{
    struct sample s = sample_new(m1, m2, d);
    for (uint64_t k = 0; k < 2; k++)
        for (int i = 0; i < s.half[k].m; i++) {
            uint64_t key = rng_key(seed, k, (uint64_t)i);
            s.label[k][i] = (int)rng_below(key, 0, CLASSES + 2) - 1;
            for (int t = 0; t < d; t++)
                s.h[k][i * d + t] =
                    (real)(rng_normal(key, (uint64_t)t + 1) + .3 * s.label[k][i] + .2 * (double)k);
        }
    return s;
}

static double run(struct sample *s, const struct match_options *o, double *sigma)
{
    double match = -1, ignored[CLASSES];
    size_t bytes = match_bytes(s->half[0].m + s->half[1].m);
    void *work = mem_alloc(bytes, 1);
    assert_true(bytes && work);
    for (int k = 0; k < 2; k++) s->half[k].label = s->label[k];
    const struct match_problem problem = { .options = *o,
                                           .classes = CLASSES,
                                           .d = s->d,
                                           .half = { s->half[0], s->half[1] },
                                           .sigma = sigma ? sigma : ignored,
                                           .reuse_sigma = s->reuse_sigma,
                                           .threads = s->threads,
                                           .work = work };
    assert_int_equal(match_compute(&problem, &match), OK);
    mem_free(work);
    return match;
}

/* ---- by hand ---- */

/* One feature, one class. */
static struct sample rows(int m1, const double *h1, int m2, const double *h2)
{
    struct sample s = sample_new(m1, m2, 1);
    for (int i = 0; i < m1; i++) s.h[0][i] = (real)h1[i];
    for (int i = 0; i < m2; i++) s.h[1][i] = (real)h2[i];
    return s;
}
#define ROWS(...)                                                                                            \
    sizeof((double[]){ __VA_ARGS__ }) / sizeof(double), (const double[]) { __VA_ARGS__ }

static void two_rows(void **state)
{
    (void)state;
    struct sample s = rows(ROWS(0), ROWS(1));
    struct match_options o = {
        .conditional = 1, .kernels = 1, .kernel_mul = 2, .bandwidth = BANDWIDTH_FIXED, .fixed = 1
    };
    double q = 2 - 2 * exp(-1); /* K = 1 within the halves, exp(-1) across */
    near(run(&s, &o, NULL), q / CLASSES, 1e-14);
    near(s.g[0][0], -4 * exp(-1) / CLASSES, 1e-7);
    near(s.g[1][0], 4 * exp(-1) / CLASSES, 1e-7);
    o.present = 1; /* one class is there */
    near(run(&s, &o, NULL), q, 1e-14);
    o.root = 1;
    near(run(&s, &o, NULL), sqrt(q + 1e-6) - sqrt(1e-6), 1e-14);
    near(s.g[1][0], 2 * exp(-1) / sqrt(q + 1e-6), 1e-7);
    o.root = 0;
    o.kernels = 3;
    o.kernel_mul = 4; /* s = 1, 4, 16 */
    near(run(&s, &o, NULL), 2 - 2 * (exp(-1) + exp(-.25) + exp(-.0625)) / 3, 1e-14);
    o.fixed = 2;
    o.kernels = 1;
    near(run(&s, &o, NULL), 2 - 2 * exp(-.5), 1e-14);
    sample_free(&s);
}

/* Q = 1/4 (2 + 2 K(0,1)) + 1 - 2/2 (K(0,2) + K(1,2)), with s = 1. */
static void uneven_halves(void **state)
{
    (void)state;
    struct sample s = rows(ROWS(0, 1), ROWS(2));
    struct match_options o = {
        .conditional = 0, .kernels = 1, .kernel_mul = 2, .bandwidth = BANDWIDTH_FIXED, .fixed = 1
    };
    near(run(&s, &o, NULL), .5 + .5 * exp(-1) + 1 - exp(-4) - exp(-1), 1e-13);
    /* dQ/d(row 2) = -(gradK(2,0) + gradK(2,1)) = 2 (2 exp(-4) + 1 exp(-1)) */
    near(s.g[1][0], 2 * (2 * exp(-4) + exp(-1)), 1e-6);
    sample_free(&s);
}

/* Without the diagonal. Q = 2 K(0,1)/2 + 2 K(2,2)/2 - 2/4 (2 K(0,2) + 2 K(1,2)), with s = 1. */
static void unbiased(void **state)
{
    (void)state;
    struct sample s = rows(ROWS(0, 1), ROWS(2, 2));
    struct match_options o = {
        .kernels = 1, .kernel_mul = 2, .bandwidth = BANDWIDTH_FIXED, .fixed = 1, .unbiased = 1
    };
    near(run(&s, &o, NULL), exp(-1) + 1 - exp(-4) - exp(-1), 1e-13);
    /* dQ/d(row 0) = gradK(0,1) - 2/4 2 gradK(0,2) = 2 exp(-1) - 4 exp(-4) */
    near(s.g[0][0], 2 * exp(-1) - 4 * exp(-4), 1e-6);
    memcpy(s.h[1], s.h[0], 2 * sizeof(real)); /* what is alike is below 0 */
    near(run(&s, &o, NULL), exp(-1) - 1, 1e-13);
    near(s.g[0][0], exp(-1), 1e-6);
    sample_free(&s);
    s = rows(ROWS(0, 1), ROWS(2)); /* one row has no pair */
    assert_true(run(&s, &o, NULL) == 0 && s.g[0][0] == 0 && s.g[1][0] == 0);
    o.conditional = 1;
    assert_true(run(&s, &o, NULL) == 0 && s.g[0][0] == 0 && s.g[1][0] == 0);
    sample_free(&s);
}

/* Its mean over all ways to halve the rows is 0, for rows of one kind never match worse than others of it. */
static void unbiased_means_zero(void **state)
{
    enum { N = 6, D = 3 };
    const struct match_options o = {
        .kernels = 2, .kernel_mul = 2, .bandwidth = BANDWIDTH_FIXED, .fixed = 2, .unbiased = 1
    };
    double sum = 0, size = 0;
    struct sample all = sample_random(3, N, 1, D), s = sample_new(N / 2, N / 2, D);
    (void)state;
    for (unsigned first = 0; first < 1u << N; first++) {
        int n[2] = { 0, 0 };
        for (int i = 0; i < N; i++) n[first >> i & 1]++;
        if (n[0] != n[1]) continue;
        n[0] = n[1] = 0;
        for (int i = 0; i < N; i++) {
            unsigned k = first >> i & 1;
            memcpy(s.h[k] + n[k]++ * D, all.h[0] + i * D, D * sizeof(real));
        }
        double q = run(&s, &o, NULL);
        sum += q;
        size += fabs(q);
    }
    assert_true(size > 0 && fabs(sum) < 1e-12 * size);
    sample_free(&s);
    sample_free(&all);
}

static void median(int m1, const double *h1, int m2, const double *h2, double expected)
{
    double sigma[CLASSES];
    struct sample s = rows(m1, h1, m2, h2);
    run(&s, &plain, sigma);
    assert_true(sigma[0] == expected);
    for (int k = 1; k < CLASSES; k++) assert_true(sigma[k] == 0);
    sample_free(&s);
}

static void medians(void **state)
{
    (void)state;
    median(ROWS(0), ROWS(3), 9);          /* one pair */
    median(ROWS(0, 1), ROWS(3), 4);       /* 1 4 9 */
    median(ROWS(0, 1), ROWS(3, 7), 12.5); /* 1 4 9 16 36 49 */
    median(ROWS(7, 3), ROWS(1, 0), 12.5);
    median(ROWS(0, 0), ROWS(0, 2), 2);      /* 0 0 0 4 4 4 */
    median(ROWS(0, 0, 0), ROWS(0, 2), 1.6); /* six zeros, four 4s: the mean instead */
    median(ROWS(5, 5), ROWS(5, 5, 5), 0);   /* nothing to match */
}

static void pooled_and_reused(void **state)
{
    double sigma[CLASSES];
    (void)state;
    struct sample s = rows(ROWS(0, 0, 1), ROWS(1, 3));
    const int one[] = { 0, 1, 1 }, two[] = { 0, 1 };
    memcpy(s.label[0], one, sizeof one);
    memcpy(s.label[1], two, sizeof two);
    struct match_options o = plain;
    run(&s, &o, sigma);
    assert_true(sigma[0] == 1 && sigma[1] == 4); /* per class: 1; 1 4 9 */
    o.bandwidth = BANDWIDTH_POOLED;
    double pooled = run(&s, &o, sigma);
    assert_true(sigma[0] == 2.5 && sigma[1] == 2.5 && sigma[2] == 0); /* 1 1 4 9 */
    o.bandwidth = BANDWIDTH_FIXED;
    o.fixed = 2.5;
    assert_true(run(&s, &o, sigma) == pooled);
    assert_true(sigma[0] == 2.5 && sigma[1] == 2.5);
    o.bandwidth = BANDWIDTH_MEDIAN;
    s.reuse_sigma = 1; /* sigma is taken as it is */
    assert_true(run(&s, &o, sigma) == pooled && sigma[0] == 2.5);
    sigma[0] = sigma[1] = 100;
    double wide = run(&s, &o, sigma);
    assert_true(wide < pooled && sigma[0] == 100);
    sample_free(&s);
}

static void all_or_present_classes(void **state)
{
    struct match_options o = plain;
    (void)state;
    struct sample s = rows(ROWS(0, 1, 2), ROWS(1, 3, 9));
    const int one[] = { 0, 0, 1 }, two[] = { 0, 0, 3 }; /* only class 0 is in both halves */
    memcpy(s.label[0], one, sizeof one);
    memcpy(s.label[1], two, sizeof two);
    double all = run(&s, &o, NULL);
    o.present = 1;
    near(run(&s, &o, NULL), CLASSES * all, 1e-14);
    assert_true(s.g[0][2] == 0 && s.g[1][2] == 0 && s.g[0][0] != 0);
    for (int i = 0; i < 3; i++) s.label[1][i] = 4; /* none is */
    assert_true(run(&s, &o, NULL) == 0);
    for (int i = 0; i < 3; i++) assert_true(s.g[0][i] == 0 && s.g[1][i] == 0);
    sample_free(&s);
}

/* ---- properties ---- */

/* Every mode in turn. */
static struct match_options mode(int i)
{
    static const enum bandwidth bandwidth[] = { BANDWIDTH_MEDIAN, BANDWIDTH_POOLED, BANDWIDTH_FIXED };
    return (struct match_options){ .conditional = i % 4 != 3,
                                   .kernels = 1 + i % 5,
                                   .kernel_mul = 2,
                                   .fixed = 3,
                                   .bandwidth = bandwidth[i % 3],
                                   .root = i / 2 % 2,
                                   .present = i / 4 % 2 };
}

static void equal(const real *a, const real *b, int n, double tolerance)
{
    double worst = 0, size = 0;
    for (int i = 0; i < n; i++) {
        worst = fmax(worst, fabs((double)a[i] - (double)b[i]));
        size = fmax(size, fabs((double)b[i]));
    }
    assert_true(worst <= tolerance * size);
}

static void halves_may_change_places(void **state)
{
    (void)state;
    for (int i = 0; i < 24; i++) {
        struct match_options o = mode(i);
        struct sample a = sample_random((uint64_t)i, 20, 13, 7), b = sample_new(13, 20, 7);
        for (int k = 0; k < 2; k++) {
            memcpy(b.h[k], a.h[!k], (size_t)a.half[!k].m * 7 * sizeof(real));
            memcpy(b.label[k], a.label[!k], sizeof a.label[0]);
        }
        double x = run(&a, &o, NULL), y = run(&b, &o, NULL);
        assert_true(x > 0);
        near(y, x, 1e-12);
        equal(b.g[0], a.g[1], 13 * 7, 1e-6);
        equal(b.g[1], a.g[0], 20 * 7, 1e-6);
        sample_free(&a);
        sample_free(&b);
    }
}

static void rows_may_change_places(void **state)
{
    (void)state;
    for (int i = 0; i < 24; i++) {
        enum { M = 17, D = 5 };
        struct match_options o = mode(i);
        struct sample a = sample_random((uint64_t)i + 50, M, M, D), b = sample_new(M, M, D);
        for (int k = 0; k < 2; k++)
            for (int r = 0; r < M; r++) {
                int to = (r * 5 + 3 + k) % M;
                memcpy(b.h[k] + to * D, a.h[k] + r * D, D * sizeof(real));
                b.label[k][to] = a.label[k][r];
            }
        double x = run(&a, &o, NULL);
        near(run(&b, &o, NULL), x, 1e-12);
        for (int k = 0; k < 2; k++)
            for (int r = 0; r < M; r++)
                memcpy(a.h[k] + (r * 5 + 3 + k) % M * D, a.g[k] + r * D, D * sizeof(real));
        for (int k = 0; k < 2; k++) equal(b.g[k], a.h[k], M * D, 1e-6);
        sample_free(&a);
        sample_free(&b);
    }
}

static void equal_halves_match(void **state)
{
    (void)state;
    for (int i = 0; i < 24; i++) {
        struct match_options o = mode(i);
        struct sample s = sample_random((uint64_t)i, 15, 15, 6);
        memcpy(s.h[1], s.h[0], 15 * 6 * sizeof(real));
        memcpy(s.label[1], s.label[0], sizeof s.label[0]);
        double match = run(&s, &o, NULL);
        assert_true(match >= 0 && match < 1e-12);
        sample_free(&s);
    }
}

/* Q is a squared norm, so it is never below 0, at any scale of the features. */
static void never_negative(void **state)
{
    (void)state;
    for (int i = 0; i < 300; i++) {
        struct match_options o = mode(i);
        uint64_t key = rng_key(9, 9, (uint64_t)i);
        int m1 = 1 + (int)rng_below(key, 0, 12), m2 = 1 + (int)rng_below(key, 1, 12),
            d = 1 + (int)rng_below(key, 2, 9);
        struct sample s = sample_random((uint64_t)i, m1, m2, d);
        real scale = (real)pow(10, (double)rng_below(key, 3, 9) - 4);
        for (int k = 0; k < 2; k++)
            for (int r = 0; r < s.half[k].m * d; r++) s.h[k][r] *= scale;
        double match = run(&s, &o, NULL);
        assert_true(match >= 0 && isfinite(match));
        for (int k = 0; k < 2; k++)
            for (int r = 0; r < s.half[k].m * d; r++) assert_true(isfinite(s.g[k][r]));
        sample_free(&s);
    }
}

/* The median scales with the features, so the value stays the same: exactly, as a power of two rounds
 * nothing. */
static void scale_does_not_matter(void **state)
{
    (void)state;
    struct sample s = sample_random(4, 20, 20, 8);
    double x = run(&s, &plain, NULL);
    for (int k = 0; k < 2; k++)
        for (int r = 0; r < 20 * 8; r++) s.h[k][r] *= 1024;
    assert_true(run(&s, &plain, NULL) == x);
    sample_free(&s);
}

/* Match depends on differences only, so the gradients of all rows sum to 0 in every feature. */
static void gradients_sum_to_zero(void **state)
{
    (void)state;
    struct sample s = sample_random(5, 20, 17, 9);
    run(&s, &plain, NULL);
    for (int t = 0; t < 9; t++) {
        double sum = 0, size = 0;
        for (int k = 0; k < 2; k++)
            for (int r = 0; r < s.half[k].m; r++) {
                sum += (double)s.g[k][r * 9 + t];
                size += fabs((double)s.g[k][r * 9 + t]);
            }
        assert_true(fabs(sum) <= 1e-6 * size);
    }
    sample_free(&s);
}

/* Central differences with the bandwidths kept constant. In float, a step of 1/1024 and the features as they
 * are after rounding. */
static void gradient_is_the_derivative(void **state)
{
    double step = sizeof(real) == 8 ? 1e-5 : 1.0 / 1024, tolerance = sizeof(real) == 8 ? 1e-7 : 1e-4;
    (void)state;
    for (int i = 0; i < 12; i++) {
        struct match_options o = mode(i);
        o.unbiased = i >= 8;
        if (o.unbiased) o.root = 0;
        double sigma[CLASSES], num = 0, den = 0;
        struct sample s = sample_random((uint64_t)i + 70, 13, 12, 3);
        real g[2][39];
        run(&s, &o, sigma);
        for (int k = 0; k < 2; k++) memcpy(g[k], s.g[k], (size_t)s.half[k].m * 3 * sizeof(real));
        s.reuse_sigma = 1;
        for (int k = 0; k < 2; k++)
            for (int r = 0; r < s.half[k].m * 3; r++) {
                real kept = s.h[k][r], up = (real)((double)kept + step), down = (real)((double)kept - step);
                s.h[k][r] = up;
                double f = run(&s, &o, sigma);
                s.h[k][r] = down;
                f -= run(&s, &o, sigma);
                s.h[k][r] = kept;
                double slope = f / ((double)up - (double)down), error = slope - (double)g[k][r];
                num += error * error;
                den += slope * slope;
            }
        assert_true(den > 0 && sqrt(num / den) <= tolerance);
        sample_free(&s);
    }
}

/* Bit for bit, in every mode. Where all rows are one pool there are enough of them for several threads. */
static void threads_do_not_matter(void **state)
{
    (void)state;
    enum { D = 300, M1 = 150, M2 = 141 };
    for (int i = 0; i < 6; i++) {
        struct match_options o = mode(i);
        struct sample s = sample_random((uint64_t)i + 90, M1, M2, D);
        double match[3], sigma[3][CLASSES];
        real *g = mem_alloc((M1 + M2) * D, sizeof *g);
        assert_non_null(g);
        for (int threads = 1; threads <= 3; threads++) {
            s.threads = threads;
            match[threads - 1] = run(&s, &o, sigma[threads - 1]);
            if (threads == 1) {
                memcpy(g, s.g[0], M1 * D * sizeof *g);
                memcpy(g + M1 * D, s.g[1], M2 * D * sizeof *g);
            }
            assert_memory_equal(&match[threads - 1], &match[0], sizeof *match);
            assert_memory_equal(sigma[threads - 1], sigma[0],
                                (size_t)(o.conditional ? CLASSES : 1) * sizeof(double));
            assert_memory_equal(s.g[0], g, M1 * D * sizeof *g);
            assert_memory_equal(s.g[1], g + M1 * D, M2 * D * sizeof *g);
        }
        mem_free(g);
        sample_free(&s);
    }
}

/* ---- edges ---- */

static void gradients_that_are_not_wanted(void **state)
{
    (void)state;
    struct sample s = sample_random(6, 12, 12, 4);
    double x = run(&s, &plain, NULL);
    real kept[48];
    memcpy(kept, s.g[0], sizeof kept);
    s.half[1].g = NULL;
    assert_true(run(&s, &plain, NULL) == x);
    assert_memory_equal(kept, s.g[0], sizeof kept);
    s.half[0].g = NULL;
    assert_true(run(&s, &plain, NULL) == x);
    sample_free(&s);
}

static void strange_labels_take_no_part(void **state)
{
    (void)state;
    struct sample s = sample_random(8, 10, 10, 4);
    s.label[0][3] = -7;
    s.label[1][4] = CLASSES;
    run(&s, &plain, NULL);
    for (int t = 0; t < 4; t++) assert_true(s.g[0][3 * 4 + t] == 0 && s.g[1][4 * 4 + t] == 0);
    sample_free(&s);
}

static void bad_features_are_an_error(void **state)
{
    static const double bad[] = { NAN, INFINITY };
    (void)state;
    for (int i = 0; i < 6; i++) {
        struct match_options o = mode(i);
        struct sample s = sample_random(8, 10, 10, 4);
        double sigma[CLASSES], match;
        void *work = mem_alloc(match_bytes(20), 1);
        assert_non_null(work);
        s.label[1][2] = s.label[0][0] = 1;
        s.h[1][9] = (real)bad[i % 2];
        for (int k = 0; k < 2; k++) s.half[k].label = s.label[k];
        const struct match_problem problem = { .options = o,
                                               .classes = CLASSES,
                                               .d = 4,
                                               .half = { s.half[0], s.half[1] },
                                               .sigma = sigma,
                                               .work = work };
        assert_int_equal(match_compute(&problem, &match), E_NUMBER);
        mem_free(work);
        sample_free(&s);
    }
}

static void work_memory(void **state)
{
    (void)state;
    assert_true(match_bytes(0) > 0);
    assert_true(match_bytes(300) >= 2 * sizeof(double) * 300 * 299 / 2);
    assert_int_equal(match_bytes(-1), 0);
    assert_int_equal(match_bytes(1 << 30), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_rows),
        cmocka_unit_test(uneven_halves),
        cmocka_unit_test(unbiased),
        cmocka_unit_test(unbiased_means_zero),
        cmocka_unit_test(medians),
        cmocka_unit_test(pooled_and_reused),
        cmocka_unit_test(all_or_present_classes),
        cmocka_unit_test(halves_may_change_places),
        cmocka_unit_test(rows_may_change_places),
        cmocka_unit_test(equal_halves_match),
        cmocka_unit_test(never_negative),
        cmocka_unit_test(scale_does_not_matter),
        cmocka_unit_test(gradients_sum_to_zero),
        cmocka_unit_test(gradient_is_the_derivative),
        cmocka_unit_test(threads_do_not_matter),
        cmocka_unit_test(gradients_that_are_not_wanted),
        cmocka_unit_test(strange_labels_take_no_part),
        cmocka_unit_test(bad_features_are_an_error),
        cmocka_unit_test(work_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
