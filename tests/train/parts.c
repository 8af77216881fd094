/* The parts of the training loop that can be looked at alone: ranks, the sample for compactness, the metrics
 * file. */
#include <unistd.h>
#include "tiny.h"
#include "train/compactness.h"
#include "train/evaluate.h"
#include "train/lock.h"
#include "train/metrics.h"

/* ---- ranks ---- */

static void ranks(void **state)
{
    (void)state;
    const float p[] = { .2f, .5f, .2f, .1f, NAN };
    assert_int_equal(eval_rank(p, 4, 1), 0);
    assert_int_equal(eval_rank(p, 4, 0), 1);
    assert_int_equal(eval_rank(p, 4, 2), 2); /* as probable as class 0, which comes first */
    assert_int_equal(eval_rank(p, 4, 3), 3);
    assert_int_equal(eval_rank(p, 5, 4), 5); /* not a number: never right */
}

/* ---- the sample ---- */

static int choose(struct sample *s, int total, uint64_t seed, int *chosen)
{
    struct err e = { 0 };
    const real row[3] = { 1, 2, 3 };
    int n = 0;
    ok(sample_open(s, total, 3, seed, &e), &e);
    for (int i = 0; i < total; i++) {
        if (!sample_wants(s)) continue;
        sample_add(s, i % 7, row);
        chosen[n++] = i;
    }
    assert_int_equal(n, s->n);
    sample_close(s);
    return n;
}

static void sample_is_fixed_and_spread(void **state)
{
    (void)state;
    static int a[2000], b[2000];
    struct sample s;
    assert_int_equal(choose(&s, 10000, 1, a), 2000);
    assert_int_equal(choose(&s, 10000, 1, b), 2000);
    assert_memory_equal(a, b, sizeof a);
    assert_int_equal(choose(&s, 10000, 2, b), 2000);
    assert_memory_not_equal(a, b, sizeof a);
    double mean = 0;
    for (int i = 0; i < 2000; i++) mean += a[i] / 2000.;
    assert_true(fabs(mean - 5000) < 300); /* standard deviation 58 */
    assert_int_equal(choose(&s, 10, 1, a), 10);
}

/* Three rows in the plane: two of class 0 at distance 5, one of class 1 at 12 and 13 from them. */
static void distances(void **state)
{
    (void)state;
    const real rows[3][2] = { { 0, 0 }, { 5, 0 }, { 0, 12 } };
    struct err e = { 0 };
    struct sample s;
    double same, all;
    ok(sample_open(&s, 3, 2, 1, &e), &e);
    for (int i = 0; i < 2; i++) sample_add(&s, 0, rows[i]);
    sample_add(&s, 1, rows[2]);
    for (int threads = 1; threads <= 3; threads++) {
        ok(sample_distances(&s, threads, &same, &all, &e), &e);
        assert_true(same == 5 && fabs(all - 10) < 1e-12);
    }
    s.label[1] = 2; /* now nobody has a partner */
    ok(sample_distances(&s, 1, &same, &all, &e), &e);
    assert_true(same < 0);
    sample_close(&s);
}

/* ---- the metrics file ---- */

static void write_row(struct metrics *m, uint64_t iteration)
{
    struct train_line l = {
        .iteration = iteration, .seen = 10 * iteration, .ce = .5, .match = NAN, .rate = .1
    };
    metrics_train(m, &l);
}

static int count_lines(const char *path, char *last, size_t room)
{
    FILE *f = fopen(path, "r");
    int n = 0;
    assert_non_null(f);
    while (fgets(last, (int)room, f)) n++;
    fclose(f);
    return n;
}

static void metrics_are_cut_and_continued(void **state)
{
    (void)state;
    char path[] = "/tmp/metrics-XXXXXX", last[200];
    struct err e = { 0 };
    struct metrics m;
    close(mkstemp(path));
    ok(metrics_open(&m, path, 0, NULL, &e), &e);
    for (uint64_t i = 1; i <= 9; i++) write_row(&m, i);
    fputs("train,3,unfinished", m.f); /* as a killed run leaves it */
    metrics_close(&m);
    ok(metrics_open(&m, path, 5, NULL, &e), &e);
    write_row(&m, 6);
    ok(metrics_flush(&m, &e), &e);
    assert_int_equal(count_lines(path, last, sizeof last), 1 + 6);
    assert_string_equal(last, "train,6,0,60,0.5,,0,0.1,0,,,,,\n");
    metrics_close(&m);
    char aside[40]; /* where a fresh run puts them */
    ok(metrics_open(&m, path, 0, NULL, &e), &e);
    metrics_close(&m);
    snprintf(aside, sizeof aside, "%s.1", path);
    assert_int_equal(count_lines(aside, last, sizeof last), 1 + 6);
    assert_int_equal(count_lines(path, last, sizeof last), 1);
    unlink(aside);
    unlink(path);
}

static void other_files_are_left_alone(void **state)
{
    (void)state;
    char path[] = "/tmp/metrics-XXXXXX", last[200];
    struct err e = { 0 };
    struct metrics m = { 0 };
    FILE *f = fdopen(mkstemp(path), "w");
    fputs("a letter\n", f);
    fclose(f);
    assert_int_equal(metrics_open(&m, path, 0, NULL, &e), E_FORMAT);
    metrics_close(&m);
    assert_int_equal(count_lines(path, last, sizeof last), 1);
    assert_string_equal(last, "a letter\n");
    unlink(path);
}

/* ---- the lock ---- */

/* Of one process, too; and closing the file of the second run leaves the first one's lock. */
static void a_folder_has_one_run(void **state)
{
    char path[64] = "/tmp/lock-XXXXXX";
    struct lock first, other;
    struct err e = { 0 };
    (void)state;
    close(mkstemp(path));
    ok(lock_open(&first, path, NULL, &e), &e);
    for (int i = 0; i < 2; i++) {
        e = (struct err){ 0 };
        refused(lock_open(&other, path, NULL, &e), E_FILE, &e, "another run of this process");
    }
    lock_close(&first);
    assert_int_equal(access(path, F_OK), -1);
    ok(lock_open(&other, path, NULL, &e), &e);
    lock_close(&other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks),
        cmocka_unit_test(sample_is_fixed_and_spread),
        cmocka_unit_test(distances),
        cmocka_unit_test(metrics_are_cut_and_continued),
        cmocka_unit_test(other_files_are_left_alone),
        cmocka_unit_test(a_folder_has_one_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
