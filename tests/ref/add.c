#include "ref/ref.h"
#include "backend/ops/add.h"

struct add {
    struct add_desc d;
    struct tensor a, b, out;
    struct op_plan p;
    real xa[MOST], xb[MOST], y[MOST], r[MOST];
};

/* a is 1, 2, 3, ... and b 100, 200, 300, ... */
static struct add addition(struct tensor a, struct tensor b, double alpha, double beta)
{
    struct add t = {
        .d = { .alpha = alpha, .beta = beta, .train = 1, .rows_back = 1 }, .a = a, .b = b, .out = a
    };
    for (int i = 0; i < MOST; i++) t.xa[i] = (real)(i + 1), t.xb[i] = (real)(100 * (i + 1));
    return t;
}

static void add_run(struct add *t)
{
    struct err e;
    t->d.a = &t->a, t->d.b = &t->b;
    DONE(ops->add->plan(be, &t->d, &t->out, &t->p, &e));
    assert_true(t->p.fused);
    DONE(ops->add->forward(&t->p, &context, t->xa, t->xb, t->y));
}

static void add_by_hand(void **state)
{
    (void)state;
    struct add t = addition(tensor(1, 2, 2, 2), tensor(1, 1, 4, 4), 2, 1); /* b larger: every second pixel */
    add_run(&t);
    SAME(t.y, 102, 304, 906, 1108, 5, 6, 7, 8); /* channel 1 is outside of the overlap: no alpha either */
    op_destroy(&t.p);
    t = addition(tensor(2, 1, 4, 2), tensor(2, 3, 2, 1), 1,
                 .5); /* b smaller: scattered; and with more channels */
    add_run(&t);
    SAME(t.y, 51, 2, 3, 4, 105, 6, 7, 8, 359, 10, 11, 12, 413, 14, 15, 16);
    op_destroy(&t.p);
    t = addition(tensor(1, 1, 1, 3), tensor(1, 1, 1, 3), 1, -.01);
    t.xa[2] = 0;
    t.d.act = ACT_LEAKY;
    add_run(&t);
    SAME(t.y, 0, 0, -.3);
    op_destroy(&t.p);
}

static double add_value(const void *ctx)
{
    const struct add *t = ctx;
    real y[MOST];
    DONE(ops->add->forward(&t->p, &context, t->xa, t->xb, y));
    return inner(y, t->r, shape_row(t->out.shape) * (size_t)t->d.rows_back);
}

static void add_gradients(struct add *t, int add_a, int add_b)
{
    size_t na = shape_row(t->a.shape) * (size_t)t->d.rows_back,
           nb = shape_row(t->b.shape) * (size_t)t->d.rows_back;
    real ga[MOST], gb[MOST];
    noise(t->xa, MOST, 1);
    noise(t->xb, MOST, 2);
    noise(t->r, MOST, 3);
    t->d.add_a = add_a, t->d.add_b = add_b;
    add_run(t);
    set(ga, MOST, 5);
    set(gb, MOST, 5);
    DONE(ops->add->backward(&t->p, &context, t->d.act == ACT_LINEAR ? NULL : t->y, t->r, ga, gb));
    check_slopes("ga", t->xa, ga, na, 5 * add_a, width, smooth, add_value, t);
    check_slopes("gb", t->xb, gb, nb, 5 * add_b, width, smooth, add_value, t);
    untouched(ga + na, MOST - na, 5);
    untouched(gb + nb, MOST - nb, 5);
    DONE(ops->add->backward(&t->p, &context, t->y, t->r, NULL, NULL));
    op_destroy(&t->p);
}

static void add_gradient(void **state)
{
    (void)state;
    const struct tensor small = tensor(2, 2, 2, 3), large = tensor(2, 3, 4, 6), thin = tensor(2, 1, 2, 3);
    const struct tensor pairs[][2] = {
        { small, large }, { large, small }, { small, thin }, { small, small }
    };
    for (int i = 0; i < 8; i++) {
        struct add t = addition(pairs[i / 2][0], pairs[i / 2][1], .7, -1.3);
        t.d.act = i % 2 ? ACT_TANH : ACT_LINEAR;
        add_gradients(&t, i % 2, i / 2 % 2);
    }
}

static void add_to_itself(void **state)
{
    (void)state;
    struct add t = addition(tensor(1, 1, 1, 2), tensor(1, 1, 1, 2), 2, 3);
    real g[2], gy[2] = { 1, 10 };
    t.d.add_b = 1;
    add_run(&t);
    DONE(ops->add->backward(&t.p, &context, t.y, gy, g, g));
    SAME(g, 5, 50);
    op_destroy(&t.p);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(add_by_hand), cmocka_unit_test(add_gradient),
                                        cmocka_unit_test(add_to_itself) };
    return RUN_REF(tests);
}
