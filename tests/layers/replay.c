/* A device that records a step and runs it again trains as it does step by step, to the bit: every example of
 * every layer, in single precision and in bfloat16, over several iterations of two sub-mini-batches each,
 * whose rates and images differ. What a recording has fixed, and should have looked up, would show. */
#include "bed.h"

enum { STEPS = 8 }; /* recorded are the second of those that add, and of those that do not */

static void train(struct bed *b, struct backend *be, const char *cfg, enum precision precision, int eager)
{
    struct err e = { 0 };
    be->eager = eager;
    ok(bed_net_on(b, be, cfg, &e), &e);
    b->net->config.precision = precision;
    b->net->config.subdivisions = 2;
    const struct program_desc d = { .rows = BED_ROWS, .paired = b->net->pair_loader, .train = 1 };
    ok(program_open(&b->p, b->net, &d, &e), &e);
    assert_true(!eager || !step_window(b->p));
    const struct shape s = program_input(b->p)->x.shape;
    b->x = mem_alloc(shape_count(s), sizeof *b->x);
    assert_non_null(b->x);
    for (size_t i = 0; i < shape_count(s); i++) b->x[i] = (float)(2 * rng_uniform(5, i) - 1);
    for (int i = 0; i < s.n; i++) b->label[i] = (int)rng_below(9, (uint64_t)i, 2);
    for (int k = 0; k < STEPS; k++) {
        struct step step = step_at(b->net, (uint64_t)k);
        struct step_stats stats;
        step.x = b->x;
        step.label = b->label;
        step.rows = s.n;
        step.rows_s1 = BED_ROWS;
        step.rate = .01 / (1 + k / 2);
        ok(step_submit(b->p, &step, &e), &e);
        ok(step_mark(b->p, 0, &e), &e);
        ok(step_wait(b->p, 0, &e), &e);
        ok(step_read_stats(b->p, &step, &stats, &e), &e);
        if (step.update) bed_negate(b);
    }
}

static int same(const struct param *a, const struct param *b)
{
    real *x = mem_alloc(a->count, sizeof *x), *y = mem_alloc(a->count, sizeof *y);
    assert_true(x && y);
    assert_int_equal(param_get(a, x), OK);
    assert_int_equal(param_get(b, y), OK);
    const int equal = !memcmp(x, y, a->count * sizeof *x);
    mem_free(x);
    mem_free(y);
    return equal;
}

static void replays(void **state)
{
    const struct backend_ops *ops = *state;
    for (int p = 0; p < PRECISION_COUNT; p++) {
        if (p == PRECISION_TF32) continue; /* launches what single precision does */
        struct backend *be = bed_device(ops->name, (enum precision)p);
        be->deterministic = 1;
        for (int i = 0; layer_at(i); i++)
            for (const char *const *x = layer_at(i)->examples; *x; x++) {
                struct bed bed[2];
                char cfg[4096];
                bed_cfg(cfg, sizeof cfg, layer_at(i), *x, 3, 6);
                for (int k = 0; k < 2; k++) train(&bed[k], be, cfg, (enum precision)p, k);
                for (int k = 0; k < bed[0].net->nparam; k++) {
                    const int equal = same(bed[0].net->param[k], bed[1].net->param[k]);
                    if (!equal)
                        print_error("[%s] {%s} in %s: parameter %d\n", layer_at(i)->name, *x,
                                    precision_names[p], k);
                    assert_true(equal);
                }
                for (int k = 0; k < 2; k++) bed_close(&bed[k]);
            }
        backend_close(be);
    }
}

int main(void)
{
    int failed = 0;
    for (int i = 0; backend_at(i); i++) {
        const struct CMUnitTest tests[] = { cmocka_unit_test_prestate(replays,
                                                                      (void *)(uintptr_t)backend_at(i)) };
        if (backend_at(i)->capture_begin) failed += cmocka_run_group_tests(tests, NULL, NULL);
    }
    return failed;
}
