#include "ref/ref.h"
#include "backend/ops/optim.h"

static void descent_by_hand(void **state)
{
    (void)state;
    real w[3] = { 1, -2, 3 }, v[3] = { (real).5, 0, 0 };
    const real g[3] = { 2, 8, 1 };
    const struct optim_item item[2] = {
        { .w = w, .v = v, .g = g, .bytes = 2 * sizeof(real), .rate = 1, .decay = .1 },
        { .w = w + 2, .v = v + 2, .g = g + 2, .bytes = sizeof(real), .rate = 2 },
    };
    struct optim_desc d = { .item = item, .n = 2, .momentum = .9, .average = .5 };
    struct op_plan p;
    struct err e;
    DONE(ops->optim->plan(be, &d, &p, &e));
    DONE(ops->optim->update(&p, &(struct step_state){ .rate = .01 }));
    SAME(v, .9 * .5 + .5 * 2 + .1 * 1, .5 * 8 - .1 * 2, .5);
    SAME(w, 1 - .01 * 1.55, -2 - .01 * 3.8, 3 - .02 * .5);
    op_destroy(&p);
    op_destroy(&p);
}

/* The first update moves a weight by the rate, whatever its gradient; the second by what the moments say. */
static void adam_by_hand(void **state)
{
    (void)state;
    real w[2] = { 1, -2 }, v[2] = { 0 }, s[2] = { 0 };
    const real g[2] = { 2, -8 };
    const struct optim_item item = {
        .w = w, .v = v, .s = s, .g = g, .bytes = sizeof w, .rate = 2, .decay = .5
    };
    struct optim_desc d = { .item = &item, .n = 1, .momentum = .5, .b2 = .75, .average = .25 };
    struct op_plan p;
    struct err e;
    DONE(ops->optim->plan(be, &d, &p, &e));
    /* d = .25 * 2 + .5 * 1 = 1 and .25 * -8 + .5 * -2 = -3 */
    DONE(ops->optim->update(&p, &(struct step_state){ .rate = .125, .v_share = .5, .s_share = .25 }));
    SAME(v, .5, -1.5);
    SAME(s, .25, 2.25);
    SAME(w, 1 - .25, -2 + .25);
    /* d = .875 and -2.875; v / (1 - .5^2), s / (1 - .75^2) */
    DONE(ops->optim->update(&p, &(struct step_state){ .rate = .125, .v_share = .75, .s_share = .4375 }));
    SAME(v, .6875, -2.1875);
    SAME(s, .37890625, 3.75390625);
    SAME(w, .75 - .25 * (.6875 / .75) / sqrt(.37890625 / .4375),
         -1.75 + .25 * (2.1875 / .75) / sqrt(3.75390625 / .4375));
    op_destroy(&p);
}

/* Of the value after the step; of what is not learnt, as it is. */
static void average_by_hand(void **state)
{
    (void)state;
    real w[2] = { 1, 8 }, v = 0, mean[2] = { 3, 0 };
    const real g = 2;
    const struct optim_item item[2] = {
        { .w = w, .v = &v, .g = &g, .average = mean, .bytes = sizeof v, .rate = 1 },
        { .w = w + 1, .average = mean + 1, .bytes = sizeof v },
    };
    struct optim_desc d = { .item = item, .n = 2, .average = 1 };
    struct op_plan p;
    struct err e;
    int bad;
    DONE(ops->optim->plan(be, &d, &p, &e));
    DONE(ops->optim->check(&p, &bad));
    assert_int_equal(bad, -1);
    DONE(ops->optim->update(&p, &(struct step_state){ .rate = .25, .average_share = .125 }));
    SAME(w, .5, 8);
    SAME(mean, 3 - .125 * 2.5, 1);
    DONE(ops->optim->update(&p, &(struct step_state){ .rate = 0, .average_share = 1 }));
    SAME(mean, .5, 8);
    op_destroy(&p);
}

static void optim_check(void **state)
{
    (void)state;
    real g[5] = { 0, 1, -2, (real)1e30, 0 };
    const struct optim_item item[2] = { { .g = g, .bytes = 4 * sizeof *g },
                                        { .g = g + 4, .bytes = sizeof *g } };
    struct optim_desc d = { .item = item, .n = 2, .momentum = .9, .average = .5 };
    struct op_plan p;
    struct err e;
    int bad = 7;
    DONE(ops->optim->plan(be, &d, &p, &e));
    DONE(ops->optim->check(&p, &bad));
    assert_int_equal(bad, -1);
    g[4] = (real)INFINITY;
    DONE(ops->optim->check(&p, &bad));
    assert_int_equal(bad, 1);
    g[0] = (real)NAN;
    DONE(ops->optim->check(&p, &bad));
    assert_int_equal(bad, 0);
    op_destroy(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(descent_by_hand), cmocka_unit_test(adam_by_hand),
                                        cmocka_unit_test(average_by_hand), cmocka_unit_test(optim_check) };
    return RUN_REF(tests);
}
