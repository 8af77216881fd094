/* Keys to structs: core/options.h. */
#include <locale.h>
#include "tiny.h"
#include "core/options.h"

static const char *const words[] = { "red", "green", "blue", NULL };

struct thing {
    int count, color;
    double ratio, width;
    struct list list;
    int large;
};

static const struct key keys[] = {
    INT_KEY(thing, count, 3, -2, 10, "how many"),
    REAL_KEY(thing, ratio, 0.5, 0, 1.5, "share"),
    WORD_KEY(thing, color, 1, words, "hue"),
    EITHER_KEY(thing, width, -1, 0.25, 8, words, "a name or a number"),
    LIST_KEY(thing, list, -5, 100, "numbers"),
    INT_KEY(thing, large, 0, 0, 1 << 30, "in full"),
    { 0 },
};
static const struct key more_keys[] = { { "extra", KEY_INT, 0, 0, 0, 9, NULL, "of another table" }, { 0 } };
static const struct key *const tables[] = { keys, more_keys, NULL };

static struct cfg *cfg;

static int fill(struct thing *t, const char *body, struct err *e)
{
    char text[400];
    struct err ignored = { 0 };
    cfg_free(cfg);
    snprintf(text, sizeof text, "[net]\n[thing]\n%s\n", body);
    ok(cfg_parse(&cfg, "a.cfg", text, strlen(text), &ignored), &ignored);
    return options_fill(t, keys, "a.cfg", &cfg->section[1], e);
}

static struct thing filled(const char *body)
{
    struct err e = { 0 };
    struct thing t;
    memset(&t, 0x55, sizeof t);
    ok(fill(&t, body, &e), &e);
    return t;
}

static void bad(const char *body, const char *words_expected)
{
    struct err e = { 0 };
    struct thing t;
    refused(fill(&t, body, &e), E_CFG, &e, words_expected);
}

static void defaults(void **state)
{
    (void)state;
    struct thing t = filled("");
    assert_true(t.count == 3 && t.color == 1 && t.ratio == 0.5 && t.width == -1 && !t.list.n);
}

static void every_type(void **state)
{
    (void)state;
    struct thing t = filled("count=-2\nratio=1.5\ncolor=blue\nwidth=0.25\nlist=1,-2.5,1e2");
    assert_true(t.count == -2 && t.color == 2 && t.ratio == 1.5 && t.width == .25 && t.list.n == 3);
    assert_true(list_at(&t.list, 0) == 1 && list_at(&t.list, 1) == -2.5 && list_at(&t.list, 2) == 100);
    t = filled("count=10\nratio=0\ncolor=red\nwidth=blue\nlist=7");
    assert_true(t.count == 10 && t.color == 0 && t.ratio == 0 && t.width == -3 && t.list.n == 1);
    t = filled("count=+4\nratio=.25\nwidth=8");
    assert_true(t.count == 4 && t.ratio == .25 && t.width == 8);
    t = filled("count=1e1");
    assert_int_equal(t.count, 10);
}

static void a_comma_ends_a_list(void **state)
{
    (void)state;
    struct thing t = filled("list=3,4,"); /* as in stock cfgs */
    assert_true(t.list.n == 2 && list_at(&t.list, 1) == 4);
}

/* In a program whose decimal point is a comma, which would also split lists elsewhere. */
static void numbers_in_another_locale(void **state)
{
    char folder[] = "/tmp/locale-XXXXXX", command[120];
    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(command, sizeof command, "localedef -i de_DE -f UTF-8 %s/de_DE.UTF-8 >/dev/null 2>&1", folder);
    int made = !system(command) && !setenv("LOCPATH", folder, 1) && setlocale(LC_ALL, "de_DE.UTF-8");
    struct thing t = filled("ratio=.25\nlist=1,2.5");
    double second = t.list.n == 2 ? list_at(&t.list, 1) : 0;
    setlocale(LC_ALL, "C");
    snprintf(command, sizeof command, "rm -rf %s", folder);
    assert_int_equal(system(command), 0);
    assert_true(t.ratio == .25 && second == 2.5);
    if (!made) skip();
}

static void wrong_values(void **state)
{
    (void)state;
    bad("\ncount=11", "a.cfg:4: [thing] count=11: expected a whole number in [-2, 10]");
    bad("count=-3", "[-2, 10]");
    bad("count=2.5", "expected a whole number");
    bad("count=two", "expected a whole number");
    bad("count=4,5", "expected a whole number");
    bad("count=99999999999999999999", "expected a whole number");
    bad("count=nan", "expected a whole number");
    bad("ratio=1.6", "[thing] ratio=1.6: expected a number in [0, 1.5]");
    bad("ratio=-0.1", "expected a number in [0, 1.5]");
    bad("ratio=inf", "expected a number");
    bad("ratio=nan", "expected a number");
    bad("ratio=1e999", "expected a number");
    bad("color=1", "[thing] color=1: expected red, green, blue");
    bad("color=gren", "expected red, green, blue; did you mean green?");
    bad("color=Red", "did you mean red?");
    bad("width=.2", "[thing] width=.2: expected red, green, blue or a number in [0.25, 8]");
    bad("width=9", "or a number in [0.25, 8]");
    bad("width=bleu", "did you mean blue?");
    bad("list=1,,2", "expected numbers separated by commas, each in [-5, 100]");
    bad("list=,1", "expected numbers");
    bad("list=1,101", "each in [-5, 100]");
    bad("list=1;2", "expected numbers");
    bad("list=1,x", "expected numbers");
}

static void overrides_are_named_as_such(void **state)
{
    (void)state;
    struct err e = { 0 };
    struct thing t = filled("count=1");
    ok(cfg_override(cfg, "thing.count=12", &e), &e);
    refused(options_fill(&t, keys, "a.cfg", &cfg->section[1], &e), E_CFG, &e,
            "-set: [thing] count=12: expected");
    filled("count=1");
    ok(cfg_override(cfg, "thing.cuont=1", &e), &e); /* an error even where the file would get a warning */
    ok(options_fill(&t, keys, "a.cfg", &cfg->section[1], &e), &e);
    refused(options_unused(tables, 0, "a.cfg", &cfg->section[1], NULL, &e), E_CFG, &e,
            "-set: [thing] has no key 'cuont'; did you mean count?");
}

static char heard[1000];
static void hear(void *ctx, const char *line) { strcat(strcat(ctx, line), "\n"); }

static void unknown_keys(void **state)
{
    (void)state;
    struct err e = { 0 };
    const struct notes notes = { hear, heard };
    filled("count=1\ncoutn=2\nzzzzzz=3\nextrra=1\ncount=4");
    heard[0] = 0;
    ok(options_unused(tables, 0, "a.cfg", &cfg->section[1], &notes, &e), &e);
    assert_string_equal(heard, "a.cfg:4: unused key 'coutn' in [thing]; did you mean count?\n"
                               "a.cfg:5: unused key 'zzzzzz' in [thing]\n"
                               "a.cfg:6: unused key 'extrra' in [thing]; did you mean extra?\n"
                               "a.cfg:7: [thing] count= is in line 3 already, and that one counts\n");
    ok(options_unused(tables, 0, "a.cfg", &cfg->section[1], NULL, &e), &e); /* nobody listens */
    refused(options_unused(tables, 1, "a.cfg", &cfg->section[1], &notes, &e), E_CFG, &e,
            "a.cfg:4: [thing] has no key 'coutn'; did you mean count? (see: darknet help thing)");
    filled("count=1");
    ok(options_unused(tables, 1, "a.cfg", &cfg->section[1], &notes, &e), &e);
    filled("count=1\ncount=4");
    refused(options_unused(tables, 1, "a.cfg", &cfg->section[1], &notes, &e), E_CFG, &e,
            "a.cfg:4: [thing] count= is in line 3 already: keep one of them");
    ok(cfg_override(cfg, "thing.count=2", &e), &e); /* says which counts */
    ok(options_unused(tables, 1, "a.cfg", &cfg->section[1], &notes, &e), &e);
}

static void several_tables_share_a_section(void **state)
{
    (void)state;
    struct err e = { 0 };
    int extra = -1;
    filled("extra=5\nlist=1");
    ok(options_fill(&extra, more_keys, "a.cfg", &cfg->section[1], &e), &e);
    assert_int_equal(extra, 5);
    ok(options_unused(tables, 1, "a.cfg", &cfg->section[1], NULL, &e), &e);
    ok(options_fill(&extra, NULL, "a.cfg", &cfg->section[1], &e), &e); /* a layer without keys */
}

static void help_lines(void **state)
{
    (void)state;
    char line[300];
    static const char *const expected[] = {
        "count: how many [a whole number in [-2, 10]; default 3]",
        "ratio: share [a number in [0, 1.5]; default 0.5]",
        "color: hue [red, green, blue; default green]",
        "width: a name or a number [red, green, blue or a number in [0.25, 8]; default red]",
        "list: numbers [numbers separated by commas, each in [-5, 100]; default none]",
        "large: in full [a whole number in [0, 1073741824]; default 0]",
    };
    for (int i = 0; keys[i].name; i++) {
        options_describe(&keys[i], line, sizeof line);
        assert_string_equal(line, expected[i]);
    }
    options_describe(&keys[2], line, 10); /* cut, not overrun */
    assert_string_equal(line, "color: hu");
}

static int drop_cfg(void **state)
{
    (void)state;
    cfg_free(cfg);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults),
        cmocka_unit_test(every_type),
        cmocka_unit_test(a_comma_ends_a_list),
        cmocka_unit_test(numbers_in_another_locale),
        cmocka_unit_test(wrong_values),
        cmocka_unit_test(overrides_are_named_as_such),
        cmocka_unit_test(unknown_keys),
        cmocka_unit_test(several_tables_share_a_section),
        cmocka_unit_test(help_lines),
    };
    return cmocka_run_group_tests(tests, NULL, drop_cfg);
}
