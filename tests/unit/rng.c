/* core/rng.h. The known answers were computed by another program from the formulas; they are pinned because a
 * seed must mean the same run in every version. */
#include "tiny.h"

static const uint64_t ALL = ~(uint64_t)0;

static void mixing_is_splitmix64(void **state)
{
    (void)state;
    assert_true(rng_mix(0) == 0xe220a8397b1dcdafu); /* its published first two outputs for seed 0 */
    assert_true(rng_mix(0x9e3779b97f4a7c15u) == 0x6e789e6aa1b965f4u);
}

static void known_answers(void **state)
{
    (void)state;
    assert_true(rng_key(0, RNG_INIT, 0) == 0x187c531ccfbcb6eeu);
    assert_true(rng_key(0, RNG_INIT, 1) == 0x4b1b9c06d9191935u);
    assert_true(rng_key(1, RNG_DROPOUT, 0) == 0x6ade87d039d96159u);
    assert_true(rng_key(42, RNG_SAMPLE, 3) == 0x75721a47939e406du);
    assert_true(rng_key(ALL, RNG_RATE, ALL) == 0xa7a9874f90e58ebcu);
    uint64_t key = rng_key(42, RNG_ORDER, 0);
    assert_true(rng_bits(key, 0) == 0x66d3f2a4a91b2407u);
    assert_true(rng_bits(key, 1) == 0x813d4a23fdf869f3u);
    assert_true(rng_bits(key, 2) == 0xb804f0778a42b4b0u);
    assert_true(rng_bits(key, 1000000007) == 0x8d94e419d4590627u);
    assert_true(rng_bits(key, ALL) == 0xd2e7c43335685aebu);
    assert_true(rng_uniform(key, 0) == 0.4016715671542497 && rng_uniform(key, 3) == 0.14921737147513892);
    near(rng_normal(key, 0), -1.0130551055452304, 1e-14);
    near(rng_normal(key, 1), 0.9426511520998957, 1e-14);
    near(rng_normal(key, 3), -0.4229045371414428, 1e-14);
    static const unsigned ten[] = { 4, 5, 7, 1, 4, 4, 1, 6, 3, 3, 3, 7 };
    for (unsigned i = 0; i < 12; i++) assert_int_equal(rng_below(key, i, 10), ten[i]);
    assert_int_equal(rng_below(key, 2, 1000003), 718827);
    assert_true(rng_below(key, 0, (uint64_t)1 << 33) == 2837128199u);
    assert_true(rng_below(key, 2, ALL >> 32) == 3087331446u);
    assert_int_equal(rng_below(key, 5, 1), 0);
}

/* The streams are named by numbers that must not move either. */
static void streams_keep_their_numbers(void **state)
{
    (void)state;
    assert_true(RNG_INIT == 1 && RNG_DROPOUT == 2 && RNG_ORDER == 3 && RNG_AUGMENT == 4 && RNG_RATE == 5);
    assert_true(RNG_CROP == 6 && RNG_SAMPLE == 7);
}

static void keys_differ(void **state)
{
    enum { N = 12 };
    static uint64_t key[N * N * N];
    (void)state;
    for (uint64_t i = 0; i < N * N * N; i++) key[i] = rng_key(i / N / N, i / N % N, i % N);
    for (int i = 0; i < N * N * N; i++)
        for (int j = 0; j < i; j++) assert_true(key[i] != key[j]);
}

/* Chi-square with n - 1 degrees of freedom: mean n - 1, variance 2 (n - 1); five deviations are never seen by
 * chance. */
static void check_uniform(uint64_t n)
{
    enum { DRAWS = 200000 };
    static unsigned count[1000];
    uint64_t key = rng_key(7, RNG_ORDER, n);
    memset(count, 0, sizeof count);
    for (uint64_t i = 0; i < DRAWS; i++) {
        uint64_t v = rng_below(key, i, n);
        assert_true(v < n);
        count[v]++;
    }
    double chi = 0, expected = (double)DRAWS / (double)n;
    for (uint64_t k = 0; k < n; k++) chi += (count[k] - expected) * (count[k] - expected) / expected;
    assert_true(fabs(chi - (double)(n - 1)) < 5 * sqrt(2 * (double)(n - 1)));
}

static void below_is_uniform(void **state)
{
    static const uint64_t n[] = { 2, 3, 10, 64, 1000 };
    (void)state;
    for (int i = 0; i < 5; i++) check_uniform(n[i]);
}

/* Large n: the two halves of the product must not lose the carry. Means within five deviations. */
static void below_of_large_n(void **state)
{
    static const uint64_t n[] = { 0xffffffffu, (uint64_t)1 << 32, (uint64_t)3 << 60 };
    enum { DRAWS = 100000 };
    (void)state;
    for (int k = 0; k < 2; k++) {
        double sum = 0;
        for (uint64_t i = 0; i < DRAWS; i++) {
            uint64_t v = rng_below(5, i, n[k]);
            assert_true(v < n[k]);
            sum += (double)v / (double)n[k];
        }
        assert_true(fabs(sum / DRAWS - .5) < 5 / sqrt(12.0 * DRAWS));
    }
    for (uint64_t i = 0; i < 1000; i++) assert_true(rng_below(5, i, n[2]) < n[2]);
}

/* Mean 0, variance 1, skewness 0, kurtosis 3, and no correlation from one index to the next; five deviations.
 */
static void normal_moments(void **state)
{
    enum { N = 400000 };
    double m[5] = { 0 }, product = 0, last = 0;
    (void)state;
    for (uint64_t i = 0; i < N; i++) {
        double x = rng_normal(3, i), power = 1;
        assert_true(isfinite(x));
        for (int k = 0; k < 5; k++, power *= x) m[k] += power / N;
        product += x * last / N;
        last = x;
    }
    double root = sqrt(N);
    assert_true(fabs(m[1]) < 5 / root);
    assert_true(fabs(m[2] - 1) < 5 * sqrt(2) / root);
    assert_true(fabs(m[3]) < 5 * sqrt(15) / root);
    assert_true(fabs(m[4] - 3) < 5 * sqrt(96) / root);
    assert_true(fabs(product) < 5 / root);
}

static void uniform_stays_below_one(void **state)
{
    double low = 1, high = 0;
    (void)state;
    for (uint64_t i = 0; i < 100000; i++) {
        double u = rng_uniform(11, i);
        assert_true(u >= 0 && u < 1);
        low = fmin(low, u);
        high = fmax(high, u);
    }
    assert_true(low < 1e-3 && high > 1 - 1e-3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mixing_is_splitmix64),
        cmocka_unit_test(known_answers),
        cmocka_unit_test(streams_keep_their_numbers),
        cmocka_unit_test(keys_differ),
        cmocka_unit_test(below_is_uniform),
        cmocka_unit_test(below_of_large_n),
        cmocka_unit_test(normal_moments),
        cmocka_unit_test(uniform_stays_below_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
