#include "rig/linear.h"

static void conv(void **state)
{
    /* shape, outputs, size, stride, pad, groups, rows_back, blocked, bias, add, add_gx, dense, activation,
     * dilation, stride_x */
    static const struct linear_case cases[] = {
        { { 4, 3, 7, 7 }, 20, 3, 1, 1, 1, 4, 0, 1, 0, 0, 0, ACT_RELU, 1, 0 },
        { { 4, 3, 8, 8 }, 64, 3, 1, 1, 1, 4, 0, 0, 1, 0, 0, ACT_LEAKY, 1, 0 },
        { { 4, 64, 8, 8 }, 64, 3, 1, 1, 1, 4, 1, 0, 0, 0, 0, ACT_RELU, 1, 0 },
        { { 4, 64, 8, 8 }, 80, 3, 1, 1, 1, 2, 1, 1, 1, 1, 0, ACT_LOGISTIC, 1, 0 },
        { { 16, 64, 8, 8 }, 64, 3, 1, 1, 1, 12, 1, 1, 1, 1, 0, ACT_LEAKY, 1, 0 },
        { { 3, 64, 5, 7 }, 32, 3, 2, 1, 1, 3, 1, 1, 1, 1, 0, ACT_SWISH, 1, 0 },
        { { 3, 32, 7, 5 }, 64, 1, 2, 0, 1, 2, 1, 0, 0, 1, 0, ACT_LINEAR, 1, 0 },
        { { 3, 17, 5, 5 }, 50, 3, 1, 1, 1, 3, 1, 1, 1, 0, 0, ACT_TANH, 1, 0 },
        { { 3, 17, 5, 5 }, 17, 3, 2, 1, 1, 2, 0, 1, 0, 1, 0, ACT_MISH, 1, 0 },
        { { 3, 20, 7, 7 }, 10, 1, 1, 0, 1, 3, 1, 1, 0, 0, 0, ACT_LOGISTIC, 1, 0 },
        { { 3, 20, 7, 7 }, 40, 3, 1, 1, 4, 3, 1, 1, 1, 1, 0, ACT_GELU, 1, 0 },
        { { 3, 32, 7, 7 }, 32, 3, 2, 1, 32, 2, 1, 1, 1, 0, 0, ACT_RELU6, 1, 0 },
        { { 3, 24, 7, 7 }, 24, 3, 1, 1, 24, 3, 1, 1, 0, 1, 0, ACT_ELU, 1, 0 },
        { { 2, 6, 9, 9 }, 12, 5, 3, 2, 2, 2, 0, 1, 0, 0, 0, ACT_SELU, 1, 0 },
        { { 2, 16, 1, 1 }, 32, 1, 1, 0, 1, 2, 1, 1, 1, 1, 0, ACT_HARDTAN, 1, 0 },
        { { 2, 50, 1, 1 }, 3, 1, 1, 0, 1, 2, 0, 1, 0, 0, 0, ACT_PLSE, 1, 0 },
        { { 2, 1, 9, 9 }, 6, 5, 1, 0, 1, 2, 0, 1, 0, 0, 0, ACT_RELIE, 1, 0 },
        { { 2, 128, 4, 4 }, 128, 3, 1, 0, 1, 1, 1, 1, 1, 0, 0, ACT_STAIR, 1, 0 },
        { { 2, 3, 10, 10 }, 16, 3, 2, 0, 1, 2, 0, 1, 0, 0, 0, ACT_RAMP, 1, 0 },
        { { 3, 64, 9, 9 }, 64, 3, 1, 2, 1, 3, 1, 1, 1, 1, 0, ACT_RELU, 2, 0 },
        { { 3, 16, 9, 8 }, 20, 3, 2, 3, 1, 2, 1, 1, 0, 0, 0, ACT_LEAKY, 3, 1 },
        { { 2, 24, 8, 9 }, 24, 3, 1, 2, 24, 2, 1, 1, 1, 0, 0, ACT_MISH, 2, 2 },
        { { 2, 3, 9, 11 }, 8, 2, 1, 1, 1, 2, 0, 1, 0, 1, 0, ACT_TANH, 4, 3 },
        { { 3, 32, 7, 6 }, 16, 1, 1, 0, 1, 3, 1, 1, 0, 1, 0, ACT_SWISH, 1, 2 },
        { { 2, 64, 8, 8 }, 64, 3, 1, 1, 1, 2, 1, 1, 0, 0, 0, ACT_LINEAR, 1, 2 },
        { { 3, 16, 2, 2 }, 16, 3, 1, 2, 1, 3, 1, 1, 0, 0, 0, ACT_RELU, 2, 0 },
        /* Winograd: outputs in an odd number of blocks; padding of 0 and 2; tiles cut off; large;
         * outputs and channels in part of a block; 5x5 */
        { { 3, 64, 6, 5 }, 48, 3, 1, 2, 1, 2, 0, 1, 0, 1, 0, ACT_MISH, 1, 0 },
        { { 2, 80, 7, 3 }, 64, 3, 1, 0, 1, 2, 1, 0, 1, 1, 0, ACT_RELU, 1, 0 },
        { { 3, 64, 1, 14 }, 16, 3, 1, 1, 1, 2, 0, 1, 1, 0, 0, ACT_SWISH, 1, 0 },
        { { 3, 256, 3, 5 }, 272, 3, 1, 1, 1, 2, 1, 1, 1, 1, 0, ACT_LEAKY, 1, 0 },
        { { 2, 272, 4, 2 }, 256, 3, 1, 1, 1, 2, 0, 1, 0, 1, 0, ACT_LINEAR, 1, 0 },
        { { 3, 72, 7, 5 }, 50, 3, 1, 1, 1, 3, 1, 1, 0, 1, 0, ACT_LOGISTIC, 1, 0 },
        { { 7, 20, 12, 12 }, 50, 5, 1, 0, 1, 5, 1, 1, 1, 0, 0, ACT_LOGISTIC, 1, 0 },
        { { 3, 17, 5, 7 }, 50, 5, 1, 4, 1, 2, 0, 1, 0, 1, 0, ACT_TANH, 1, 0 },
        { { 2, 48, 6, 9 }, 33, 5, 1, 2, 1, 2, 1, 0, 1, 1, 0, ACT_MISH, 1, 0 },
        { { 2, 100, 4, 4 }, 130, 5, 1, 2, 1, 2, 1, 1, 0, 1, 0, ACT_LEAKY, 1, 0 },
        /* computed as matrix products by conv_as_gemm.c, but for the last */
        { { 5, 32, 2, 2 }, 48, 3, 1, 1, 1, 5, 1, 1, 1, 1, 0, ACT_RELU, 1, 0 },
        { { 5, 48, 2, 2 }, 16, 3, 1, 1, 1, 3, 0, 1, 0, 1, 0, ACT_LOGISTIC, 1, 0 },
        { { 5, 16, 2, 2 }, 32, 3, 1, 1, 1, 4, 0, 0, 1, 0, 0, ACT_LEAKY, 1, 0 },
        { { 4, 16, 1, 2 }, 16, 3, 1, 1, 1, 4, 1, 1, 0, 0, 0, ACT_MISH, 1, 0 },
        { { 4, 16, 2, 1 }, 32, 3, 1, 1, 1, 2, 0, 1, 1, 1, 0, ACT_LINEAR, 1, 0 },
        { { 4, 32, 1, 1 }, 16, 3, 1, 1, 1, 4, 1, 1, 0, 1, 0, ACT_TANH, 1, 0 },
        { { 4, 17, 2, 2 }, 20, 3, 1, 1, 1, 4, 1, 1, 0, 1, 0, ACT_TANH, 1, 0 },
    };
    CHECK_EACH(state, linear, cases, "conv");
}

/* Devices with different numbers of threads agree; one with the same number gives the same bits again. */
static void repeatable(void **state)
{
    static const struct linear_case k = { { 4, 64, 8, 8 }, 64, 3, 1, 1, 1, 4, 1, 1, 0, 0, 0, ACT_RELU, 1, 0 };
    struct rig one, two, again;
    rig_open(&one, *state, 1);
    rig_open(&two, *state, 2);
    rig_open(&again, *state, 2);
    linear(&two, &k);
    linear(&one, &k);
    linear(&again, &k);
    rig_compare(&one, &two, "threads");
    for (int i = 0; i < two.nout; i++)
        assert_memory_equal(two.out[i], again.out[i], two.len[i] * sizeof(real));
    rig_close(&one);
    rig_close(&two);
    rig_close(&again);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(conv), cmocka_unit_test(repeatable) };
    return RIG_RUN(tests);
}
