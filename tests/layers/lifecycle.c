/* Every example of every layer in the registry, on every backend: memory is not read after it may have been
 * reused, nor written outside its bounds; programs of any batch size over one net give the same outputs; and
 * saved weights load. */
#include <unistd.h>
#include "bed.h"
#include "net/net.h"

struct where {
    const char *device, *cfg;
    char what[300];
};

/* The loss and the gradients of one step of a fresh net, in a second program over it. */
static double first_step(const struct where *w, int keep, real **g)
{
    struct err e = { 0 };
    struct bed b;
    struct program *p;
    struct step_stats s;
    ok(bed_open(&b, w->device, w->cfg, &e), &e);
    struct program_desc d = {
        .rows = BED_ROWS, .paired = b.net->pair_loader, .train = 1, .keep = keep, .guard = !keep
    };
    ok(program_open(&p, b.net, &d, &e), &e);
    int rc = step_train(p, &b.step, &s, &e);
    if (rc) print_error("%s\n", w->what);
    ok(rc, &e);
    size_t n = 0;
    for (int i = 0; i < b.net->nparam; i++) n += b.net->param[i]->count;
    real *at = *g = mem_alloc(n, sizeof **g);
    assert_non_null(at);
    for (int i = 0; i < b.net->nparam; at += b.net->param[i++]->count)
        if (b.net->param[i]->g) assert_int_equal(param_unpack(b.net->param[i], b.net->param[i]->g, at), OK);
    program_close(p);
    bed_close(&b);
    return s.ce;
}

/* A program that reuses memory, with dead memory poisoned, gives the same bits as one that keeps everything.
 */
static void check_arena(struct bed *b, const struct where *w)
{
    real *g[2];
    double ce[2] = { first_step(w, 1, &g[0]), first_step(w, 0, &g[1]) };
    size_t n = 0;
    for (int i = 0; i < b->net->nparam; i++) n += b->net->param[i]->count;
    if (memcmp(&ce[0], &ce[1], sizeof ce[0]) || memcmp(g[0], g[1], n * sizeof **g))
        print_error("%s\n", w->what);
    assert_memory_equal(&ce[0], &ce[1], sizeof ce[0]);
    assert_memory_equal(g[0], g[1], n * sizeof **g);
    mem_free(g[0]);
    mem_free(g[1]);
}

static void infer(struct bed *b, int rows, float *prob)
{
    struct err e = { 0 };
    struct program *p;
    struct program_desc d = { .rows = rows, .guard = 1 };
    ok(program_open(&p, b->net, &d, &e), &e);
    size_t image = shape_row(program_input(p)->x.shape);
    for (int i = 0; i < BED_ROWS; i += rows) {
        int n = BED_ROWS - i < rows ? BED_ROWS - i : rows;
        struct step s = { .x = b->x + (size_t)i * image, .label = b->label + i, .rows = n, .rows_s1 = n };
        double ce;
        ok(program_infer(p, &s, prob + i * b->net->classes, &ce, &e), &e);
        assert_true(isfinite(ce));
    }
    program_close(p);
}

/* Rows one by one, in batches of which the last is short, and all at once give the same outputs. */
static void check_sizes(struct bed *b, const struct where *w)
{
    enum { CAPACITY = 4096 };
    static float prob[3][CAPACITY];
    const int rows[3] = { 1, 4, BED_ROWS };
    static real a[CAPACITY], z[CAPACITY];
    size_t n = (size_t)(BED_ROWS * b->net->classes);
    assert_true(n <= CAPACITY);
    for (int k = 0; k < 3; k++) infer(b, rows[k], prob[k]);
    for (int k = 0; k < 2; k++) {
        for (size_t i = 0; i < n; i++) a[i] = prob[k][i], z[i] = prob[2][i];
        double error = relative(a, z, n);
        if (!(error <= 1e-5))
            print_error("%s: %d rows against %d: %.1e\n", w->what, rows[k], BED_ROWS, error);
        assert_true(error <= 1e-5);
    }
}

static void check_files(struct bed *b, const struct where *w)
{
    char path[] = "/tmp/lifecycle-XXXXXX";
    struct err e = { 0 };
    int layers;
    assert_true(close(mkstemp(path)) == 0);
    ok(weights_save(b->net, path, b->net->n, 42, &e), &e);
    struct bed other;
    ok(bed_open(&other, w->device, w->cfg, &e), &e);
    for (int i = 0; i < other.net->nparam; i++) { /* zeros, so that loading shows */
        real *x = mem_alloc(other.net->param[i]->count, sizeof *x);
        assert_non_null(x);
        assert_int_equal(param_set(other.net->param[i], x), OK);
        mem_free(x);
    }
    ok(weights_load(other.net, path, WEIGHTS_WHOLE, &layers, &e), &e);
    assert_int_equal(layers, b->net->n);
    assert_int_equal(other.net->seen, 42);
    for (int i = 0; i < b->net->nparam; i++) {
        const struct param *p = b->net->param[i], *q = other.net->param[i];
        if (p->flags & PARAM_UNSAVED) continue;
        real *x = mem_alloc(p->count, sizeof *x), *y = mem_alloc(p->count, sizeof *y);
        assert_true(x && y && !param_get(p, x) && !param_get(q, y));
        for (size_t k = 0; k < p->count; k++) assert_true((float)x[k] == (float)y[k]);
        mem_free(x);
        mem_free(y);
    }
    bed_close(&other);
    unlink(path);
}

static void check(const char *device, const struct layer_ops *ops, const char *example)
{
    char cfg[4096];
    struct bed b;
    struct err e = { 0 };
    struct where w = { device, cfg, "" };
    bed_cfg(cfg, sizeof cfg, ops, example, 3, 6);
    snprintf(w.what, sizeof w.what, "[%s] {%s} on %s", ops->name, example, device);
    ok(bed_open(&b, device, cfg, &e), &e);
    check_arena(&b, &w);
    check_sizes(&b, &w);
    check_files(&b, &w);
    bed_close(&b);
}

static void test_registry(void **state)
{
    (void)state;
    for (int d = 0; backend_at(d); d++)
        for (int i = 0; layer_at(i); i++)
            for (const char *const *x = layer_at(i)->examples; *x; x++)
                check(backend_at(d)->name, layer_at(i), *x);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_registry) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
