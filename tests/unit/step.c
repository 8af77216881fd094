/* Training steps: what follows from their number, what is refused, what the host counts, with and without a
 * second mini-batch. */
#include "tiny.h"
#include "backend/scalar.h"

static const char cfg[] =
    "[net]\ninputs=2\nbatch=4\nsubdivisions=2\nlearning_rate=.1\npolicy=steps\nsteps=2\nscales=.5\n"
    "[connected]\noutput=3\nactivation=tanh\n%s[connected]\noutput=2\nactivation=linear\n[softmax]\n";

static const float x[8] = { .1f, -.5f, 1, .3f, -.8f, .2f, .6f, .9f };
static const int label[4] = { 0, 1, 1, 0 };

static struct tiny t;
static struct step_programs training;

static void open_all(const char *itra)
{
    char text[400];
    struct err e = { 0 };
    training = (struct step_programs){ NULL, NULL };
    snprintf(text, sizeof text, cfg, itra);
    ok(tiny_net(&t, text, NULL, &e), &e);
    ok(step_open(&training, t.net, &e), &e);
}

static void close_all(void)
{
    step_close(&training);
    tiny_close(&t);
}

static struct step step_of(uint64_t number)
{
    struct step s = step_at(t.net, number);
    int second = net_is_paired(t.net, s.iteration);
    s.x = x;
    s.label = label;
    s.rows = second ? 4 : 2;
    s.rows_s1 = 2;
    return s;
}

static void a_step_follows_from_its_number(void **state)
{
    (void)state;
    open_all("");
    for (uint64_t i = 0; i < 6; i++) {
        struct step s = step_at(t.net, i);
        assert_true(s.number == i && s.iteration == i / 2 + 1);
        assert_int_equal(s.add, i % 2);
        assert_int_equal(s.update, i % 2);
        near(s.rate, s.iteration < 2 ? .1 : .05, 1e-12);
    }
    close_all();
}

/* seen and A of warmup=auto, from ln K a tenth of the way to the CE of each iteration: the mean over its
 * parts. */
static void what_the_host_counts(void **state)
{
    struct err e = { 0 };
    double average = log(2);
    (void)state;
    open_all("");
    assert_true(t.net->ce_average == -1);
    for (uint64_t i = 0; i < 6; i += 2) {
        struct step_stats a, b;
        struct step s = step_of(i), last = step_of(i + 1);
        ok(step_train(training.plain, &s, &a, &e), &e);
        assert_int_equal(t.net->seen, 2 * i);
        ok(step_train(training.plain, &last, &b, &e), &e);
        assert_int_equal(t.net->seen, 2 * (i + 2));
        average = .9 * average + .1 * (a.ce + b.ce) / 2;
        near(t.net->ce_average, average, 1e-12);
    }
    assert_true(running_ce(-1, 2, 1) == .9 * 2 + .1 && running_ce(1, 2, 3) == .9 + .1 * 3);
    close_all();
}

static void every_other_iteration_is_paired(void **state)
{
    struct err e = { 0 };
    (void)state;
    open_all("[itra]\nwarmup=0\nevery=2\n");
    for (uint64_t i = 0; i < 8; i++) {
        struct step s = step_of(i);
        struct step_stats stats;
        struct program *p = step_program(&training, &s);
        assert_ptr_equal(p, i / 2 % 2 ? training.paired : training.plain);
        ok(step_train(p, &s, &stats, &e), &e);
        assert_int_equal(!isnan(stats.match), i / 2 % 2);
    }
    assert_int_equal(t.net->seen, 16);
    close_all();
}

/* Smoothed and mixed labels are the truth of both losses; the gradient of the last biases is y - truth, as a
 * mean. Row 0 is class 2 for the most part, row 1 one class alone. */
static void mixed_and_smoothed_truth(void **state)
{
    static const char *const end[] = { "[softmax]\n", "[cost]\n" };
    static const float in[4] = { .5f, -1, .25f, 2 };
    static const int main_label[2] = { 2, 1 };
    static const struct mixed_label mixed[2] = { { { 0, 2 }, { .25f, .75f } }, { { 1 }, { 1 } } };
    const double truth[2][3] = { { .25 * .7 + .75 * .15, .15, .75 * .7 + .25 * .15 }, { .15, .7, .15 } };
    (void)state;
    for (int k = 0; k < 2; k++) {
        char text[300];
        struct err e = { 0 };
        float y[6];
        struct step_stats stats;
        struct program *infer;
        snprintf(text, sizeof text,
                 "[net]\ninputs=2\nbatch=2\nlabel_smooth_eps=.3\nmixup=1\n[connected]\noutput=3\n"
                 "activation=linear\n%s",
                 end[k]);
        ok(tiny_open(&t, text, &e), &e);
        ok(program_open(&infer, t.net, &(struct program_desc){ .rows = 2 }, &e), &e);
        struct step s = { .x = in, .rows = 2, .rows_s1 = 2, .iteration = 1 };
        ok(program_infer(infer, &s, y, NULL, &e), &e);
        s.label = main_label;
        s.mixed = mixed;
        ok(step_train(t.p, &s, &stats, &e), &e);
        double loss = 0, gradient[3] = { 0 };
        for (int i = 0; i < 6; i++) {
            double p = (double)y[i], want = truth[i / 3][i % 3];
            loss += (k ? (p - want) * (p - want) / 2 : -want * log(p)) / 2;
            gradient[i % 3] += (p - want) / 2;
        }
        near(stats.ce, loss, 1e-5);
        for (size_t i = 0; i < 3; i++) assert_true(fabs(tiny_g(&t, 0, i) - gradient[i]) < 1e-6);
        program_close(infer);
        tiny_close(&t);
    }
}

static void only_whole_mini_batches_with_labels(void **state)
{
    struct err e = { 0 };
    (void)state;
    open_all("[itra]\nwarmup=0\n");
    assert_null(training.plain); /* every iteration is paired */
    struct step_stats stats;
    struct step s = step_of(0);
    s.label = NULL;
    refused(step_train(training.paired, &s, &stats, &e), E_ARG, &e,
            "of 4 images, 2 of S1, without labels: expected 4");
    s = step_of(0);
    s.rows = 3;
    refused(step_submit(training.paired, &s, &e), E_ARG, &e,
            "of 3 images, 2 of S1, with labels: expected 4 and 2");
    assert_int_equal(t.net->seen, 0);
    close_all();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_follows_from_its_number),      cmocka_unit_test(what_the_host_counts),
        cmocka_unit_test(every_other_iteration_is_paired),     cmocka_unit_test(mixed_and_smoothed_truth),
        cmocka_unit_test(only_whole_mini_batches_with_labels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
