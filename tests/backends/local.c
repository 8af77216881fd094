#include "rig/linear.h"

static void local(void **state)
{
    static const struct linear_case cases[] = {
        { { 4, 3, 5, 6 }, 4, 3, 1, 1, 1, 4, 0, 1, 0, 0, LINEAR_LOCAL, ACT_RELU, 1, 0 },
        { { 3, 20, 4, 5 }, 17, 3, 2, 1, 1, 2, 1, 1, 1, 1, LINEAR_LOCAL, ACT_LEAKY, 1, 0 },
        { { 3, 32, 3, 3 }, 5, 2, 1, 0, 1, 3, 1, 0, 0, 1, LINEAR_LOCAL, ACT_MISH, 1, 2 },
        { { 2, 16, 1, 1 }, 8, 1, 1, 0, 1, 2, 0, 1, 1, 0, LINEAR_LOCAL, ACT_TANH, 1, 0 },
    };
    CHECK_EACH(state, linear, cases, "local");
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(local) };
    return RIG_RUN(tests);
}
