#include "rig/rig.h"
#include "backend/ops/act.h"

struct act_case {
    struct shape in;
    int rows_back, blocked, add;
    enum act act;
};

static void act(struct rig *r, const void *arg)
{
    const struct act_case *k = arg;
    struct err e;
    struct op_plan maker = { 0 }, p;
    struct tensor x = k->blocked ? rig_blocked(r, k->in, &maker) : rig_dense(r, k->in),
                  y = { .shape = k->in };
    struct act_desc d = { &x, 1, k->rows_back, k->act };
    assert_int_equal(r->be->ops->act->plan(r->be, &d, &y, &p, &e), OK);
    void *scratch = rig_alloc(r, p.scratch_bytes);
    rig_fill(r, &x, 1);
    rig_fill(r, &y, 0);
    assert_int_equal(r->be->ops->act->forward(&p, WITH(scratch), x.data, y.data), OK);
    rig_keep_tensor(r, "y", &y, y.shape.n);
    struct tensor gy = rig_gradient(r, &y, 2), gx = k->add ? rig_gradient(r, &x, 3) : gy;
    int from_y = act_from_output(k->act);
    assert_int_equal(r->be->ops->act->backward(&p, WITH(scratch), from_y ? NULL : x.data,
                                               from_y ? y.data : NULL, gy.data, gx.data, k->add),
                     OK);
    rig_keep_tensor(r, "gx", &gx, k->rows_back);
    op_destroy(&p);
    op_destroy(&p);
    op_destroy(&maker);
}

static void activations(void **state)
{
    for (enum act a = 0; a < ACT_COUNT; a++) {
        struct act_case blocked = { { 4, 17, 5, 7 }, 3, 1, 1, a }, flat = { { 4, 3, 9, 6 }, 4, 0, 0, a },
                        odd = { { 3, 1, 5, 5 }, 3, 0, 1, a };
        check_case(state, act, &blocked, act_names[a]);
        check_case(state, act, &flat, act_names[a]);
        check_case(state, act, &odd, act_names[a]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(activations) };
    return RIG_RUN(tests);
}
