/* A small net learns 16 images of noise by heart in 200 steps, with [itra] and without: everything between
 * the data file and the optimiser has to work for that. */
#include "noise.h"
#include "train/trainer.h"

enum { IMAGES = 16, SIDE = 8, CLASSES = 4, STEPS = 200 };

static const char head[] =
    "[net]\nbatch=8\nwidth=8\nheight=8\nchannels=1\nlearning_rate=0.05\nmomentum=0.9\ndecay=0\n"
    "flip=0\nmin_crop=8\nmax_crop=8\nmax_batches=200\nvalid_every=0\n"
    "[convolutional]\nfilters=8\nsize=3\npad=1\nbatch_normalize=1\nactivation=relu\n"
    "[maxpool]\nsize=2\nstride=2\n[connected]\noutput=32\nactivation=relu\n";
static const char tail[] = "[connected]\noutput=4\nactivation=linear\n[softmax]\n";

static int set_up(void **state)
{
    if (tiny_set_up(state)) return -1;
    noise_put(IMAGES, SIDE, CLASSES);
    return 0;
}

struct outcome {
    struct train_line last;
    struct valid_line valid;
    int warned;
};
static void on_iteration(void *ctx, const struct train_line *l) { ((struct outcome *)ctx)->last = *l; }
static void on_validation(void *ctx, const struct valid_line *l) { ((struct outcome *)ctx)->valid = *l; }

static struct outcome train(const char *device, const char *itra)
{
    struct outcome o = { .warned = 0 };
    struct train_hooks hooks = { .ctx = &o, .iteration = on_iteration, .validation = on_validation };
    struct step_programs training = { 0 };
    struct train_options options = {
        .base = "noise", .backup = tiny_folder, .workers = 2, .top = 1, .programs = &training
    };
    struct noise s = noise_open();
    struct err e = { 0 };
    struct tiny t;
    char text[1024];
    snprintf(text, sizeof text, "%s%s%s", head, itra, tail);
    tiny_device = device;
    ok(tiny_net(&t, text, NULL, &e), &e);
    ok(trainer_run(t.net, s.data, s.train, s.valid, &options, &hooks, &e), &e);
    step_close(&training);
    o.warned = strstr(t.notes, "collapsed") != NULL;
    tiny_close(&t);
    noise_close(&s);
    return o;
}

static void check_learnt(const struct outcome *o)
{
    assert_int_equal(o->last.iteration, STEPS);
    assert_int_equal(o->last.seen, STEPS * 8);
    assert_true(o->last.ce_smooth < .1);
    assert_int_equal(o->valid.images, IMAGES);
    assert_true(o->valid.top1 == 1);
    assert_false(o->warned);
}

static void memorises(void **state)
{
    (void)state;
    for (int i = 0; backend_at(i); i++) {
        struct outcome o = train(backend_at(i)->name, "");
        check_learnt(&o);
        assert_true(o.valid.compactness < 0);
    }
}

static void memorises_with_itra(void **state)
{
    (void)state;
    for (int i = 0; backend_at(i); i++) {
        struct outcome o = train(backend_at(i)->name, "[itra]\nlambda=0.5\n");
        check_learnt(&o);
        assert_true(o.last.lambda > .4 && o.last.match >= 0);
        assert_true(o.valid.compactness > 0 && o.valid.compactness < 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(memorises), cmocka_unit_test(memorises_with_itra) };
    return cmocka_run_group_tests(tests, set_up, tiny_tear_down);
}
