/* Sums of two tensors, also of different shapes, and of one with itself. */
#include "rig/pair.h"
#include "backend/ops/add.h"

static int plan(struct backend *be, const struct pair_case *k, const struct tensor *a, const struct tensor *b,
                struct tensor *y, struct op_plan *p, struct err *e)
{
    struct add_desc d = { a, b, k->alpha, k->beta, k->act, 1, k->rows_back, k->add[0], k->add[1] };
    return be->ops->add->plan(be, &d, y, p, e);
}

static int backward(struct backend *be, const struct op_plan *p, const struct op_context *c, const void *a,
                    const void *b, const void *y, const void *gy, void *ga, void *gb)
{
    (void)a, (void)b;
    return be->ops->add->backward(p, c, y, gy, ga, gb);
}

static void add(struct rig *r, const void *arg)
{
    pair_run(r, arg, &(struct pair_ops){ plan, r->be->ops->add->forward, backward });
}

static void sums(void **state)
{
    /* shapes, blocked, rows_back, add, alpha, beta, activation, single, self, without */
    static const struct pair_case cases[] = {
        { { 4, 32, 5, 5 }, { 4, 32, 5, 5 }, { 1, 1 }, 4, { 0, 1 }, 1, 1, ACT_RELU, 0, 0, 0 },
        { { 4, 17, 5, 5 }, { 4, 17, 5, 5 }, { 1, 0 }, 3, { 1, 0 }, 0.5, 2, ACT_LEAKY, 0, 0, 0 },
        { { 4, 17, 5, 5 }, { 4, 17, 5, 5 }, { 0, 1 }, 3, { 0, 1 }, 0.5, 2, ACT_LOGISTIC, 0, 0, 0 },
        { { 4, 17, 5, 5 }, { 4, 17, 5, 5 }, { 1, 1 }, 4, { 1, 1 }, 1, 1, ACT_PLSE, 0, 0, 0 },
        { { 4, 32, 4, 4 }, { 4, 16, 8, 8 }, { 1, 1 }, 4, { 0, 0 }, 1, 1, ACT_RELU, 0, 0, 0 },
        { { 4, 20, 8, 8 }, { 4, 32, 4, 4 }, { 1, 1 }, 3, { 1, 1 }, 2, 0.5, ACT_LOGISTIC, 0, 0, 0 },
        { { 4, 17, 4, 4 }, { 4, 3, 4, 4 }, { 1, 0 }, 4, { 0, 0 }, 0.5, 1, ACT_LINEAR, 0, 0, 0 },
        { { 4, 32, 5, 5 }, { 4, 32, 5, 5 }, { 1, 1 }, 3, { 0, 1 }, 2, 1, ACT_RELU, 0, 1, 0 },
        { { 4, 32, 5, 5 }, { 4, 32, 5, 5 }, { 1, 1 }, 3, { 1, 0 }, 2, 1, ACT_RELU, 0, 0, 1 },
        { { 4, 32, 5, 5 }, { 4, 32, 5, 5 }, { 1, 1 }, 3, { 0, 0 }, 2, 1, 0, 0, 0, 2 },
        { { 4, 32, 3, 6 }, { 4, 16, 6, 12 }, { 1, 1 }, 3, { 0, 1 }, 2, 1, ACT_RELU, 0, 0, 1 },
        { { 4, 32, 6, 12 }, { 4, 48, 3, 6 }, { 1, 1 }, 4, { 0, 1 }, 2, 1, 0, 0, 0, 2 },
        { { 4, 32, 5, 5 }, { 4, 32, 5, 5 }, { 0, 0 }, 4, { 0, 1 }, 1, 1, ACT_RELU, 2, 0, 0 },
        { { 4, 32, 6, 6 }, { 4, 16, 3, 3 }, { 0, 0 }, 3, { 1, 0 }, .5, 2, ACT_RELU, 1, 0, 0 },
    };
    CHECK_EACH(state, add, cases, "add");
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(sums) };
    return RIG_RUN(tests);
}
