#include "ref/ref.h"
#include "backend/ops/norm.h"

static double kept[MOST];

struct norm {
    struct norm_desc d;
    struct tensor in, out;
    struct op_plan p;
    real x[MOST], y[MOST], r[MOST], scale[4], bias[4], mean[4], var[4];
};

static void norm_plan(struct norm *t)
{
    struct err e;
    t->d.in = &t->in;
    t->out = t->in;
    DONE(ops->norm->plan(be, &t->d, &t->out, &t->p, &e));
    assert_true(t->p.kept_bytes <= sizeof kept && t->p.fused);
}

static void norm_forward(struct norm *t, double bn_momentum)
{
    DONE(ops->norm->forward(&t->p, &context, t->x, NULL, t->scale, t->bias, t->mean, t->var, bn_momentum,
                            t->d.train ? kept : NULL, t->y));
}

static void norm_by_hand(void **state)
{
    (void)state;
    const double root = sqrt(1 + 1e-5);
    struct norm t = { .d = { .train = 1, .splits = 1, .rows_back = 2 }, .in = tensor(2, 2, 1, 1) };
    t.scale[0] = 3, t.bias[0] = .5, t.scale[1] = 1, t.bias[1] = 7;
    t.x[0] = 1, t.x[2] = 3, t.x[1] = t.x[3] = 4; /* channel 1 is constant */
    norm_plan(&t);
    norm_forward(&t, .1); /* the first update takes the batch's statistics whole */
    SAME(t.y, .5 - 3 / root, 7, .5 + 3 / root, 7);
    SAME(t.mean, 2, 4);
    SAME(t.var, 2, 0); /* biased 1, unbiased 2 */
    t.x[0] = 4, t.x[2] = 8;
    norm_forward(&t, .1);
    SAME(t.mean, 2 + .1 * (6 - 2), 4);
    SAME(t.var, 2 + .1 * (8 - 2), 0); /* one variance is not 0: not the first update */
    op_destroy(&t.p);
    t.d.train = 0;
    t.d.act = ACT_RELU;
    norm_plan(&t);
    assert_int_equal(t.p.kept_bytes, 0);
    norm_forward(&t, .1);
    SAME(t.y, .5 + 3 * (4 - 2.4) / sqrt(2.6 + 1e-5), 7, .5 + 3 * (8 - 2.4) / sqrt(2.6 + 1e-5), 7);
    SAME(t.mean, 2.4, 4);
    op_destroy(&t.p);
}

/* Rows 0, 1 and rows 2, 3, 4 apart: outputs as of two passes, one update of the running statistics. */
static void norm_halves(void **state)
{
    (void)state;
    struct norm t = { .d = { .train = 1, .splits = 2, .rows_s1 = 2, .rows_back = 5 },
                      .in = tensor(5, 1, 1, 1) };
    const real x[] = { 1, 3, 10, 14, 12 };
    const double a = sqrt(1 + 1e-5), b = sqrt(8 / 3. + 1e-5);
    memcpy(t.x, x, sizeof x);
    t.scale[0] = 1;
    norm_plan(&t);
    norm_forward(&t, .01);
    SAME(t.y, -1 / a, 1 / a, -2 / b, 2 / b, 0);
    SAME(t.mean, 7);
    SAME(t.var, (2 + 4) / 2.);
    norm_forward(&t, .01);
    SAME(t.mean, 7);
    SAME(t.var, 3);
    op_destroy(&t.p);
}

static void norm_of_one_value(void **state)
{
    (void)state;
    struct norm t = { .d = { .train = 1, .splits = 1, .rows_back = 1 }, .in = tensor(1, 1, 1, 1) };
    t.x[0] = 9, t.scale[0] = 2, t.bias[0] = 1;
    norm_plan(&t);
    norm_forward(&t, .1);
    SAME(t.y, 1);
    SAME(t.mean, 9);
    SAME(t.var, 0);
    op_destroy(&t.p);
}

static double norm_value(const void *ctx)
{
    struct norm t = *(const struct norm *)ctx;
    double stats[MOST];
    DONE(ops->norm->forward(&t.p, &context, t.x, NULL, t.scale, t.bias, t.mean, t.var, .1, stats, t.y));
    return inner(t.y, t.r, shape_row(t.in.shape) * (size_t)t.d.rows_back);
}

static void norm_gradients(struct norm *t, int add)
{
    size_t nx = shape_row(t->in.shape) * (size_t)t->d.rows_back, all = shape_count(t->in.shape);
    real gx[MOST], gs[4], gb[4];
    noise(t->x, all, 1);
    noise(t->r, all, 2);
    noise(t->scale, 4, 3);
    noise(t->bias, 4, 4);
    norm_plan(t);
    norm_forward(t, .1);
    memcpy(gx, t->r, sizeof gx); /* in place */
    set(gs, 4, 5);
    set(gb, 4, 5);
    const real *y = t->d.act == ACT_LINEAR ? NULL : t->y;
    DONE(ops->norm->backward(&t->p, WITH(.add = add), t->x, y, t->scale, kept, gx, gx, NULL, gs, gb));
    check_slopes("gx", t->x, gx, nx, 0, width, smooth, norm_value, t);
    check_slopes("gscale", t->scale, gs, (size_t)t->in.shape.c, add * 5, width, smooth, norm_value, t);
    check_slopes("gbias", t->bias, gb, (size_t)t->in.shape.c, add * 5, width, smooth, norm_value, t);
    for (size_t i = nx; i < all; i++) NEAR(gx[i], t->r[i], 0);
    op_destroy(&t->p);
}

static void norm_gradient(void **state)
{
    (void)state;
    static const struct {
        int splits, rows_s1, rows_back;
        enum act act;
    } cases[] = {
        { 1, 0, 5, ACT_LINEAR }, { 1, 0, 5, ACT_LOGISTIC }, { 2, 2, 5, ACT_TANH },
        { 2, 2, 2, ACT_LOGGY },  { 2, 3, 3, ACT_LINEAR },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int add = 0; add < 2; add++) {
            struct norm t = { .d = { .train = 1,
                                     .splits = cases[i].splits,
                                     .rows_s1 = cases[i].rows_s1,
                                     .rows_back = cases[i].rows_back,
                                     .act = cases[i].act },
                              .in = tensor(5, 3, 2, 2) };
            norm_gradients(&t, add);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(norm_by_hand), cmocka_unit_test(norm_halves),
                                        cmocka_unit_test(norm_of_one_value),
                                        cmocka_unit_test(norm_gradient) };
    return RUN_REF(tests);
}
