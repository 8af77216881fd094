#include "rig/rig.h"
#include "backend/ops/dropout.h"

struct dropout_case {
    struct shape in;
    int rows_back, blocked, add;
    struct share share;
};

static void drop(struct rig *r, const void *arg)
{
    const struct dropout_case *k = arg;
    struct err e;
    struct op_plan maker = { 0 }, p;
    struct tensor x = k->blocked ? rig_blocked(r, k->in, &maker) : rig_dense(r, k->in),
                  y = { .shape = k->in };
    struct dropout_desc d = { &x, k->rows_back, 0.3, 77, k->share };
    struct step_state now = { .step = 5 };
    void *on_device = rig_alloc(r, sizeof now);
    r->be->ops->upload(r->be, on_device, &now, sizeof now);
    assert_int_equal(r->be->ops->dropout->plan(r->be, &d, &y, &p, &e), OK);
    void *scratch = rig_alloc(r, p.scratch_bytes);
    rig_fill(r, &x, 1);
    rig_fill(r, &y, 0);
    assert_int_equal(r->be->ops->dropout->forward(&p, WITH(scratch, .state = on_device), x.data, y.data), OK);
    rig_keep_tensor(r, "y", &y, y.shape.n);
    struct tensor gy = rig_gradient(r, &y, 2), gx = rig_gradient(r, &x, k->add ? 3 : 0);
    assert_int_equal(
        r->be->ops->dropout->backward(&p, WITH(scratch, .state = on_device), gy.data, gx.data, k->add), OK);
    rig_keep_tensor(r, "gx", &gx, k->rows_back);
    op_destroy(&p);
    op_destroy(&p);
    op_destroy(&maker);
}

static void dropout(void **state)
{
    static const struct dropout_case cases[] = { { { 4, 17, 5, 7 }, 3, 1, 1, { 0, 0, 0 } },
                                                 { { 4, 32, 3, 3 }, 4, 1, 0, { 0, 4, 4 } },
                                                 { { 4, 3, 9, 5 }, 4, 0, 1, { 3, 2, 7 } },
                                                 { { 4, 20, 1, 1 }, 4, 1, 0, { 9, 4, 13 } } };
    CHECK_EACH(state, drop, cases, "dropout");
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(dropout) };
    return RIG_RUN(tests);
}
