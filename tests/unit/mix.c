/* Mixtures of images: where each part shows, and that its share is what one sees of it. */
#include "test.h"
#include "core/rng.h"
#include "data/mix.h"

enum { C = 2, MOST = 24 };

/* Part i is all i. Counts what of it is seen. */
static void check(enum mix mix, int w, int h, const struct mixture *m)
{
    static float x[C * MOST * MOST], part[C * MOST * MOST];
    int seen[MIXED] = { 0 }, n = C * w * h;
    memset(x, 0, sizeof x);
    for (int i = 1; i < m->parts; i++) {
        for (int k = 0; k < n; k++) part[k] = (float)i;
        mix_add(m, i, part, x, C, h, w);
    }
    if (m->blend) {
        for (int k = 0; k < n; k++) assert_true(x[k] == .5f);
        assert_true(m->share[0] == .5f && m->share[1] == .5f);
        return;
    }
    for (int k = 0; k < n; k++) seen[(int)x[k]]++;
    for (int i = 0; i < MIXED; i++) assert_true(fabs((double)m->share[i] - (double)seen[i] / n) < 1e-6);
    for (int k = 0; k < n / C; k++) assert_true(x[k] == x[n / C + k]);
    if (m->parts == 1) return;
    assert_int_equal(m->parts, mix == MIX_CUT ? 2 : 4);
    if (mix == MIX_MOSAIC)
        assert_true(x[0] == 0 && x[w - 1] == 1 && x[(h - 1) * w] == 2 && x[h * w - 1] == 3);
    if (mix == MIX_CUT)
        assert_in_range(seen[1], C * (3 * w / 10) * (3 * h / 10), C * (8 * w / 10) * (8 * h / 10));
}

static void shares_are_what_is_seen(void **state)
{
    (void)state;
    for (int mix = MIX_NONE; mix <= MIX_MOSAIC; mix++) {
        int mixed = 0;
        for (uint64_t key = 0; key < 400; key++) {
            int w = 10 + (int)(key % 15), h = 10 + (int)(key % 11);
            const struct mixture m = mix_choose((enum mix)mix, rng_bits(3, key), w, h);
            mixed += m.parts > 1;
            check((enum mix)mix, w, h, &m);
        }
        if (mix == MIX_NONE) assert_int_equal(mixed, 0);
        if (mix != MIX_NONE) assert_in_range(mixed, 160, 240);
    }
}

/* Mixing 4 is half one, half the other; an input of one pixel shows one image. */
static void kinds(void **state)
{
    int of[MIXED + 1] = { 0 };
    (void)state;
    for (uint64_t key = 0; key < 800; key++) {
        of[mix_choose(MIX_CUT_OR_MOSAIC, rng_bits(4, key), 8, 8).parts]++;
        const struct mixture m = mix_choose(MIX_CUT_OR_MOSAIC, rng_bits(4, key), 1, 1);
        for (int i = 0; i < MIXED; i++) assert_true(m.share[i] == 0 || m.share[i] == 1);
    }
    assert_in_range(of[1], 340, 460);
    assert_in_range(of[2], 150, 250);
    assert_in_range(of[4], 150, 250);
}

static void main_label(void **state)
{
    (void)state;
    assert_int_equal(mixed_main(&(struct mixed_label){ { 5 }, { 1 } }), 5);
    assert_int_equal(mixed_main(&(struct mixed_label){ { 5, 3 }, { .5f, .5f } }), 5);
    assert_int_equal(mixed_main(&(struct mixed_label){ { 5, 3 }, { .4f, .6f } }), 3);
    assert_int_equal(mixed_main(&(struct mixed_label){ { 5, 3, 7, 3 }, { .4f, .3f, .1f, .2f } }), 3);
}

static void truth(void **state)
{
    const struct mixed_label m = { { 5, 3, 7, 3 }, { .5f, .25f, .125f, .125f } };
    (void)state;
    assert_true(mixed_truth(&m, 3, 1, 0) == .375 && mixed_truth(&m, 5, 1, 0) == .5 &&
                mixed_truth(&m, 0, 1, 0) == 0);
    assert_true(fabs(mixed_truth(&m, 5, .9, .02) - (.5 * .9 + .5 * .02)) < 1e-12);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(shares_are_what_is_seen), cmocka_unit_test(kinds),
                                        cmocka_unit_test(main_label), cmocka_unit_test(truth) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
