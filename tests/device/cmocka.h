/* What tests/unit/backends.c and the suites of tests/layers use of cmocka, for machines that lack it: those
 * programs are then plain ones. Tests run one after another in the process; the first assertion that does not
 * hold ends its test. ONLY=NAME in the environment: that test alone. */
#ifndef DEVICE_CMOCKA_H
#define DEVICE_CMOCKA_H
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct CMUnitTest {
    const char *name;
    void (*run)(void **);
    void *state;
};

enum { OUTCOME_FAILED = 1, OUTCOME_SKIPPED };
static struct {
    jmp_buf end;
    int skipped;
} group;

#define print_message(...) ((void)printf(__VA_ARGS__))
#define print_error(...)   ((void)printf(__VA_ARGS__))
#define skip()             longjmp(group.end, OUTCOME_SKIPPED)
#define fail_msg(...)                                                                                        \
    do {                                                                                                     \
        print_error(__VA_ARGS__);                                                                            \
        print_error("\n%s:%d: failed\n", __FILE__, __LINE__);                                                \
        longjmp(group.end, OUTCOME_FAILED);                                                                  \
    } while (0)
#define assert_true(x)                                                                                       \
    do {                                                                                                     \
        if (!(x)) fail_msg("%s", #x);                                                                        \
    } while (0)
#define assert_null(p)     assert_true(!(p))
#define assert_non_null(p) assert_true(p)
#define assert_int_equal(a, b)                                                                               \
    do {                                                                                                     \
        long long a_ = (long long)(a), b_ = (long long)(b);                                                  \
        if (a_ != b_) fail_msg("%s is %lld, not %lld", #a, a_, b_);                                          \
    } while (0)
#define assert_memory_equal(a, b, n) assert_true(!memcmp(a, b, n))

#define cmocka_unit_test_prestate(f, state) ((struct CMUnitTest){ #f, f, state })
#define cmocka_unit_test(f)                 cmocka_unit_test_prestate(f, NULL)
#define cmocka_run_group_tests(tests, setup, teardown)                                                       \
    ((void)(setup), (void)(teardown), group_run(tests, sizeof(tests) / sizeof *(tests)))

static int group_test(const struct CMUnitTest *t)
{
    void *state = t->state;
    print_message("[ RUN      ] %s\n", t->name);
    fflush(stdout); /* a crash must not take it along */
    switch (setjmp(group.end)) {
    case 0: t->run(&state); break;
    case OUTCOME_FAILED: return print_message("[  FAILED  ] %s\n", t->name), 1;
    default: group.skipped++; return print_message("[  SKIPPED ] %s\n", t->name), 0;
    }
    return print_message("[       OK ] %s\n", t->name), 0;
}

/* The number of tests that failed, after lines as cmocka prints them. */
static inline int group_run(const struct CMUnitTest *tests, size_t n)
{
    const char *only = getenv("ONLY");
    int failed = 0, total = 0;
    group.skipped = 0;
    for (size_t i = 0; i < n; i++) {
        if (only && strcmp(only, tests[i].name)) continue;
        failed += group_test(&tests[i]);
        total++;
    }
    print_message("[  PASSED  ] %d test(s).\n", total - failed - group.skipped);
    if (group.skipped) print_message("[  SKIPPED ] %d test(s).\n", group.skipped);
    if (failed) print_message(" %d FAILED TEST(S)\n", failed);
    return failed;
}

#endif
