#include "ref/ref.h"
#include "backend/ops/sgd.h"

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
    const struct CMUnitTest tests[] = { cmocka_unit_test(sgd_by_hand), cmocka_unit_test(sgd_check) };
    return RUN_REF(tests);
}
