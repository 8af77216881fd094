#include "ref/ref.h"
#include "backend/ops/act.h"

static void act_values(void **state)
{
    (void)state;
    static const struct {
        enum act act;
        double x, y;
    } cases[] = {
        { ACT_LINEAR, -3, -3 },
        { ACT_RELU, -1, 0 },
        { ACT_RELU, 2, 2 },
        { ACT_RELU6, -1, 0 },
        { ACT_RELU6, 2, 2 },
        { ACT_RELU6, 7, 6 },
        { ACT_LEAKY, -2, -.2 },
        { ACT_LEAKY, 2, 2 },
        { ACT_RELIE, -2, -.02 },
        { ACT_RELIE, 2, 2 },
        { ACT_RAMP, -2, -.2 },
        { ACT_RAMP, 2, 2.2 },
        { ACT_LOGISTIC, 2, .8807970779778823 },
        { ACT_LOGGY, 2, .7615941559557646 },
        { ACT_TANH, .5, .46211715726000973 },
        { ACT_ELU, -1, -.6321205588285577 },
        { ACT_ELU, 2, 2 },
        { ACT_SELU, -1, -1.1112876898668622 },
        { ACT_SELU, 2, 2.1014 },
        { ACT_GELU, 1, .8411919989069876 },
        { ACT_SWISH, -1, -.2689414213699951 },
        { ACT_MISH, 1, .8650983882673103 },
        { ACT_MISH, -3, -.1456474612756246 },
        { ACT_HARD_MISH, -3, 0 },
        { ACT_HARD_MISH, -1, -.5 },
        { ACT_HARD_MISH, 2, 2 },
        { ACT_PLSE, 0, .5 },
        { ACT_PLSE, -6, -.02 },
        { ACT_PLSE, 5, 1.01 },
        { ACT_HARDTAN, -2, -1 },
        { ACT_HARDTAN, .5, .5 },
        { ACT_HARDTAN, 2, 1 },
        { ACT_LHTAN, -1, -.001 },
        { ACT_LHTAN, .5, .5 },
        { ACT_LHTAN, 2, 1.001 },
        { ACT_STAIR, 2.5, 1 },
        { ACT_STAIR, 3.25, 1.25 },
        { ACT_STAIR, -.5, -.5 },
        { ACT_STAIR, -1.5, -1 },
    };
    int seen[ACT_COUNT] = { 0 };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        near_at(act_apply(cases[i].act, (real)cases[i].x), cases[i].y, exact, act_names[cases[i].act], (int)i,
                __LINE__);
        seen[cases[i].act]++;
    }
    for (int a = 0; a < ACT_COUNT; a++) assert_true(seen[a]);
}

static double apply(const void *ctx)
{
    const struct {
        enum act act;
        real x;
    } *at = ctx;
    return act_apply(at->act, at->x);
}

/* Every activation through the operation: 2 rows forward, 1 back, the gradient added to 3. */
static void act_gradient(void **state)
{
    (void)state;
    static const real points[] = { (real)-7.3, (real)-3.1, (real)-2.4, (real)-1.3, (real)-.6, (real).3,
                                   (real).7,   (real)1.6,  (real)2.3,  (real)3.4,  (real)4.6, (real)7.7 };
    enum { N = sizeof points / sizeof *points };
    for (int a = 0; a < ACT_COUNT; a++) {
        struct tensor in = tensor(2, 3, 2, 2), out = in;
        struct act_desc d = { .in = &in, .train = 1, .rows_back = 1, .act = (enum act)a };
        struct op_plan p;
        struct err e;
        real x[2 * N], y[2 * N], gy[2 * N], gx[2 * N];
        memcpy(x, points, sizeof points);
        memcpy(x + N, points, sizeof points);
        DONE(ops->act->plan(be, &d, &out, &p, &e));
        assert_int_equal(out.bytes, sizeof y);
        DONE(ops->act->forward(&p, &context, x, y));
        set(gy, 2 * N, 2);
        set(gx, 2 * N, 3);
        int kind = act_from_output(d.act);
        DONE(ops->act->backward(&p, &context, kind ? NULL : x, kind ? y : NULL, gy, gx, 1));
        for (int i = 0; i < N; i++) {
            struct {
                enum act act;
                real x;
            } at = { d.act, points[i] };
            near_at(y[N + i], act_apply(d.act, points[i]), exact, act_names[a], i, __LINE__);
            double s = slope(&at.x, width, apply, &at);
            near_at(gx[i], 3 + 2 * s, smooth, act_names[a], i, __LINE__);
            near_at(act_slope_x(d.act, points[i]), s, smooth, act_names[a], i, __LINE__);
        }
        untouched(gx + N, N, 3);
        DONE(ops->act->backward(&p, &context, kind ? NULL : x, kind ? y : NULL, gy, gy, 0)); /* in place */
        for (int i = 0; i < N; i++) near_at(gy[i], gx[i] - 3, exact, act_names[a], i, __LINE__);
        op_destroy(&p);
        op_destroy(&p);
    }
}

static void act_kinks(void **state)
{
    (void)state;
    static const struct {
        enum act act;
        double x, slope;
    } cases[] = {
        { ACT_RELU, 0, 0 },     { ACT_RELU6, 0, 0 },    { ACT_RELU6, 6, 0 },      { ACT_LEAKY, 0, .1 },
        { ACT_RELIE, 0, .01 },  { ACT_RAMP, 0, .1 },    { ACT_ELU, 0, 1 },        { ACT_SELU, 0, 1.0507 },
        { ACT_PLSE, -4, .125 }, { ACT_PLSE, 4, .125 },  { ACT_HARDTAN, -1, 0 },   { ACT_HARDTAN, 1, 0 },
        { ACT_LHTAN, 0, .001 }, { ACT_LHTAN, 1, .001 }, { ACT_HARD_MISH, -2, 0 }, { ACT_HARD_MISH, 0, 1 },
        { ACT_STAIR, 2, 0 },    { ACT_STAIR, 3, 0 },    { ACT_STAIR, -1, 0 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        near_at(act_slope_x(cases[i].act, (real)cases[i].x), cases[i].slope, exact, act_names[cases[i].act],
                (int)i, __LINE__);
}

static void act_extremes(void **state)
{
    (void)state;
    static const real large[] = { (real)1e2, (real)1e4, (real)1e20, (real)(IS_DOUBLE ? 1e300 : 1e30) };
    for (int a = 0; a < ACT_COUNT; a++) {
        for (int i = 0; i < 8; i++) {
            real x = i % 2 ? large[i / 2] : -large[i / 2];
            if (!isfinite(act_apply((enum act)a, x)) || !isfinite(act_slope_x((enum act)a, x)))
                fail_msg("%s(%g) or its slope is not finite", act_names[a], (double)x);
        }
        if (!isnan(act_apply((enum act)a, (real)NAN))) fail_msg("%s hides a NaN", act_names[a]);
        assert_int_equal(!isnan(act_slope_y((enum act)a, (real).5)), act_from_output((enum act)a));
    }
    NEAR(act_apply(ACT_MISH, 1000), 1000, exact);
    NEAR(act_apply(ACT_TANH, -1000), -1, exact);
    NEAR(act_slope_x(ACT_SWISH, 1000), 1, exact);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(act_values), cmocka_unit_test(act_gradient),
                                        cmocka_unit_test(act_kinks), cmocka_unit_test(act_extremes) };
    return RUN_REF(tests);
}
