#include "ref/linear.h"

static void conv_by_hand(void **state)
{
    (void)state;
    struct linear t = linear(&ops->conv->linear, tensor(1, 1, 3, 3), tensor(1, 1, 3, 3));
    for (int i = 0; i < 9; i++) t.x[i] = (real)(i + 1), t.w[i] = 1;
    t.bias[0] = 1;
    t.d.size = 3, t.d.pad = 1;
    linear_run(&t);
    SAME(t.y, 13, 22, 17, 28, 46, 34, 25, 40, 29);
    DONE(t.ops->forward(&t.p, &context, t.x, t.w, NULL, t.y));
    SAME(t.y, 12, 21, 16, 27, 45, 33, 24, 39, 28);
    set(t.w, 9, 0);
    t.w[1] = 1; /* the cell above the centre: a convolution with a flipped window would take the one below */
    DONE(t.ops->forward(&t.p, &context, t.x, t.w, NULL, t.y));
    SAME(t.y, 0, 0, 0, 1, 2, 3, 4, 5, 6);
    op_destroy(&t.p);
}

static void conv_strides_and_groups(void **state)
{
    (void)state;
    struct linear t = linear(&ops->conv->linear, tensor(1, 1, 3, 3), tensor(1, 1, 2, 2));
    for (int i = 0; i < 9; i++) t.x[i] = (real)(i + 1), t.w[i] = 1;
    t.d.size = 3, t.d.pad = 1, t.d.stride_y = t.d.stride_x = 2;
    linear_run(&t);
    SAME(t.y, 12, 16, 24, 28);
    op_destroy(&t.p);
    t.out = tensor(1, 1, 2, 3);
    t.d.stride_x = 1;
    linear_run(&t);
    SAME(t.y, 12, 21, 16, 24, 39, 28);
    op_destroy(&t.p);
    t.out = tensor(1, 1, 3, 3);
    t.d.pad = t.d.dilation = 2, t.d.stride_y = 1;
    linear_run(&t); /* of the window only cells two apart */
    SAME(t.y, 1 + 3 + 7 + 9, 2 + 8, 1 + 3 + 7 + 9, 4 + 6, 5, 4 + 6, 1 + 3 + 7 + 9, 2 + 8, 1 + 3 + 7 + 9);
    op_destroy(&t.p);
    t = linear(&ops->conv->linear, tensor(1, 4, 1, 1), tensor(1, 2, 1, 1)); /* w: 2 filters of 2 inputs */
    for (int i = 0; i < 4; i++) t.x[i] = (real)(i + 1), t.w[i] = (real)(10 - i);
    t.d.groups = 2, t.d.train = 0, t.d.act = ACT_LEAKY;
    t.bias[1] = -100;
    linear_run(&t);
    assert_true(t.p.fused);
    SAME(t.y, 10 + 18, .1 * (24 + 28 - 100));
    op_destroy(&t.p);
}

static void conv_gradient(void **state)
{
    (void)state;
    static const struct {
        int c, h, w, o, size, stride_y, stride_x, pad, groups, dilation;
    } cases[] = {
        { 2, 5, 4, 3, 3, 1, 1, 1, 1, 1 }, { 4, 5, 6, 6, 3, 2, 2, 1, 2, 1 }, { 3, 4, 4, 3, 3, 1, 1, 1, 3, 1 },
        { 2, 5, 5, 2, 1, 2, 2, 0, 1, 1 }, { 2, 3, 3, 2, 2, 1, 1, 0, 1, 1 }, { 1, 2, 2, 2, 5, 3, 3, 4, 1, 1 },
        { 2, 3, 3, 2, 1, 1, 1, 1, 1, 1 }, { 2, 5, 4, 3, 3, 1, 1, 2, 1, 2 }, { 4, 5, 5, 2, 3, 2, 1, 2, 2, 2 },
        { 2, 5, 6, 2, 2, 1, 3, 1, 1, 3 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int k = cases[i].size, sy = cases[i].stride_y, sx = cases[i].stride_x, p = cases[i].pad,
            g = cases[i].groups, d = cases[i].dilation, grown = 2 * p - (k - 1) * d - 1;
        struct linear t =
            linear(&ops->conv->linear, tensor(3, cases[i].c, cases[i].h, cases[i].w),
                   tensor(3, cases[i].o, (cases[i].h + grown) / sy + 1, (cases[i].w + grown) / sx + 1));
        t.d.size = k, t.d.stride_y = sy, t.d.stride_x = sx, t.d.pad = p, t.d.groups = g, t.d.dilation = d;
        linear_gradients(&t, (size_t)(cases[i].o * cases[i].c / g * k * k), (size_t)cases[i].o);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(conv_by_hand),
                                        cmocka_unit_test(conv_strides_and_groups),
                                        cmocka_unit_test(conv_gradient) };
    return RUN_REF(tests);
}
