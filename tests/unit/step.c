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
        cmocka_unit_test(a_step_follows_from_its_number),
        cmocka_unit_test(what_the_host_counts),
        cmocka_unit_test(every_other_iteration_is_paired),
        cmocka_unit_test(only_whole_mini_batches_with_labels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
