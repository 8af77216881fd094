/* Products of two tensors, the second of which may be smaller, and of one with itself. */
#include "rig/rig.h"
#include "backend/ops/mul.h"

struct mul_case {
    struct shape a, b;
    int blocked[2], rows_back, add[2];
    enum act act;
    int single;  /* bits: inputs that are float whatever the precision, as a [softmax] makes them */
    int self;    /* a times a: one input, one gradient */
    int without; /* bits: inputs whose gradient nobody wants */
};

static struct tensor mul_input(struct rig *r, struct shape s, int blocked, int single, struct op_plan *maker)
{
    enum precision p = r->be->precision;
    if (single) r->be->precision = PRECISION_FP32;
    struct tensor t = blocked ? rig_blocked(r, s, maker) : rig_dense(r, s);
    r->be->precision = p;
    return t;
}

static void mul(struct rig *r, const void *arg)
{
    const struct mul_case *k = arg;
    const struct mul_ops *ops = r->be->ops->mul;
    struct err e;
    struct op_plan maker[2] = { 0 }, p;
    struct tensor a = mul_input(r, k->a, k->blocked[0], k->single & 1, &maker[0]),
                  b = mul_input(r, k->b, k->blocked[1], k->single >> 1, &maker[1]), y = { .shape = k->a };
    struct mul_desc d = { &a, &b, k->act, 1, k->rows_back, k->add[0], k->add[1] };
    if (ops->plan(r->be, &d, &y, &p, &e)) fail_msg("%s", e.msg);
    void *scratch = rig_alloc(r, p.scratch_bytes);
    rig_fill(r, &a, 10);
    rig_fill(r, &b, 11);
    if (k->self) b = a;
    rig_fill(r, &y, 0);
    assert_int_equal(ops->forward(&p, WITH(scratch), a.data, b.data, y.data), OK);
    rig_keep_tensor(r, "y", &y, y.shape.n);
    struct tensor gy = rig_gradient(r, &y, 2), ga = rig_gradient(r, &a, k->add[0] ? 20 : 0),
                  gb = k->self ? ga : rig_gradient(r, &b, k->add[1] ? 21 : 0);
    int want_a = !(k->without & 1), want_b = !(k->without & 2);
    assert_int_equal(ops->backward(&p, WITH(scratch), a.data, b.data, y.data, gy.data,
                                   want_a ? ga.data : NULL, want_b ? gb.data : NULL),
                     OK);
    if (want_a) rig_keep_tensor(r, "ga", &ga, k->rows_back);
    if (want_b) rig_keep_tensor(r, "gb", &gb, k->rows_back);
    op_destroy(&p);
    op_destroy(&p);
    op_destroy(&maker[0]);
    op_destroy(&maker[1]);
}

static void products(void **state)
{
    /* shapes, blocked, rows_back, add, activation, single, self, without */
    static const struct mul_case cases[] = {
        { { 4, 32, 5, 5 }, { 4, 32, 1, 1 }, { 1, 1 }, 4, { 0, 0 }, ACT_LINEAR, 0, 0, 0 },
        { { 4, 17, 9, 9 }, { 4, 17, 1, 1 }, { 1, 0 }, 3, { 1, 1 }, ACT_LEAKY, 0, 0, 0 },
        { { 4, 20, 3, 7 }, { 4, 20, 1, 1 }, { 0, 1 }, 3, { 0, 1 }, ACT_LOGISTIC, 0, 0, 0 },
        { { 4, 32, 5, 5 }, { 4, 32, 1, 1 }, { 1, 1 }, 4, { 1, 0 }, ACT_RELU, 2, 0, 0 },
        { { 4, 32, 5, 5 }, { 4, 1, 5, 5 }, { 1, 1 }, 4, { 0, 0 }, ACT_LINEAR, 0, 0, 0 },
        { { 4, 17, 9, 9 }, { 4, 1, 9, 9 }, { 1, 0 }, 3, { 0, 1 }, ACT_TANH, 0, 0, 0 },
        { { 4, 16, 5, 5 }, { 4, 1, 5, 5 }, { 0, 0 }, 3, { 0, 1 }, ACT_LINEAR, 2, 0, 0 },
        { { 4, 24, 5, 5 }, { 4, 1, 1, 1 }, { 1, 0 }, 3, { 0, 0 }, ACT_LEAKY, 0, 0, 0 },
        { { 4, 32, 5, 5 }, { 4, 32, 5, 5 }, { 1, 1 }, 3, { 0, 1 }, ACT_LINEAR, 0, 0, 0 },
        { { 4, 17, 5, 5 }, { 4, 17, 5, 5 }, { 1, 0 }, 4, { 1, 0 }, ACT_LOGISTIC, 0, 0, 0 },
        { { 4, 17, 5, 5 }, { 4, 17, 5, 5 }, { 1, 1 }, 4, { 0, 1 }, ACT_LINEAR, 0, 1, 0 },
        { { 4, 32, 5, 5 }, { 4, 32, 5, 5 }, { 0, 1 }, 4, { 0, 0 }, ACT_RELU, 1, 0, 1 },
        { { 4, 32, 5, 5 }, { 4, 32, 1, 1 }, { 1, 1 }, 2, { 0, 0 }, ACT_RELU, 0, 0, 1 },
        { { 4, 32, 5, 5 }, { 4, 32, 1, 1 }, { 1, 1 }, 2, { 0, 0 }, ACT_RELU, 0, 0, 2 },
        { { 4, 12, 1, 1 }, { 4, 12, 1, 1 }, { 0, 0 }, 2, { 0, 0 }, ACT_RELU, 0, 0, 0 },
    };
    CHECK_EACH(state, mul, cases, "mul");
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(products) };
    return RIG_RUN(tests);
}
