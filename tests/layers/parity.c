/* Every example of every layer in the registry, inside small nets with odd channels and sizes, on every
 * backend and in every precision it has, against ref: the loss, every tensor, every gradient, and every
 * parameter after an update. */
#include "bed.h"
#include "net/net.h"

enum part { OUTPUT, GRADIENT, PARAMETER, PARTS };
static const char *const part_names[PARTS] = { "output", "gradient", "parameter" };

/* Relative. fp32: rounding of sums of some hundred terms, a little more where Winograd is used or where batch
 * norm divides by a small deviation. tf32: products cut their factors off at 11 bits. bf16: the output of
 * each layer is rounded to 8 bits. Where two numbers are close, rounding may select another maximum or the
 * other side of a kink, and the gradient goes elsewhere: in tensors as small as these, a few such places are
 * a third of the norm (observed: 0.34, with maxpool). */
static const double tolerance[PRECISION_COUNT][PARTS] = { { 2e-5, 2e-5, 2e-5 },
                                                          { 5e-3, 0.3, 0.03 },
                                                          { 1.5e-2, 0.5, 0.06 } };
/* More than half of the gradients of a layer's examples must be as near as this (observed: 0.007). */
static const double typical[PRECISION_COUNT] = { 2e-5, 2e-3, 1e-2 };
/* Of the CE, and of the match, which goes by distances between rows. */
static const double ce_tolerance[PRECISION_COUNT] = { 1e-5, 3e-3, 1e-2 };
static const double match_tolerance[PRECISION_COUNT] = { 1e-4, 5e-3, 2e-2 };

/* Open for all cases of a test: opening a GPU takes longer than most of them. */
struct devices {
    struct backend *ref, *dev;
};

struct pair {
    struct bed ref, dev;
    const char *what;
    enum precision precision;
    int exact;     /* to the bit */
    int near, all; /* gradients */
};

/* No plan is timed: the question is what is computed. */
static struct devices devices_open(const struct backend_ops *ops, enum precision p)
{
    struct devices d = { .dev = bed_device(ops->name, p), .ref = bed_device("ref", PRECISION_FP32) };
    d.dev->deterministic = 1;
    return d;
}

static void devices_close(const struct devices *d)
{
    backend_close(d->ref);
    backend_close(d->dev);
}

static void compare(struct pair *t, enum part part, int layer, const real *a, const real *b, size_t n)
{
    double error = relative(a, b, n), most = t->exact ? 0 : tolerance[t->precision][part];
    if (part == GRADIENT) {
        t->all++;
        t->near += error <= typical[t->precision];
    }
    if (error <= most) return;
    print_error("%s: layer %d %s: %.2e\n", t->what, layer, part_names[part], error);
    assert_true(error <= most);
}

static void compare_tensor(struct pair *t, enum part part, int layer, const struct tensor *a,
                           const struct tensor *b, int rows)
{
    if (!a->data || !b->data) {
        assert_int_equal(!a->data, !b->data);
        return;
    }
    size_t n = shape_row(a->shape) * (size_t)rows;
    real *x = mem_alloc(n, sizeof *x), *y = mem_alloc(n, sizeof *y);
    assert_true(x && y);
    assert_int_equal(t->dev.be->ops->read(t->dev.be, a, 0, rows, x), OK);
    assert_int_equal(t->ref.be->ops->read(t->ref.be, b, 0, rows, y), OK);
    compare(t, part, layer, x, y, n);
    mem_free(x);
    mem_free(y);
}

static void compare_param(struct pair *t, const struct param *a, const struct param *b, int gradient)
{
    if (gradient && !a->g) return;
    real *x = mem_alloc(a->count, sizeof *x), *y = mem_alloc(a->count, sizeof *y);
    assert_true(x && y);
    assert_int_equal(param_unpack(a, gradient ? a->g : a->w, x), OK);
    assert_int_equal(param_unpack(b, gradient ? b->g : b->w, y), OK);
    compare(t, gradient ? GRADIENT : PARAMETER, a->layer, x, y, a->count);
    mem_free(x);
    mem_free(y);
}

static void compare_all(struct pair *t, const struct step_stats s[2])
{
    assert_true(fabs(s[0].ce - s[1].ce) <= ce_tolerance[t->precision] * fabs(s[1].ce));
    assert_true(isnan(s[0].match)
                    ? isnan(s[1].match)
                    : fabs(s[0].match - s[1].match) <= match_tolerance[t->precision] * fabs(s[1].match));
    for (int i = 0; program_layer(t->ref.p, i); i++) {
        const struct layer *a = program_layer(t->dev.p, i), *b = program_layer(t->ref.p, i);
        compare_tensor(t, OUTPUT, i, &a->out->x, &b->out->x, a->out->x.shape.n);
        compare_tensor(t, GRADIENT, i, &a->out->g, &b->out->g, a->rows_back);
    }
    for (int i = 0; i < t->ref.net->nparam; i++)
        compare_param(t, t->dev.net->param[i], t->ref.net->param[i], 1);
}

/* The net in this precision, with so many steps to an update, and weight decay by the weight of a step. */
static void open_on(struct bed *b, struct backend *be, const char *cfg, enum precision p, int parts,
                    struct err *e)
{
    ok(bed_net_on(b, be, cfg, e), e);
    b->net->config.precision = p;
    b->net->config.subdivisions = parts;
    b->net->config.decay /= parts;
    ok(bed_program(b, e), e);
}

/* Two steps, the second adding to the gradients of the first, then an update. */
static void check(struct pair *t, const struct devices *on, const struct layer_ops *ops, const char *example,
                  int channels, int side)
{
    char cfg[4096], what[300];
    struct err e = { 0 };
    bed_cfg(cfg, sizeof cfg, ops, example, channels, side);
    snprintf(what, sizeof what, "[%s] {%s} %dx%dx%d on %s in %s", ops->name, example, side + 1, side,
             channels, on->dev->ops->name, precision_names[t->precision]);
    t->what = what;
    open_on(&t->dev, on->dev, cfg, t->precision, 2, &e);
    open_on(&t->ref, on->ref, cfg, PRECISION_FP32, 2, &e);
    bed_warm(&t->dev, &e);
    bed_warm(&t->ref, &e);
    for (int k = 0; k < 2; k++) {
        struct step_stats s[2];
        t->dev.step.number = t->ref.step.number = (uint64_t)k;
        t->dev.step.add = t->ref.step.add = k;
        ok(step_train(t->dev.p, &t->dev.step, &s[0], &e), &e);
        ok(step_train(t->ref.p, &t->ref.step, &s[1], &e), &e);
        compare_all(t, s);
        bed_negate(&t->dev);
        bed_negate(&t->ref);
    }
    ok(optim_update(t->dev.net, 1, .1, &e), &e);
    ok(optim_update(t->ref.net, 1, .1, &e), &e);
    for (int i = 0; i < t->ref.net->nparam; i++)
        compare_param(t, t->dev.net->param[i], t->ref.net->param[i], 0);
    bed_close(&t->dev);
    bed_close(&t->ref);
}

static void layer(const struct devices *on, enum precision p, const struct layer_ops *ops)
{
    static const int channels[] = { 1, 3, 17 }, side[] = { 5, 6, 9 };
    struct pair t = { .precision = p };
    for (const char *const *x = ops->examples; *x; x++)
        for (int k = 0; k < 3; k++) check(&t, on, ops, *x, channels[k], side[k]);
    if (t.all && t.near <= t.all / 2)
        print_error("[%s] on %s in %s: %d of %d gradients are near\n", ops->name, on->dev->ops->name,
                    precision_names[p], t.near, t.all);
    assert_true(!t.all || t.near > t.all / 2);
}

static void registry(const struct backend_ops *device, enum precision p)
{
    if (!(device->precisions & 1u << p)) return;
    const struct devices on = devices_open(device, p);
    for (int i = 0; layer_at(i); i++) layer(&on, p, layer_at(i));
    devices_close(&on);
}

/* Synchronous steps go by the host's running mean of the CE, even where the device could keep its own. */
static void steps_one_by_one(void **state)
{
    const struct devices on = devices_open(*state, PRECISION_FP32);
    struct pair t = { .what = "steps one by one" };
    struct bed *bed[2] = { &t.dev, &t.ref };
    struct err e = { 0 };
    char cfg[4096];
    bed_cfg(cfg, sizeof cfg, layer_find("itra"), "lambda=5\nwarmup=auto\npair=split", 3, 5);
    for (int i = 0; i < 2; i++) {
        const struct program_desc d = { .rows = BED_ROWS, .train = 1 };
        struct program *p;
        struct step_stats s;
        ok(bed_open_on(bed[i], i ? on.ref : on.dev, cfg, &e), &e);
        ok(program_open(&p, bed[i]->net, &d, &e), &e);
        for (int k = 0; k < 2; k++) {
            bed[i]->net->ce_average = pow(.9, k + 1) * log(BED_CLASSES);
            ok(step_train(p, &bed[i]->step, &s, &e), &e);
            ok(optim_update(bed[i]->net, 1, .1, &e), &e);
        }
        assert_true(s.lambda > .9);
        program_close(p);
    }
    for (int i = 0; i < t.ref.net->nparam; i++)
        compare_param(&t, t.dev.net->param[i], t.ref.net->param[i], 0);
    bed_close(&t.dev);
    bed_close(&t.ref);
    devices_close(&on);
}

static void sums_of_one_layer(void **state)
{
    struct pair t = { .precision = PRECISION_FP32 };
    const struct devices on = devices_open(*state, PRECISION_FP32);
    for (int i = 0; i < BED_TWICE; i++)
        check(&t, &on, layer_find(bed_twice[i].layer), bed_twice[i].example, 3, 6);
    devices_close(&on);
}

/* Gradients of bfloat16 are widened to be added up; where a step is an update, nobody does. It is the same
 * update to the bit if steps of half the weight learn at twice the rate. */
static void unsummed(void **state)
{
    const struct devices on = devices_open(*state, PRECISION_BF16);
    const struct layer_ops *ops = layer_find("convolutional");
    for (const char *const *x = ops->examples; *x; x++) {
        struct pair t = { .what = *x, .exact = 1 };
        struct bed *bed[2] = { &t.dev, &t.ref };
        struct err e = { 0 };
        struct step_stats s;
        char cfg[4096];
        bed_cfg(cfg, sizeof cfg, ops, *x, 3, 6);
        for (int i = 0; i < 2; i++) {
            open_on(bed[i], on.dev, cfg, PRECISION_BF16, i + 1, &e);
            ok(step_train(bed[i]->p, &bed[i]->step, &s, &e), &e);
            ok(optim_update(bed[i]->net, 1, .1 * (i + 1), &e), &e);
        }
        for (int i = 0; i < t.ref.net->nparam; i++)
            for (int gradient = 0; gradient < 2; gradient++)
                compare_param(&t, t.dev.net->param[i], t.ref.net->param[i], gradient);
        bed_close(&t.dev);
        bed_close(&t.ref);
    }
    devices_close(&on);
}

static void fp32(void **state) { registry(*state, PRECISION_FP32); }
static void tf32(void **state) { registry(*state, PRECISION_TF32); }
static void bf16(void **state) { registry(*state, PRECISION_BF16); }

int main(void)
{
    int failed = 0;
    for (int i = 0; backend_at(i); i++) {
        void *device = (void *)(uintptr_t)backend_at(i);
        const struct CMUnitTest tests[] = { cmocka_unit_test_prestate(steps_one_by_one, device),
                                            cmocka_unit_test_prestate(sums_of_one_layer, device),
                                            cmocka_unit_test_prestate(unsummed, device),
                                            cmocka_unit_test_prestate(fp32, device),
                                            cmocka_unit_test_prestate(tf32, device),
                                            cmocka_unit_test_prestate(bf16, device) };
        if (!strcmp(backend_at(i)->name, "ref")) continue;
        print_message("%s\n", backend_at(i)->name);
        failed += cmocka_run_group_tests(tests, NULL, NULL);
    }
    return failed;
}
