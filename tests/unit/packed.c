/* CIFAR, STL-10 and QMNIST as they are distributed, at a few images each: every byte, and every way they can
 * be wrong; resizing; what is held out, of packed images and of lists. */
#include <sys/stat.h>
#include "core/mem.h"
#include "core/rng.h"
#include "data/pick.h"
#include "sets.h"
#include "train/checkpoint.h"

enum { CIFAR = 3 * 32 * 32, STL_SIDE = 96, STL = 3 * STL_SIDE * STL_SIDE, MOST = 12 };

/* Byte `at` of image `i` of all. */
static uint8_t pixel(int i, int at) { return (uint8_t)(rng_bits((uint64_t)i, (uint64_t)at) >> 40); }

/* ---- CIFAR ---- */

static int fine_of(int i) { return (37 * i + 5) % 100; }
static int coarse_of(int i) { return (7 * i + 3) % 20; }
static int label_at(int i) { return (3 * i + 1) % 10; }

/* `n` images from number `first` on, into x; returns the bytes. */
static size_t cifar(uint8_t *x, int labels, int first, int n)
{
    uint8_t *p = x;
    for (int i = first; i < first + n; i++) {
        if (labels == 2) *p++ = (uint8_t)coarse_of(i);
        *p++ = (uint8_t)(labels == 2 ? fine_of(i) : label_at(i));
        for (int at = 0; at < CIFAR; at++) *p++ = pixel(i, at);
    }
    return (size_t)(p - x);
}

static void put_cifar(const char *path, int labels, int first, int n)
{
    static uint8_t x[MOST * (CIFAR + 2)];
    assert_int_equal(put_packed(path, NULL, 0, x, cifar(x, labels, first, n)), 0);
}

/* The folder, of 2 images a batch, one of them zipped, and 3 to test on: numbers 0..9 and 10..12. */
static void put_cifar10(void)
{
    assert_int_equal(mkdir("c10", 0700), 0);
    for (int k = 0; k < 5; k++) {
        char path[40];
        snprintf(path, sizeof path, "c10/data_batch_%d.bin%s", k + 1, k == 3 ? ".gz" : "");
        put_cifar(path, 1, 2 * k, 2);
    }
    put_cifar("c10/test_batch.bin", 1, 10, 3);
}

static void check_images(struct dataset *s, int first, int n, int (*label)(int))
{
    assert_int_equal(s->n, n);
    assert_true(s->c == 3 && s->h == 32 && s->w == 32 && !s->path);
    for (int i = 0; i < n; i++) {
        assert_int_equal(s->label[i], label(first + i));
        for (int at = 0; at < CIFAR; at++)
            if (s->pixels[i * CIFAR + at] != pixel(first + i, at)) fail_msg("image %d, byte %d", i, at);
    }
    dataset_close(s);
}

static void cifar10(void **state)
{
    (void)state;
    put_cifar10();
    struct data_file *d = data("classes=10\ntrain=c10\nvalid=c10/\n");
    check_images(set(d, SPLIT_TRAIN), 0, 10, label_at);
    check_images(set(d, SPLIT_VALID), 10, 3, label_at);
    assert_non_null(
        strstr(said, "c10: 10 images, 10 classes of 1\n"));
    data_file_free(d);
    d = data("classes=10\ntrain=c10/data_batch_4.bin.gz\nvalid=c10/data_batch_2.bin\ntrain_limit=1\n");
    check_images(set(d, SPLIT_TRAIN), 6, 1, label_at);
    check_images(set(d, SPLIT_VALID), 2, 2, label_at);
    data_file_free(d);
    d = data("classes=10\ntrain=c10\nholdout=10\n");
    set_error(d, SPLIT_TRAIN, "c10: has 10 images: holdout=10 leaves none"); /* all five files */
    data_file_free(d);
}

static void cifar100(void **state)
{
    (void)state;
    assert_int_equal(mkdir("c100", 0700), 0);
    put_cifar("c100/train.bin", 2, 0, 7);
    put_cifar("c100/test.bin.gz", 2, 7, 2);
    struct data_file *d = data("classes=100\ntrain=c100\nvalid=c100\n");
    check_images(set(d, SPLIT_TRAIN), 0, 7, fine_of);
    check_images(set(d, SPLIT_VALID), 7, 2, fine_of);
    data_file_free(d);
    d = data("classes=20\ntrain=c100/train.bin\nvalid=c100/test.bin.gz\n");
    check_images(set(d, SPLIT_TRAIN), 0, 7, coarse_of);
    check_images(set(d, SPLIT_VALID), 7, 2, coarse_of);
    data_file_free(d);
    d = data("classes=10\ntrain=c100\n");
    set_error(
        d, SPLIT_TRAIN,
        "c100/train.bin: CIFAR-100 has 100 classes, or 20 coarse ones, but the data file says classes=10");
    data_file_free(d);
}

/* Writes the first n bytes of x, zeros beyond them. */
static void put_cut(const char *path, const uint8_t *x, size_t size, size_t n)
{
    uint8_t *copy = calloc(n + 1, 1);
    assert_non_null(copy);
    memcpy(copy, x, n < size ? n : size);
    assert_int_equal(put_bytes(path, copy, n), 0);
    free(copy);
}

static void sizes_of_cifar(void **state)
{
    (void)state;
    static uint8_t x[MOST * (CIFAR + 2)];
    const size_t wrong[] = { 1, CIFAR, CIFAR + 2, 2 * CIFAR + 2 - 1, 2 * CIFAR + 2 + 1 };
    size_t n = cifar(x, 1, 0, 2);
    put_cifar10();
    struct data_file *d = data("classes=10\ntrain=c10\nvalid=c10/data_batch_2.bin\n");
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char part[100];
        snprintf(part, sizeof part, "c10/data_batch_2.bin: has %zu bytes, expected a multiple of 3073",
                 wrong[i]);
        put_cut("c10/data_batch_2.bin", x, n, wrong[i]);
        set_error(d, SPLIT_TRAIN, part);
        set_error(d, SPLIT_VALID, part);
    }
    put_cut("c10/data_batch_2.bin", x, n, 0);
    set_error(d, SPLIT_TRAIN, "data_batch_2.bin: has 0 bytes, expected");
    x[CIFAR + 1] = 10;
    put_cut("c10/data_batch_2.bin", x, n, n);
    set_error(d, SPLIT_TRAIN,
              "c10/data_batch_2.bin: image 1 is of class 10, expected 0..9: check `classes=10`");
    assert_int_equal(remove("c10/data_batch_2.bin"), 0);
    set_error(d, SPLIT_TRAIN, "c10: has no data_batch_2.bin of CIFAR-10, with or without .gz");
    set_error(d, SPLIT_VALID, "c10/data_batch_2.bin: no such file");
    data_file_free(d);
}

/* Labels below 10 are classes of CIFAR-100, too: which of two sets was meant cannot be told from them. */
static void two_collections(void **state)
{
    (void)state;
    put_cifar10();
    struct data_file *d = data("classes=100\ntrain=c10\nvalid=c10\n");
    dataset_close(set(d, SPLIT_TRAIN));
    put_cifar("c10/train.bin.gz", 2, 0, 3);
    for (int k = 0; k < 2; k++)
        set_error(d, k ? SPLIT_VALID : SPLIT_TRAIN,
                  "c10: has files of CIFAR-10 and of CIFAR-100: move those of one into a folder");
    data_file_free(d);
    d = data("classes=10\ntrain=c10/data_batch_2.bin\nvalid=c10/test_batch.bin\n");
    dataset_close(set(d, SPLIT_TRAIN));
    data_file_free(d);
}

/* Cut anywhere, the checksum at the end included. */
static void truncated_gzip(void **state)
{
    (void)state;
    static uint8_t x[3 * CIFAR];
    FILE *f;
    put_cifar("test_batch.bin.gz", 1, 0, 1);
    assert_non_null(f = fopen("test_batch.bin.gz", "rb"));
    size_t n = fread(x, 1, sizeof x, f);
    fclose(f);
    struct data_file *d = data("classes=10\ntrain=data_batch_1.bin.gz\n");
    for (size_t cut = 10; cut<n; cut += cut> n - 20 ? 1 : 61) {
        put_cut("data_batch_1.bin.gz", x, n, cut);
        set_error(d, SPLIT_TRAIN, "data_batch_1.bin.gz: is truncated or damaged at its end: unexpected end");
    }
    x[n / 2] ^= 1;
    put_cut("data_batch_1.bin.gz", x, n, n);
    set_error(d, SPLIT_TRAIN, "data_batch_1.bin.gz: is truncated or damaged");
    data_file_free(d);
}

/* ---- STL-10 ---- */

/* Column by column, as the files are: pixel(i, ..) of (plane, y, x) at plane, x, y. */
static void put_stl(const char *images, const char *labels, int n)
{
    uint8_t *x = calloc((size_t)n, STL), label[MOST];
    assert_non_null(x);
    for (int i = 0; i < n; i++) {
        for (int at = 0; at < STL; at++) {
            int plane = at / (STL_SIDE * STL_SIDE), row = at / STL_SIDE % STL_SIDE, column = at % STL_SIDE;
            x[i * STL + (plane * STL_SIDE + column) * STL_SIDE + row] = pixel(i, at);
        }
        label[i] = (uint8_t)(label_at(i) + 1);
    }
    assert_int_equal(put_packed(images, NULL, 0, x, (size_t)n * STL), 0);
    assert_int_equal(put_packed(labels, NULL, 0, label, (size_t)n), 0);
    free(x);
}

static void stl10(void **state)
{
    (void)state;
    assert_int_equal(mkdir("s10", 0700), 0);
    put_stl("s10/train_X.bin", "s10/train_y.bin", 3);
    put_stl("s10/test_X.bin.gz", "s10/test_y.bin", 2);
    struct data_file *d = data("classes=10\ntrain=s10\nvalid=s10/test_X.bin.gz\n");
    for (int k = 0; k < 2; k++) {
        struct dataset *s = set(d, k ? SPLIT_VALID : SPLIT_TRAIN);
        assert_int_equal(s->n, 3 - k);
        assert_true(s->c == 3 && s->h == STL_SIDE && s->w == STL_SIDE);
        for (int i = 0; i < s->n; i++) {
            assert_int_equal(s->label[i], label_at(i));
            for (int at = 0; at < STL; at++)
                if (s->pixels[i * STL + at] != pixel(i, at)) fail_msg("image %d, byte %d", i, at);
        }
        dataset_close(s);
    }
    data_file_free(d);
}

static void bad_stl10(void **state)
{
    (void)state;
    static uint8_t x[2 * STL], y[3] = { 1, 10, 3 };
    struct data_file *d = data("classes=10\ntrain=train_X.bin\nvalid=unlabeled_X.bin\n");
    put_cut("train_X.bin", x, sizeof x, sizeof x);
    put_cut("unlabeled_X.bin", x, sizeof x, sizeof x);
    set_error(d, SPLIT_TRAIN, "train_X.bin: its labels file is missing: there is no train_y.bin");
    set_error(d, SPLIT_VALID, "unlabeled_X.bin: no .bin file of this name is known here: expected");
    for (size_t n = 0; n < 4; n++) {
        if (n == 2) continue;
        char part[100];
        snprintf(part, sizeof part, "train_y.bin: has %zu bytes, expected 2: one label", n);
        put_cut("train_y.bin", y, 3, n);
        set_error(d, SPLIT_TRAIN, part);
    }
    put_cut("train_y.bin", y, 3, 2);
    dataset_close(set(d, SPLIT_TRAIN));
    put_cut("train_X.bin", x, sizeof x, sizeof x - 1);
    set_error(d, SPLIT_TRAIN, "train_X.bin: has 55295 bytes, expected a multiple of 27648");
    put_cut("train_X.bin", x, sizeof x, sizeof x + 1);
    set_error(d, SPLIT_TRAIN, "train_X.bin: has 55297 bytes, expected a multiple of 27648");
    put_cut("train_X.bin", x, sizeof x, sizeof x);
    for (int label = 0; label <= 11; label += 11) {
        char part[100];
        snprintf(part, sizeof part, "train_y.bin: image 1 is of class %d, expected 1..10", label);
        y[1] = (uint8_t)label;
        put_cut("train_y.bin", y, 3, 2);
        set_error(d, SPLIT_TRAIN, part);
    }
    data_file_free(d);
}

/* ---- other paths ---- */

static void archives(void **state)
{
    (void)state;
    put_cifar("set.tar.gz", 1, 0, 1);
    struct data_file *d = data("classes=2\ntrain=set.tar.gz\n");
    set_error(d, SPLIT_TRAIN, "set.tar.gz: is compressed, or an IDX file, and no list: unpack an archive");
    data_file_free(d);
}

static void unknown_folders(void **state)
{
    (void)state;
    assert_int_equal(mkdir("pets", 0700), 0);
    struct data_file *d = data("classes=2\ntrain=pets\nvalid=data/gone/x\n");
    set_error(d, SPLIT_TRAIN,
              "pets: is a folder without files known here: expected the binary version of CIFAR-10");
    set_error(d, SPLIT_TRAIN, "for a folder per class, run: darknet classifier prepare pets");
    set_error(d, SPLIT_VALID, "data/gone/x: no such file or folder");
    assert_null(strstr(e.msg, "scripts/"));
    assert_int_equal(mkdir("scripts", 0700), 0);
    assert_int_equal(put_text("scripts/get-gone.sh", "#!/bin/sh\n"), 0);
    set_error(d, SPLIT_VALID,
              "data/gone/x: no such file or folder: scripts/get-gone.sh fetches that data set");
    data_file_free(d);
}

/* ---- QMNIST ---- */

enum { Q = 4, COLUMNS = 8 };

static void put_labels(const char *path, uint32_t type, uint32_t columns, uint32_t wrong)
{
    uint8_t x[12 + Q * COLUMNS * 4] = { 0, 0, (uint8_t)type, 2 };
    put_big_endian(x + 4, Q);
    put_big_endian(x + 8, columns);
    for (uint32_t i = 0; i < Q; i++)
        for (uint32_t k = 0; k < columns; k++)
            put_big_endian(x + 12 + 4 * (i * columns + k), k        ? 1000 * k
                                                       : i == 2 ? wrong
                                                                : (uint32_t)label_at((int)i));
    assert_int_equal(put_packed(path, NULL, 0, x, 12 + 4 * Q * columns), 0);
}

static void qmnist(void **state)
{
    (void)state;
    const uint32_t dim[] = { Q, 2, 3 };
    uint8_t pixels[Q * 6];
    for (int i = 0; i < Q * 6; i++) pixels[i] = pixel(0, i);
    assert_int_equal(put_idx("qmnist-train-images-idx3-ubyte.gz", 3, dim, pixels, sizeof pixels), 0);
    put_labels("qmnist-train-labels-idx2-int.gz", 12, COLUMNS, 7);
    struct data_file *d = data("classes=10\ntrain=qmnist-train-images-idx3-ubyte.gz\n");
    struct dataset *s = set(d, SPLIT_TRAIN);
    assert_int_equal(s->n, Q);
    assert_memory_equal(s->pixels, pixels, sizeof pixels);
    for (int i = 0; i < Q; i++) assert_int_equal(s->label[i], i == 2 ? 7 : label_at(i));
    dataset_close(s);
    const char *text = "qmnist-train-labels-idx2-int.gz: image 2 is of class 10, expected 0..9";
    put_labels("qmnist-train-labels-idx2-int.gz", 12, COLUMNS, 10);
    set_error(d, SPLIT_TRAIN, text);
    put_labels("qmnist-train-labels-idx2-int.gz", 12, COLUMNS, 0x80000007);
    set_error(d, SPLIT_TRAIN, "image 2 is of class -1, expected 0..9");
    put_labels("qmnist-train-labels-idx2-int.gz", 13, COLUMNS, 1);
    set_error(d, SPLIT_TRAIN,
              "qmnist-train-labels-idx2-int.gz: starts with 00 00 0d 02, expected the IDX header");
    data_file_free(d);
}

/* ---- resize= ---- */

static void resized(void **state)
{
    (void)state;
    put_stl("train_X.bin", "train_y.bin", 2);
    struct data_file *d = data("classes=10\ntrain=train_X.bin\nresize=32\n");
    struct dataset *s = set(d, SPLIT_TRAIN);
    assert_true(s->n == 2 && s->h == 32 && s->w == 32);
    for (int i = 0; i < 2 * CIFAR; i++) {
        int k = i / 1024, x = i % 32 * 3, y = i / 32 % 32 * 3, sum = 0;
        for (int part = 0; part < 9; part++)
            sum += pixel(k / 3, (k % 3 * STL_SIDE + y + part / 3) * STL_SIDE + x + part % 3);
        assert_int_equal(s->pixels[i], (2 * sum + 9) / 18); /* the mean of 3 x 3, to nearest */
    }
    dataset_close(s);
    data_file_free(d);
    d = data("classes=10\ntrain=train_X.bin\nresize=48x24\n");
    s = set(d, SPLIT_TRAIN);
    assert_true(s->w == 48 && s->h == 24);
    dataset_close(s);
    data_file_free(d);
    assert_int_equal(put_text("t.list", "1_cat.png\n2_dog.png\n"), 0);
    assert_int_equal(put_text("l.txt", "cat\ndog\n"), 0);
    d = data("classes=2\ntrain=t.list\nlabels=l.txt\nresize=32\n");
    set_error(d, SPLIT_TRAIN, "x.data: resize=32x32 is for packed images, but t.list is a list");
    data_file_free(d);
}

/* ---- holdout= ---- */

enum { ALL = 60 };

static void put_sets(void)
{
    uint8_t pixels[ALL], label[ALL];
    const uint32_t dim[] = { ALL, 1, 1 };
    FILE *f = fopen("t.list", "w");
    assert_non_null(f);
    for (int i = 0; i < ALL; i++) {
        fprintf(f, "%d_%s.png\n\n", i, i % 3 ? "cat" : "dog");
        pixels[i] = (uint8_t)i;
        label[i] = i % 3 != 0;
    }
    fclose(f);
    assert_int_equal(put_text("l.txt", "dog\ncat\n"), 0);
    assert_int_equal(put_idx("t-images-idx3", 3, dim, pixels, ALL), 0);
    assert_int_equal(put_idx("t-labels-idx1", 1, dim, label, ALL), 0);
}

static struct data_file *held(const char *train, int limit, int n, int seed)
{
    char text[200];
    snprintf(text, sizeof text,
             "classes=2\nlabels=l.txt\ntrain=%s\nvalid=gone\ntrain_limit=%d\nholdout=%d\n%s%d\n", train,
             limit, n, seed ? "holdout_seed=" : "#", seed);
    return data(text);
}

/* The numbers of its samples, which must ascend, and their labels fit; returns how many. */
static int numbers(const struct data_file *d, enum split split, int *number)
{
    struct dataset *s = set(d, split);
    for (int i = 0; i < s->n; i++) {
        number[i] = s->path ? atoi(s->path[i]) : s->pixels[i];
        assert_true(!i || number[i] > number[i - 1]);
        assert_int_equal(s->label[i], number[i] % 3 != 0);
    }
    int n = s->n;
    dataset_close(s);
    return n;
}

static void held_out(void **state)
{
    (void)state;
    const char *train[] = { "t.list", "t-images-idx3" };
    int first[ALL];
    put_sets();
    for (int k = 0; k < 2; k++)
        for (int seed = 0; seed < 3; seed++) {
            int a[ALL], b[ALL], few[ALL], seen[ALL] = { 0 };
            struct data_file *d = held(train[k], 0, 20, seed);
            assert_int_equal(numbers(d, SPLIT_TRAIN, a), 40);
            assert_int_equal(numbers(d, SPLIT_VALID, b), 20);
            for (int i = 0; i < 40; i++) seen[a[i]]++;
            for (int i = 0; i < 20; i++) seen[b[i]]++;
            for (int i = 0; i < ALL; i++) assert_int_equal(seen[i], 1);
            data_file_free(d);
            /* a list and a packed set of one size agree; another seed does not; it is spread over the set */
            if (!k && !seed) memcpy(first, b, sizeof first);
            assert_true(!memcmp(first, b, 20 * sizeof *b) == !seed);
            assert_true(b[0] < 20 && b[19] >= 40);
            d = held(train[k], 7, 20, seed);
            assert_int_equal(numbers(d, SPLIT_TRAIN, few), 7);
            assert_memory_equal(few, a, 7 * sizeof *few);
            assert_int_equal(numbers(d, SPLIT_VALID, few), 20);
            assert_memory_equal(few, b, 20 * sizeof *few);
            data_file_free(d);
        }
}

static void every_sample_is_held_out_as_often(void **state)
{
    (void)state;
    enum { SEEDS = 2000, OUT = 15 };
    int count[ALL] = { 0 };
    double x = 0, want = (double)SEEDS * OUT / ALL;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct pick p = { .holdout = OUT, .held = 1, .seed = seed };
        assert_int_equal(pick_open(&p, ALL, "x", &e), OK);
        for (int i = 0; i < ALL; i++) count[i] += pick_next(&p);
        assert_int_equal(p.taken, OUT);
    }
    /* each count is binomial, of variance want (1 - OUT / ALL): chi-square of 59 degrees; 1e-4: 104 */
    for (int i = 0; i < ALL; i++)
        x += (count[i] - want) * (count[i] - want) / (want * (1 - (double)OUT / ALL));
    assert_true(x * (ALL - 1) / ALL < 104);
}

static void holdouts_are_told(void **state)
{
    (void)state;
    put_sets();
    struct data_file *d = held("t-images-idx3", 0, 20, 5);
    dataset_close(set(d, SPLIT_TRAIN));
    dataset_close(set(d, SPLIT_VALID));
    assert_non_null(strstr(said, "x.data: 20 training images are held out for validation (holdout_seed=5)\n"
                                 "t-images-idx3: 40 images, 2 classes"));
    assert_non_null(strstr(said,
                           "x.data: validation is on the 20 images held out of train= (holdout_seed=5); "
                           "valid= is not read\nt-images-idx3: 20 images, 2 classes"));
    data_file_free(d);
    for (int k = 0; k < 2; k++) {
        d = held(k ? "t.list" : "t-images-idx3", 0, ALL, 0);
        set_error(d, SPLIT_TRAIN, "has 60 images: holdout=60 leaves none of them to train on");
        set_error(d, SPLIT_VALID, "has 60 images: holdout=60 leaves none of them to train on");
        data_file_free(d);
    }
    d = data("classes=2\nholdout=3\n");
    set_error(d, SPLIT_VALID, "x.data: no `train=`");
    data_file_free(d);
}

/* What a resumed run compares: labels alone would not tell these sets apart. */
static void other_choices_have_other_hashes(void **state)
{
    (void)state;
    static const char *const more[] = { "", "holdout=2\n", "holdout=2\nholdout_seed=1\n", "holdout=3\n",
                                        "resize=2\n" };
    enum { KINDS = sizeof more / sizeof *more };
    const uint32_t dim[] = { 6, 1, 1 };
    const uint8_t zero[6] = { 0 };
    uint64_t hash[KINDS];
    assert_int_equal(put_idx("t-images-idx3", 3, dim, zero, 6), 0);
    assert_int_equal(put_idx("t-labels-idx1", 1, dim, zero, 6), 0);
    for (int i = 0; i < KINDS; i++) {
        char text[200];
        snprintf(text, sizeof text, "classes=1\ntrain=t-images-idx3\n%s", more[i]);
        struct data_file *d = data(text);
        struct dataset *s = set(d, SPLIT_TRAIN);
        hash[i] = hash_samples(s);
        for (int k = 0; k < i; k++) assert_true(hash[k] != hash[i]);
        dataset_close(s);
        data_file_free(d);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(cifar10),
        CASE(cifar100),
        CASE(sizes_of_cifar),
        CASE(two_collections),
        CASE(truncated_gzip),
        CASE(stl10),
        CASE(bad_stl10),
        CASE(archives),
        CASE(unknown_folders),
        CASE(qmnist),
        CASE(resized),
        CASE(held_out),
        cmocka_unit_test(every_sample_is_held_out_as_often),
        CASE(holdouts_are_told),
        CASE(other_choices_have_other_hashes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
