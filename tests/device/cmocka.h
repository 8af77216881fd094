/* What tests/rig, tests/backends and tests/layers/parity.c use of cmocka, for machines that lack it: linked
 * with cmocka.c those programs are plain ones. Tests run one after another in the process; the first
 * assertion that does not hold ends its test. ONLY=NAME in the environment: that test alone. */
#ifndef DEVICE_CMOCKA_H
#define DEVICE_CMOCKA_H
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct CMUnitTest {
    const char *name;
    void (*test_func)(void **);
    void *initial_state;
};

enum { OUTCOME_FAILED = 1, OUTCOME_SKIPPED };
/* Where the test that runs ends early, and how many were skipped. */
extern struct group {
    jmp_buf end;
    int skipped;
} group;

/* Returns the number of tests that failed, after lines as cmocka prints them. Set-up and tear-down are not
 * called. */
int _cmocka_run_group_tests(const char *group_name, const struct CMUnitTest *tests, size_t n,
                            int (*setup)(void **), int (*teardown)(void **));

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
    _cmocka_run_group_tests(#tests, tests, sizeof(tests) / sizeof *(tests), setup, teardown)

#endif
