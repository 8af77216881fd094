/* Every example of every layer in the registry, on every backend: a net that is opened for inference alone,
 * from the .weights of a trained one, has the outputs of an inference program beside the training program;
 * and, where nothing in the net acts differently in training, those of the training program itself. */
#include <unistd.h>
#include "bed.h"
#include "net/net.h"

#define TOLERANCE 1e-5 /* rounding: plans, and with them the order of sums, may differ */

static void read_output(struct bed *b, real *out)
{
    const struct layer *last = NULL;
    for (int i = 0; program_layer(b->p, i); i++)
        if (!(program_layer(b->p, i)->ops->flags & LAYER_TERMINAL)) last = program_layer(b->p, i);
    assert_int_equal(b->be->ops->read(b->be, &last->out->x, 0, BED_ROWS, out), OK);
}

/* The outputs of an inference program over the net. weights: a file to load first, or NULL. */
static void infer(struct net *net, const char *weights, struct step s, real *out)
{
    struct err e = { 0 };
    struct program *p;
    struct program_desc d = { .rows = BED_ROWS };
    size_t n = (size_t)BED_ROWS * (size_t)net->classes;
    float *prob = mem_alloc(n, sizeof *prob);
    double ce;
    int layers;
    assert_non_null(prob);
    ok(program_open(&p, net, &d, &e), &e);
    if (weights) {
        ok(weights_load(net, weights, WEIGHTS_WHOLE, &layers, &e), &e);
        ok(program_refresh(p, &e), &e);
    }
    s.rows = BED_ROWS;
    ok(program_infer(p, &s, prob, &ce, &e), &e);
    for (size_t i = 0; i < n; i++) out[i] = (real)prob[i];
    program_close(p);
    mem_free(prob);
}

/* Does the net compute the same in training: without batch statistics, random crops and dropout? */
static int same_in_training(const struct net *net, const struct layer_ops *ops)
{
    for (int i = 0; i < net->nparam; i++)
        if (net->param[i]->flags & PARAM_VARIANCE) return 0;
    return strcmp(ops->name, "dropout") && strcmp(ops->name, "crop");
}

static void compare(const char *what, const char *with, const real *a, const real *b, size_t n)
{
    double error = relative(a, b, n);
    if (!(error <= TOLERANCE)) print_error("%s against %s: %.1e\n", what, with, error);
    assert_true(error <= TOLERANCE); /* NaN fails */
}

static void check(const char *device, const struct layer_ops *ops, const char *example)
{
    enum { ALONE, BESIDE, TRAINING, WAYS };
    char cfg[4096], what[300], weights[] = "/tmp/inference-XXXXXX";
    struct bed trained, alone;
    struct step_stats stats;
    struct err e = { 0 };
    real *out[WAYS];
    bed_cfg(cfg, sizeof cfg, ops, example, 3, 6);
    snprintf(what, sizeof what, "[%s] {%s} on %s", ops->name, example, device);
    ok(bed_open(&trained, device, cfg, &e), &e);
    size_t n = (size_t)BED_ROWS * (size_t)trained.net->classes;
    for (int i = 0; i < WAYS; i++) assert_non_null(out[i] = mem_alloc(n, sizeof **out));
    bed_warm(&trained, &e);
    ok(optim_update(trained.net, 1, .1, &e), &e);
    ok(step_train(trained.p, &trained.step, &stats, &e), &e);
    read_output(&trained, out[TRAINING]);
    infer(trained.net, NULL, trained.step, out[BESIDE]);
    assert_int_equal(close(mkstemp(weights)), 0);
    ok(weights_save(trained.net, weights, trained.net->n, 42, &e), &e);
    ok(bed_net(&alone, device, cfg, &e), &e);
    infer(alone.net, weights, trained.step, out[ALONE]);
    unlink(weights);
    compare(what, "a program beside the training program", out[ALONE], out[BESIDE], n);
    if (same_in_training(trained.net, ops))
        compare(what, "the training program", out[ALONE], out[TRAINING], n);
    for (int i = 0; i < WAYS; i++) mem_free(out[i]);
    bed_close(&alone);
    bed_close(&trained);
}

static void registry(void **state)
{
    const char *device = *state;
    bed_need(device, PRECISION_FP32);
    for (int i = 0; layer_at(i); i++)
        for (const char *const *x = layer_at(i)->examples; *x; x++) check(device, layer_at(i), *x);
    for (int i = 0; i < BED_TWICE; i++) check(device, layer_find(bed_twice[i].layer), bed_twice[i].example);
}

int main(void)
{
    int failed = 0;
    for (int i = 0; backend_at(i); i++) {
        const struct CMUnitTest test[] = { { backend_at(i)->name, registry, NULL, NULL,
                                             (void *)(uintptr_t)backend_at(i)->name } };
        failed += cmocka_run_group_tests(test, NULL, NULL);
    }
    return failed;
}
