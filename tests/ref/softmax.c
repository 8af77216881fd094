#include "ref/ref.h"
#include "backend/ops/softmax.h"

struct softmax {
    struct softmax_desc d;
    struct tensor in, out;
    struct op_plan p;
    real x[MOST], y[MOST], r[MOST];
    int label[4], scored;
    double loss;
};

static void softmax_run(struct softmax *t)
{
    struct err e;
    t->d.in = &t->in;
    t->out = t->in;
    DONE(ops->softmax->plan(be, &t->d, &t->out, &t->p, &e));
    DONE(ops->softmax->forward(&t->p, WITH(.label = t->label, .scored = t->scored, .scored_all = t->scored),
                               t->x, t->y, &t->loss));
}

static void softmax_by_hand(void **state)
{
    (void)state;
    struct softmax t = {
        .d = { NULL, 1, 1, 0, 2 }, .in = tensor(2, 2, 1, 1), .label = { 1, 0 }, .scored = 2
    };
    t.x[1] = (real)log(3), t.x[2] = 1000, t.x[3] = -1000; /* row 1: a sure answer */
    softmax_run(&t);
    SAME(t.y, .25, .75, 1, 0);
    NEAR(t.loss, -log(.75), exact);
    t.label[1] = 1; /* the other class: -log p from the logits, where p is 0 */
    DONE(
        ops->softmax->forward(&t.p, WITH(.label = t.label, .scored = 2, .scored_all = 2), t.x, t.y, &t.loss));
    NEAR(t.loss, 2000 - log(.75), exact);
    DONE(ops->softmax->forward(&t.p, WITH(.label = t.label, .scored = 1, .scored_all = 1), t.x, t.y,
                               &t.loss)); /* row 1 does not count */
    NEAR(t.loss, -log(.75), exact);
    DONE(ops->softmax->forward(&t.p, &context, t.x, t.y, NULL));
    SAME(t.y, .25, .75, 1, 0);
    op_destroy(&t.p);
    t.d.temperature = .5; /* squares the odds */
    softmax_run(&t);
    SAME(t.y, .1, .9);
    op_destroy(&t.p);
}

static void softmax_groups_and_smoothing(void **state)
{
    (void)state;
    struct softmax t = { .d = { NULL, 2, 1, .3, 1 }, .in = tensor(1, 2, 2, 1), .label = { 2 }, .scored = 1 };
    t.x[0] = (real)log(4), t.x[2] = (real)log(9);
    softmax_run(&t); /* truth .1 .1 | .7 .1 */
    SAME(t.y, .8, .2, .9, .1);
    NEAR(t.loss, -.1 * log(.8) - .1 * log(.2) - .7 * log(.9) - .1 * log(.1), exact);
    real g[4];
    DONE(ops->softmax->backward(&t.p, WITH(.label = t.label, .scored = 1, .scored_all = 1), t.y, NULL, g, 0));
    SAME(g, .2 * .8 - .1, .2 * .2 - .1, .8 * .9 - .7, .8 * .1 - .1);
    op_destroy(&t.p);
}

/* A row that is three parts class 1 and one part class 2, smoothed by .3 over 4 outputs: truth .1 .55 .25 .1
 */
static void softmax_mixed(void **state)
{
    (void)state;
    const struct mixed_label mixed = { { 1, 2, 1, 0 }, { .5f, .25f, .25f, 0 } };
    struct softmax t = { .d = { NULL, 1, 1, .3, 1 }, .in = tensor(1, 4, 1, 1), .label = { 1 }, .scored = 1 };
    softmax_run(&t);
    DONE(ops->softmax->forward(&t.p, WITH(.label = t.label, .mixed = &mixed, .scored = 1, .scored_all = 1),
                               t.x, t.y, &t.loss));
    NEAR(t.loss, log(4), exact);
    real g[4];
    DONE(ops->softmax->backward(&t.p, WITH(.label = t.label, .mixed = &mixed, .scored = 1, .scored_all = 1),
                                t.y, NULL, g, 0));
    SAME(g, .25 - .1, .25 - .55, 0, .25 - .1);
    op_destroy(&t.p);
}

/* The mean loss of the scored rows, plus <r, p> over the rows that go back. */
static double softmax_value(const void *ctx)
{
    struct softmax t = *(const struct softmax *)ctx;
    DONE(ops->softmax->forward(&t.p, WITH(.label = t.label, .scored = t.scored, .scored_all = t.scored), t.x,
                               t.y, &t.loss));
    return t.loss / t.scored + inner(t.y, t.r, shape_row(t.in.shape) * (size_t)t.d.rows_back);
}

static void softmax_gradient(void **state)
{
    (void)state;
    for (int i = 0; i < 8; i++) {
        struct softmax t = { .d = { NULL, i & 1 ? 3 : 1, 1.7, i & 2 ? .2 : 0, 3 },
                             .in = tensor(4, 3, 2, 1),
                             .label = { 5, 0, 2, 1 },
                             .scored = 2 };
        real g[MOST];
        noise(t.x, 24, 1);
        if (i & 4) noise(t.r, 24, 2); /* else: the loss alone */
        softmax_run(&t);
        set(g, MOST, 5);
        DONE(ops->softmax->backward(&t.p, WITH(.label = t.label, .scored = 2, .scored_all = 2), t.y,
                                    i & 4 ? t.r : NULL, g, i & 1));
        check_slopes("gx", t.x, g, 18, i & 1 ? 5 : 0, width, smooth, softmax_value, &t);
        untouched(g + 18, MOST - 18, 5);
        DONE(ops->softmax->backward(&t.p, &context, t.y, NULL, g, 0));
        untouched(g, 18, 0);
        op_destroy(&t.p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(softmax_by_hand),
                                        cmocka_unit_test(softmax_groups_and_smoothing),
                                        cmocka_unit_test(softmax_mixed), cmocka_unit_test(softmax_gradient) };
    return RUN_REF(tests);
}
