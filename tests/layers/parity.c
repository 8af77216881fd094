/* Every example of every layer in the registry, inside a small net, on every backend that was built and in
 * every precision it has, against ref: the loss, every tensor, every gradient, every parameter after an
 * update. Over odd channels and sizes. */
#include "bed.h"
#include "net/model.h"

/* Never absolute. fp32: rounding of sums of some hundred terms, a little more where Winograd is used or where
 * batch norm divides by a small deviation. tf32: products round their factors to 11 bits. bf16: what layers
 * pass on is rounded to 8 bits, some layers after one another; and where two numbers are close a rounding may
 * choose another maximum or the other side of a kink. */
static const double tolerance[PRECISION_COUNT] = { 2e-5, 5e-3, 5e-2 };
/* Of the losses: the CE, and the match, which divides by distances between rows. */
static const double loss_tolerance[PRECISION_COUNT] = { 1e-5, 1e-3, 2e-2 };

struct pair {
    struct bed ref, dev;
    const char *what;
    enum precision precision;
};

static void compare(const struct pair *t, const char *part, int layer, const real *a, const real *b, size_t n)
{
    double error = relative(a, b, n);
    if (error <= tolerance[t->precision]) return;
    print_error("%s: layer %d %s: %.2e\n", t->what, layer, part, error);
    assert_true(error <= tolerance[t->precision]);
}

static void compare_tensor(const struct pair *t, const char *part, int layer, const struct tensor *a,
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

static void compare_param(const struct pair *t, const struct param *a, const struct param *b, int gradient)
{
    if (gradient && !a->g) return;
    real *x = mem_alloc(a->count, sizeof *x), *y = mem_alloc(a->count, sizeof *y);
    assert_true(x && y);
    assert_int_equal(model_get(a, gradient ? a->g : a->w, x), OK);
    assert_int_equal(model_get(b, gradient ? b->g : b->w, y), OK);
    compare(t, gradient ? "gradient of a parameter" : "parameter", a->layer, x, y, a->count);
    mem_free(x);
    mem_free(y);
}

static void compare_all(const struct pair *t, const struct step_stats s[2])
{
    double part = loss_tolerance[t->precision];
    assert_true(fabs(s[0].ce - s[1].ce) <= part * fabs(s[1].ce));
    assert_true(isnan(s[0].match) ? isnan(s[1].match)
                                  : fabs(s[0].match - s[1].match) <= 10 * part * fabs(s[1].match));
    for (int i = 0; program_layer(t->ref.p, i); i++) {
        const struct layer *a = program_layer(t->dev.p, i), *b = program_layer(t->ref.p, i);
        compare_tensor(t, "output", i, &a->out->x, &b->out->x, a->out->x.shape.n);
        compare_tensor(t, "gradient", i, &a->out->g, &b->out->g, a->rows_back);
    }
    for (int i = 0; i < t->ref.net->nparam; i++)
        compare_param(t, t->dev.net->param[i], t->ref.net->param[i], 1);
}

/* Two steps, the second adding to the gradients of the first, then an update. */
static void check(const char *device, enum precision precision, const struct layer_ops *ops,
                  const char *example, int channels, int side)
{
    static const char head[] = "[net]\n";
    char cfg[4096], precise[4200], what[300];
    struct pair t = { .what = what, .precision = precision };
    struct err e = { 0 };
    bed_cfg(cfg, sizeof cfg, ops, example, channels, side);
    snprintf(precise, sizeof precise, "%sprecision=%s\n%s", head, precision_names[precision],
             cfg + sizeof head - 1);
    snprintf(what, sizeof what, "[%s] {%s} %dx%dx%d on %s in %s", ops->name, example, side + 1, side,
             channels, device, precision_names[precision]);
    ok(bed_open(&t.dev, device, precise, &e), &e);
    ok(bed_open(&t.ref, "ref", cfg, &e), &e);
    bed_warm(&t.dev, &e);
    bed_warm(&t.ref, &e);
    for (int k = 0; k < 2; k++) {
        struct step_stats s[2];
        t.dev.step.number = t.ref.step.number = (uint64_t)k;
        t.dev.step.add = t.ref.step.add = k;
        ok(program_train(t.dev.p, &t.dev.step, &s[0], &e), &e);
        ok(program_train(t.ref.p, &t.ref.step, &s[1], &e), &e);
        compare_all(&t, s);
        bed_negate(&t.dev);
        bed_negate(&t.ref);
    }
    ok(net_update(t.dev.net, .1, &e), &e);
    ok(net_update(t.ref.net, .1, &e), &e);
    for (int i = 0; i < t.ref.net->nparam; i++)
        compare_param(&t, t.dev.net->param[i], t.ref.net->param[i], 0);
    bed_close(&t.dev);
    bed_close(&t.ref);
}

static void registry(const struct backend_ops *device, enum precision p)
{
    static const int channels[] = { 1, 3, 17 }, side[] = { 5, 6, 9 };
    for (int i = 0; layer_at(i); i++)
        for (const char *const *x = layer_at(i)->examples; *x; x++)
            for (int k = 0; k < 3; k++) check(device->name, p, layer_at(i), *x, channels[k], side[k]);
}

static void test_registry(void **state)
{
    const struct backend_ops *device = *state;
    struct backend *be;
    struct err e;
    if (backend_open(&be, device->name, 2, &e)) {
        print_message("skipped: %s\n", e.msg);
        skip();
    }
    backend_close(be);
    for (int p = 0; p < PRECISION_COUNT; p++)
        if (device->precisions & 1u << p) registry(device, (enum precision)p);
}

int main(void)
{
    int failed = 0;
    for (int i = 0; backend_at(i); i++) {
        void *device = (void *)(uintptr_t)backend_at(i);
        const struct CMUnitTest tests[] = { cmocka_unit_test_prestate(test_registry, device) };
        if (!strcmp(backend_at(i)->name, "ref")) continue;
        print_message("%s\n", backend_at(i)->name);
        failed += cmocka_run_group_tests(tests, NULL, NULL);
    }
    return failed;
}
