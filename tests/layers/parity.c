/* Every example of every layer in the registry, inside a small net, on every backend that was built, against
 * ref: the loss, every tensor, every gradient, every parameter after an update. Over odd channels and sizes.
 */
#include "bed.h"
#include "net/model.h"

/* fp32 against fp32: rounding of sums of some hundred terms, a little more where Winograd is used or where
 * batch norm divides by a small deviation. Never absolute. */
#define TOLERANCE 2e-5

struct pair {
    struct bed ref, dev;
    const char *what;
};

static void compare(const struct pair *t, const char *part, int layer, const real *a, const real *b, size_t n)
{
    double error = relative(a, b, n);
    if (error <= TOLERANCE) return;
    print_error("%s: layer %d %s: %.2e\n", t->what, layer, part, error);
    assert_true(error <= TOLERANCE);
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
    assert_true(fabs(s[0].ce - s[1].ce) <= 1e-5 * fabs(s[1].ce));
    assert_true(isnan(s[0].match) ? isnan(s[1].match)
                                  : fabs(s[0].match - s[1].match) <= 1e-4 * fabs(s[1].match));
    for (int i = 0; program_layer(t->ref.p, i); i++) {
        const struct layer *a = program_layer(t->dev.p, i), *b = program_layer(t->ref.p, i);
        compare_tensor(t, "output", i, &a->out->x, &b->out->x, a->out->x.shape.n);
        compare_tensor(t, "gradient", i, &a->out->g, &b->out->g, a->rows_back);
    }
    for (int i = 0; i < t->ref.net->nparam; i++)
        compare_param(t, t->dev.net->param[i], t->ref.net->param[i], 1);
}

/* Two steps, the second adding to the gradients of the first, then an update. */
static void check(const char *device, const struct layer_ops *ops, const char *example, int channels,
                  int side)
{
    char cfg[4096], what[300];
    struct pair t;
    struct err e = { 0 };
    bed_cfg(cfg, sizeof cfg, ops, example, channels, side);
    snprintf(what, sizeof what, "[%s] {%s} %dx%dx%d on %s", ops->name, example, side + 1, side, channels,
             device);
    t.what = what;
    ok(bed_open(&t.dev, device, cfg, &e), &e);
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

static void test_registry(void **state)
{
    static const int channels[] = { 1, 3, 17 }, side[] = { 5, 6, 9 };
    (void)state;
    for (int d = 0; backend_at(d); d++)
        for (int i = 0; strcmp(backend_at(d)->name, "ref") && layer_at(i); i++)
            for (const char *const *x = layer_at(i)->examples; *x; x++)
                for (int k = 0; k < 3; k++) check(backend_at(d)->name, layer_at(i), *x, channels[k], side[k]);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_registry) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
