/* Data sets in a folder of their own, from text, and what is said about them. */
#ifndef TESTS_SETS_H
#define TESTS_SETS_H
#include <unistd.h>
#include "data/dataset.h"
#include "picture.h"
/* last: cmocka has a macro called fail */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

static char home[200], folder[64], said[8192];

static inline void say(void *ctx, const char *line)
{
    (void)ctx;
    size_t n = strlen(said);
    snprintf(said + n, sizeof said - n, "%s\n", line);
}
static const struct notes notes = { say, NULL };
static struct err e;

static inline int set_up(void **state)
{
    (void)state;
    said[0] = 0;
    if (!getcwd(home, sizeof home) || make_folder(folder, sizeof folder)) return -1;
    return chdir(folder);
}

static inline int tear_down(void **state)
{
    (void)state;
    return chdir(home) || remove_folder(folder);
}

static inline struct data_file *data(const char *text)
{
    struct data_file *d;
    assert_int_equal(put_text("x.data", text), 0);
    int rc = data_file_read(&d, "x.data", &notes, &e);
    if (rc) print_error("%s\n", e.msg);
    assert_int_equal(rc, OK);
    return d;
}

static inline struct dataset *set(const struct data_file *d, enum split split)
{
    struct dataset *s;
    int rc = dataset_open(&s, d, split, &notes, &e);
    if (rc) print_error("%s\n", e.msg);
    assert_int_equal(rc, OK);
    return s;
}

static inline void set_error(const struct data_file *d, enum split split, const char *part)
{
    struct dataset *s;
    assert_int_not_equal(dataset_open(&s, d, split, &notes, &e), OK);
    assert_null(s);
    if (!strstr(e.msg, part)) print_error("%s\n", e.msg);
    assert_non_null(strstr(e.msg, part));
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

#endif
