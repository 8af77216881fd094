/* The file of chosen engines: what was put there is found again, by this card and these libraries alone; a
 * damaged file costs no more than the choices in it, another file is left as it is. */
#include <unistd.h>
#include "tiny.h"
#include "backend/cuda/engine_file.h"
#include "core/file.h"

static const struct cudnn_conv conv = {
    .bf16 = 1, .n = 512, .c = 64, .h = 32, .w = 32, .filters = 64, .size = 3
};
static char told[300];

static struct engine_file *reopen(const char *card)
{
    struct engine_file *s;
    struct err e = { 0 };
    ok(engine_file_open(&s, card, "cuDNN 9", told, sizeof told, &e), &e);
    return s;
}

static void put(const struct cudnn_conv *c, const char *card, struct stored_engine g)
{
    struct engine_file *s = reopen(card);
    engine_file_put(s, c, &g);
    engine_file_close(s);
}

/* -1: there is none. */
static int candidate(const struct cudnn_conv *c, const char *card)
{
    struct stored_engine g;
    struct engine_file *s = reopen(card);
    int found = engine_file_find(s, c, &g);
    engine_file_close(s);
    return found ? g.candidate : -1;
}

static void write_file(const char *text)
{
    FILE *f = fopen(tiny_path("engines"), "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void read_file(char *to, size_t size)
{
    FILE *f = fopen(tiny_path("engines"), "r");
    assert_non_null(f);
    to[fread(to, 1, size - 1, f)] = 0;
    fclose(f);
}

static void what_is_put_is_found(void **state)
{
    struct cudnn_conv other = conv;
    (void)state;
    other.pass = CUDNN_PASS_DATA;
    unlink(tiny_path("engines"));
    assert_int_equal(candidate(&conv, "A"), -1);
    put(&conv, "A", (struct stored_engine){ 3, 17, 1 << 20 });
    put(&other, "A", (struct stored_engine){ 5, 18, 0 });
    put(&conv, "A card", (struct stored_engine){ 7, 17, 0 });
    assert_int_equal(candidate(&conv, "A"), 3);
    assert_int_equal(candidate(&other, "A"), 5);
    assert_int_equal(candidate(&conv, "A card"), 7);
    assert_int_equal(candidate(&other, "A card"), -1);
    put(&conv, "A", (struct stored_engine){ 9, 17, 1 << 20 });
    assert_int_equal(candidate(&conv, "A"), 9);
    assert_int_equal(candidate(&other, "A"), 5);
    assert_int_equal(candidate(&conv, "A card"), 7);
    assert_string_equal(told, "");
}

/* Whatever is cut off or changed: no more than another choice, and a file that is whole again. */
static void damaged(void **state)
{
    char whole[2048], part[2048];
    (void)state;
    unlink(tiny_path("engines"));
    put(&conv, "A", (struct stored_engine){ 3, 17, 1 << 20 });
    put(&conv, "B", (struct stored_engine){ 4, 17, 1 << 20 });
    read_file(whole, sizeof whole);
    const size_t head = (size_t)(strchr(whole, '\n') - whole) + 1;
    for (size_t n = head + 1; n < strlen(whole); n++) {
        snprintf(part, sizeof part, "%.*s", (int)n, whole);
        write_file(part);
        int got = candidate(&conv, "B");
        assert_int_equal(got, -1);
        assert_true(whole[n - 1] == '\n' ||
                    strstr(told, "is damaged, or no file of chosen engines: it is ignored"));
        put(&conv, "B", (struct stored_engine){ 6, 17, 0 });
        assert_int_equal(candidate(&conv, "B"), 6);
        assert_string_equal(told, "");
    }
    memcpy(part, whole, sizeof part);
    part[head] = 'x';
    write_file(part);
    assert_int_equal(candidate(&conv, "A"), -1);
    assert_non_null(strstr(told, "is damaged"));
}

static void another_file(void **state)
{
    char got[100];
    (void)state;
    write_file("my notes\n");
    put(&conv, "A", (struct stored_engine){ 3, 17, 0 });
    assert_non_null(strstr(told, "; delete it, or give another as DARKNET_ENGINES="));
    assert_int_equal(candidate(&conv, "A"), -1);
    read_file(got, sizeof got);
    assert_string_equal(got, "my notes\n");
}

static void none(void **state)
{
    (void)state;
    setenv("DARKNET_ENGINES", "", 1);
    put(&conv, "A", (struct stored_engine){ 3, 17, 0 });
    assert_int_equal(candidate(&conv, "A"), -1);
    setenv("DARKNET_ENGINES", "/nowhere/at/all", 1);
    put(&conv, "A", (struct stored_engine){ 3, 17, 0 });
    assert_int_equal(candidate(&conv, "A"), -1);
    setenv("DARKNET_ENGINES", tiny_path("engines"), 1);
}

static int set_up(void **state)
{
    if (tiny_set_up(state)) return -1;
    return setenv("DARKNET_ENGINES", tiny_path("engines"), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(what_is_put_is_found), cmocka_unit_test(damaged),
                                        cmocka_unit_test(another_file), cmocka_unit_test(none) };
    return cmocka_run_group_tests(tests, set_up, tiny_tear_down);
}
