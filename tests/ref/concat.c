#include "ref/ref.h"
#include "backend/ops/concat.h"

static void concat_by_hand(void **state)
{
    (void)state;
    struct tensor a = tensor(2, 1, 1, 2), b = tensor(2, 2, 1, 2), out = tensor(2, 3, 1, 2);
    const struct tensor *const in[] = { &a, &b };
    struct concat_desc d = { in, 2, 1, 0, 1, 1 };
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

static void parts_by_hand(void **state)
{
    (void)state;
    struct tensor a = tensor(2, 2, 1, 1), b = tensor(2, 4, 1, 1), out = tensor(2, 3, 1, 1);
    const struct tensor *const in[] = { &a, &b };
    struct concat_desc d = { in, 2, 2, 1, 1, 2 };
    struct op_plan p;
    struct err e;
    const real xa[] = { 1, 2, 3, 4 }, xb[] = { 10, 20, 30, 40, 50, 60, 70, 80 };
    real y[6], ga[4] = { 5, 5, 5, 5 }, gb[8] = { 5, 5, 5, 5, 5, 5, 5, 5 };
    DONE(ops->concat->plan(be, &d, &out, &p, &e));
    DONE(ops->concat->forward(&p, &context, (const void *[]){ xa, xb }, y));
    SAME(y, 2, 30, 40, 4, 70, 80);
    DONE(ops->concat->backward(&p, &context, y, (void *[]){ ga, gb }, (const int[]){ 0, 1 }));
    SAME(ga, 0, 2, 0, 4);
    SAME(gb, 5, 5, 35, 45, 5, 5, 75, 85);
    op_destroy(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(concat_by_hand), cmocka_unit_test(parts_by_hand) };
    return RUN_REF(tests);
}
