/* The order of samples: whole epochs, different ones, even draws, mates of the same class. */
#include <stdlib.h>
#include <string.h>
#include "data/pick.h"
/* last: cmocka has a macro called fail */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

static void every_epoch_is_a_permutation(void **state)
{
    (void)state;
    const int sizes[] = { 1, 2, 3, 7, 64, 65, 1000, 4097 };
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        int n = sizes[s];
        char *seen = calloc((size_t)n, 1);
        assert_non_null(seen);
        for (uint64_t epoch = 0; epoch < 3; epoch++) {
            memset(seen, 0, (size_t)n);
            for (uint64_t i = 0; i < (uint64_t)n; i++) {
                int at = sampler_at(5, 0, epoch * (uint64_t)n + i, n, 0);
                assert_in_range(at, 0, n - 1);
                assert_int_equal(seen[at]++, 0);
            }
        }
        free(seen);
    }
}

static int agreements(uint64_t seed_a, int lane_a, uint64_t at_a, uint64_t seed_b, int lane_b, uint64_t at_b,
                      int n)
{
    int same = 0;
    for (uint64_t i = 0; i < (uint64_t)n; i++)
        same += sampler_at(seed_a, lane_a, at_a + i, n, 0) == sampler_at(seed_b, lane_b, at_b + i, n, 0);
    return same;
}

static void orders_are_unrelated(void **state)
{
    (void)state;
    enum { N = 1000 }; /* two random permutations agree in 1 place on average; P(more than 7) is 1e-5 */
    assert_true(agreements(1, 0, 0, 2, 0, 0, N) < 8);
    assert_true(agreements(1, 0, 0, 1, 1, 0, N) < 8);
    assert_true(agreements(1, 0, 0, 1, 0, N, N) < 8);
    int next = 0; /* neighbours in the list do not stay neighbours */
    for (uint64_t i = 0; i + 1 < N; i++)
        next += abs(sampler_at(1, 0, i, N, 0) - sampler_at(1, 0, i + 1, N, 0)) == 1;
    assert_true(next < 12);
}

/* Chi-square of `cells` counts, `draws` in all, against even ones. */
static double chi2(const int *count, int cells, int draws)
{
    double x = 0, want = (double)draws / cells;
    for (int i = 0; i < cells; i++) x += (count[i] - want) * (count[i] - want) / want;
    return x;
}

static void places_are_even(void **state)
{
    (void)state;
    /* Where sample 0..n-1 comes first, over many epochs. Limits: mean n - 1 plus 5 standard deviations. */
    const int sizes[] = { 2, 3, 5, 10 };
    for (size_t s = 0; s < 4; s++) {
        int n = sizes[s], count[10] = { 0 }, epochs = 4000;
        for (int epoch = 0; epoch < epochs; epoch++)
            count[sampler_at(9, 0, (uint64_t)epoch * (uint64_t)n, n, 0)]++;
        assert_true(chi2(count, n, epochs) < n - 1 + 5 * 4.5);
    }
    int order[6] = { 0 }; /* all 6 permutations of 3 */
    for (int epoch = 0; epoch < 6000; epoch++) {
        int a = sampler_at(4, 0, (uint64_t)epoch * 3, 3, 0),
            b = sampler_at(4, 0, (uint64_t)epoch * 3 + 1, 3, 0);
        order[2 * a + (b > 3 - a - b)]++;
    }
    assert_true(chi2(order, 6, 6000) < 5 + 5 * 3.2);
}

static void replacement_draws_evenly(void **state)
{
    (void)state;
    int count[20] = { 0 };
    for (uint64_t i = 0; i < 20000; i++) count[sampler_at(3, 0, i, 20, 1)]++;
    assert_true(chi2(count, 20, 20000) < 19 + 5 * 6.2);
}

static void mates_share_the_class_only(void **state)
{
    (void)state;
    static const int alone[] = { 1 }, pair[] = { 3, 5 }, three[] = { 0, 2, 4 };
    int drawn[6] = { 0 };
    for (uint64_t i = 0; i < 3000; i++) {
        assert_int_equal(sampler_mate(1, i, alone, 1, 1), 1);
        assert_int_equal(sampler_mate(1, i, pair, 2, 3), 5);
        assert_int_equal(sampler_mate(1, i, pair, 2, 5), 3);
        drawn[sampler_mate(1, i, three, 3, 2)]++;
    }
    assert_int_equal(drawn[0] + drawn[4], 3000);
    assert_in_range(drawn[0], 1350, 1650); /* 1500, 5 standard deviations are 137 */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_epoch_is_a_permutation),
        cmocka_unit_test(orders_are_unrelated),
        cmocka_unit_test(places_are_even),
        cmocka_unit_test(replacement_draws_evenly),
        cmocka_unit_test(mates_share_the_class_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
