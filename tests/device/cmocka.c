#include "cmocka.h"

struct group group;

static int group_test(const struct CMUnitTest *t)
{
    void *state = t->initial_state;
    print_message("[ RUN      ] %s\n", t->name);
    fflush(stdout); /* a crash must not take it along */
    switch (setjmp(group.end)) {
    case 0: t->test_func(&state); break;
    case OUTCOME_FAILED: return print_message("[  FAILED  ] %s\n", t->name), 1;
    default: group.skipped++; return print_message("[  SKIPPED ] %s\n", t->name), 0;
    }
    return print_message("[       OK ] %s\n", t->name), 0;
}

int _cmocka_run_group_tests(const char *group_name, const struct CMUnitTest *tests, size_t n,
                            int (*setup)(void **), int (*teardown)(void **))
{
    (void)group_name;
    (void)setup;
    (void)teardown;
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
