#include "ref/ref.h"
#include "backend/ops/maxout.h"

/* Five channels of two pixels to two channels: 0, 2, 4 and 1, 3. */
static void by_hand(void **state)
{
    (void)state;
    static const real x[] = { 1, 9, 5, 5, 3, 2, 5, 4, 3, 1 }, g[] = { 1, 2, 3, 4 };
    real y[MOST], gx[MOST];
    int kept[MOST];
    struct tensor in = tensor(1, 5, 1, 2), out = tensor(1, 2, 1, 2);
    struct maxout_desc d = { &in, 1, 1 };
    struct op_plan p;
    struct err e;
    DONE(ops->maxout->plan(be, &d, &out, &p, &e));
    assert_int_equal(p.kept_bytes, 4 * sizeof *kept);
    DONE(ops->maxout->forward(&p, &context, x, y, kept));
    SAME(y, 3, 9, 5, 5);
    DONE(ops->maxout->backward(&p, &context, kept, g, gx, 0));
    SAME(gx, 0, 2, 3, 4, 1, 0, 0, 0, 0, 0); /* of equal ones the first */
    DONE(ops->maxout->backward(&p, &context, kept, g, gx, 1));
    SAME(gx, 0, 4, 6, 8, 2, 0, 0, 0, 0, 0);
    op_destroy(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(by_hand) };
    return RUN_REF(tests);
}
