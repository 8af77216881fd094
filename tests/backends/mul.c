/* Products of two tensors, the second of which may be smaller, and of one with itself. */
#include "rig/pair.h"
#include "backend/ops/mul.h"

static int plan(struct backend *be, const struct pair_case *k, const struct tensor *a, const struct tensor *b,
                struct tensor *y, struct op_plan *p, struct err *e)
{
    struct mul_desc d = { a, b, k->act, 1, k->rows_back, k->add[0], k->add[1] };
    return be->ops->mul->plan(be, &d, y, p, e);
}

static int backward(struct backend *be, const struct op_plan *p, const struct op_context *c, const void *a,
                    const void *b, const void *y, const void *gy, void *ga, void *gb)
{
    return be->ops->mul->backward(p, c, a, b, y, gy, ga, gb);
}

static void mul(struct rig *r, const void *arg)
{
    pair_run(r, arg, &(struct pair_ops){ plan, r->be->ops->mul->forward, backward });
}

static void products(void **state)
{
    /* shapes, blocked, rows_back, add, -, activation, single, self, without */
    static const struct pair_case cases[] = {
        { { 4, 32, 5, 5 }, { 4, 32, 1, 1 }, { 1, 1 }, 4, { 0, 0 }, 0, 0, ACT_LINEAR, 0, 0, 0 },
        { { 4, 17, 9, 9 }, { 4, 17, 1, 1 }, { 1, 0 }, 3, { 1, 1 }, 0, 0, ACT_LEAKY, 0, 0, 0 },
        { { 4, 20, 3, 7 }, { 4, 20, 1, 1 }, { 0, 1 }, 3, { 0, 1 }, 0, 0, ACT_LOGISTIC, 0, 0, 0 },
        { { 4, 32, 5, 5 }, { 4, 32, 1, 1 }, { 1, 1 }, 4, { 1, 0 }, 0, 0, ACT_RELU, 2, 0, 0 },
        { { 4, 32, 5, 5 }, { 4, 1, 5, 5 }, { 1, 1 }, 4, { 0, 0 }, 0, 0, ACT_LINEAR, 0, 0, 0 },
        { { 4, 17, 9, 9 }, { 4, 1, 9, 9 }, { 1, 0 }, 3, { 0, 1 }, 0, 0, ACT_TANH, 0, 0, 0 },
        { { 4, 16, 5, 5 }, { 4, 1, 5, 5 }, { 0, 0 }, 3, { 0, 1 }, 0, 0, ACT_LINEAR, 2, 0, 0 },
        { { 4, 24, 5, 5 }, { 4, 1, 1, 1 }, { 1, 0 }, 3, { 0, 0 }, 0, 0, ACT_LEAKY, 0, 0, 0 },
        { { 4, 32, 5, 5 }, { 4, 32, 5, 5 }, { 1, 1 }, 3, { 0, 1 }, 0, 0, ACT_LINEAR, 0, 0, 0 },
        { { 4, 17, 5, 5 }, { 4, 17, 5, 5 }, { 1, 0 }, 4, { 1, 0 }, 0, 0, ACT_LOGISTIC, 0, 0, 0 },
        { { 4, 17, 5, 5 }, { 4, 17, 5, 5 }, { 1, 1 }, 4, { 0, 1 }, 0, 0, ACT_LINEAR, 0, 1, 0 },
        { { 4, 32, 5, 5 }, { 4, 32, 5, 5 }, { 0, 1 }, 4, { 0, 0 }, 0, 0, ACT_RELU, 1, 0, 1 },
        { { 4, 32, 5, 5 }, { 4, 32, 1, 1 }, { 1, 1 }, 2, { 0, 0 }, 0, 0, ACT_RELU, 0, 0, 1 },
        { { 4, 32, 5, 5 }, { 4, 32, 1, 1 }, { 1, 1 }, 2, { 0, 0 }, 0, 0, ACT_RELU, 0, 0, 2 },
        { { 4, 12, 1, 1 }, { 4, 12, 1, 1 }, { 0, 0 }, 2, { 0, 0 }, 0, 0, ACT_RELU, 0, 0, 0 },
    };
    CHECK_EACH(state, mul, cases, "mul");
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(products) };
    return RIG_RUN(tests);
}
