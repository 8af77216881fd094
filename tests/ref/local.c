#include "ref/linear.h"
#include "backend/ops/local.h"

/* Two windows side by side, each with weights of its own: 1 of the first, 10 of the second. */
static void by_hand(void **state)
{
    (void)state;
    struct linear t = linear(&ops->local->linear, tensor(1, 1, 2, 3), tensor(1, 1, 1, 2));
    t.d.size = 2;
    for (int i = 0; i < 8; i++) t.x[i] = (real)(i + 1), t.w[i] = i < 4 ? 1 : 10;
    t.bias[1] = 3;
    linear_run(&t);
    assert_int_equal(t.p.weight_bytes, 8 * sizeof(real));
    SAME(t.y, 1 + 2 + 4 + 5, 10 * (2 + 3 + 5 + 6) + 3);
    op_destroy(&t.p);
    t.in = tensor(1, 2, 1, 1), t.out = tensor(1, 2, 1, 1);
    t.d.size = 3, t.d.pad = 1, t.d.train = 0, t.d.act = ACT_RELU;
    set(t.w, 36, 1);
    t.w[4] = -5;
    linear_run(&t); /* of each channel's window the centre */
    assert_true(t.p.fused);
    SAME(t.y, 0, 1 + 2 + 3);
    op_destroy(&t.p);
}

static void gradients(void **state)
{
    (void)state;
    static const struct {
        int c, h, w, o, size, stride, pad, oh, ow;
    } cases[] = {
        { 2, 3, 4, 2, 3, 1, 1, 3, 4 },
        { 1, 5, 4, 2, 2, 2, 0, 2, 2 },
        { 2, 3, 2, 3, 2, 1, 1, 3, 2 }, /* even size: less padding behind */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct linear t = linear(&ops->local->linear, tensor(3, cases[i].c, cases[i].h, cases[i].w),
                                 tensor(3, cases[i].o, cases[i].oh, cases[i].ow));
        t.d.size = cases[i].size, t.d.stride_y = t.d.stride_x = cases[i].stride, t.d.pad = cases[i].pad;
        size_t outputs = shape_row(t.out.shape);
        linear_gradients(&t, outputs * (size_t)(cases[i].c * cases[i].size * cases[i].size), outputs);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(by_hand), cmocka_unit_test(gradients) };
    return RUN_REF(tests);
}
