/* net/plan.h: lifetimes to offsets. */
#include "tiny.h"
#include "net/plan.h"

struct expected {
    size_t bytes;
    int first, last;
    size_t at;
};

static void check(const struct expected *x, int n, size_t total)
{
    struct plan_item item[16];
    size_t got;
    for (int i = 0; i < n; i++) item[i] = (struct plan_item){ x[i].bytes, x[i].first, x[i].last, 99 };
    assert_int_equal(plan_arena(item, n, &got), 0);
    for (int i = 0; i < n; i++) assert_int_equal(item[i].at, x[i].at);
    assert_int_equal(got, total);
}

static void nothing(void **state)
{
    (void)state;
    size_t total = 9;
    assert_int_equal(plan_arena(NULL, 0, &total), 0);
    assert_int_equal(total, 0);
    const struct expected empty[] = { { 0, 0, 9, 0 }, { 0, 0, 9, 0 } };
    check(empty, 2, 0);
}

static void sizes_are_rounded_to_64(void **state)
{
    (void)state;
    /* largest first: 65 -> 128 at 0; then the two of 64 in order */
    const struct expected x[] = { { 1, 0, 0, 128 }, { 65, 0, 0, 0 }, { 64, 0, 0, 192 } };
    check(x, 3, 256);
}

static void apart_in_time_share_and_touching_do_not(void **state)
{
    (void)state;
    const struct expected apart[] = { { 64, 0, 1, 0 }, { 64, 2, 3, 0 } };
    const struct expected touching[] = { { 64, 0, 2, 0 }, { 64, 2, 3, 64 } }; /* both ends are included */
    check(apart, 2, 64);
    check(touching, 2, 128);
}

/* A chain, as a plain net has in inference: two places in turn. */
static void chain(void **state)
{
    (void)state;
    const struct expected x[] = {
        { 256, 0, 1, 0 }, { 256, 1, 2, 256 }, { 256, 2, 3, 0 }, { 256, 3, 4, 256 }
    };
    check(x, 4, 512);
}

static void largest_first_into_what_is_free(void **state)
{
    (void)state;
    const struct expected x[] = {
        { 64, 3, 3, 0 },    /* last; only the 128 is alive: the space before it */
        { 256, 1, 2, 320 }, /* meets the 320 */
        { 128, 2, 3, 192 }, /* fits between the 192 and the 256 */
        { 320, 0, 1, 0 },   /* the largest */
        { 192, 2, 2, 0 },   /* below the 256, where the 320 was */
    };
    check(x, 5, 576);
}

/* The smallest gap that holds it, not the first. */
static void best_gap(void **state)
{
    (void)state;
    const struct expected x[] = {
        { 320, 0, 1, 0 },   { 256, 1, 2, 320 }, { 192, 1, 2, 576 },
        { 128, 1, 1, 768 }, { 128, 1, 2, 896 }, /* at step 2 the gaps are 0..320 and 768..896 */
        { 128, 2, 2, 768 },
    };
    check(x, 6, 1024);
}

static void too_large(void **state)
{
    (void)state;
    size_t total;
    struct plan_item one[] = { { SIZE_MAX, 0, 0, 0 } };
    struct plan_item two[] = { { SIZE_MAX / 2 + 1, 0, 0, 0 }, { SIZE_MAX / 2 + 1, 0, 0, 0 } };
    assert_int_not_equal(plan_arena(one, 1, &total), 0);
    assert_int_not_equal(plan_arena(two, 2, &total), 0);
    struct plan_item apart[] = { { SIZE_MAX / 2 + 1, 0, 0, 0 }, { SIZE_MAX / 2 + 1, 1, 1, 0 } };
    assert_int_equal(plan_arena(apart, 2, &total), 0);
    assert_true(total == SIZE_MAX / 2 + 1);
}

/* ---- thousands of random ones ---- */

enum { MOST = 40, STEPS = 30 };

static size_t size_of(const struct plan_item *x) { return (x->bytes + 63) / 64 * 64; }

static int meet(const struct plan_item *a, const struct plan_item *b)
{
    return a->first <= b->last && b->first <= a->last;
}

/* What is alive at once must fit: no plan is smaller. */
static size_t lower_bound(const struct plan_item *x, int n)
{
    size_t most = 0;
    for (int t = 0; t < STEPS; t++) {
        size_t sum = 0;
        for (int i = 0; i < n; i++) sum += x[i].first <= t && t <= x[i].last ? size_of(&x[i]) : 0;
        most = sum > most ? sum : most;
    }
    return most;
}

static int draw(struct plan_item *x, uint64_t key)
{
    int n = 1 + (int)rng_below(key, 0, MOST);
    for (int i = 0; i < n; i++) {
        uint64_t at = 4 * (uint64_t)i + 1;
        x[i].bytes =
            (size_t)rng_below(key, at, rng_below(key, at + 1, 8) ? 2000 : 1); /* some need no place */
        x[i].first = (int)rng_below(key, at + 2, STEPS);
        x[i].last = x[i].first + (int)rng_below(key, at + 3, (uint64_t)(STEPS - x[i].first));
    }
    return n;
}

static void random_ones_never_overlap(void **state)
{
    double ratio = 0;
    enum { CASES = 4000 };
    (void)state;
    for (uint64_t k = 0; k < CASES; k++) {
        struct plan_item x[MOST];
        int n = draw(x, rng_key(1, 1, k));
        size_t total, end = 0, bound = lower_bound(x, n);
        assert_int_equal(plan_arena(x, n, &total), 0);
        for (int i = 0; i < n; i++) {
            size_t last = x[i].at + size_of(&x[i]);
            if (!x[i].bytes) continue;
            assert_int_equal(x[i].at % 64, 0);
            end = last > end ? last : end;
            for (int j = 0; j < i; j++)
                if (x[j].bytes && meet(&x[i], &x[j]))
                    assert_true(last <= x[j].at || x[j].at + size_of(&x[j]) <= x[i].at);
        }
        assert_true(total >= bound);
        assert_int_equal(total, end);
        ratio += bound ? (double)total / (double)bound / CASES : 1.0 / CASES;
    }
    assert_true(ratio < 1.1); /* on average within a tenth of the bound: sharing does take place */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing),
        cmocka_unit_test(sizes_are_rounded_to_64),
        cmocka_unit_test(apart_in_time_share_and_touching_do_not),
        cmocka_unit_test(chain),
        cmocka_unit_test(largest_first_into_what_is_free),
        cmocka_unit_test(best_gap),
        cmocka_unit_test(too_large),
        cmocka_unit_test(random_ones_never_overlap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
