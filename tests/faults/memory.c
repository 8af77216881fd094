/* Memory that runs out: the nth allocation fails, for every n until none fails. Each failure must
 * come back as E_MEM with a message, leave no block behind, and leave handles that go on as if it had not
 * happened. The Makefile links this program with --wrap for the functions of core/mem.h. */
#include <sys/stat.h>
#include <unistd.h>
#include "test.h"
#include "core/file.h"
#include "core/mem.h"
#include "data/dataset.h"
#include "darknet.h"
#include "data/folder.h"
#include "net/named.h"
#include "net/net.h"
#include "net/onnx.h"

void *__real_mem_alloc(size_t count, size_t size);
char *__real_mem_text(const char *text, size_t n);
void __real_mem_free(void *);
void *__wrap_mem_alloc(size_t count, size_t size);
char *__wrap_mem_text(const char *text, size_t n);
void __wrap_mem_free(void *);

static struct {
    long asked, fails, live; /* allocations so far; which one fails (0: none); blocks not freed yet */
    int ever;                /* so do all later ones */
} memory;

static int runs_out(void)
{
    memory.asked++;
    return memory.fails && (memory.asked == memory.fails || (memory.ever && memory.asked > memory.fails));
}

static void *count(void *p)
{
    memory.live += p != NULL;
    return p;
}

void *__wrap_mem_alloc(size_t n, size_t size) { return runs_out() ? NULL : count(__real_mem_alloc(n, size)); }
char *__wrap_mem_text(const char *text, size_t n)
{
    return runs_out() ? NULL : count(__real_mem_text(text, n));
}
void __wrap_mem_free(void *p)
{
    memory.live -= p != NULL;
    __real_mem_free(p);
}

static void fail_at_allocation(long n, int ever)
{
    memory.asked = 0;
    memory.fails = n;
    memory.ever = ever;
}

/* One of every kind of layer. */
static const char cfg[] =
    "[net]\nbatch=4\nsubdivisions=2\nchannels=1\nheight=8\nwidth=8\nunused=1\nmean=.5\nstd=1\n"
    "[crop]\ncrop_height=6\ncrop_width=6\n"
    "[convolutional]\nfilters=4\nsize=3\npad=1\nbatch_normalize=1\nactivation=mish\n"
    "[convolutional]\nfilters=4\nsize=1\nactivation=leaky\n"
    "[shortcut]\nfrom=-2\nactivation=swish\n"
    "[route]\nlayers=-1,-2\n"
    "[batchnorm]\n"
    "[maxpool]\nsize=2\nstride=2\n"
    "[activation]\nactivation=gelu\n"
    "[dropout]\nprobability=.3\n"
    "[avgpool]\n"
    "[itra]\nwarmup=0\nevery=2\n"
    "[center]\n"
    "[connected]\noutput=3\nactivation=linear\n"
    "[softmax]\n"
    "[cost]\n";

enum { ROWS = 2, IMAGE = 64, CLASSES = 3 };
static float images[2 * ROWS * IMAGE];
static const int label[2 * ROWS] = { 0, 1, 1, 2 };
static char weights[] = "/tmp/memory-XXXXXX", state_file[] = "/tmp/memory-XXXXXX",
            cfg_file[] = "/tmp/memory-XXXXXX";

static int set_up(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 2 * ROWS * IMAGE; i++) images[i] = (float)rng_uniform(1, i);
    int fd[3] = { mkstemp(weights), mkstemp(state_file), mkstemp(cfg_file) };
    if (fd[0] < 0 || fd[1] < 0 || fd[2] < 0) return -1;
    int bad = write(fd[2], cfg, sizeof cfg - 1) != (ssize_t)sizeof cfg - 1;
    for (int i = 0; i < 3; i++) bad |= close(fd[i]);
    return bad;
}

static int tear_down(void **state)
{
    (void)state;
    unlink(weights);
    unlink(state_file);
    unlink(cfg_file);
    return 0;
}

/* ---- inside: all that a training run does with a net ---- */

struct run {
    struct backend *be;
    struct net *net;
    struct program *plain, *paired, *infer;
};

static int open_all(struct run *r, const char *device, struct err *e)
{
    struct cfg *c;
    struct program_desc plain = { .rows = ROWS, .train = 1 }, paired = plain,
                        infer = { .rows = ROWS, .features = 1 };
    paired.paired = 1;
    TRY(backend_open(&r->be, device, 1, e));
    TRY(cfg_parse(&c, "a.cfg", cfg, sizeof cfg - 1, e));
    int rc = cfg_override(c, "itra.lambda=.5", e);
    if (rc) {
        cfg_free(c);
        return rc;
    }
    TRY(net_open(&r->net, c, r->be, 1, NULL, e));
    TRY(program_open(&r->plain, r->net, &plain, e));
    TRY(program_open(&r->paired, r->net, &paired, e));
    return program_open(&r->infer, r->net, &infer, e);
}

static int use_all(struct run *r, struct err *e)
{
    struct step s = { .x = images, .label = label, .rows = ROWS, .rows_s1 = ROWS, .iteration = 1 };
    struct step_stats stats;
    float prob[ROWS * CLASSES];
    double ce;
    TRY(step_train(r->plain, &s, &stats, e));
    s.rows = 2 * ROWS;
    s.add = 1;
    s.iteration = 2;
    TRY(step_train(r->paired, &s, &stats, e));
    TRY(optim_update(r->net, 1, .1, e));
    TRY(program_refresh(r->infer, e));
    s.rows = ROWS;
    return program_infer(r->infer, &s, prob, &ce, e);
}

static int files(struct run *r, struct err *e)
{
    struct file f;
    struct file_reader reader;
    int layers;
    TRY(weights_save(r->net, weights, r->net->n, 7, e));
    TRY(weights_load(r->net, weights, WEIGHTS_WHOLE, &layers, e));
    TRY(file_create(&f, state_file, e));
    int rc = net_state_write(r->net, &f, e);
    if (!rc) rc = file_commit(&f, e);
    file_abort(&f);
    TRY(rc);
    TRY(reader_open(&reader, state_file, 1 << 20, e));
    rc = net_state_read(r->net, &reader, e);
    reader_close(&reader);
    return rc;
}

static int exports(struct run *r, struct err *e)
{
    char *const names[CLASSES] = { (char *)"ant", (char *)"bee", (char *)"cow" };
    for (int fold = 0; fold < 2; fold++) {
        const struct onnx_options o = { .fold = fold, .features = 1, .names = names };
        TRY(onnx_save(r->infer, &o, weights, e));
    }
    TRY(named_save(r->net, weights, e));
    return named_load(r->net, weights, e);
}

static int run_all(const char *device, struct err *e)
{
    struct run r = { 0 };
    int rc = open_all(&r, device, e);
    if (!rc) rc = use_all(&r, e);
    if (!rc) rc = files(&r, e);
    if (!rc) rc = exports(&r, e);
    program_close(r.infer);
    program_close(r.paired);
    program_close(r.plain);
    net_close(r.net);
    backend_close(r.be);
    return rc;
}

/* run(WHAT) with the nth allocation failing, for every n. */
static void sweep(int (*run)(const char *, struct err *), const char *what, int ever, long least)
{
    long n = 0;
    int rc;
    do {
        struct err e = { 0 };
        fail_at_allocation(++n, ever);
        rc = run(what, &e);
        int failed = memory.asked >= n,
            good = rc == (failed ? E_MEM : OK) && !memory.live && (!rc || (e.code == rc && *e.msg));
        if (!good)
            print_error("%s: allocation %ld: %d '%s', %ld blocks left\n", what, n, rc, e.msg, memory.live);
        assert_true(good);
    } while (memory.asked >= n);
    print_message("%s: %ld allocations\n", what, n - 1);
    assert_true(n > least);
}

static void every_allocation_of_a_run(void **state)
{
    (void)state;
    for (int i = 0; backend_at(i); i++)
        for (int ever = 0; ever < 2; ever++) sweep(run_all, backend_at(i)->name, ever, 100);
}

/* A state dict of PyTorch's: the net of tests/fuzz/safetensors.c. */
static int import_dict(const char *path, struct err *e)
{
    static const char text[] = "[net]\nbatch=1\nchannels=1\nheight=2\nwidth=2\n"
                               "[convolutional]\nfilters=2\nsize=1\nbatch_normalize=1\nactivation=leaky\n"
                               "[connected]\noutput=2\nactivation=linear\n[softmax]\n";
    const struct program_desc d = { .rows = 1 };
    struct backend *be = NULL;
    struct net *net = NULL;
    struct program *p = NULL;
    struct cfg *c;
    int rc = backend_open(&be, "ref", 1, e);
    if (!rc) rc = cfg_parse(&c, "a.cfg", text, sizeof text - 1, e);
    if (!rc) rc = net_open(&net, c, be, 1, NULL, e);
    if (!rc) rc = program_open(&p, net, &d, e);
    if (!rc) rc = named_load(net, path, e);
    program_close(p);
    net_close(net);
    backend_close(be);
    return rc;
}

static void every_allocation_of_an_import(void **state)
{
    (void)state;
    static const char *const files[] = { "vgg", "pth-new", "pth-old" };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[100];
        snprintf(path, sizeof path, "tests/fuzz/corpus/state_dict/%s", files[i]);
        for (int ever = 0; ever < 2; ever++) sweep(import_dict, path, ever, 20);
    }
}

/* ---- data sets ---- */

static void put(const char *name, const void *bytes, size_t n)
{
    FILE *f = fopen(name, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static int open_sets(const char *path, struct err *e)
{
    struct data_file *d = NULL;
    struct dataset *train = NULL, *valid = NULL;
    int rc = data_file_read(&d, path, NULL, e);
    if (!rc) rc = dataset_open(&train, d, SPLIT_TRAIN, NULL, e);
    if (!rc) rc = dataset_open(&valid, d, SPLIT_VALID, NULL, e);
    dataset_close(valid);
    dataset_close(train);
    data_file_free(d);
    return rc;
}

/* In the current folder: a list, and packed files of each kind. Returns how many .data files. */
static int put_sets(void)
{
    static const char *const text[] = {
        "classes=2\nlabels=names\nnames=names\ntrain=list\nholdout=1\n",
        "classes=2\ntrain=t-images-idx3-ubyte\nholdout=1\nresize=3\n",
        "classes=2\ntrain=cifar\nvalid=cifar/data_batch_1.bin\n",
        "classes=2\ntrain=train_X.bin\nvalid=train_X.bin\n",
    };
    enum { FILES = sizeof text / sizeof *text };
    static const char idx[16 + 2] = "\0\0\10\3\0\0\0\2\0\0\0\1\0\0\0\1";
    static const uint8_t zeros[2 * 3 * 96 * 96];
    put("names", "cat\ndog\n", 8);
    put("list", "1_cat\n2_dog\n", 12);
    put("t-images-idx3-ubyte", idx, sizeof idx);
    put("t-labels-idx2-int", "\0\0\14\2\0\0\0\2\0\0\0\1\0\0\0\0\0\0\0\1", 20);
    assert_int_equal(mkdir("cifar", 0700), 0);
    for (int i = 1; i <= 5; i++) {
        char name[32];
        snprintf(name, sizeof name, "cifar/data_batch_%d.bin", i);
        put(name, zeros, 3073);
    }
    put("train_X.bin", zeros, sizeof zeros);
    put("train_y.bin", "\1\2", 2);
    for (int i = 0; i < FILES; i++) {
        char name[32];
        snprintf(name, sizeof name, "%d.data", i);
        put(name, text[i], strlen(text[i]));
    }
    return FILES;
}

static void every_allocation_of_a_data_set(void **state)
{
    (void)state;
    char folder[] = "/tmp/memory-XXXXXX", command[64], home[400];
    assert_non_null(getcwd(home, sizeof home));
    assert_non_null(mkdtemp(folder));
    assert_int_equal(chdir(folder), 0);
    int n = put_sets();
    for (int i = 0; i < n; i++) {
        char name[32];
        snprintf(name, sizeof name, "%d.data", i);
        for (int ever = 0; ever < 2; ever++) sweep(open_sets, name, ever, 12);
    }
    assert_int_equal(chdir(home), 0);
    snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
}

/* ---- outside: a call that fails for want of memory can be made again ---- */

static long first_failures;

/* The call, and once more with memory if it failed. */
#define AGAIN(call)                                                                                          \
    do {                                                                                                     \
        dn_error e_ = { 0, "" };                                                                             \
        int rc_ = (call);                                                                                    \
        if (rc_) {                                                                                           \
            first_failures++;                                                                                \
            assert_int_equal(rc_, DN_MEM);                                                                   \
            assert_int_equal(e_.code, DN_MEM);                                                               \
            assert_true(*e_.msg);                                                                            \
            memory.fails = 0;                                                                                \
            rc_ = (call);                                                                                    \
            if (rc_) print_error("%s\n", e_.msg);                                                            \
            assert_int_equal(rc_, DN_OK);                                                                    \
        }                                                                                                    \
    } while (0)

static void train_and_predict(const char *device, long n, float *prob)
{
    const dn_options o = { .device = device, .threads = 1, .train = 1 };
    dn_net *net;
    fail_at_allocation(n, 0);
    AGAIN(dn_open(&net, cfg_file, &o, &e_));
    AGAIN(dn_save(net, weights, &e_));
    AGAIN(dn_load(net, weights, &e_));
    AGAIN(dn_predict(net, images, ROWS, prob, &e_));
    static const uint8_t gray[12 * 9] = { 200 }; /* two images more, of another kind */
    float x[2 * IMAGE], features[2 * IMAGE], beside[ROWS * CLASSES];
    AGAIN(dn_prepare_pixels(net, gray, 12, 9, 1, x, &e_));
    AGAIN(dn_prepare_memory(net, "P5 2 2 255 \1\2\3\4", 15, x + IMAGE, &e_));
    const int layer = dn_feature_layer(net);
    assert_true(dn_feature_size(net, layer) <= IMAGE);
    AGAIN(dn_features(net, layer, x, 2, features, beside, &e_));
    for (int i = 0; i < 2; i++) { /* biases and scales of a convolution */
        AGAIN(dn_get_param(net, i, x, &e_));
        AGAIN(dn_set_param(net, i, x, &e_));
    }
    dn_close(net);
}

static void handles_survive(void **state)
{
    (void)state;
    for (int i = 0; backend_at(i); i++) {
        float expected[ROWS * CLASSES], prob[ROWS * CLASSES];
        train_and_predict(backend_at(i)->name, 0, expected);
        long n = 0;
        do {
            first_failures = 0;
            train_and_predict(backend_at(i)->name, ++n, prob);
            assert_memory_equal(prob, expected, sizeof prob);
            assert_int_equal(memory.live, 0);
        } while (first_failures);
        assert_true(n > 50);
    }
}

/* ---- class folders to lists ---- */

static char photos[] = "/tmp/memory-XXXXXX";

static void put_photos(void)
{
    static const char *const folder[] = { "ant", "cat", "cat/old" };
    char path[100];
    for (int k = 0; k < 3; k++) {
        snprintf(path, sizeof path, "%s/%s", photos, folder[k]);
        assert_int_equal(mkdir(path, 0777), 0);
        for (int i = 0; i < 3; i++) {
            snprintf(path, sizeof path, "%s/%s/%s%d.jpg", photos, folder[k], k ? "" : "cat", i);
            FILE *f = fopen(path, "w");
            assert_true(f && !fclose(f));
        }
    }
}

static int prepare(const char *prefix, struct err *e)
{
    struct folder *f;
    TRY(folder_read(&f, photos, .3, 1, NULL, e));
    int rc = folder_write(f, prefix, 1, e);
    folder_free(f);
    return rc;
}

static void every_allocation_of_prepare(void **state)
{
    (void)state;
    char prefix[100], list[120], command[120];
    char *expected, *found;
    size_t size, n;
    struct err e = { 0 };
    assert_non_null(mkdtemp(photos));
    put_photos();
    snprintf(prefix, sizeof prefix, "%s/x", photos);
    snprintf(list, sizeof list, "%s.train.list", prefix);
    fail_at_allocation(0, 0);
    ok(prepare(prefix, &e), &e);
    ok(file_load(list, 1 << 20, &expected, &size, &e), &e);
    long live = memory.live, at = 0, failures = 0;
    do {
        struct err why = { 0 };
        fail_at_allocation(++at, 0);
        int rc = prepare(prefix, &why); /* tidying up needs no memory */
        failures += rc != OK;
        if (rc && rc != E_MEM) print_error("allocation %ld: %d '%s'\n", at, rc, why.msg);
        assert_true(rc == OK || (rc == E_MEM && why.code == rc && *why.msg));
        assert_int_equal(memory.live, live);
    } while (memory.asked >= at);
    fail_at_allocation(0, 0);
    ok(file_load(list, 1 << 20, &found, &n, &e), &e);
    assert_true(n == size && !memcmp(found, expected, n));
    assert_true(failures > 50);
    print_message("prepare: %ld allocations, %ld needed\n", at - 1, failures);
    mem_free(expected);
    mem_free(found);
    snprintf(command, sizeof command, "rm -r '%s'", photos);
    assert_int_equal(system(command), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_allocation_of_an_import),  cmocka_unit_test(every_allocation_of_a_run),
        cmocka_unit_test(every_allocation_of_a_data_set), cmocka_unit_test(handles_survive),
        cmocka_unit_test(every_allocation_of_prepare),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
