#include "ref/ref.h"
#include "backend/ops/mul.h"

struct mul {
    struct mul_desc d;
    struct tensor a, b, out;
    struct op_plan p;
    real xa[MOST], xb[MOST], y[MOST], r[MOST];
};

/* a is 1, 2, 3, ... and b 10, 20, 30, ... */
static struct mul product(struct tensor a, struct tensor b)
{
    struct mul t = { .d = { .train = 1, .rows_back = a.shape.n }, .a = a, .b = b, .out = a };
    for (int i = 0; i < MOST; i++) t.xa[i] = (real)(i + 1), t.xb[i] = (real)(10 * (i + 1));
    return t;
}

static double value(const void *ctx)
{
    const struct mul *t = ctx;
    real y[MOST];
    DONE(ops->mul->forward(&t->p, &context, t->xa, t->xb, y));
    return inner(y, t->r, shape_row(t->out.shape) * (size_t)t->d.rows_back);
}

static void run(struct mul *t)
{
    struct err e;
    t->d.a = &t->a, t->d.b = &t->b;
    DONE(ops->mul->plan(be, &t->d, &t->out, &t->p, &e));
    DONE(ops->mul->forward(&t->p, &context, t->xa, t->xb, t->y));
}

static void by_hand(void **state)
{
    (void)state;
    struct mul t = product(tensor(2, 2, 1, 2), tensor(2, 2, 1, 1)); /* a factor for each channel */
    run(&t);
    SAME(t.y, 10, 20, 60, 80, 150, 180, 280, 320);
    op_destroy(&t.p);
    t = product(tensor(2, 2, 1, 2), tensor(2, 1, 1, 2)); /* for each pixel */
    run(&t);
    SAME(t.y, 10, 40, 30, 80, 150, 240, 210, 320);
    op_destroy(&t.p);
    t = product(tensor(1, 2, 1, 2), tensor(1, 2, 1, 2));
    t.xa[1] = -2;
    t.d.act = ACT_LEAKY;
    run(&t);
    SAME(t.y, 10, -4, 90, 160);
    op_destroy(&t.p);
}

static void gradients(void **state)
{
    (void)state;
    const struct tensor a = tensor(3, 4, 2, 3);
    const struct tensor factors[] = { tensor(3, 4, 1, 1), tensor(3, 1, 2, 3), tensor(3, 1, 1, 1), a };
    for (int i = 0; i < 8; i++) {
        struct mul t = product(a, factors[i / 2]);
        size_t na = 2 * shape_row(t.a.shape), nb = 2 * shape_row(t.b.shape);
        real ga[MOST], gb[MOST];
        t.d.act = i % 2 ? ACT_TANH : ACT_LINEAR;
        t.d.add_a = i % 2, t.d.add_b = i / 2 % 2;
        t.d.rows_back = 2;
        noise(t.xa, MOST, 1);
        noise(t.xb, MOST, 2);
        noise(t.r, MOST, 3);
        run(&t);
        set(ga, MOST, 5);
        set(gb, MOST, 5);
        DONE(ops->mul->backward(&t.p, &context, t.xa, t.xb, i % 2 ? t.y : NULL, t.r, ga, gb));
        check_slopes("ga", t.xa, ga, na, 5 * t.d.add_a, width, smooth, value, &t);
        check_slopes("gb", t.xb, gb, nb, 5 * t.d.add_b, width, smooth, value, &t);
        untouched(ga + na, MOST - na, 5);
        untouched(gb + nb, MOST - nb, 5);
        DONE(ops->mul->backward(&t.p, &context, t.xa, t.xb, t.y, t.r, NULL, NULL));
        op_destroy(&t.p);
    }
}

static void square(void **state)
{
    (void)state;
    struct mul t = product(tensor(1, 1, 1, 2), tensor(1, 1, 1, 2));
    real g[2], gy[2] = { 1, 10 };
    t.d.add_b = 1;
    run(&t);
    DONE(ops->mul->backward(&t.p, &context, t.xa, t.xa, NULL, gy, g, g));
    SAME(g, 2, 40);
    op_destroy(&t.p);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(by_hand), cmocka_unit_test(gradients),
                                        cmocka_unit_test(square) };
    return RUN_REF(tests);
}
