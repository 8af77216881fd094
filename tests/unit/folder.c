/* Class folders: what is found, how it is split, which labels tell the classes, what is refused. */
#include <sys/stat.h>
#include <unistd.h>
#include "picture.h"
#include "core/text.h"
#include "data/dataset.h"
#include "data/folder.h"
/* last: cmocka has a macro called fail */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

static char home[200], top[64];
static struct err e;

static int set_up(void **state)
{
    (void)state;
    if (!getcwd(home, sizeof home) || make_folder(top, sizeof top)) return -1;
    return chdir(top);
}

static int tear_down(void **state)
{
    (void)state;
    return chdir(home) || remove_folder(top);
}

/* n empty files FOLDER/FIRST.ENDING, FOLDER/FIRST+1.ENDING, ... and the folders above them. */
static void put_files(const char *folder, int first, int n, const char *ending)
{
    char path[200];
    for (size_t i = 0; i <= strlen(folder); i++) {
        if (folder[i] && folder[i] != '/') continue;
        snprintf(path, sizeof path, "%.*s", (int)i, folder);
        mkdir(path, 0777);
    }
    for (int i = first; i < first + n; i++) {
        snprintf(path, sizeof path, "%s/%d.%s", folder, i, ending);
        assert_int_equal(put_text(path, ""), 0);
    }
}

static struct folder *read_folder(const char *dir)
{
    struct folder *f;
    int rc = folder_read(&f, dir, NULL, &e);
    if (rc) print_error("%s\n", e.msg);
    assert_int_equal(rc, OK);
    return f;
}

static void says(const char *part)
{
    if (!strstr(e.msg, part)) print_error("%s\n", e.msg);
    assert_non_null(strstr(e.msg, part));
}

static void read_error(const char *dir, const char *part)
{
    struct folder *f;
    assert_int_not_equal(folder_read(&f, dir, NULL, &e), OK);
    assert_null(f);
    says(part);
}

/* ---- what is found ---- */

static void finds_images(void **state)
{
    (void)state;
    put_files("d/cat", 0, 3, "jpg");
    put_files("d/cat/old/older", 0, 2, "PNG");
    put_files("d/a dog", 0, 2, "JPEG");
    put_files("d/.git", 0, 1, "jpg");
    put_files("d/cat", 0, 1, "txt");
    put_files("d", 0, 2, "jpg");
    put_files("elsewhere", 7, 1, "jpg");
    assert_int_equal(symlink("../cat", "d/cat/loop"), 0);
    assert_int_equal(symlink("..", "d/cat/old/up"), 0);
    assert_int_equal(symlink("../../elsewhere", "d/a dog/link"), 0);
    assert_int_equal(symlink("nothing.jpg", "d/cat/gone.jpg"), 0);
    struct folder *f = read_folder("d/");
    assert_int_equal(f->classes, 2);
    assert_string_equal(f->name[0], "a dog");
    assert_string_equal(f->name[1], "cat");
    assert_int_equal(f->count[0][0], 3);
    assert_int_equal(f->count[0][1], 5);
    assert_int_equal(f->skipped.hidden, 1);
    assert_int_equal(f->skipped.loose, 2);
    assert_int_equal(f->skipped.other, 1);
    assert_int_equal(f->skipped.loops, 2);
    assert_int_equal(f->skipped.broken, 1);
    const char *ends[] = { "/a dog/0.JPEG", "/a dog/1.JPEG", "/a dog/link/7.jpg",    "/cat/0.jpg",
                           "/cat/1.jpg",    "/cat/2.jpg",    "/cat/old/older/0.PNG", "/cat/old/older/1.PNG" };
    for (int i = 0; i < f->n; i++) {
        assert_int_equal(f->image[i].label, i > 2);
        assert_string_equal(f->image[i].path + strlen(f->root), ends[i]);
    }
    folder_free(f);
}

static void takes_sets_as_they_are(void **state)
{
    (void)state;
    put_files("d/train/cat", 0, 3, "jpg");
    put_files("d/train/dog", 0, 4, "jpg");
    put_files("d/val/dog", 9, 2, "jpg");
    struct folder *f = read_folder("d");
    assert_string_equal(f->valid, "val");
    assert_int_equal(f->count[0][0], 3);
    assert_int_equal(f->count[0][1], 4);
    assert_int_equal(f->count[1][0], 0);
    assert_int_equal(f->count[1][1], 2);
    assert_int_equal(folder_split(f, .5, 1, &e), E_ARG);
    folder_free(f);
    put_files("d/val/fox", 0, 1, "jpg");
    read_error("d", "no class 'fox' in train");
}

static void refuses_what_is_no_data_set(void **state)
{
    (void)state;
    put_files("d", 0, 3, "jpg");
    read_error("d", "no folders of images (3 images");
    put_files("d/cat", 0, 3, "jpg");
    read_error("d", "one class folder only (cat)");
    put_files("d/dog", 0, 1, "txt");
    read_error("d", "d/dog: this class folder has no images");
    put_files("d/dog", 0, 1, "jpg");
    assert_int_equal(symlink(".", "d/dots"), 0);
    read_error("d", "d/dots: this class folder has no images");
    unlink("d/dots");
    put_files("d/new\nline", 0, 1, "jpg");
    read_error("d", "d/new?line: the name of this class folder has a line break");
    rename("d/new\nline", "d/  ");
    read_error("d", "is blank");
    rename("d/  ", "d/fox");
    rename("d/fox/0.jpg", "d/fox/a\r.jpg");
    read_error("d", "d/fox/a?.jpg: has a line break in its name");
    read_error("d/cat/0.jpg", "is a file, expected a folder");
    read_error("nowhere", "nowhere: no such folder");
    put_files("e/train/cat", 0, 1, "jpg");
    put_files("e/train/dog", 0, 1, "jpg");
    put_files("e/valid/cat", 0, 0, "jpg");
    read_error("e", "no images in valid");
}

/* ---- the split ---- */

static void shares_out_each_class(void **state)
{
    (void)state;
    const int n[] = { 1, 2, 9, 20, 35 }, valid[] = { 0, 1, 1, 2, 4 }, most[] = { 0, 1, 8, 19, 34 };
    const char *name[] = { "d/a", "d/b", "d/c", "d/d", "d/e" };
    for (int k = 0; k < 5; k++) put_files(name[k], 0, n[k], "jpg");
    struct folder *f = read_folder("d");
    assert_int_equal(folder_split(f, .1, 1, &e), OK);
    for (int k = 0; k < 5; k++) {
        assert_int_equal(f->count[1][k], valid[k]);
        assert_int_equal(f->count[0][k], n[k] - valid[k]);
    }
    assert_int_equal(folder_split(f, .999, 1, &e), OK); /* again: from all images, not from the rest */
    for (int k = 0; k < 5; k++) assert_int_equal(f->count[1][k], most[k]);
    folder_free(f);
}

/* The paths below DIR of the validation images, in one string. */
static void chosen(const char *dir, uint64_t seed, char *text, size_t size)
{
    struct folder *f = read_folder(dir);
    assert_int_equal(folder_split(f, .2, seed, &e), OK);
    size_t n = 0;
    text[0] = 0;
    for (int i = 0; i < f->n; i++)
        if (f->image[i].valid)
            n += (size_t)snprintf(text + n, size - n, "%s\n", f->image[i].path + strlen(f->root));
    assert_true(n < size);
    folder_free(f);
}

static void chooses_by_seed_and_name(void **state)
{
    (void)state;
    char a[1000], b[1000];
    put_files("d/cat", 0, 30, "jpg");
    put_files("d/dog", 0, 30, "jpg");
    put_files("moved/cat", 0, 30, "jpg");
    put_files("moved/dog", 0, 30, "jpg");
    chosen("d", 1, a, sizeof a);
    chosen("moved", 1, b, sizeof b);
    assert_string_equal(a, b);
    chosen("d", 2, b, sizeof b);
    assert_string_not_equal(a, b);
    put_files("moved/ant", 0, 10, "jpg"); /* another class changes nothing in the others */
    chosen("moved", 1, b, sizeof b);
    assert_non_null(strstr(b, a));
}

static void needs_two_of_something(void **state)
{
    (void)state;
    put_files("d/cat", 0, 1, "jpg");
    put_files("d/dog", 0, 1, "jpg");
    struct folder *f = read_folder("d");
    assert_int_equal(folder_split(f, .5, 1, &e), E_FORMAT);
    says("no class has two images");
    folder_free(f);
}

/* ---- what is written ---- */

/* Reads back what was written: the samples of a set must have the classes of their folders. */
static void check_set(const struct folder *f, const struct data_file *d, enum split split)
{
    struct dataset *s;
    int rc = dataset_open(&s, d, split, NULL, &e), at = 0;
    if (rc) print_error("%s\n", e.msg);
    assert_int_equal(rc, OK);
    for (int i = 0; i < f->n; i++) {
        if (f->image[i].valid != (split == SPLIT_VALID)) continue;
        assert_string_equal(s->path[at], f->image[i].path);
        assert_int_equal(s->label[at++], f->image[i].label);
    }
    assert_int_equal(s->n, at);
    dataset_close(s);
}

static void round_trip(const char *dir, const char *first_label)
{
    struct data_file *d;
    struct folder *f = read_folder(dir);
    char **label;
    if (!f->valid) assert_int_equal(folder_split(f, .3, 1, &e), OK);
    int rc = folder_write(f, "out/x", 1, &e);
    if (rc) print_error("%s\n", e.msg);
    assert_int_equal(rc, OK);
    assert_int_equal(data_file_read(&d, "out/x.data", NULL, &e), OK);
    assert_int_equal(d->classes, f->classes);
    for (int k = 0; k < f->classes; k++) assert_string_equal(d->name[k], text_trim(f->name[k]));
    assert_int_equal(labels_read(&label, d, &e), OK);
    assert_string_equal(label[0], first_label);
    list_free(label);
    check_set(f, d, SPLIT_TRAIN);
    check_set(f, d, SPLIT_VALID);
    data_file_free(d);
    folder_free(f);
}

static void labels_are_never_mistaken(void **state)
{
    (void)state;
    put_files("d/ant", 0, 5, "jpg");
    put_files("d/bee", 0, 5, "jpg");
    round_trip("d", "ant");
    put_files("d/elephant", 0, 5, "jpg"); /* holds another class's name */
    round_trip("d", "/ant/");
    put_files("digits/0", 0, 9, "jpg"); /* names that are in file names */
    put_files("digits/1", 0, 9, "jpg");
    round_trip("digits", "/0/");
    put_files("bee/photos/ant", 0, 5, "jpg"); /* a class above the classes */
    put_files("bee/photos/bee", 0, 5, "jpg");
    round_trip("bee/photos", "/photos/ant/");
    put_files("s/train/ant", 0, 5, "jpg"); /* sets in different folders */
    put_files("s/train/antelope", 0, 5, "jpg");
    put_files("s/test/ant", 0, 5, "jpg");
    round_trip("s", "/ant/");
    put_files("b/ ant", 0, 5, "jpg"); /* lists lose the blank */
    put_files("b/xant", 0, 5, "jpg");
    round_trip("b", "/ ant/");
    put_files("w/ a #1", 0, 5, "jpg"); /* blanks at an end; what would be a comment elsewhere */
    put_files("w/a #1 ", 0, 5, "jpg");
    put_files("w/'\"$x\\", 0, 5, "jpg");
    round_trip("w", "/ a #1/");
}

static void refuses_to_write(void **state)
{
    (void)state;
    put_files("d/ant/d/bee", 0, 5, "jpg"); /* no form of a label tells these from those of bee */
    put_files("d/bee", 0, 5, "jpg");
    struct folder *f = read_folder("d");
    assert_int_equal(folder_split(f, .3, 1, &e), OK);
    assert_int_equal(folder_write(f, "x", 0, &e), E_FORMAT);
    says(".jpg: is of class 'ant', but 'bee'");
    assert_int_not_equal(access("x.data", F_OK), 0);
    folder_free(f);
    put_files("g/ant", 0, 5, "jpg");
    put_files("g/bee", 0, 5, "jpg");
    f = read_folder("g");
    assert_int_equal(folder_split(f, .3, 1, &e), OK);
    assert_int_equal(put_text("x.names.txt", "mine\n"), 0);
    assert_int_equal(folder_write(f, "x", 0, &e), E_FILE);
    says("x.names.txt: exists");
    assert_int_not_equal(access("x.train.list", F_OK), 0);
    assert_int_equal(folder_write(f, "g/", 0, &e), E_ARG);
    assert_int_equal(folder_write(f, "my #1/x", 0, &e), E_ARG);
    says("a # after a blank");
    folder_free(f);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(finds_images),
        TEST(takes_sets_as_they_are),
        TEST(refuses_what_is_no_data_set),
        TEST(shares_out_each_class),
        TEST(chooses_by_seed_and_name),
        TEST(needs_two_of_something),
        TEST(labels_are_never_mistaken),
        TEST(refuses_to_write),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
