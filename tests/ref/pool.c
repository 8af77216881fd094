#include "ref/ref.h"
#include "backend/ops/pool.h"

static double kept[MOST];

struct pool {
    struct pool_desc d;
    struct tensor in, out;
    struct op_plan p;
    real x[MOST], y[MOST], g[MOST];
};

/* On 1, 2, 3, ... with gradients of 1. */
static struct pool pool(enum pool_kind kind, int size, int stride, int pad, struct tensor in,
                        struct tensor out)
{
    struct pool t = { .d = { NULL, kind, size, stride, stride, pad, 1, in.shape.n }, .in = in, .out = out };
    for (int i = 0; i < MOST; i++) t.x[i] = (real)(i + 1), t.g[i] = 1;
    return t;
}

static void pool_run(struct pool *t)
{
    struct err e;
    t->d.in = &t->in;
    DONE(ops->pool->plan(be, &t->d, &t->out, &t->p, &e));
    assert_true(t->p.kept_bytes <= sizeof kept);
    DONE(ops->pool->forward(&t->p, &context, t->x, t->y, t->d.train ? kept : NULL));
}

static void max_by_hand(void **state)
{
    (void)state;
    real gx[MOST];
    struct pool t = pool(POOL_MAX, 2, 1, 1, tensor(1, 1, 3, 3), tensor(1, 1, 3, 3));
    pool_run(&t); /* windows overhang on the right and below */
    SAME(t.y, 5, 6, 6, 8, 9, 9, 8, 9, 9);
    set(gx, 9, 2);
    DONE(ops->pool->backward(&t.p, &context, kept, t.g, gx, 0));
    SAME(gx, 0, 0, 0, 0, 1, 2, 0, 2, 4);
    DONE(ops->pool->backward(&t.p, &context, kept, t.g, gx, 1));
    SAME(gx, 0, 0, 0, 0, 2, 4, 0, 4, 8);
    for (int i = 0; i < 9; i++) t.x[i] = (real)(i - 10); /* outside is -infinity, not 0 */
    DONE(ops->pool->forward(&t.p, &context, t.x, t.y, kept));
    SAME(t.y, -6, -5, -5, -3, -2, -2, -3, -2, -2);
    op_destroy(&t.p);
    t = pool(POOL_MAX, 3, 2, 2, tensor(1, 1, 4, 4), tensor(1, 1, 2, 2));
    pool_run(&t); /* windows start at -1 and 1 */
    SAME(t.y, 6, 8, 14, 16);
    op_destroy(&t.p);
    t = pool(POOL_MAX, 3, 2, 0, tensor(1, 1, 5, 5), tensor(1, 1, 2, 2));
    pool_run(&t);
    SAME(t.y, 13, 15, 23, 25);
    op_destroy(&t.p);
    t = pool(POOL_MAX, 2, 2, 1, tensor(1, 1, 1, 1), tensor(1, 1, 1, 1));
    pool_run(&t);
    SAME(t.y, 1);
    op_destroy(&t.p);
}

static void max_ties_and_rows(void **state)
{
    (void)state;
    real gx[MOST];
    struct pool t = pool(POOL_MAX, 2, 2, 0, tensor(2, 2, 2, 4), tensor(2, 2, 1, 2));
    pool_run(&t);
    SAME(t.y, 6, 8, 14, 16, 22, 24, 30, 32);
    op_destroy(&t.p);
    t.d.rows_back = 1;
    set(t.x, 32, 3);
    pool_run(&t);
    set(gx, 32, 5);
    DONE(ops->pool->backward(&t.p, &context, kept, t.g, gx, 0));
    SAME(gx, 1, 0, 1, 0, 0, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 0, 5, 5);
    op_destroy(&t.p);
    t.d.train = 0;
    pool_run(&t);
    assert_int_equal(t.p.kept_bytes, 0);
    SAME(t.y, 3, 3, 3, 3);
    op_destroy(&t.p);
}

static void strides(void **state)
{
    (void)state;
    struct pool t = pool(POOL_MAX, 2, 2, 0, tensor(1, 1, 3, 4), tensor(1, 1, 2, 2));
    t.d.stride_y = 1;
    pool_run(&t);
    SAME(t.y, 6, 8, 10, 12);
    op_destroy(&t.p);
}

/* Of the cells inside: 1, 2 and 2 rows and columns of them here. */
static void mean_by_hand(void **state)
{
    (void)state;
    real gx[MOST];
    struct pool t = pool(POOL_MEAN, 2, 2, 2, tensor(1, 1, 3, 3), tensor(1, 1, 2, 2));
    pool_run(&t);
    SAME(t.y, 1, 2.5, 5.5, 7);
    assert_int_equal(t.p.kept_bytes, 0);
    set(gx, 9, 1);
    DONE(ops->pool->backward(&t.p, &context, NULL, t.g, gx, 1));
    SAME(gx, 2, 1.5, 1.5, 1.5, 1.25, 1.25, 1.5, 1.25, 1.25);
    op_destroy(&t.p);
}

/* Zeros outside have weight too. */
static void blur_by_hand(void **state)
{
    (void)state;
    real gx[MOST];
    struct pool t = pool(POOL_BLUR, 3, 2, 2, tensor(1, 1, 3, 3), tensor(1, 1, 2, 2));
    pool_run(&t);
    SAME(t.y, (4 * 1 + 2 * 2 + 2 * 4 + 5) / 16., (2 * 2 + 4 * 3 + 5 + 2 * 6) / 16.,
         (2 * 4 + 5 + 4 * 7 + 2 * 8) / 16., (5 + 2 * 6 + 2 * 8 + 4 * 9) / 16.);
    DONE(ops->pool->backward(&t.p, &context, NULL, t.g, gx, 0));
    SAME(gx, .25, .25, .25, .25, .25, .25, .25, .25, .25);
    op_destroy(&t.p);
    t = pool(POOL_BLUR, 2, 1, 0, tensor(1, 1, 2, 3), tensor(1, 1, 1, 2));
    pool_run(&t);
    SAME(t.y, 3, 4);
    op_destroy(&t.p);
}

static void average_by_hand(void **state)
{
    (void)state;
    real gx[MOST];
    struct pool t = pool(POOL_AVERAGE, 0, 0, 0, tensor(2, 2, 2, 2), tensor(2, 2, 1, 1));
    pool_run(&t);
    SAME(t.y, 2.5, 6.5, 10.5, 14.5);
    set(gx, 16, 1);
    DONE(ops->pool->backward(&t.p, &context, kept, t.y, gx, 1));
    SAME(gx, 1.625, 1.625, 1.625, 1.625, 2.625, 2.625, 2.625, 2.625, 3.625);
    op_destroy(&t.p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(max_by_hand), cmocka_unit_test(max_ties_and_rows), cmocka_unit_test(average_by_hand),
        cmocka_unit_test(strides),     cmocka_unit_test(mean_by_hand),      cmocka_unit_test(blur_by_hand)
    };
    return RUN_REF(tests);
}
