#include "ref/linear.h"

static void dense_by_hand(void **state)
{
    (void)state;
    struct linear t = linear(&ops->dense->linear, tensor(2, 1, 1, 2), tensor(2, 3, 1, 1));
    const real x[] = { 1, 2, 3, 4 }, w[] = { 1, 0, 0, 1, 1, -1 };
    real host[6];
    memcpy(t.x, x, sizeof x);
    t.bias[0] = 10;
    linear_run(&t);
    DONE(t.ops->pack(&t.p, w, t.w));
    DONE(t.ops->unpack(&t.p, t.w, host));
    SAME(host, 1, 0, 0, 1, 1, -1);
    DONE(t.ops->forward(&t.p, &context, t.x, t.w, t.bias, t.y));
    SAME(t.y, 11, 2, -1, 13, 4, -1);
    op_destroy(&t.p);
    t.d.train = 0, t.d.act = ACT_RELU;
    linear_run(&t);
    assert_true(t.p.fused);
    SAME(t.y, 11, 2, 0, 13, 4, 0);
    op_destroy(&t.p);
}

static void dense_gradient(void **state)
{
    (void)state;
    struct linear t = linear(&ops->dense->linear, tensor(3, 2, 2, 3), tensor(3, 5, 1, 1));
    linear_gradients(&t, 60, 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(dense_by_hand), cmocka_unit_test(dense_gradient) };
    return RUN_REF(tests);
}
