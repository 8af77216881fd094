/* The grammar of cfg files: core/cfg.h. */
#include "tiny.h"
#include "core/cfg.h"

/* One section after [net]. */
static struct cfg *parse(const char *text)
{
    struct err e = { 0 };
    struct cfg *c;
    ok(cfg_parse(&c, "a.cfg", text, strlen(text), &e), &e);
    return c;
}

static void bad(const char *text, const char *words)
{
    struct err e = { 0 };
    struct cfg *c = (struct cfg *)&e;
    refused(cfg_parse(&c, "a.cfg", text, strlen(text), &e), E_CFG, &e, words);
    assert_null(c);
}

static void has(struct cfg *c, int section, const char *key, const char *value, int line)
{
    int at = -1;
    const char *found = cfg_find(&c->section[section], key, &at);
    assert_non_null(found);
    assert_string_equal(found, value);
    assert_int_equal(at, line);
}

static void sections_keys_and_lines(void **state)
{
    (void)state;
    struct cfg *c = parse("[net]\nbatch=2\n\n# remark\n[conv]\n;remark\nfilters=3\npad=1\n[conv]\n");
    assert_int_equal(c->n, 3);
    assert_string_equal(c->path, "a.cfg");
    assert_string_equal(c->section[0].name, "net");
    assert_string_equal(c->section[1].name, "conv");
    assert_true(c->section[0].line == 1 && c->section[1].line == 5 && c->section[2].line == 9);
    assert_true(c->section[0].n == 1 && c->section[1].n == 2 && c->section[2].n == 0);
    has(c, 0, "batch", "2", 2);
    has(c, 1, "filters", "3", 7);
    has(c, 1, "pad", "1", 8);
    assert_null(cfg_find(&c->section[2], "pad", NULL));
    cfg_free(c);
    c = parse("[network]\n");
    assert_int_equal(c->n, 1);
    cfg_free(c);
    cfg_free(NULL);
}

static void blanks_endings_and_marks(void **state)
{
    (void)state;
    struct cfg *c = parse("\xef\xbb\xbf[net]\r\n\tbatch = 2 \r\n\r\n  [ conv ]  \r\n  layers = -1 , "
                          "2\v\f\r\nanchors=a b\n \t\n   # x=1\nlast=1");
    assert_int_equal(c->n, 2);
    assert_string_equal(c->section[0].name, "net");
    has(c, 0, "batch", "2", 2);
    assert_string_equal(c->section[1].name, "conv");
    assert_int_equal(c->section[1].line, 4);
    has(c, 1, "layers", "-1,2", 5);
    has(c, 1, "anchors", "ab", 6); /* inner blanks go too */
    has(c, 1, "last", "1", 9);     /* no newline at the end */
    assert_int_equal(c->section[1].n, 3);
    cfg_free(c);
    c = parse("[net]\rbatch=3\r[conv]\r"); /* old Macs */
    assert_int_equal(c->n, 2);
    has(c, 0, "batch", "3", 2);
    cfg_free(c);
}

static void first_of_duplicates_wins_and_all_are_used(void **state)
{
    (void)state;
    struct cfg *c = parse("[net]\nbatch=2\nbatch=4\nwidth=1\n");
    has(c, 0, "batch", "2", 2);
    const struct cfg_entry *x = c->section[0].entry;
    assert_true(x[0].used && x[1].used && !x[2].used);
    cfg_free(c);
}

static void first_equals_sign_ends_the_key(void **state)
{
    (void)state;
    struct cfg *c = parse("[net]\na=b=c\n");
    has(c, 0, "a", "b=c", 2);
    cfg_free(c);
}

static void comments_follow_values(void **state)
{
    (void)state;
    struct cfg *c = parse("[net];first\nn=40#32\nword = leaky ; slope .1\nlist = 1, 2 ###P6\nsteps=4;8\n");
    assert_string_equal(c->section[0].name, "net");
    has(c, 0, "n", "40", 2);
    has(c, 0, "word", "leaky", 3);
    has(c, 0, "list", "1,2", 4);
    has(c, 0, "steps", "4;8", 5);
    cfg_free(c);
    bad("[net]\nbatch= # 64\n", "a.cfg:2: expected key=value, got 'batch='");
    bad("[net]\nbatch # = 64\n", "a.cfg:2: expected key=value, got 'batch'");
}

static void refusals(void **state)
{
    (void)state;
    bad("", "a.cfg: the file has no sections: it must begin with [net]");
    bad("# nothing\n\n", "no sections");
    bad("\n\nbatch=1\n[net]\n", "a.cfg:3: 'batch=1' is outside any section");
    bad("[conv]\n[net]\n", "a.cfg:1: the first section must be [net] or [network], not [conv]");
    bad("[Net]\n", "not [Net]");
    bad("[net]\nbatch\n", "a.cfg:2: expected key=value, got 'batch'");
    bad("[net]\nbatch=\n", "a.cfg:2: expected key=value, got 'batch='");
    bad("[net]\nbatch= \t\n", "a.cfg:2: expected key=value");
    bad("[net]\n=2\n", "a.cfg:2: expected key=value, got '=2'");
    bad("[net]\n[conv\n", "a.cfg:2: expected a section name in brackets, such as [net], got '[conv'");
    bad("[]\n", "a.cfg:1: expected a section name");
    bad("[\n", "a.cfg:1: expected a section name");
    bad("[net]x\n", "a.cfg:1: expected a section name");
    bad("\n<!DOCTYPE html>\n", "a.cfg:2: this is a web page, not a cfg");
    bad("<html>", "a.cfg:1: this is a web page");
}

static void long_lines_are_cut_in_messages(void **state)
{
    (void)state;
    char text[2000] = "[net]\n";
    memset(text + 6, 'x', 1000);
    bad(text, "got 'xxxx");
    text[6] = '[';
    bad(text, "got '[xxx");
    text[1005] = ']';
    memmove(text, text + 6, 1001);
    bad(text, "not [xxx");
}

/* More sections and keys than the first arrays hold. */
static void many(void **state)
{
    (void)state;
    static char text[100000];
    size_t n = (size_t)sprintf(text, "[net]\n");
    for (int i = 0; i < 100; i++) {
        n += (size_t)sprintf(text + n, "[s%d]\n", i);
        for (int k = 0; k < i; k++) n += (size_t)sprintf(text + n, "k%d=%d\n", k, i + k);
    }
    struct cfg *c = parse(text);
    assert_int_equal(c->n, 101);
    for (int i = 0, line = 2; i < 100; i++) {
        assert_int_equal(c->section[i + 1].line, line++);
        assert_int_equal(c->section[i + 1].n, i);
        for (int k = 0; k < i; k++, line++) {
            char key[10], value[10];
            sprintf(key, "k%d", k);
            sprintf(value, "%d", i + k);
            has(c, i + 1, key, value, line);
        }
    }
    cfg_free(c);
}

static void overrides(void **state)
{
    (void)state;
    struct err e = { 0 };
    struct cfg *c = parse("[network]\nbatch=2\n[conv]\nfilters=1\nfilters=9\n[max]\n[conv]\n");
    ok(cfg_override(c, "conv.filters=7", &e), &e);
    has(c, 1, "filters", "7", 0); /* replaced; line 0: from the command line */
    has(c, 3, "filters", "7", 0); /* added, in every section of that name */
    assert_null(cfg_find(&c->section[2], "filters", NULL));
    ok(cfg_override(c, " net . batch = 8 ", &e), &e); /* net and network are one */
    has(c, 0, "batch", "8", 0);
    ok(cfg_override(c, "net.batch=16", &e), &e); /* the last one counts */
    has(c, 0, "batch", "16", 0);
    ok(cfg_override(c, "net.scale=.5", &e), &e); /* the first dot ends the section */
    has(c, 0, "scale", ".5", 0);
    refused(cfg_override(c, "itra.lambda=1", &e), E_ARG, &e,
            "-set itra.lambda=1: a.cfg has no section [itra]");
    static const char *const malformed[] = { "",           "conv",          "conv.filters",  "filters=1",
                                             ".filters=1", "conv.=1",       "conv.filters=", "conv=1.2",
                                             "=.",         "conv.filters= " };
    for (size_t i = 0; i < sizeof malformed / sizeof *malformed; i++)
        refused(cfg_override(c, malformed[i], &e), E_ARG, &e, "expected section.key=value");
    has(c, 1, "filters", "7", 0);
    cfg_free(c);
}

static void files(void **state)
{
    (void)state;
    struct err e = { 0 };
    struct cfg *c;
    ok(cfg_read(&c, tiny_put("a.cfg", "[net]\nbatch=2\n", 14), &e), &e);
    assert_string_equal(c->path, tiny_path("a.cfg"));
    has(c, 0, "batch", "2", 2);
    cfg_free(c);
    refused(cfg_read(&c, tiny_path("none.cfg"), &e), E_FILE, &e, "none.cfg");
    assert_null(c);
    refused(cfg_read(&c, tiny_folder, &e), E_FILE, &e, "folder");
    refused(cfg_read(&c, tiny_put("b.cfg", "", 0), &e), E_CFG, &e, "b.cfg: the file has no sections");
    refused(cfg_read(&c, tiny_put("c.cfg", "[net]\na\n", 8), &e), E_CFG, &e, "c.cfg:2:");
    refused(cfg_read(&c, tiny_put("d.cfg", "[net]\n\0", 7), &e), E_FORMAT, &e, "zero byte");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sections_keys_and_lines),
        cmocka_unit_test(blanks_endings_and_marks),
        cmocka_unit_test(first_of_duplicates_wins_and_all_are_used),
        cmocka_unit_test(first_equals_sign_ends_the_key),
        cmocka_unit_test(comments_follow_values),
        cmocka_unit_test(refusals),
        cmocka_unit_test(long_lines_are_cut_in_messages),
        cmocka_unit_test(many),
        cmocka_unit_test(overrides),
        cmocka_unit_test(files),
    };
    return cmocka_run_group_tests(tests, tiny_set_up, tiny_tear_down);
}
