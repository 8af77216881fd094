#include "rig/rig.h"
#include "backend/ops/pool.h"

struct pool_case {
    struct shape in;
    enum pool_kind kind;
    int size, stride, pad, rows_back, blocked, add, ties;
    int stride_x; /* 0: as stride */
};

/* Ties: two values only, so that most windows have several maxima. */
static void coarsen(struct rig *r, struct tensor *t)
{
    real *v = rig_host(r, shape_count(t->shape), sizeof *v);
    assert_int_equal(r->be->ops->read(r->be, t, 0, t->shape.n, v), OK);
    for (size_t i = 0; i < shape_count(t->shape); i++) v[i] = (real)(v[i] > 0 ? -1 : -2);
    assert_int_equal(r->be->ops->write(r->be, t, 0, t->shape.n, v, 0), OK);
}

static void pool(struct rig *r, const void *arg)
{
    const struct pool_case *k = arg;
    struct err e;
    struct op_plan maker = { 0 }, p;
    struct tensor x = k->blocked ? rig_blocked(r, k->in, &maker) : rig_dense(r, k->in),
                  y = { .shape = k->in };
    int stride_x = k->stride_x ? k->stride_x : k->stride;
    y.shape.h = k->kind == POOL_AVERAGE ? 1 : (k->in.h + k->pad - k->size) / k->stride + 1;
    y.shape.w = k->kind == POOL_AVERAGE ? 1 : (k->in.w + k->pad - k->size) / stride_x + 1;
    struct pool_desc d = { &x, k->kind, k->size, k->stride, stride_x, k->pad, 1, k->rows_back };
    if (r->be->ops->pool->plan(r->be, &d, &y, &p, &e)) fail_msg("%s", e.msg);
    void *kept = rig_alloc(r, p.kept_bytes), *scratch = rig_alloc(r, p.scratch_bytes);
    rig_fill(r, &x, 1);
    if (k->ties) coarsen(r, &x);
    rig_fill(r, &y, 0);
    assert_int_equal(r->be->ops->pool->forward(&p, WITH(scratch), x.data, y.data, kept), OK);
    rig_keep_tensor(r, "y", &y, y.shape.n);
    struct tensor gy = rig_gradient(r, &y, 2), gx = rig_gradient(r, &x, k->add ? 3 : 0);
    assert_int_equal(r->be->ops->pool->backward(&p, WITH(scratch), kept, gy.data, gx.data, k->add), OK);
    rig_keep_tensor(r, "gx", &gx, k->rows_back);
    op_destroy(&p);
    op_destroy(&p);
    d.train = 0;
    assert_int_equal(r->be->ops->pool->plan(r->be, &d, &y, &p, &e), OK);
    assert_int_equal(r->be->ops->pool->forward(&p, WITH(scratch), x.data, y.data, NULL), OK);
    rig_keep_tensor(r, "inference", &y, y.shape.n);
    op_destroy(&p);
    op_destroy(&maker);
}

static void pooling(void **state)
{
    /* shape, kind, size, stride, pad, rows_back, blocked, add, ties, stride_x */
    static const struct pool_case cases[] = {
        { { 3, 32, 8, 8 }, POOL_MAX, 2, 2, 1, 3, 1, 0, 0, 0 },
        { { 3, 17, 7, 5 }, POOL_MAX, 2, 2, 1, 2, 1, 1, 1, 0 },
        { { 3, 3, 7, 7 }, POOL_MAX, 3, 2, 2, 3, 0, 0, 1, 0 },
        { { 3, 20, 7, 7 }, POOL_MAX, 3, 2, 2, 3, 1, 1, 1, 0 },
        { { 3, 16, 5, 5 }, POOL_MAX, 2, 1, 1, 2, 1, 0, 1, 0 },
        { { 3, 20, 9, 9 }, POOL_MAX, 3, 3, 0, 3, 0, 0, 0, 0 },
        { { 3, 16, 8, 8 }, POOL_MAX, 2, 3, 0, 3, 1, 0, 0, 0 },
        { { 2, 16, 1, 1 }, POOL_MAX, 2, 2, 1, 2, 0, 0, 0, 0 },
        { { 2, 3, 19, 20 }, POOL_MAX, 17, 1, 16, 1, 0, 1, 0, 0 }, /* more cells in a window than a byte counts
                                                                   */
        { { 2, 16, 20, 19 }, POOL_MAX, 17, 2, 16, 2, 1, 0, 1, 0 },
        { { 3, 20, 7, 8 }, POOL_MAX, 3, 1, 2, 3, 1, 1, 1, 2 },
        { { 3, 20, 7, 8 }, POOL_MEAN, 3, 2, 2, 3, 1, 0, 0, 0 },
        { { 3, 3, 7, 5 }, POOL_MEAN, 2, 1, 1, 2, 0, 1, 0, 2 },
        { { 3, 32, 5, 6 }, POOL_MEAN, 3, 3, 0, 2, 1, 1, 0, 0 },
        { { 3, 17, 7, 8 }, POOL_BLUR, 3, 2, 2, 2, 1, 1, 0, 0 },
        { { 3, 3, 8, 8 }, POOL_BLUR, 2, 2, 0, 3, 0, 0, 0, 0 },
        { { 3, 64, 6, 5 }, POOL_BLUR, 3, 1, 2, 3, 1, 0, 0, 2 },
        { { 2, 16, 1, 1 }, POOL_BLUR, 3, 2, 2, 2, 0, 1, 0, 0 },
        { { 3, 17, 5, 5 }, POOL_AVERAGE, 0, 0, 0, 2, 1, 1, 0, 0 },
        { { 2, 320, 2, 3 }, POOL_AVERAGE, 0, 0, 0, 2, 1, 0, 0, 0 },
        { { 2, 37, 1, 1 }, POOL_AVERAGE, 0, 0, 0, 1, 0, 1, 0, 0 },
        { { 3, 64, 4, 4 }, POOL_AVERAGE, 0, 0, 0, 3, 1, 0, 0, 0 },
        { { 3, 3, 7, 7 }, POOL_AVERAGE, 0, 0, 0, 3, 0, 0, 0, 0 },
    };
    CHECK_EACH(state, pool, cases, "pool");
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(pooling) };
    return RIG_RUN(tests);
}
