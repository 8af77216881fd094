#include "rig/rig.h"
#include "backend/ops/maxout.h"

struct maxout_case {
    struct shape in;
    int out, rows_back, blocked, add;
};

static void maxout(struct rig *r, const void *arg)
{
    const struct maxout_case *k = arg;
    const struct maxout_ops *ops = r->be->ops->maxout;
    struct err e;
    struct op_plan maker = { 0 }, p;
    struct tensor x = k->blocked ? rig_blocked(r, k->in, &maker) : rig_dense(r, k->in),
                  y = { .shape = { k->in.n, k->out, k->in.h, k->in.w } };
    struct maxout_desc d = { &x, 1, k->rows_back };
    if (ops->plan(r->be, &d, &y, &p, &e)) fail_msg("%s", e.msg);
    void *kept = rig_alloc(r, p.kept_bytes), *scratch = rig_alloc(r, p.scratch_bytes);
    rig_fill(r, &x, 1);
    rig_fill(r, &y, 0);
    assert_int_equal(ops->forward(&p, WITH(scratch), x.data, y.data, kept), OK);
    rig_keep_tensor(r, "y", &y, y.shape.n);
    struct tensor gy = rig_gradient(r, &y, 2), gx = rig_gradient(r, &x, k->add ? 3 : 0);
    assert_int_equal(ops->backward(&p, WITH(scratch), kept, gy.data, gx.data, k->add), OK);
    rig_keep_tensor(r, "gx", &gx, k->rows_back);
    op_destroy(&p);
    op_destroy(&p);
    d.train = 0;
    assert_int_equal(ops->plan(r->be, &d, &y, &p, &e), OK);
    assert_int_equal(p.kept_bytes, 0);
    assert_int_equal(ops->forward(&p, WITH(scratch), x.data, y.data, NULL), OK);
    rig_keep_tensor(r, "inference", &y, y.shape.n);
    op_destroy(&p);
    op_destroy(&maker);
}

static void maxima(void **state)
{
    /* in, channels out, rows_back, blocked, add */
    static const struct maxout_case cases[] = {
        { { 3, 32, 4, 5 }, 8, 3, 1, 0 }, { { 3, 20, 3, 3 }, 17, 2, 1, 1 }, { { 3, 3, 5, 4 }, 1, 3, 0, 0 },
        { { 2, 37, 1, 1 }, 4, 1, 0, 1 }, { { 3, 64, 4, 4 }, 64, 3, 1, 0 },
    };
    CHECK_EACH(state, maxout, cases, "maxout");
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(maxima) };
    return RIG_RUN(tests);
}
