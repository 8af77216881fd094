/* Every example of every layer in the registry, inside a small net: the gradient of the whole loss with
 * respect to every parameter, against central differences. The losses of [itra] and [center] are checked a
 * second time without the cross-entropy, behind which a small error would hide. What the gradient takes as
 * constant (bandwidths, centers) stays the same in all passes. Skipped unless built with DOUBLE=1: in float,
 * differences of a loss resolve a gradient to 1e-2 at best. */
#include "bed.h"
#include "net/net.h"

#define TOLERANCE 1e-7
#define STEP      1e-5

/* Sum of the losses; without the classifier's when `own`. */
static double total(const struct bed *b, int own)
{
    double sum = 0;
    for (int i = 0; program_layer(b->p, i); i++) {
        const struct layer *l = program_layer(b->p, i);
        int auxiliary = (l->ops->flags & LAYER_TRAIN_ONLY) != 0;
        if (!(l->ops->flags & LAYER_LOSS) || l->inert || !isfinite(l->loss) || (own && !auxiliary)) continue;
        sum += l->weight * l->loss;
    }
    return sum;
}

static double loss_at(struct bed *b, int own)
{
    struct err e = { 0 };
    struct step_stats s;
    b->step.reuse_detached = 1;
    ok(step_train(b->p, &b->step, &s, &e), &e);
    return total(b, own);
}

static real *gradients(struct bed *b)
{
    size_t n = 0;
    for (int i = 0; i < b->net->nparam; i++) n += b->net->param[i]->count;
    real *g = mem_alloc(n, sizeof *g), *at = g;
    assert_non_null(g);
    for (int i = 0; i < b->net->nparam; i++) {
        const struct param *p = b->net->param[i];
        if (p->g) assert_int_equal(param_unpack(p, p->g, at), OK);
        at += p->count;
    }
    return g;
}

/* Central differences in up to 80 elements of each parameter; compares with g. */
static double differences(struct bed *b, const real *g, int own, double *size)
{
    double num = 0, den = 0;
    for (int i = 0; i < b->net->nparam; i++) {
        struct param *p = b->net->param[i];
        real *w = mem_alloc(p->count, sizeof *w);
        assert_non_null(w);
        assert_int_equal(param_get(p, w), OK);
        for (size_t k = 0; k < p->count && p->g; k += p->count / 80 + 1) {
            real kept = w[k];
            double f[2];
            for (int side = 0; side < 2; side++) {
                w[k] = (real)((double)kept + (side ? STEP : -STEP));
                assert_int_equal(param_set(p, w), OK);
                f[side] = loss_at(b, own);
            }
            w[k] = kept;
            assert_int_equal(param_set(p, w), OK);
            double d = (f[1] - f[0]) / (2 * STEP), error = d - (double)g[k];
            num += error * error;
            den += d * d;
        }
        g += p->count;
        mem_free(w);
    }
    *size = sqrt(den);
    return sqrt(num / den);
}

/* The same net with a negligible lambda: on the same input its gradient is that of the classifier's loss. */
static void open_without(const char *cfg, const struct layer_ops *ops, struct bed *b)
{
    char more[4096], section[64];
    struct err e = { 0 };
    snprintf(section, sizeof section, "[%s]\n", ops->name);
    const char *at = strstr(cfg, section);
    assert_non_null(at);
    const char *lambda = strstr(at, "lambda="), *end = lambda ? strchr(lambda, '\n') : NULL;
    assert_non_null(end);
    snprintf(more, sizeof more, "%.*slambda=1e-30%s", (int)(lambda - cfg), cfg, end);
    ok(bed_open(b, "ref", more, &e), &e);
}

static void report(const char *name, const char *example, const char *what, double error, double size)
{
    char line[200];
    snprintf(line, sizeof line, "%s", example);
    for (char *c = line; *c; c++)
        if (*c == '\n') *c = ' ';
    print_message("%-14s %-60s %s %.1e\n", name, line, what, error);
    assert_true(size > 0);
    assert_true(error <= TOLERANCE); /* NaN fails */
}

static void check(const struct layer_ops *ops, const char *example)
{
    char cfg[4096];
    struct bed b;
    struct err e = { 0 };
    struct step_stats s;
    double size, error;
    bed_cfg(cfg, sizeof cfg, ops, example, 3, 6);
    ok(bed_open(&b, "ref", cfg, &e), &e);
    bed_warm(&b, &e);
    ok(step_train(b.p, &b.step, &s, &e), &e);
    real *g = gradients(&b);
    error = differences(&b, g, 0, &size);
    report(ops->name, example, "whole", error, size);
    if (ops->flags & LAYER_TRAIN_ONLY) {
        struct bed without;
        open_without(cfg, ops, &without);
        bed_warm(&without, &e);
        ok(step_train(without.p, &without.step, &s, &e), &e);
        real *g0 = gradients(&without);
        for (size_t i = 0, k = 0; i < (size_t)b.net->nparam; k += b.net->param[i++]->count)
            for (size_t j = k; j < k + b.net->param[i]->count; j++) g[j] -= g0[j];
        error = differences(&b, g, 1, &size);
        report(ops->name, example, "own  ", error, size);
        mem_free(g0);
        bed_close(&without);
    }
    mem_free(g);
    bed_close(&b);
}

static void test_registry(void **state)
{
    (void)state;
    if (sizeof(real) < sizeof(double)) {
        print_message("skip: finite differences need double\n");
        skip();
    }
    for (int i = 0; layer_at(i); i++)
        for (const char *const *x = layer_at(i)->examples; *x; x++) check(layer_at(i), *x);
    for (int i = 0; i < BED_TWICE; i++) check(layer_find(bed_twice[i].layer), bed_twice[i].example);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_registry) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
