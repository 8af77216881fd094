#include "rig/linear.h"

static void dense_map(void **state)
{
    static const struct linear_case cases[] = {
        { { 5, 20, 1, 1 }, 17, 1, 1, 0, 1, 5, 0, 1, 0, 0, 1, ACT_RELU, 1, 0 },
        { { 5, 17, 3, 2 }, 10, 1, 1, 0, 1, 3, 1, 1, 1, 1, 1, ACT_LOGISTIC, 1, 0 },
        { { 5, 32, 3, 3 }, 7, 1, 1, 0, 1, 5, 1, 0, 0, 0, 1, ACT_GELU, 1, 0 },
        { { 5, 3, 4, 4 }, 64, 1, 1, 0, 1, 4, 0, 1, 1, 1, 1, ACT_LINEAR, 1, 0 },
        { { 3, 5, 2, 1 }, 299, 1, 1, 0, 1, 2, 0, 1, 0, 0, 1, ACT_RELU, 1, 0 },
    };
    CHECK_EACH(state, linear, cases, "dense");
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(dense_map) };
    return RIG_RUN(tests);
}
