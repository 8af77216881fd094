/* A GPU that fails in the middle of a training, from some call of the device on: the training ends with a
 * code and a message, leaves nothing behind, and never counts as done. And a device that cannot record a step
 * after all: the same training, only slower. Only where kernels run on the host. */
#include <unistd.h>
#include "noise.h"
#include "shim/order.h"
#include "train/trainer.h"

enum { IMAGES = 12, SIDE = 6, CLASSES = 3 };

static const char cfg[] =
    "[net]\nbatch=4\nsubdivisions=2\nwidth=6\nheight=6\nchannels=1\nmax_batches=4\nlearning_rate=.01\n"
    "pad_crop=1\n"
    "[convolutional]\nfilters=4\nsize=3\npad=1\nbatch_normalize=1\nactivation=relu\n"
    "[convolutional]\nfilters=4\nsize=1\nbatch_normalize=1\nactivation=linear\n"
    "[shortcut]\nfrom=-2\nactivation=relu\n"
    "[route]\nlayers=-1,-3\n[dropout]\nprobability=.3\n[maxpool]\nsize=2\nstride=2\n"
    "[convolutional]\nfilters=4\nsize=1\nactivation=mish\n"
    "[avgpool]\n[itra]\nwarmup=0\nevery=2\n[center]\n"
    "[connected]\noutput=3\nactivation=linear\n[softmax]\n";

static int set_up(void **state)
{
    if (tiny_set_up(state)) return -1;
    noise_put(IMAGES, SIDE, CLASSES);
    return 0;
}

/* *calls: of the device, without those that only free what there was. */
static int train(struct tiny *t, const struct noise *s, int eager, const char *set, long *calls,
                 struct err *e)
{
    struct step_programs training = { 0 };
    const struct train_options o = {
        .base = "t", .backup = tiny_folder, .workers = 1, .top = 1, .programs = &training
    };
    const struct train_hooks hooks = { 0 };
    int rc = tiny_net(t, cfg, set, e);
    if (!rc) {
        t->be->eager = eager;
        rc = trainer_run(t->net, s->data, s->train, s->valid, &o, &hooks, e);
    }
    *calls = device_calls;
    step_close(&training);
    return rc;
}

/* Every call of the beginning, then ever fewer. */
static void calls_fail(const struct noise *s, int eager, const char *set)
{
    for (long n = 1;; n += 1 + n / 20) {
        struct tiny t = { 0 };
        struct err e = { 0 };
        long calls;
        unlink(tiny_path("t_metrics.csv"));
        device_calls = 0, device_fails = n;
        int rc = train(&t, s, eager, set, &calls, &e), done = calls < n;
        device_fails = 0;
        tiny_close(&t);
        if (done) {
            ok(rc, &e);
            return;
        }
        int good = rc == E_DEVICE && e.code == rc && *e.msg;
        if (!good) print_error("call %ld of the device fails: code %d, '%s'\n", n, rc, e.msg);
        assert_true(good);
    }
}

static void a_device_that_fails(void **state)
{
    struct noise s = noise_open();
    (void)state;
    calls_fail(&s, 0, NULL);
    calls_fail(&s, 1, NULL);
    calls_fail(&s, 0, "net.exposure=1.5"); /* images that do not stay on the device */
    noise_close(&s);
}

static void what_failed_is_told(void **state)
{
    struct noise s = noise_open();
    struct tiny t = { 0 };
    struct err e = { 0 };
    (void)state;
    long calls;
    device_calls = 0, device_fails = 900;
    refused(train(&t, &s, 1, NULL, &calls, &e), E_DEVICE, &e, "the GPU: a failure that was asked for");
    device_fails = 0;
    tiny_close(&t);
    noise_close(&s);
}

static void read_weights(char *to, size_t size)
{
    FILE *f = fopen(tiny_path("t_final.weights"), "rb");
    assert_non_null(f);
    memset(to, 0, size);
    assert_in_range(fread(to, 1, size, f), 100, size - 1);
    fclose(f);
}

/* Nothing in a step may be what a recording cannot contain; that is why the message is the last one's. */
static void steps_that_cannot_be_recorded(void **state)
{
    struct noise s = noise_open();
    char weights[2][4096];
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct tiny t = { 0 };
        struct err e = { 0 };
        device_records = i ? RECORDS_IN_VAIN : RECORDS_NOT;
        ok(train(&t, &s, 0, NULL, &(long){ 0 }, &e), &e);
        const char *told = strstr(t.notes, "cannot be captured");
        assert_true(!told == !i);
        if (told) assert_non_null(strstr(told, "slower: recording a step: not on the host\n"));
        tiny_close(&t);
        read_weights(weights[i], sizeof weights[i]);
    }
    device_records = RECORDS_NOT;
    assert_memory_equal(weights[0], weights[1], sizeof weights[0]);
    noise_close(&s);
}

/* A step that differs from the recorded one in more than its numbers is not recorded, or refused. */
static void what_a_recording_has_fixed(void **state)
{
    static const float images[4 * SIDE * SIDE];
    static const int label[4];
    const struct program_desc d = { .rows = 2, .paired = 1, .train = 1 };
    struct step s = { .x = images, .label = label, .rows = 4, .rows_s1 = 2, .iteration = 1 };
    struct tiny t;
    struct err e = { 0 };
    (void)state;
    ok(tiny_net(&t, cfg, NULL, &e), &e);
    ok(program_open(&t.p, t.net, &d, &e), &e);
    device_records = RECORDS_IN_VAIN;
    ok(step_submit(t.p, &s, &e), &e);
    s.reuse_detached = 1;
    ok(step_submit(t.p, &s, &e), &e);
    s.rows = 3;
    refused(step_submit(t.p, &s, &e), E_ARG, &e, "of 3 images, 2 of S1, with labels: expected 4 and 2");
    s.rows = 4;
    s.rows_s1 = 4;
    refused(step_submit(t.p, &s, &e), E_ARG, &e, "of 4 images, 4 of S1");
    s.rows_s1 = 2;
    s.label = NULL;
    refused(step_submit(t.p, &s, &e), E_ARG, &e, "without labels");
    s.label = label;
    assert_null(strstr(t.notes, "cannot be captured"));
    s.reuse_detached = 0;
    ok(step_submit(t.p, &s, &e), &e);
    assert_non_null(strstr(t.notes, "cannot be captured"));
    device_records = RECORDS_NOT;
    tiny_close(&t);
}

static void bf16_needs_a_newer_card(void **state)
{
    const struct program_desc d = { .rows = 2, .train = 1 };
    struct tiny t;
    struct err e = { 0 };
    (void)state;
    device_major = 7;
    ok(tiny_net(&t, cfg, "net.precision=bf16", &e), &e);
    device_major = 9;
    assert_int_equal(t.be->precisions, 1u << PRECISION_FP32 | 1u << PRECISION_TF32);
    refused(program_open(&t.p, t.net, &d, &e), E_DEVICE, &e, "has compute capability 7.0, bf16 needs 8.0");
    tiny_close(&t);
}

int main(void)
{
    tiny_device = "cuda";
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_device_that_fails),           cmocka_unit_test(what_failed_is_told),
        cmocka_unit_test(steps_that_cannot_be_recorded), cmocka_unit_test(what_a_recording_has_fixed),
        cmocka_unit_test(bf16_needs_a_newer_card),
    };
    return cmocka_run_group_tests(tests, set_up, tiny_tear_down);
}
