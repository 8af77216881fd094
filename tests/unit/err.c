/* Messages: one line, whatever the names in it hold. */
#include "test.h"
#include "core/err.h"

static void copy(void *ctx, const char *line) { strcpy(ctx, line); }

static void controls_are_not_shown(void **state)
{
    static const char name[] = "a\nb\x1b[2Jc\x7f d\xc2\x9b"
                               "2Je\xc2\x80\xc2\x9f \xc2\xa0 \xc3\xa9 \xe2\x80\x93 \xc2",
                      shown[] = "a?b?[2Jc? d??2Je???? \xc2\xa0 \xc3\xa9 \xe2\x80\x93 \xc2";
    struct err e = { 0 };
    char line[600];
    const struct notes notes = { copy, line };
    (void)state;
    fail(&e, E_ARG, "%s", name);
    assert_string_equal(e.msg, shown);
    note(&notes, "%s", name);
    assert_string_equal(line, shown);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(controls_are_not_shown) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
