#include "rig/rig.h"
#include "backend/ops/remap.h"

struct remap_case {
    struct shape in, out;
    int w, h, c, large_c, stride, gather;
    double scale;
    int rows_back, blocked, add;
};

static void remap(struct rig *r, const void *arg)
{
    const struct remap_case *k = arg;
    const struct remap_ops *ops = r->be->ops->remap;
    struct err e;
    struct op_plan maker = { 0 }, p;
    struct tensor x = k->blocked ? rig_blocked(r, k->in, &maker) : rig_dense(r, k->in),
                  y = { .shape = k->out };
    struct remap_desc d = { &x, k->w, k->h, k->c, k->large_c, k->stride, k->gather, k->scale, k->rows_back };
    if (ops->plan(r->be, &d, &y, &p, &e)) fail_msg("%s", e.msg);
    void *scratch = rig_alloc(r, p.scratch_bytes);
    rig_fill(r, &x, 1);
    rig_fill(r, &y, 0);
    assert_int_equal(ops->forward(&p, WITH(scratch), x.data, y.data), OK);
    rig_keep_tensor(r, "y", &y, y.shape.n);
    struct tensor gy = rig_gradient(r, &y, 2), gx = rig_gradient(r, &x, k->add ? 3 : 0);
    assert_int_equal(ops->backward(&p, WITH(scratch), gy.data, gx.data, k->add), OK);
    rig_keep_tensor(r, "gx", &gx, k->rows_back);
    op_destroy(&p);
    op_destroy(&p);
    op_destroy(&maker);
}

static void remaps(void **state)
{
    /* in, out, w, h, c, large_c, stride, gather, scale, rows_back, blocked, add */
    static const struct remap_case cases[] = {
        { { 3, 17, 4, 5 }, { 3, 17, 8, 10 }, 5, 4, 17, 17, 2, 0, 1, 3, 1, 0 },
        { { 3, 32, 3, 3 }, { 3, 32, 9, 9 }, 3, 3, 32, 32, 3, 0, .5, 2, 1, 1 },
        { { 3, 20, 6, 4 }, { 3, 20, 3, 2 }, 2, 3, 20, 20, 2, 1, .25, 3, 1, 0 },
        { { 3, 3, 6, 4 }, { 3, 3, 3, 2 }, 2, 3, 3, 3, 2, 1, 1, 2, 0, 1 },
        { { 3, 20, 4, 6 }, { 3, 80, 2, 3 }, 6, 4, 20, 5, 2, 1, 1, 3, 1, 0 }, /* [reorg] */
        { { 3, 36, 4, 5 }, { 3, 4, 12, 15 }, 5, 4, 36, 4, 3, 0, 1, 2, 1, 1 },
        { { 3, 17, 4, 6 }, { 3, 68, 2, 3 }, 3, 2, 68, 17, 2, 1, 1, 2, 1, 1 }, /* [reorg3d] */
        { { 3, 16, 1, 1 }, { 3, 4, 2, 2 }, 1, 1, 16, 4, 2, 0, 1, 3, 0, 0 },
    };
    CHECK_EACH(state, remap, cases, "remap");
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(remaps) };
    return RIG_RUN(tests);
}
