/* Edge cases of the matching loss, against a second implementation that follows the formulas word for word
 * (full double sums, no symmetry used, the median by sorting). */
#include "backend/ref/match.h"
#include "core/mem.h"
#include "net/net.h"
#include "test.h"

enum { ROWS = 40, FEATURES = 24, CLASSES = 12 };

/* Gradients are rounded to `real`; everything before is double. */
#define NEAR (sizeof(real) == sizeof(double) ? 1e-11 : 1e-6)

struct half {
    int m;
    real h[ROWS * FEATURES], g[ROWS * FEATURES];
    int label[ROWS];
};
struct fixture {
    struct match_options o;
    int classes, d, reuse_sigma;
    struct half half[2];
    double sigma[CLASSES], match;
};

static const struct match_options defaults = {
    .conditional = 1, .kernels = 5, .kernel_mul = 2, .root = 1, .bandwidth = BANDWIDTH_MEDIAN
};

static void setup(struct fixture *f, int m1, int m2, int d, int classes, uint64_t seed)
{
    memset(f, 0, sizeof *f);
    f->o = defaults;
    f->classes = classes;
    f->d = d;
    f->half[0].m = m1;
    f->half[1].m = m2;
    for (uint64_t s = 0; s < 2; s++) {
        uint64_t key = rng_key(seed, 1, s), labels = rng_key(seed, 2, s);
        for (int i = 0; i < f->half[s].m * d; i++) f->half[s].h[i] = (real)rng_normal(key, (uint64_t)i);
        for (int i = 0; i < f->half[s].m; i++)
            f->half[s].label[i] = (int)rng_below(labels, (uint64_t)i, (uint64_t)classes);
    }
}

static int compute(struct fixture *f)
{
    void *work = mem_alloc(1, match_bytes(f->half[0].m + f->half[1].m));
    struct match_problem problem = { .options = f->o,
                                     .classes = f->classes,
                                     .d = f->d,
                                     .sigma = f->sigma,
                                     .reuse_sigma = f->reuse_sigma,
                                     .work = work };
    assert_non_null(work);
    for (int s = 0; s < 2; s++)
        problem.half[s] = (struct match_half){ f->half[s].h, f->half[s].label, f->half[s].m, f->half[s].g };
    int rc = match_compute(&problem, &f->match);
    mem_free(work);
    return rc;
}

/* ---- word for word ---- */

struct row {
    const real *h;
    int half, label, at;
};

static double d2(const struct row *a, const struct row *b, int d)
{
    double s = 0;
    for (int t = 0; t < d; t++)
        s += ((double)a->h[t] - (double)b->h[t]) * ((double)a->h[t] - (double)b->h[t]);
    return s;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double middle(double *v, int n)
{
    double sum = 0;
    qsort(v, (size_t)n, sizeof *v, by_size);
    for (int i = 0; i < n; i++) sum += v[i];
    double m = n == 0 ? 0 : n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
    return m > 0 || n == 0 ? m : sum / n;
}

/* Rows of class k (all: k < 0), those of H1 first. */
static int rows_of(const struct fixture *f, int k, struct row *to)
{
    int n = 0;
    for (int s = 0; s < 2; s++)
        for (int i = 0; i < f->half[s].m; i++)
            if (k < 0 || f->half[s].label[i] == k)
                to[n++] = (struct row){ f->half[s].h + i * f->d, s, f->half[s].label[i], i };
    return n;
}

static double bandwidth(const struct fixture *f, int k)
{
    static double pairs[4 * ROWS * ROWS];
    struct row row[2 * ROWS];
    int own = f->o.bandwidth == BANDWIDTH_MEDIAN, n = rows_of(f, own ? k : -1, row), np = 0;
    if (f->o.bandwidth == BANDWIDTH_FIXED) return f->o.fixed;
    for (int j = 0; j < n; j++)
        for (int i = 0; i < j; i++)
            if (own || !f->o.conditional || row[i].label == row[j].label)
                pairs[np++] = d2(&row[i], &row[j], f->d);
    return middle(pairs, np);
}

static double kernel(const struct match_options *o, double z, double s)
{
    double sum = 0;
    for (int l = 0; l < o->kernels; l++) sum += exp(-z / (pow(o->kernel_mul, l) * s));
    return sum / o->kernels;
}

/* dK/dd2 */
static double kernel_slope(const struct match_options *o, double z, double s)
{
    double sum = 0;
    for (int l = 0; l < o->kernels; l++)
        sum -= exp(-z / (pow(o->kernel_mul, l) * s)) / (pow(o->kernel_mul, l) * s);
    return sum / o->kernels;
}

struct expected {
    double match, g[2][ROWS * FEATURES];
};

static int count_half(const struct row *row, int n, int half)
{
    int m = 0;
    for (int i = 0; i < n; i++) m += row[i].half == half;
    return m;
}

static void word_for_word(const struct fixture *f, int k, double share, struct expected *x)
{
    struct row row[2 * ROWS];
    int n = rows_of(f, k, row), n1 = count_half(row, n, 0), n2 = n - n1, all_equal = 1;
    const int u = f->o.unbiased;
    if (n1 <= u || n2 <= u) return;
    for (int i = 1; i < n; i++) all_equal = all_equal && d2(&row[0], &row[i], f->d) == 0;
    double s = bandwidth(f, k), q = 0;
    if (all_equal || s <= 0) return;
    for (int a = 0; a < n; a++)
        for (int b = 0; b < n; b++) {
            if (u && a == b) continue;
            double w = row[a].half != row[b].half ? -1.0 / (n1 * n2)
                       : row[a].half              ? 1.0 / (n2 * (n2 - u))
                                                  : 1.0 / (n1 * (n1 - u));
            q += w * kernel(&f->o, d2(&row[a], &row[b], f->d), s);
        }
    if (!u) q = q > 0 ? q : 0;
    x->match += share * (f->o.root ? sqrt(q + 1e-6) - sqrt(1e-6) : q);
    double slope = share * (f->o.root ? 1 / (2 * sqrt(q + 1e-6)) : 1);
    for (int a = 0; a < n; a++)
        for (int b = 0; b < n; b++) {
            double own = row[a].half ? n2 : n1;
            double w = row[a].half != row[b].half ? -2.0 / (n1 * n2) : 2.0 / (own * (own - u));
            double c = slope * w * kernel_slope(&f->o, d2(&row[a], &row[b], f->d), s);
            for (int t = 0; t < f->d; t++)
                x->g[row[a].half][row[a].at * f->d + t] +=
                    c * 2 * ((double)row[a].h[t] - (double)row[b].h[t]);
        }
}

static void expect(const struct fixture *f, struct expected *x)
{
    struct row row[2 * ROWS];
    int present = 0;
    memset(x, 0, sizeof *x);
    for (int k = 0; k < f->classes; k++) {
        int n = rows_of(f, k, row), n1 = count_half(row, n, 0);
        present += n1 > f->o.unbiased && n - n1 > f->o.unbiased;
    }
    int share = !f->o.conditional ? 1 : f->o.present ? present : f->classes;
    for (int k = f->o.conditional ? 0 : -1; k < (f->o.conditional ? f->classes : 0); k++)
        word_for_word(f, k, 1.0 / share, x);
}

static double norm(const double *v, int n)
{
    double s = 0;
    for (int i = 0; i < n; i++) s += v[i] * v[i];
    return sqrt(s);
}

static void assert_near(double ours, double theirs, double scale, double tolerance)
{
    int near = fabs(ours - theirs) <= tolerance * scale;
    if (!near)
        print_error("%.17g is not near %.17g: off by %.2g of %.2g\n", ours, theirs, fabs(ours - theirs),
                    scale);
    assert_true(near);
}

/* Q near 0 is a difference of sums of size 1 in the word-for-word form: hence 1e-12 absolute, through the
 * root up to 1e-12 / (2 sqrt(e)), beside the relative tolerance. */
static void assert_as_written(struct fixture *f)
{
    static struct expected x;
    assert_int_equal(compute(f), OK);
    expect(f, &x);
    assert_near(f->match, x.match, x.match + 1, 1e-9);
    assert_true(f->match >= 0 || f->o.unbiased);
    for (int s = 0; s < 2; s++) {
        int n = f->half[s].m * f->d;
        double scale = norm(x.g[s], n);
        for (int i = 0; i < n; i++)
            assert_near((double)f->half[s].g[i], x.g[s][i], scale + 1e-30, NEAR > 1e-8 ? NEAR : 1e-8);
    }
}

static void assert_no_gradient(const struct fixture *f, int s, int row)
{
    for (int t = 0; t < f->d; t++) assert_true(f->half[s].g[row * f->d + t] == 0);
}

static void assert_nothing(struct fixture *f)
{
    assert_int_equal(compute(f), OK);
    assert_true(f->match == 0);
    for (int s = 0; s < 2; s++)
        for (int i = 0; i < f->half[s].m; i++) assert_no_gradient(f, s, i);
}

/* ---- the cases ---- */

static void identical_rows(void **state)
{
    (void)state;
    struct fixture f;
    for (int mode = 0; mode < 12; mode++) {
        setup(&f, 7, 9, 10, 3, 1);
        f.o.root = mode % 2;
        f.o.conditional = mode / 2 % 2;
        f.o.bandwidth = (enum bandwidth)(mode / 4);
        f.o.fixed = 2;
        for (int s = 0; s < 2; s++)
            for (int i = 0; i < f.half[s].m; i++)
                memcpy(f.half[s].h + i * f.d, f.half[0].h, (size_t)f.d * sizeof(real));
        assert_nothing(&f);
    }
}

static void zero_features(void **state)
{
    (void)state;
    struct fixture f;
    setup(&f, 6, 6, 8, 2, 2);
    for (int s = 0; s < 2; s++) memset(f.half[s].h, 0, sizeof f.half[s].h);
    assert_nothing(&f);
}

static void one_class_only(void **state)
{
    (void)state;
    struct fixture f, plain;
    setup(&f, 8, 5, 6, 10, 3);
    for (int s = 0; s < 2; s++)
        for (int i = 0; i < f.half[s].m; i++) f.half[s].label[i] = 4;
    assert_as_written(&f);
    plain = f;
    plain.o.conditional = 0;
    assert_as_written(&plain);
    assert_near(10 * f.match, plain.match, plain.match, 1e-14);
    f.o.present = 1;
    assert_int_equal(compute(&f), OK);
    assert_near(f.match, plain.match, plain.match, 1e-14);
}

/* A single pair is its own median: every K is 1/5 sum exp(-1/2^i). */
static void every_class_once(void **state)
{
    (void)state;
    struct fixture f;
    setup(&f, 5, 5, 7, 5, 4);
    for (int s = 0; s < 2; s++)
        for (int i = 0; i < 5; i++) f.half[s].label[i] = s ? 4 - i : i;
    assert_as_written(&f);
    double k = 0;
    for (int i = 0; i < 5; i++) k += exp(-1 / pow(2, i)) / 5;
    assert_near(f.match, sqrt(2 - 2 * k + 1e-6) - 1e-3, 1, 1e-13);
}

static void missing_class(void **state)
{
    (void)state;
    struct fixture f;
    setup(&f, 9, 9, 5, 5, 5);
    for (int i = 0; i < 9; i++) { /* class 1 only in H1, class 2 only in H2, class 3 in neither */
        f.half[0].label[i] = (int[]){ 0, 1, 4 }[i % 3];
        f.half[1].label[i] = (int[]){ 0, 2, 4 }[i % 3];
    }
    for (int present = 0; present < 2; present++) {
        f.o.present = present;
        assert_as_written(&f);
        for (int k = 1; k <= 3; k++) assert_true(f.sigma[k] == 0);
        for (int s = 0; s < 2; s++)
            for (int i = 1; i < 9; i += 3) assert_no_gradient(&f, s, i);
    }
}

static void no_class_in_common(void **state)
{
    (void)state;
    struct fixture f;
    setup(&f, 4, 6, 5, 2, 6);
    for (int i = 0; i < 4; i++) f.half[0].label[i] = 0;
    for (int i = 0; i < 6; i++) f.half[1].label[i] = 1;
    assert_nothing(&f);
    f.o.present = 1;
    assert_nothing(&f);
    f.o.bandwidth = BANDWIDTH_POOLED;
    assert_nothing(&f);
}

/* Odd and unequal sizes, single rows, every mode; in every second one the features are whole numbers, so that
 * many distances are equal or 0 and medians fall on ties. */
static void sizes_and_modes(void **state)
{
    (void)state;
    static const int size[][2] = { { 1, 1 }, { 1, 2 }, { 1, 17 },  { 17, 1 },
                                   { 3, 5 }, { 7, 7 }, { 40, 39 }, { 2, 2 } };
    struct fixture f;
    for (unsigned k = 0; k < sizeof size / sizeof *size; k++)
        for (int mode = 0; mode < 96; mode++) {
            setup(&f, size[k][0], size[k][1], 1 + mode % FEATURES, 1 + mode % 5, 100 * k + (unsigned)mode);
            f.o.root = mode % 2;
            f.o.unbiased = !f.o.root && mode % 3 == 1;
            f.o.conditional = mode / 2 % 3 > 0;
            f.o.present = mode / 6 % 2;
            f.o.bandwidth = (enum bandwidth)(mode / 12 % 3);
            f.o.fixed = 3.5;
            f.o.kernels = 1 + mode % 7;
            f.o.kernel_mul = mode % 4 ? 2 : .7;
            for (int s = 0; s < 2 && mode / 36 % 2; s++)
                for (int i = 0; i < f.half[s].m * f.d; i++)
                    f.half[s].h[i] = (real)rint((double)f.half[s].h[i]);
            assert_as_written(&f);
        }
}

/* The bandwidth follows the features: Match stays, gradients go with 1/scale. Powers of 2 near 1e4 and 1e-4,
 * which scale without rounding; then the numbers themselves. */
static void large_and_small_features(void **state)
{
    (void)state;
    const double scale[] = { 0x1p13, 0x1p-13, 1e4, 1e-4 };
    struct fixture f, big;
    for (int k = 0; k < 4; k++) {
        setup(&f, 9, 8, 6, 3, 7);
        big = f;
        for (int s = 0; s < 2; s++)
            for (int i = 0; i < f.half[s].m * f.d; i++)
                big.half[s].h[i] = (real)((double)f.half[s].h[i] * scale[k]);
        assert_as_written(&f);
        assert_as_written(&big);
        assert_near(big.match, f.match, f.match, k < 2 ? 1e-12 : 1e-6);
        assert_near((double)big.half[0].g[0] * scale[k], (double)f.half[0].g[0], 1, 1e-6);
    }
}

static void permuted_rows(void **state)
{
    (void)state;
    struct fixture f, p;
    setup(&f, 11, 8, 6, 3, 8);
    p = f;
    for (int s = 0; s < 2; s++)
        for (int i = 0; i < f.half[s].m; i++) {
            int to = (i * 5 + 3) % f.half[s].m; /* 5 has no factor in common with 11 or 8 */
            memcpy(p.half[s].h + to * f.d, f.half[s].h + i * f.d, (size_t)f.d * sizeof(real));
            p.half[s].label[to] = f.half[s].label[i];
        }
    assert_int_equal(compute(&f), OK);
    assert_int_equal(compute(&p), OK);
    assert_near(p.match, f.match, f.match, 1e-12);
    for (int s = 0; s < 2; s++)
        for (int i = 0; i < f.half[s].m; i++)
            for (int t = 0; t < f.d; t++)
                assert_near((double)p.half[s].g[(i * 5 + 3) % f.half[s].m * f.d + t],
                            (double)f.half[s].g[i * f.d + t], 1, NEAR);
}

static void swapped_halves(void **state)
{
    (void)state;
    struct fixture f, w;
    setup(&f, 10, 7, 6, 3, 9);
    w = f;
    w.half[0] = f.half[1];
    w.half[1] = f.half[0];
    assert_int_equal(compute(&f), OK);
    assert_int_equal(compute(&w), OK);
    assert_near(w.match, f.match, f.match, 1e-12);
    for (int s = 0; s < 2; s++)
        for (int i = 0; i < f.half[s].m * f.d; i++)
            assert_near((double)w.half[1 - s].g[i], (double)f.half[s].g[i], 1, NEAR);
}

/* The same rows in both halves, in another order too. */
static void match_of_itself(void **state)
{
    (void)state;
    struct fixture f;
    for (int turn = 0; turn < 4; turn++) {
        setup(&f, 12, 12, 6, 3, 10);
        for (int i = 0; i < 12; i++) {
            int to = (i + turn) % 12;
            memcpy(f.half[1].h + to * f.d, f.half[0].h + i * f.d, (size_t)f.d * sizeof(real));
            f.half[1].label[to] = f.half[0].label[i];
        }
        assert_int_equal(compute(&f), OK);
        assert_true(f.match >= 0);
        assert_near(f.match, 0, 1, 1e-12);
    }
}

static void not_finite(void **state)
{
    (void)state;
    const real broken[] = { (real)NAN, (real)INFINITY, (real)-INFINITY };
    struct fixture f;
    for (int k = 0; k < 3; k++)
        for (int s = 0; s < 2; s++)
            for (int row = 0; row < 6; row++) {
                setup(&f, 6, 6, 4, 3, 11);
                for (int i = 0; i < 6; i++) { /* class 2 has no partner in the other half */
                    f.half[0].label[i] = i % 3;
                    f.half[1].label[i] = i % 2;
                }
                f.half[s].h[row * f.d + 2] = broken[k];
                assert_int_equal(compute(&f), E_NUMBER);
                f.o.conditional = 0;
                assert_int_equal(compute(&f), E_NUMBER);
            }
}

/* A row alone in its half, and one whose class is nowhere else: no pair would show the NaN. */
static void not_finite_alone(void **state)
{
    (void)state;
    struct fixture f;
    setup(&f, 1, 1, 3, 2, 12);
    f.half[0].label[0] = 0;
    f.half[1].label[0] = 1;
    f.half[0].h[1] = (real)NAN;
    assert_int_equal(compute(&f), E_NUMBER);
}

/* In a net the message names the layer, on every backend. */
static void refuse_in_a_net(const char *device)
{
    static const char text[] =
        "[net]\nbatch=2\nwidth=3\nheight=1\nchannels=1\n[connected]\noutput=4\nactivation=linear\n"
        "[itra]\nlambda=1\npair=loader\nwarmup=0\n[connected]\noutput=2\nactivation=linear\n[softmax]\n";
    struct err e = { 0 };
    struct notes quiet = { NULL, NULL };
    struct backend *be;
    struct cfg *cfg;
    struct net *net;
    struct program *program;
    ok(backend_open(&be, device, 1, &e), &e);
    ok(cfg_parse(&cfg, "edge.cfg", text, sizeof text - 1, &e), &e);
    ok(net_open(&net, cfg, be, 1, &quiet, &e), &e);
    struct program_desc desc = { .rows = 2, .paired = 1, .train = 1 };
    ok(program_open(&program, net, &desc, &e), &e);
    const float x[12] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 1, NAN, 1 };
    const int label[4] = { 0, 1, 0, 1 };
    struct step step = { .x = x, .label = label, .rows = 4, .rows_s1 = 2, .iteration = 1 };
    struct step_stats stats;
    assert_int_equal(step_train(program, &step, &stats, &e), E_NUMBER);
    assert_non_null(strstr(e.msg, "[itra] (layer 1): a feature is not finite"));
    program_close(program);
    net_close(net);
    backend_close(be);
}

static void not_finite_in_a_net(void **state)
{
    (void)state;
    for (int i = 0; backend_at(i); i++) refuse_in_a_net(backend_at(i)->name);
}

/* Bandwidths that are reused are read, not written; the same ones give the same result. */
static void reused_bandwidth(void **state)
{
    (void)state;
    struct fixture f, reused;
    setup(&f, 9, 9, 5, 3, 14);
    assert_int_equal(compute(&f), OK);
    reused = f;
    reused.reuse_sigma = 1;
    assert_int_equal(compute(&reused), OK);
    assert_true(reused.match == f.match);
    assert_memory_equal(reused.sigma, f.sigma, sizeof f.sigma);
    reused.half[0].h[0] += 1;
    assert_int_equal(compute(&reused), OK);
    assert_memory_equal(reused.sigma, f.sigma, sizeof f.sigma);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(identical_rows),   cmocka_unit_test(zero_features),
        cmocka_unit_test(one_class_only),   cmocka_unit_test(every_class_once),
        cmocka_unit_test(missing_class),    cmocka_unit_test(no_class_in_common),
        cmocka_unit_test(sizes_and_modes),  cmocka_unit_test(large_and_small_features),
        cmocka_unit_test(permuted_rows),    cmocka_unit_test(swapped_halves),
        cmocka_unit_test(match_of_itself),  cmocka_unit_test(not_finite),
        cmocka_unit_test(not_finite_alone), cmocka_unit_test(not_finite_in_a_net),
        cmocka_unit_test(reused_bandwidth),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
