/* The .data file, lists, the class of a path, IDX files: what is accepted, and what is said about the rest.
 */
#include <glob.h>
#include <sys/stat.h>
#include "core/mem.h"
#include "data/label.h"
#include "sets.h"

static void data_error(const char *text, const char *part)
{
    struct data_file *d;
    assert_int_equal(put_text("x.data", text), 0);
    assert_int_not_equal(data_file_read(&d, "x.data", &notes, &e), OK);
    assert_null(d);
    if (!strstr(e.msg, part)) print_error("%s\n", e.msg);
    assert_non_null(strstr(e.msg, part));
}

/* ---- .data ---- */

static void data_files_as_people_write_them(void **state)
{
    (void)state;
    assert_int_equal(put_text("n.txt", "\xef\xbb\xbf"
                                       "cat\r\n\r\n dog \r\nextra\r\n"),
                     0);
    struct data_file *d =
        data("\xef\xbb\xbf# comment\r\n; another\r\n\r\n classes = 2\t\r\ntrain=my set/a b.list  \r\n"
             "valid =v#1.list\nnames = n.txt\r\nresults = r\neval=imagenet\nmap=m\n"
             "backup = out/ # weights go here\ntop=5\nsampling=replacement\ntrain_limit=7\n"
             "holdout=9\nholdout_seed = 3\nresize=32x24\n");
    assert_string_equal(d->train, "my set/a b.list");
    assert_string_equal(d->valid, "v#1.list");
    assert_string_equal(d->backup, "out");
    assert_null(d->test);
    assert_int_equal(d->classes, 2);
    assert_int_equal(d->top, 2);
    assert_int_equal(d->train_limit, 7);
    assert_int_equal(d->holdout, 9);
    assert_int_equal(d->holdout_seed, 3);
    assert_int_equal(d->width, 32);
    assert_int_equal(d->height, 24);
    assert_int_equal(d->replacement, 1);
    assert_int_equal(d->names_n, 2);
    assert_string_equal(d->name[0], "cat");
    assert_string_equal(d->name[1], "dog");
    assert_string_equal(said, "x.data:11: the comment after `backup=` is ignored: the value is 'out/'\n"
                              "x.data: top=5 is more than classes=2: 2 is used\n");
    data_file_free(d);
    data_file_free(NULL);
}

static void defaults_and_doubtful_keys(void **state)
{
    (void)state;
    assert_int_equal(put_text("one", "1_dog\n"), 0);
    struct data_file *d = data("vaild = a\ntrain=one\ntrain=two\nsomething=else");
    assert_string_equal(d->train, "one");
    assert_null(d->valid);
    assert_string_equal(d->backup, "backup");
    assert_int_equal(d->classes, 2);
    assert_int_equal(d->top, 1);
    assert_null(d->name);
    assert_true(!d->holdout && !d->holdout_seed && !d->width && !d->height);
    assert_string_equal(said, "x.data:1: unknown key `vaild=` is ignored; did you mean `valid=`?\n"
                              "x.data:3: `train=` again: line 2 counts\n"
                              "x.data:4: unknown key `something=` is ignored\n"
                              "x.data: no `classes=`: 2 assumed\n");
    set_error(d, SPLIT_VALID, "x.data: no `valid=`: add the list of images to validate on");
    set_error(d, SPLIT_TRAIN, "x.data: no `labels=`");
    data_file_free(d);
}

static void bad_data_files(void **state)
{
    (void)state;
    data_error("classes=0", "x.data:1: classes=0: expected a whole number in 1..");
    data_error("\nclasses=ten", "x.data:2: classes=ten");
    data_error("classes=3x", "classes=3x");
    data_error("classes=99999999999999999999", "classes=9999");
    data_error("train =", "x.data:1: `train=` has no value");
    data_error("train = # later", "`train=` has no value");
    static const char *const sizes[] = { "0",       "32x",  "x32",
                                         "32x0",    "-1",   "32X32",
                                         "32 x 32", "4097", "3x99999999999999999999" };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char text[60];
        snprintf(text, sizeof text, "resize=%s", sizes[i]);
        data_error(text, ": expected a side in pixels, or WIDTHxHEIGHT, each in 1..4096");
    }
    data_error("holdout=-1", "x.data:1: holdout=-1: expected a whole number in 0..");
    data_error("label_noise=101", "x.data:1: label_noise=101: expected a whole number in 0..100");
    data_error("sampling=often", "expected shuffle or replacement");
    data_error("tree=a.tree", "x.data:1: `tree=`");
    data_error("leaves=a.list", "`leaves=`");
    data_error("[net]\nbatch=1", "x.data:1: found the section [net]");
    data_error("cat\ndog", "x.data:1: found 'cat', expected key = value");
    data_error("names=nowhere.txt", "nowhere.txt: no such file");
    assert_int_equal(put_text("one.txt", "cat\n"), 0);
    data_error("classes=3\nnames=one.txt", "one.txt: has 1 names, but x.data says classes=3");
    struct data_file *d;
    assert_int_equal(data_file_read(&d, "no.data", &notes, &e), E_FILE);
    assert_string_equal(e.msg, "no.data: no such file");
}

/* Run from the top of the tree. */
static void shipped_data_files(void **state)
{
    (void)state;
    glob_t g;
    assert_int_equal(glob("data/*.data", 0, NULL, &g), 0);
    said[0] = 0;
    for (size_t i = 0; i < g.gl_pathc; i++) {
        struct data_file *d;
        print_message("%s\n", g.gl_pathv[i]);
        int rc = data_file_read(&d, g.gl_pathv[i], &notes, &e);
        if (rc == E_FILE && !strcmp(e.msg, "data/imagenet/names.txt: no such file"))
            continue; /* scripts/get-imagenet.sh writes it */
        if (rc) print_error("%s\n", e.msg);
        assert_int_equal(rc, OK);
        assert_true(d->train && d->valid && d->names_n == d->classes);
        data_file_free(d);
    }
    assert_true(g.gl_pathc > 0);
    assert_string_equal(said, "");
    globfree(&g);
}

/* ---- labels ---- */

static int class_in(const char *path, const char *a, const char *b, const char *c)
{
    char text[3][40];
    char *label[3] = { text[0], text[1], text[2] };
    snprintf(text[0], sizeof text[0], "%s", a);
    snprintf(text[1], sizeof text[1], "%s", b);
    snprintf(text[2], sizeof text[2], "%s", c);
    return label_of(path, label, 3);
}

static void class_of_a_path(void **state)
{
    (void)state;
    assert_int_equal(class_in("data/x_truck.png", "cat", "dog", "truck"), 2); /* Darknet's own rule */
    assert_int_equal(class_in("data/dog/1.png", "cat", "dog", "truck"), 1);
    assert_int_equal(class_in("data/1.png", "cat", "dog", "truck"), -1);
    assert_int_equal(class_in("data/DOG/1.png", "cat", "dog", "truck"), -1);
    /* the file name before folders */
    assert_int_equal(class_in("/classification/dog_1.png", "cat", "dog", "x"), 1);
    assert_int_equal(class_in("/cat/mydogs.png", "cat", "dog", "x"), 1);
    /* then whole tokens */
    assert_int_equal(class_in("/a/1_noperson.jpg", "person", "noperson", "x"), 1);
    assert_int_equal(class_in("/a/00107_7.png", "1", "7", "0"), 1);
    assert_int_equal(class_in("/classification/dog/1.png", "cat", "dog", "x"), 1);
    assert_int_equal(class_in("/cattle/cat-1.png", "cattle", "cat", "x"), 1);
    /* then the longest */
    assert_int_equal(class_in("/a/thecarpets.png", "car", "carpet", "x"), 1);
    assert_int_equal(class_in("/a/man_woman.png", "man", "woman", "x"), 1);
    /* otherwise nobody can tell */
    assert_int_equal(class_in("/a/cat_dog.png", "x", "cat", "dog"), -2 - 1);
    assert_int_equal(class_in("/a/dog_1.png", "dog", "dog", "x"), -2 - 0);
    assert_int_equal(class_in("/a/cat_dog_truck.png", "cat", "dog", "truck"), 2);
}

static void lists_are_labelled(void **state)
{
    (void)state;
    assert_int_equal(put_text("l.txt", "cat\r\ndog\r\n\r\ntruck\r\n\r\n"), 0);
    assert_int_equal(put_text("t.list", "a b/1_dog.png  \r\n\r\nc/2_cat.png\r\nd/3_dog.png\nd/dog/4_cat.png"),
                     0);
    struct data_file *d = data("classes=3\nlabels=l.txt\ntrain=t.list\nvalid=t.list\ntrain_limit=3\n");
    struct dataset *s = set(d, SPLIT_TRAIN);
    assert_int_equal(s->n, 3);
    assert_string_equal(s->path[0], "a b/1_dog.png");
    assert_null(s->pixels);
    const int label[] = { 1, 0, 1 }, count[] = { 1, 2, 0 }, of_class[] = { 1, 0, 2 },
              start[] = { 0, 1, 3, 3 };
    assert_memory_equal(s->label, label, sizeof label);
    assert_memory_equal(s->count, count, sizeof count);
    assert_memory_equal(s->of_class, of_class, sizeof of_class);
    assert_memory_equal(s->start, start, sizeof start);
    assert_string_equal(said,
                        "t.list: 3 images, 3 classes; smallest class 'truck' has 0, largest 'dog' has 2\n"
                        "warning: t.list: class 'truck' has no image (1 of 3 classes have none): check the "
                        "labels and the paths, first 'a b/1_dog.png', taken as 'dog'\n");
    dataset_close(s);
    dataset_close(NULL);
    said[0] = 0;
    s = set(d, SPLIT_VALID);
    assert_int_equal(s->n, 4);
    assert_int_equal(s->label[3], 0);
    assert_non_null(strstr(said,
                           "t.list: 1 of 4 images have several labels in their path; 'd/dog/4_cat.png' has "
                           "'dog', 'cat': taken as 'cat'"));
    dataset_close(s);
    data_file_free(d);
}

static void bad_lists(void **state)
{
    (void)state;
    assert_int_equal(put_text("l.txt", "cat\ndog\n"), 0);
    struct data_file *d = data("labels=l.txt\ntrain=t.list\nvalid=gone.list\n");
    set_error(d, SPLIT_VALID, "gone.list: no such file");
    assert_int_equal(put_text("t.list", "\n \r\n"), 0);
    set_error(d, SPLIT_TRAIN, "t.list: has no lines");
    assert_int_equal(put_text("t.list", "1_dog\n\n2_rat\r\n3_cat_dog\n4_rat\n"), 0);
    set_error(d, SPLIT_TRAIN,
              "t.list: 4 images, each must have one label in its path; 2 without a label, first "
              "'2_rat' (line 3); 1 with several, first '3_cat_dog' (line 4: 'cat', 'dog')");
    assert_int_equal(put_text("t.list", "# my list\n1_dog\n"), 0);
    set_error(d, SPLIT_TRAIN, "1 without a label, first '# my list' (line 1)");
    char path[600] = "start/";
    for (int i = 0; i < 40; i++) strcat(path, "folder_name/");
    strcat(path, "the_end.png\n");
    assert_int_equal(put_text("t.list", path), 0);
    set_error(d, SPLIT_TRAIN, "first 'start/folder_name/fo...");
    set_error(d, SPLIT_TRAIN, "/folder_name/the_end.png' (line 1)");
    assert_string_equal(said, "x.data: no `classes=`: 2 assumed\n");
    data_file_free(d);
    data_error("classes=3\nlabels=l.txt",
               "l.txt: has 2 labels, but x.data says classes=3: correct one of them");
    assert_int_equal(put_text("n.txt", "a\nb\nc\n"), 0);
    d = data("classes=3\nlabels=l.txt\nnames=n.txt\ntrain=t.list\n");
    set_error(d, SPLIT_TRAIN, "l.txt: has 2 labels, but x.data says classes=3");
    data_file_free(d);
}

/* Without the count the remark would be class 0, and 'dog' none. */
static void labels_are_counted(void **state)
{
    (void)state;
    assert_int_equal(put_text("l.txt", "\n# my names\ncat\ndog\n"), 0);
    assert_int_equal(put_text("t.list", "1_cat\n2_cat\n"), 0);
    data_error("classes=2\nlabels=l.txt",
               "l.txt: has 3 labels, but x.data says classes=2: correct one of them "
               "(line 2 is '# my names': every line is a label)");
    /* names may be more */
    struct data_file *d = data("classes=2\nlabels=l.txt\nnames=l.txt\ntrain=t.list\n");
    assert_string_equal(
        said, "warning: l.txt:2: '# my names' is taken as the name of class 0: every line is a name\n");
    set_error(d, SPLIT_TRAIN, "l.txt: has 3 labels, but x.data says classes=2: correct one of them");
    data_file_free(d);
}

/* As Darknet's cfg/imagenet1k.data has them: those left over are no classes, but their images are found. */
static void labels_may_be_more(void **state)
{
    (void)state;
    struct dataset *set;
    assert_int_equal(put_text("l.txt", "cat\ndog\ncatfish\n"), 0);
    assert_int_equal(put_text("t.list", "1_cat\n2_dog\n"), 0);
    struct data_file *d = data("classes=2\nlabels=l.txt\ntrain=t.list\n");
    assert_int_equal(d->names_n, 2);
    assert_int_equal(dataset_open(&set, d, SPLIT_TRAIN, &notes, &e), OK);
    assert_int_equal(set->label[1], 1);
    dataset_close(set);
    assert_int_equal(put_text("t.list", "1_cat\n2_dog\n3_catfish\n"), 0);
    set_error(d, SPLIT_TRAIN,
              "; 1 of label 3 or later, but classes=2, first '3_catfish' (line 3: 'catfish')");
    data_file_free(d);
}

/* The file name decides before folders, so an index in it can take every image from the classes meant. */
static void classes_without_images_are_warned_of(void **state)
{
    (void)state;
    assert_int_equal(put_text("l.txt", "moon\nsun\n7\n"), 0);
    assert_int_equal(put_text("t.list", "d/sun/img_7.png\nd/moon/img_17.png\n"), 0);
    struct data_file *d = data("classes=3\nlabels=l.txt\ntrain=t.list\n");
    struct dataset *s = set(d, SPLIT_TRAIN);
    assert_int_equal(s->count[2], 2);
    assert_non_null(strstr(said, "2 of 2 images have several labels in their path; 'd/sun/img_7.png'"));
    assert_non_null(strstr(said,
                           "\nwarning: t.list: class 'moon' has no image (2 of 3 classes have none): check "
                           "the labels and the paths, first 'd/sun/img_7.png', taken as '7'\n"));
    dataset_close(s);
    data_file_free(d);
}

/* At once: nobody ever writes to the pipes. */
static void pipes_are_refused(void **state)
{
    (void)state;
    const uint32_t dim[] = { 1, 1, 1 };
    const uint8_t pixel = 9;
    assert_int_equal(mkfifo("t-images-idx3.gz", 0600), 0);
    assert_int_equal(mkfifo("v-labels-idx1", 0600), 0);
    assert_int_equal(put_idx("v-images-idx3", 3, dim, &pixel, 1), 0);
    assert_int_equal(put_text("l.txt", "cat\ndog\n"), 0);
    struct data_file *d = data("classes=2\nlabels=l.txt\ntrain=t-images-idx3.gz\nvalid=v-images-idx3\n");
    set_error(d, SPLIT_TRAIN, "t-images-idx3.gz: is not a regular file");
    set_error(d, SPLIT_VALID, "v-labels-idx1: is not a regular file");
    data_file_free(d);
}

/* Thousands of labels, found as the plain rule finds them. */
static void many_labels(void **state)
{
    (void)state;
    enum { K = 500, N = 2000 };
    FILE *l = fopen("l.txt", "w"), *t = fopen("t.list", "w");
    assert_true(l && t);
    for (int k = 0; k < K; k++) fprintf(l, "n%d\n", k);
    for (int i = 0; i < N; i++) fprintf(t, "/n%d/x/n%d_%d.png\n", i * 7 % K, i % K, i);
    fclose(l);
    fclose(t);
    struct data_file *d = data("classes=500\nlabels=l.txt\ntrain=t.list\n");
    struct dataset *s = set(d, SPLIT_TRAIN);
    char **label;
    int n;
    assert_int_equal(list_read(&label, &n, "l.txt", &e), OK);
    assert_int_equal(n, K);
    for (int i = 0; i < N; i++) {
        assert_int_equal(s->label[i], i % K);
        assert_int_equal(label_of(s->path[i], label, K), i % K);
    }
    list_free(label);
    dataset_close(s);
    data_file_free(d);
}

static void samples_of_lists(void **state)
{
    (void)state;
    const uint8_t gray[] = { 1, 2, 3, 4, 5, 6 };
    struct picture got;
    assert_int_equal(put_png("1_dog.png", 3, 2, 8, 0, gray, 3, NULL, 0), 0);
    assert_int_equal(put_text("l.txt", "cat\ndog\n"), 0);
    assert_int_equal(put_text("t.list", "1_dog.png\n2_dog.png\n"), 0);
    struct data_file *d = data("classes=2\nlabels=l.txt\ntrain=t.list\n");
    struct dataset *s = set(d, SPLIT_TRAIN);
    assert_int_equal(dataset_image(s, 0, 1, 0, &got, &e), OK);
    assert_int_equal(got.w, 3);
    assert_int_equal(got.h, 2);
    assert_memory_equal(got.pixels, gray, 6);
    mem_free(got.pixels);
    assert_int_equal(dataset_image(s, 1, 1, 0, &got, &e), E_FILE);
    assert_int_equal(dataset_image(s, 0, 4, 0, &got, &e), E_ARG);
    dataset_close(s);
    data_file_free(d);
}

/* ---- IDX ---- */

enum { N = 5, H = 2, W = 3 };
static const uint8_t idx_label[N] = { 1, 0, 2, 1, 1 };
static uint8_t idx_pixels[3 * N * H * W];

static void write_pair(const char *images, const char *labels)
{
    const uint32_t dim[] = { N, H, W };
    for (size_t i = 0; i < sizeof idx_pixels; i++) idx_pixels[i] = (uint8_t)(i * 11);
    assert_int_equal(put_idx(images, 3, dim, idx_pixels, N * H * W), 0);
    assert_int_equal(put_idx(labels, 1, dim, idx_label, N), 0);
}

static void idx_plain_and_zipped(void **state)
{
    (void)state;
    const char *names[][2] = { { "t-images-idx3-ubyte", "t-labels-idx1-ubyte" },
                               { "t-images-idx3-ubyte.gz", "t-labels-idx1-ubyte.gz" },
                               { "u-images.idx3-ubyte.gz", "u-labels.idx1-ubyte" },
                               { "images-images-idx3", "images-labels-idx1.gz" } };
    for (int i = 0; i < 4; i++) {
        char text[200];
        write_pair(names[i][0], names[i][1]);
        snprintf(text, sizeof text, "classes=3\ntrain=%s\nvalid=%s\ntrain_limit=4\n", names[i][0],
                 names[i][0]);
        struct data_file *d = data(text);
        struct dataset *s = set(d, SPLIT_VALID);
        assert_int_equal(s->n, N);
        assert_int_equal(s->c, 1);
        assert_int_equal(s->h, H);
        assert_int_equal(s->w, W);
        assert_null(s->path);
        assert_memory_equal(s->pixels, idx_pixels, N * H * W);
        for (int k = 0; k < N; k++) assert_int_equal(s->label[k], idx_label[k]);
        assert_int_equal(s->count[1], 3);
        assert_non_null(strstr(said, "5 images, 3 classes; smallest class '0' has 1, largest '1' has 3"));
        struct picture got;
        assert_int_equal(dataset_image(s, 1, 3, 0, &got, &e), OK);
        for (int k = 0; k < 3; k++) assert_memory_equal(got.pixels + k * H * W, idx_pixels + H * W, H * W);
        mem_free(got.pixels);
        dataset_close(s);
        s = set(d, SPLIT_TRAIN);
        assert_int_equal(s->n, 4);
        dataset_close(s);
        data_file_free(d);
        for (int k = 0; k < 2; k++) assert_int_equal(remove(names[i][k]), 0);
    }
}

static void idx_in_colour(void **state)
{
    (void)state;
    const uint32_t dim[] = { N, 3, H, W };
    write_pair("x-images-idx3", "x-labels-idx1");
    assert_int_equal(put_idx("x-images-idx4.gz", 4, dim, idx_pixels, sizeof idx_pixels), 0);
    struct data_file *d = data("classes=3\ntrain=x-images-idx4.gz\n");
    struct dataset *s = set(d, SPLIT_TRAIN);
    assert_int_equal(s->c, 3);
    struct picture got;
    assert_int_equal(dataset_image(s, 2, 3, 0, &got, &e), OK);
    assert_memory_equal(got.pixels, idx_pixels + 2 * 3 * H * W, 3 * H * W);
    mem_free(got.pixels);
    assert_int_equal(dataset_image(s, 2, 1, 0, &got, &e), OK);
    const uint8_t *p = idx_pixels + 2 * 3 * H * W;
    for (int i = 0; i < H * W; i++) {
        double luma = .299 * p[i] + .587 * p[H * W + i] + .114 * p[2 * H * W + i];
        assert_true(got.pixels[i] >= luma - .5001 && got.pixels[i] <= luma + .5001);
    }
    mem_free(got.pixels);
    dataset_close(s);
    data_file_free(d);
}

/* Copies the first n bytes of a file, then `more` zero bytes. */
static void copy_part(const char *from, const char *to, size_t n, size_t more)
{
    uint8_t bytes[400] = { 0 };
    FILE *f = fopen(from, "rb");
    assert_non_null(f);
    size_t got = fread(bytes, 1, n, f);
    fclose(f);
    assert_int_equal(put_bytes(to, bytes, got + more), 0);
}

static void bad_idx(void **state)
{
    (void)state;
    const uint32_t six[] = { 6, H, W }, huge[] = { 2000000000, 60000, 60000 }, big[] = { 100000, 200, 200 };
    write_pair("g-images-idx3", "g-labels-idx1");
    write_pair("g-images-idx3.gz", "b-labels-idx1.gz");
    struct data_file *d = data("classes=3\ntrain=b-images-idx3\nvalid=c-images-idx3.gz\n");
    for (size_t cut = 2; cut < 16 + N * H * W; cut += 3) {
        copy_part("g-images-idx3", "b-images-idx3", cut, 0);
        set_error(d, SPLIT_TRAIN, "b-images-idx3: is truncated");
    }
    copy_part("g-images-idx3", "b-images-idx3", 400, 1);
    set_error(d, SPLIT_TRAIN, "b-images-idx3: has bytes after its data");
    assert_int_equal(rename("b-labels-idx1.gz", "c-labels-idx1.gz"), 0);
    struct stat st;
    assert_int_equal(stat("g-images-idx3.gz", &st), 0);
    for (size_t cut = 20; cut < (size_t)st.st_size; cut++) {
        copy_part("g-images-idx3.gz", "c-images-idx3.gz", cut, 0);
        set_error(d, SPLIT_VALID, "c-images-idx3.gz: ");
    }
    assert_int_equal(put_idx("b-images-idx3", 3, huge, idx_pixels, 10), 0);
    assert_int_equal(put_idx("b-labels-idx1", 1, six, idx_label, N), 0);
    set_error(d, SPLIT_TRAIN, "more than 2^33 bytes");
    assert_int_equal(put_idx("b-images-idx3", 3, big, idx_pixels, 10), 0);
    set_error(d, SPLIT_TRAIN, "is truncated: its header promises 4000000000 bytes");
    assert_int_equal(put_idx("b-images-idx3", 3, six, idx_pixels, 6 * H * W), 0);
    set_error(d, SPLIT_TRAIN, "b-labels-idx1: is truncated");
    copy_part("g-labels-idx1", "b-labels-idx1", 400, 0);
    set_error(d, SPLIT_TRAIN, "b-labels-idx1: has 5 labels, but b-images-idx3 has 6 images");
    copy_part("g-images-idx3", "b-images-idx3", 400, 0);
    copy_part("g-images-idx3", "b-labels-idx1", 400, 0);
    set_error(d, SPLIT_TRAIN, "b-labels-idx1: has 3 dimensions, expected 1");
    assert_int_equal(remove("b-labels-idx1"), 0);
    set_error(d, SPLIT_TRAIN, "its labels file is missing: there is no b-labels-idx1, with or without .gz");
    data_file_free(d);
    d = data("classes=2\ntrain=g-images-idx3\nvalid=g-labels-idx1\n");
    set_error(d, SPLIT_TRAIN, "g-labels-idx1: image 2 is of class 2, expected 0..1");
    set_error(d, SPLIT_VALID, "needs `images` in it");
    data_file_free(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(data_files_as_people_write_them),
        CASE(defaults_and_doubtful_keys),
        CASE(bad_data_files),
        cmocka_unit_test(shipped_data_files),
        CASE(class_of_a_path),
        CASE(lists_are_labelled),
        CASE(bad_lists),
        CASE(labels_are_counted),
        CASE(labels_may_be_more),
        CASE(classes_without_images_are_warned_of),
        CASE(pipes_are_refused),
        CASE(many_labels),
        CASE(samples_of_lists),
        CASE(idx_plain_and_zipped),
        CASE(idx_in_colour),
        CASE(bad_idx),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
