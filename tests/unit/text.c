/* Text files, "did you mean", files that appear whole or not at all. */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "core/file.h"
#include "core/mem.h"
#include "core/text.h"
/* last: cmocka has a macro called fail */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

static char folder[64], place[200];

static const char *in(const char *name)
{
    snprintf(place, sizeof place, "%s/%s", folder, name);
    return place;
}

static int set_up(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/text-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    char command[100];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

static void put(const char *name, const void *bytes, size_t n)
{
    FILE *f = fopen(in(name), "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static int entries(void)
{
    DIR *d = opendir(folder);
    assert_non_null(d);
    int n = -2; /* . and .. */
    while (readdir(d)) n++;
    closedir(d);
    return n;
}

static void load_reads_or_says_why(void **state)
{
    (void)state;
    char *text;
    size_t n;
    struct err e;
    put("a", "hello\n", 6);
    assert_int_equal(text_load(in("a"), 6, &text, &n, &e), OK);
    assert_int_equal(n, 6);
    assert_string_equal(text, "hello\n");
    mem_free(text);
    put("empty", "", 0);
    assert_int_equal(text_load(in("empty"), 6, &text, &n, &e), OK);
    assert_string_equal(text, "");
    mem_free(text);
    assert_int_equal(text_load(in("a"), 5, &text, &n, &e), E_FORMAT);
    assert_int_equal(text_load(in("missing"), 5, &text, &n, &e), E_FILE);
    assert_non_null(strstr(e.msg, "missing: no such file"));
    assert_int_equal(text_load(folder, 1000, &text, &n, &e), E_FILE);
    assert_non_null(strstr(e.msg, "folder"));
    put("zero", "a\0b", 3);
    assert_int_equal(text_load(in("zero"), 1000, &text, &n, &e), E_FORMAT);
    assert_null(text);
    assert_int_equal(file_load(in("zero"), 1000, &text, &n, &e), OK);
    assert_int_equal(n, 3);
    mem_free(text);
}

/* At once: nobody ever writes to the pipe. */
static void only_regular_files_are_read(void **state)
{
    (void)state;
    char *text;
    size_t n;
    struct err e;
    assert_int_equal(mkfifo(in("pipe"), 0600), 0);
    const char *path[] = { in("pipe"), "/dev/zero", "/dev/null" };
    for (int i = 0; i < 3; i++) {
        assert_int_equal(text_load(path[i], 1000000, &text, &n, &e), E_FILE);
        assert_null(text);
        assert_non_null(strstr(e.msg, path[i]));
        assert_non_null(strstr(e.msg, "is not a regular file"));
    }
}

static void lines_of_any_kind(void **state)
{
    (void)state;
    char text[] = "\xef\xbb\xbf one \r\ntwo\rthree\r\r\n\n  \tin ner\t";
    const char *want[] = { "one", "two", "three", "", "in ner" };
    struct lines l;
    lines_open(&l, text);
    for (int i = 0; i < 5; i++) {
        char *line = lines_next(&l);
        assert_non_null(line);
        assert_string_equal(line, want[i]);
        assert_int_equal(l.number, i + 1);
    }
    assert_null(lines_next(&l));
    assert_null(lines_next(&l));
}

static const char *nearest(const char *word)
{
    static const char *const name[] = { "train", "valid", "labels", "backup" };
    const char *near = NULL;
    for (int i = 0; i < 4; i++) near = text_nearer(word, near, name[i]);
    return near;
}

static void nearest_is_what_was_meant(void **state)
{
    (void)state;
    assert_string_equal(nearest("vaild"), "valid");
    assert_string_equal(nearest("label"), "labels");
    assert_string_equal(nearest("bakcupp"), "backup");
    assert_null(nearest("rainfall"));
    assert_null(text_nearer("", NULL, NULL));
    assert_string_equal(text_nearer("ab", "abc", "abd"), "abc"); /* the first of two that are as near */
    char longest[300];
    memset(longest, 'x', sizeof longest);
    longest[299] = 0;
    assert_null(nearest(longest));
    assert_string_equal(text_hint("[", "net", "]").text, "; did you mean [net]?");
    assert_string_equal(text_hint("[", NULL, "]").text, "");
}

static void files_appear_whole(void **state)
{
    (void)state;
    struct file f;
    struct err e;
    char *text;
    size_t n;
    put("w", "old", 3);
    assert_int_equal(file_create(&f, in("w"), &e), OK);
    assert_int_equal(file_write(&f, "new!", 4, &e), OK);
    assert_int_equal(text_load(in("w"), 10, &text, &n, &e), OK);
    assert_string_equal(text, "old");
    mem_free(text);
    assert_int_equal(entries(), 2);
    assert_int_equal(file_commit(&f, &e), OK);
    file_abort(&f);
    assert_int_equal(text_load(in("w"), 10, &text, &n, &e), OK);
    assert_string_equal(text, "new!");
    mem_free(text);
    assert_int_equal(entries(), 1);

    assert_int_equal(file_create(&f, in("w"), &e), OK);
    assert_int_equal(file_write(&f, "half", 4, &e), OK);
    file_abort(&f);
    assert_int_equal(entries(), 1);
    assert_int_equal(file_write(&f, "x", 1, &e), E_ARG);
    assert_int_equal(file_commit(&f, &e), E_ARG);
}

static void utf8_or_not(void **state)
{
    static const char *const good[] = {
        "",         "abc",          "\xc3\xa9t\xc3\xa9", "\xe2\x82\xac",    "\xf0\x9f\x90\x88",
        "\xc2\x80", "\xed\x9f\xbf", "\xee\x80\x80",      "\xf4\x8f\xbf\xbf"
    };
    static const char *const bad[] = { "caf\xe9",
                                       "\x80",
                                       "\xc3",
                                       "\xc3(",
                                       "\xe2\x82",
                                       "\xc0\xaf",
                                       "\xc1\xbf",
                                       "\xe0\x9f\xbf",
                                       "\xf0\x8f\xbf\xbf",
                                       "\xed\xa0\x80",
                                       "\xf4\x90\x80\x80",
                                       "\xf8\x88\x80\x80\x80",
                                       "\xff" };
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) assert_true(text_is_utf8(good[i]));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) assert_false(text_is_utf8(bad[i]));
}

static void failures_leave_nothing(void **state)
{
    (void)state;
    struct file f;
    struct err e;
    assert_int_equal(file_create(&f, in("no/such/folder"), &e), E_FILE);
    assert_non_null(strstr(e.msg, "no/such/folder"));
    assert_int_equal(mkdir(in("d"), 0777), 0);
    assert_int_equal(file_create(&f, in("d"), &e), E_FILE); /* a folder of that name */
    assert_int_equal(file_create(&f, "/dev/null", &e), E_FILE);
    assert_int_equal(file_create(&f, in("late"), &e), OK);
    assert_int_equal(mkdir(in("late"), 0777), 0); /* it appears meanwhile */
    assert_int_equal(file_commit(&f, &e), E_FILE);
    assert_non_null(strstr(e.msg, "late"));
    file_abort(&f);
    assert_int_equal(entries(), 2);
}

static void folders_are_made_and_proved(void **state)
{
    (void)state;
    struct err e;
    struct stat st;
    assert_int_equal(folder_prepare(in("a/b/c"), &e), OK);
    assert_int_equal(stat(in("a/b/c"), &st), 0);
    assert_int_equal(folder_prepare(in("a/b/c/"), &e), OK);
    assert_int_equal(rmdir(in("a/b/c")), 0); /* the proof was removed */
    put("file", "x", 1);
    assert_int_equal(folder_prepare(in("file"), &e), E_FILE);
    assert_int_equal(folder_prepare(in("file/under"), &e), E_FILE);
    assert_int_equal(folder_prepare("/proc/nothing", &e), E_FILE);
    assert_non_null(strstr(e.msg, "/proc/nothing"));
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(load_reads_or_says_why),      CASE(only_regular_files_are_read),
        CASE(lines_of_any_kind),           CASE(nearest_is_what_was_meant),
        CASE(files_appear_whole),          CASE(failures_leave_nothing),
        CASE(folders_are_made_and_proved), CASE(utf8_or_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
