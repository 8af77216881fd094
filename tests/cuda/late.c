/* A device that works as late as it may: what is read without waiting for it is not there yet. Trainings give
 * the same numbers however late it is, are reported a window late, and never wait for all that was submitted.
 * Only where kernels run on the host. */
#include <math.h>
#include "noise.h"
#include "shim/order.h"
#include "shim/queue.h"
#include "train/trainer.h"

enum { IMAGES = 24, SIDE = 6, CLASSES = 3, ITERATIONS = 45 };

static const char cfg[] =
    "[net]\nbatch=4\nsubdivisions=2\nwidth=6\nheight=6\nchannels=1\nmax_batches=45\nlearning_rate=.01\n"
    "pad_crop=1\nvalid_every=0\npolicy=exp\ngamma=1\n"
    "[convolutional]\nfilters=4\nsize=3\npad=1\nbatch_normalize=1\nactivation=relu\n"
    "[dropout]\nprobability=.3\n[convolutional]\nfilters=4\nsize=3\npad=1\nactivation=leaky\n"
    "[avgpool]\n[itra]\nwarmup=auto\nevery=2\n[center]\n"
    "[connected]\noutput=3\nactivation=linear\n[softmax]\n";

static int set_up(void **state)
{
    if (tiny_set_up(state)) return -1;
    noise_put(IMAGES, SIDE, CLASSES);
    return 0;
}

/* What a training has told, line by line, and left. */
struct told {
    int n;
    struct line {
        double ce, match;
        long syncs; /* until then */
    } line[ITERATIONS];
    char weights[4096];
    volatile sig_atomic_t stop;
    int stops_at; /* the iteration that was enough, or 0 */
};

static void tell(void *ctx, const struct train_line *l)
{
    struct told *t = ctx;
    assert_in_range(t->n, 0, ITERATIONS - 1);
    t->line[t->n++] = (struct line){ l->ce, l->match, device_syncs };
    assert_int_equal(l->iteration, t->n);
    if (t->n == t->stops_at) t->stop = 1;
}

static void read_weights(struct told *t)
{
    FILE *f = fopen(tiny_path("t_final.weights"), "rb");
    assert_non_null(f);
    assert_in_range(fread(t->weights, 1, sizeof t->weights, f), 100, sizeof t->weights - 1);
    fclose(f);
}

static int train(struct told *told, enum late late, int eager, const char *set, struct err *e)
{
    struct noise s = noise_open();
    struct step_programs training = { 0 };
    const struct train_options o = {
        .base = "t", .backup = tiny_folder, .workers = 1, .top = 1, .programs = &training, .stop = &told->stop
    };
    const struct train_hooks hooks = { .ctx = told, .iteration = tell };
    struct tiny t;
    device_late = late;
    int rc = tiny_net(&t, cfg, set, e);
    if (!rc) {
        t.be->eager = eager;
        rc = trainer_run(t.net, s.data, s.train, NULL, &o, &hooks, e);
    }
    step_close(&training);
    tiny_close(&t);
    noise_close(&s);
    return rc;
}

enum how { EAGER, SUBMITTED, RECORDED, HOWS };

/* Recorded steps are compared with one training whose steps are not. */
static void the_same_numbers(enum how how, const char *set)
{
    static struct told told[LATE_KINDS];
    struct err e = { 0 };
    device_launches = 0;
    for (int late = 0; late < LATE_KINDS; late++) {
        told[late] = (struct told){ 0 };
        device_records = how == RECORDED && late ? RECORDS : RECORDS_NOT;
        ok(train(&told[late], (enum late)late, how == EAGER, set, &e), &e);
        read_weights(&told[late]);
        assert_int_equal(told[late].n, ITERATIONS);
        for (int i = 0; i < ITERATIONS; i++) {
            const struct line *one = &told[late].line[i], *first = &told[0].line[i];
            assert_true(one->ce == first->ce && isnan(one->match) == !(i % 2));
            assert_true(one->match == first->match || isnan(first->match));
        }
        assert_memory_equal(told[late].weights, told[0].weights, sizeof told->weights);
    }
    device_records = RECORDS_NOT;
    assert_true((device_launches >= 3 * ITERATIONS - 30) == (how == RECORDED));
}

/* Of gradients that are computed side by side, of images that stay on the device, and of those that come from
 * the loader, alone or mixed. */
static void the_same_numbers_however_late(void **state)
{
    static const char *const set[] = { NULL, "net.precision=bf16", "net.subdivisions=1", "net.exposure=1.5",
                                       "net.mixup=4" };
    (void)state;
    for (int i = 0; i < 5; i++)
        for (int how = 0; how < HOWS; how++) the_same_numbers((enum how)how, set[i]);
}

static void nothing_waits_for_all(void **state)
{
    static const char *const set[] = { NULL, "net.exposure=1.5" };
    (void)state;
    for (int k = 0; k < 2; k++) {
        struct told told = { 0 };
        struct err e = { 0 };
        ok(train(&told, LATE_ALL, 0, set[k], &e), &e);
        for (int i = 1; i < ITERATIONS; i++) assert_int_equal(told.line[i].syncs, told.line[0].syncs);
    }
}

/* The first window is reported when the second one has been submitted, which is still reported at the end. */
static void what_was_enough_ends_it_a_window_later(void **state)
{
    struct told told = { .stops_at = 3 };
    struct err e = { 0 };
    (void)state;
    ok(train(&told, LATE_ALL, 0, NULL, &e), &e);
    assert_int_equal(told.n, 20);
}

/* In the second window and in the fourth: nothing that was submitted behind it counts. */
static void the_first_that_is_not_finite_is_told(void **state)
{
    static const char *const set[] = { "net.gamma=4", "net.gamma=2" };
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct told at_once = { 0 }, late = { 0 };
        struct err e = { 0 };
        char iteration[40];
        refused(train(&at_once, LATE_NEVER, 1, set[i], &e), E_NUMBER, &e, "not finite");
        snprintf(iteration, sizeof iteration, "iteration %d, ", at_once.n + 1);
        refused(train(&late, LATE_ALL, 0, set[i], &e), E_NUMBER, &e, iteration);
        assert_int_equal(late.n, at_once.n);
    }
}

/* The device itself: nothing happens before somebody waits. */
static void copies_wait_for_whoever_needs_them(void **state)
{
    struct err e = { 0 };
    struct dev_info info;
    stream_t computing, copying;
    event_t copied;
    char from[] = "what was copied", between[sizeof from] = "", to[sizeof from] = "";
    (void)state;
    for (int late = 0; late < LATE_KINDS; late++) {
        memset(between, 0, sizeof between);
        memset(to, 0, sizeof to);
        device_late = (enum late)late;
        ok(dev_open(0, &computing, &info, &e), &e);
        ok(dev_stream(&copying, &e), &e);
        ok(dev_event(&copied, &e), &e);
        ok(dev_await(copied), &e);
        ok(dev_copy(copying, between, from, sizeof from), &e);
        ok(dev_mark(copied, copying), &e);
        assert_int_equal(*between != 0, late == LATE_NEVER || late == LATE_COMPUTING);
        ok(dev_wait(computing, copied), &e);
        ok(dev_copy(computing, to, between, sizeof from), &e);
        assert_int_equal(*to != 0, late == LATE_NEVER);
        ok(dev_sync(computing, &e), &e);
        assert_string_equal(to, from);
        dev_event_drop(copied);
        dev_close(copying);
        dev_close(computing);
    }
}

int main(void)
{
    tiny_device = "cuda";
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_wait_for_whoever_needs_them),
        cmocka_unit_test(the_same_numbers_however_late),
        cmocka_unit_test(nothing_waits_for_all),
        cmocka_unit_test(what_was_enough_ends_it_a_window_later),
        cmocka_unit_test(the_first_that_is_not_finite_is_told),
    };
    return cmocka_run_group_tests(tests, set_up, tiny_tear_down);
}
