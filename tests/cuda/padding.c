/* Images of few channels in bfloat16 end in channels of zeros where the first layer is a convolution, and so
 * do its weights: those zeros stay zeros, whatever is learnt, and nobody else sees them. Only where kernels
 * run on the host, which can look. */
#include "tiny.h"
#include "backend/cuda/cuda.h"
#include "backend/ops/images.h"
#include "net/step.h"

enum { ROWS = 4, SIDE = 6, C = 3, FILTERS = 5, TAPS = 9, CLASSES = 3, PADDED = 8, MOST = 9 };

static int open_net(struct tiny *t, const char *layers, int channels, const char *precision, const char *set,
                    struct err *e)
{
    char cfg[1000];
    snprintf(cfg, sizeof cfg,
             "[net]\nbatch=8\nsubdivisions=2\nwidth=6\nheight=6\nchannels=%d\nlearning_rate=.1\n"
             "momentum=.9\ndecay=.1\nema_alpha=.5\nmax_batches=4\nprecision=%s\n%s"
             "[connected]\noutput=3\nactivation=linear\n[softmax]\n",
             channels, precision, layers);
    return tiny_net(t, cfg, set, e);
}

/* On noise. */
static struct step_stats step(struct tiny *t, uint64_t number)
{
    float x[ROWS * MOST * SIDE * SIDE];
    int label[ROWS];
    struct step_stats stats;
    struct err e = { 0 };
    struct step s = step_at(t->net, number);
    for (size_t i = 0; i < sizeof x / sizeof *x; i++) x[i] = (float)rng_normal(number, i);
    for (int i = 0; i < ROWS; i++) label[i] = i % CLASSES;
    s.x = x;
    s.label = label;
    s.rows = s.rows_s1 = ROWS;
    ok(step_train(t->p, &s, &stats, &e), &e);
    return stats;
}

/* Pixels of the image, or cells of windows, in float or (halves) bfloat16: the last of their channels are
 * zeros, and not all others are. */
static void padded(const void *x, int halves, size_t n)
{
    int others = 0;
    for (size_t i = 0; i < n * PADDED; i++) {
        const int is_zero = halves ? !((const uint16_t *)x)[i] : ((const float *)x)[i] == 0;
        if (i % PADDED < C)
            others += !is_zero;
        else
            assert_true(is_zero);
    }
    assert_true(others > 0);
}

static struct param *weights(const struct tiny *t)
{
    int i = 0;
    while (!t->net->param[i]->linear) i++;
    return t->net->param[i];
}

static void learn(const char *set)
{
    struct tiny t;
    struct err e = { 0 };
    ok(open_net(&t, "[convolutional]\nfilters=5\nsize=3\npad=1\nactivation=relu\n", C, "bf16", set, &e), &e);
    const struct program_desc d = { .rows = ROWS, .train = 1 };
    ok(program_open(&t.p, t.net, &d, &e), &e);
    const struct param *w = weights(&t);
    assert_int_equal(w->count, FILTERS * TAPS * C);
    assert_int_equal(w->plan->weights->count, FILTERS * TAPS * PADDED);
    for (uint64_t i = 0; i < 8; i++) step(&t, i);
    padded(program_input(t.p)->x.data, 1, ROWS * SIDE * SIDE);
    padded(cuda_weight_copy(w->plan->weights, w->w), 1, FILTERS * TAPS);
    const float *const kept[] = { w->w, w->g, w->v, w->average, w->s };
    for (int i = 0; i < (t.net->config.adam ? 5 : 4); i++) padded(kept[i], 0, FILTERS * TAPS);
    tiny_close(&t);
}

static void zeros_stay(void **state)
{
    (void)state;
    learn(NULL);
    learn("net.adam=1");
}

static struct backend *open_device(struct tensor *image)
{
    struct backend *be;
    struct err e = { 0 };
    ok(backend_open(&be, "cuda", 1, &e), &e);
    be->precision = PRECISION_BF16;
    *image = (struct tensor){ .shape = { ROWS, C, SIDE, SIDE } };
    ok(be->ops->image(be, image, 1, &e), &e);
    ok(be->ops->alloc(be, image->bytes, &image->data, &e), &e);
    memset(image->data, 0xff, image->bytes);
    return be;
}

static void close_device(struct backend *be, struct tensor *image)
{
    assert_int_equal(be->ops->sync(be, NULL), OK);
    padded(image->data, 1, ROWS * SIDE * SIDE);
    be->ops->free(be, image->data);
    backend_close(be);
}

static void hosts_write_and_add(void **state)
{
    real x[ROWS * C * SIDE * SIDE], twice[ROWS * C * SIDE * SIDE];
    struct tensor image;
    struct backend *be = open_device(&image);
    (void)state;
    for (int i = 0; i < ROWS * C * SIDE * SIDE; i++) x[i] = (real)(i % 100);
    for (int add = 0; add < 2; add++) assert_int_equal(be->ops->write(be, &image, 0, ROWS, x, add), OK);
    assert_int_equal(be->ops->read(be, &image, 0, ROWS, twice), OK);
    for (int i = 0; i < ROWS * C * SIDE * SIDE; i++) assert_true(twice[i] == 2 * x[i]);
    close_device(be, &image);
}

/* Where the mean makes no number zero. */
static void images_on_the_device(void **state)
{
    static const uint8_t pixels[C * SIDE * SIDE];
    static const float mean[C] = { .5f, .5f, .5f }, scale[C] = { 1, 1, 1 };
    static const struct crop crop[ROWS];
    const struct images_desc d = { pixels, 1, C, SIDE, SIDE, mean, scale };
    struct tensor image;
    struct op_plan p;
    struct err e = { 0 };
    struct backend *be = open_device(&image);
    (void)state;
    ok(be->ops->images->plan(be, &d, &p, &e), &e);
    assert_int_equal(be->ops->images->show(&p, crop, ROWS, &image), OK);
    op_destroy(&p);
    close_device(be, &image);
}

/* What may come first, and how many channels the image then has in memory. */
static const struct {
    const char *layers, *precision;
    int channels, in_memory;
} firsts[] = {
    { "[convolutional]\nfilters=4\nsize=3\nstride=2\n", "bf16", C, PADDED },
    { "[convolutional]\nfilters=4\nstride=2\nbatch_normalize=1\nantialiasing=1\n", "bf16", C, PADDED },
    { "[convolutional]\nfilters=4\nsize=3\n", "bf16", 1, PADDED },
    { "[convolutional]\nfilters=4\nsize=3\n", "bf16", 7, PADDED },
    { "[convolutional]\nfilters=4\nsize=3\n", "bf16", 9, 9 },
    { "[convolutional]\nfilters=6\nsize=3\ngroups=3\n", "bf16", C, C },
    { "[convolutional]\nfilters=4\nsize=3\n", "fp32", C, C },
    { "[convolutional]\nfilters=4\nsize=3\n", "tf32", C, C },
    { "[local]\nfilters=4\nsize=3\n", "bf16", C, C },
    { "[connected]\noutput=4\n", "bf16", C, C },
    { "[maxpool]\nsize=2\nstride=2\n[convolutional]\nfilters=4\nsize=3\npad=1\n", "bf16", C, C },
    { "[crop]\ncrop_height=5\ncrop_width=5\n[convolutional]\nfilters=4\nsize=3\n", "bf16", C, C },
    { "[batchnorm]\n[convolutional]\nfilters=4\nsize=3\n", "bf16", C, C },
    { "[dropout]\nprobability=0\n[convolutional]\nfilters=3\nsize=3\npad=1\n[shortcut]\nfrom=-2\n", "bf16", C,
      C },
    { "[dropout]\n[convolutional]\nfilters=4\nsize=3\npad=1\n[route]\nlayers=-1,-2\n", "bf16", C, C },
};

/* Opens a program, and checks the layout of the image on the device; the CE of a step where it trains. */
static double first_layer(const char *device, size_t i, int train)
{
    const int on_ref = !strcmp(device, "ref");
    const struct program_desc d = { .rows = ROWS, .train = train };
    struct tiny t;
    struct err e = { 0 };
    tiny_device = device;
    ok(open_net(&t, firsts[i].layers, firsts[i].channels, on_ref ? "fp32" : firsts[i].precision, NULL, &e),
       &e);
    ok(program_open(&t.p, t.net, &d, &e), &e);
    const struct tensor *x = &program_input(t.p)->x;
    const int in_memory = on_ref ? firsts[i].channels : firsts[i].in_memory;
    const size_t element = on_ref ? sizeof(real) : cuda_element(cuda_is_bf16(x));
    assert_int_equal(x->bytes, (size_t)(ROWS * SIDE * SIDE * in_memory) * element);
    const double ce = train ? step(&t, 0).ce : 0;
    tiny_close(&t);
    return ce;
}

static void first_layers(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof firsts / sizeof *firsts; i++) {
        first_layer("cuda", i, 0);
        near(first_layer("cuda", i, 1), first_layer("ref", i, 1), .02);
    }
}

int main(void)
{
    tiny_device = "cuda";
    const struct CMUnitTest tests[] = { cmocka_unit_test(zeros_stay), cmocka_unit_test(hosts_write_and_add),
                                        cmocka_unit_test(images_on_the_device),
                                        cmocka_unit_test(first_layers) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
