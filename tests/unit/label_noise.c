/* label_noise=: which labels become wrong, and that nothing else does. */
#include "sets.h"

enum { ALL = 60, OUT = 20, TRAIN = ALL - OUT, CLASSES = 3 };

static int true_label(int number) { return number % CLASSES; }

/* The same images as a list and packed: number i is named so, and its pixel is i. */
static void put_sets(void)
{
    uint8_t pixels[ALL], label[ALL];
    const uint32_t dim[] = { ALL, 1, 1 };
    const char *const names[CLASSES] = { "dog", "cat", "cow" };
    FILE *f = fopen("t.list", "w");
    assert_non_null(f);
    for (int i = 0; i < ALL; i++) {
        fprintf(f, "%d_%s.png\n", i, names[true_label(i)]);
        pixels[i] = (uint8_t)i;
        label[i] = (uint8_t)true_label(i);
    }
    fclose(f);
    assert_int_equal(put_text("l.txt", "dog\ncat\ncow\n"), 0);
    assert_int_equal(put_idx("t-images-idx3", 3, dim, pixels, ALL), 0);
    assert_int_equal(put_idx("t-labels-idx1", 1, dim, label, ALL), 0);
}

/* How many labels of a part are off by 1 and by 2 classes. */
static void offsets(const struct data_file *d, enum split split, int *label, int off[CLASSES])
{
    struct dataset *s = set(d, split);
    int count[CLASSES] = { 0 };
    memset(off, 0, CLASSES * sizeof *off);
    for (int i = 0; i < s->n; i++) {
        int number = s->path ? atoi(s->path[i]) : s->pixels[i];
        off[(s->label[i] - true_label(number) + CLASSES) % CLASSES]++;
        count[s->label[i]]++;
        label[i] = s->label[i];
    }
    assert_memory_equal(s->count, count, sizeof count);
    dataset_close(s);
}

/* Leaves the training labels; returns how many are wrong. */
static int wrong(const char *train, const char *noise, int *label, int off[CLASSES])
{
    char text[200];
    int ignored[OUT];
    snprintf(text, sizeof text, "classes=3\nlabels=l.txt\ntrain=%s\nholdout=%d\n%s", train, OUT, noise);
    struct data_file *d = data(text);
    offsets(d, SPLIT_VALID, ignored, off);
    assert_int_equal(off[0], OUT);
    offsets(d, SPLIT_TRAIN, label, off);
    data_file_free(d);
    return TRAIN - off[0];
}

static void labels_made_wrong(void **state)
{
    (void)state;
    int list[TRAIN], packed[TRAIN], other[TRAIN], off[CLASSES];
    char text[120];
    put_sets();
    assert_int_equal(wrong("t.list", "label_noise=0\n", list, off), 0);
    assert_null(strstr(said, "wrong"));
    assert_int_equal(wrong("t.list", "label_noise=100\n", list, off), TRAIN);
    assert_true(off[1] > 8 && off[2] > 8);
    int n = wrong("t.list", "label_noise=25\n", list, off);
    assert_true(n > 3 && n < 20);
    snprintf(text, sizeof text,
             "x.data: %d of 40 training labels are made wrong (label_noise=25, label_noise_seed=0)\n", n);
    assert_non_null(strstr(said, text));
    assert_int_equal(wrong("t-images-idx3", "label_noise=25\n", packed, off), n);
    assert_memory_equal(packed, list, sizeof list);
    wrong("t.list", "label_noise=25\nlabel_noise_seed=1\n", other, off);
    assert_true(memcmp(other, list, sizeof list));
}

/* The share is a probability: 100 seeds of 40 labels give 800 +- 25. */
static void their_share(void **state)
{
    (void)state;
    int label[TRAIN], off[CLASSES], n = 0;
    put_sets();
    for (int seed = 0; seed < 100; seed++) {
        char noise[60];
        snprintf(noise, sizeof noise, "label_noise=20\nlabel_noise_seed=%d\n", seed);
        said[0] = 0;
        n += wrong("t-images-idx3", noise, label, off);
    }
    assert_true(n > 700 && n < 900);
}

int main(void)
{
    const struct CMUnitTest tests[] = { CASE(labels_made_wrong), CASE(their_share) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
