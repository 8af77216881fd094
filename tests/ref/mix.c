#include "ref/ref.h"
#include "backend/ops/mix.h"

enum { INPUTS = 3 };

struct mix {
    struct mix_desc d;
    struct tensor in[INPUTS], out;
    struct op_plan p;
    real x[INPUTS][MOST], w[MOST], y[MOST], r[MOST];
};

/* x[0] is 1, 2, 3, ..., x[1] ten times that, x[2] a hundred times. */
static struct mix mix(struct tensor a, struct tensor b, struct tensor c, int weights)
{
    struct mix t = { .d = { .nin = INPUTS, .weights = weights, .train = 1, .rows_back = a.shape.n },
                     .in = { a, b, c },
                     .out = a };
    for (int i = 0; i < MOST; i++)
        for (int k = 0, f = 1; k < INPUTS; k++, f *= 10) t.x[k][i] = (real)(f * (i + 1));
    return t;
}

static void forward(const struct mix *t, real *y)
{
    const void *x[] = { t->x[0], t->x[1], t->x[2] };
    DONE(ops->mix->forward(&t->p, &context, x, t->w, y));
}

static void run(struct mix *t)
{
    struct err e;
    for (int k = 0; k < INPUTS; k++) t->d.in[k] = &t->in[k];
    DONE(ops->mix->plan(be, &t->d, &t->out, &t->p, &e));
    forward(t, t->y);
}

static void by_hand(void **state)
{
    (void)state;
    struct mix t = mix(tensor(1, 2, 1, 2), tensor(1, 1, 1, 2), tensor(1, 3, 1, 2), 0);
    run(&t); /* the second has a channel less, the third one more */
    SAME(t.y, 111, 222, 303, 404);
    op_destroy(&t.p);
    t = mix(tensor(1, 2, 1, 2), tensor(1, 2, 1, 2), tensor(1, 2, 1, 2), 1);
    t.w[0] = 2, t.w[1] = -1, t.w[2] = .5;
    run(&t);
    SAME(t.y, 42, 84, 126, 168);
    op_destroy(&t.p);
    t.d.norm = MIX_RELU;
    run(&t);
    SAME(t.y, 52 / 2.5001, 104 / 2.5001, 156 / 2.5001);
    op_destroy(&t.p);
    t.d.weights = 2, t.d.norm = MIX_SOFTMAX;
    for (int k = 0; k < INPUTS; k++) t.w[2 * k] = 0, t.w[2 * k + 1] = (real)log(k + 1);
    run(&t);
    SAME(t.y, 37, 74, (3 + 60 + 900) / 6., (4 + 80 + 1200) / 6.);
    op_destroy(&t.p);
}

static double value(const void *ctx)
{
    const struct mix *t = ctx;
    real y[MOST];
    forward(t, y);
    return inner(y, t->r, shape_row(t->out.shape) * (size_t)t->d.rows_back);
}

static void gradients(void **state)
{
    (void)state;
    for (int i = 0; i < 18; i++) {
        struct mix t =
            mix(tensor(3, 3, 2, 3), tensor(3, 2, 2, 3), tensor(3, 4, 2, 3), i % 3 == 2 ? 3 : i % 3);
        real g[INPUTS][MOST], gw[MOST];
        size_t weights = (size_t)(INPUTS * t.d.weights);
        t.d.norm = (enum mix_norm)(i / 3 % 3);
        t.d.act = i / 9 ? ACT_TANH : ACT_LINEAR;
        t.d.rows_back = 2;
        t.d.add[1] = 1;
        for (int k = 0; k < INPUTS; k++) noise(t.x[k], MOST, (uint64_t)k + 1), set(g[k], MOST, 5);
        noise(t.r, MOST, 4);
        noise(t.w, MOST, 5);
        for (int k = 0; k < MOST; k++) t.w[k] = (real)(fabs(t.w[k]) + .1); /* not at the kink */
        if (t.d.weights == 3) t.w[2] = (real)-.5;
        set(gw, MOST, 5);
        run(&t);
        const void *x[] = { t.x[0], t.x[1], t.x[2] };
        void *gx[] = { g[0], g[1], g[2] };
        DONE(ops->mix->backward(&t.p, WITH(.add = 1), x, t.w, i / 9 ? t.y : NULL, t.r, gx,
                                weights ? gw : NULL));
        for (int k = 0; k < INPUTS; k++) {
            size_t n = 2 * shape_row(t.in[k].shape);
            check_slopes("gx", t.x[k], g[k], n, 5 * t.d.add[k], width, smooth, value, &t);
            untouched(g[k] + n, MOST - n, 5);
        }
        if (weights) check_slopes("gw", t.w, gw, weights, 5, width, smooth, value, &t);
        untouched(gw + weights, MOST - weights, 5);
        op_destroy(&t.p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(by_hand), cmocka_unit_test(gradients) };
    return RUN_REF(tests);
}
