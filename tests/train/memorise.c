/* A small net learns 16 images of noise by heart in 200 steps, with [itra] and without: everything between
 * the data file and the optimiser has to work for that. */
#include <unistd.h>
#include "test.h"
#include "train/trainer.h"

enum { IMAGES = 16, SIDE = 8, CLASSES = 4, STEPS = 200 };

static const char head[] =
    "[net]\nbatch=8\nwidth=8\nheight=8\nchannels=1\nlearning_rate=0.05\nmomentum=0.9\ndecay=0\n"
    "flip=0\nmin_crop=8\nmax_crop=8\nmax_batches=200\nvalid_every=0\n"
    "[convolutional]\nfilters=8\nsize=3\npad=1\nbatch_normalize=1\nactivation=relu\n"
    "[maxpool]\nsize=2\nstride=2\n[connected]\noutput=32\nactivation=relu\n";
static const char tail[] = "[connected]\noutput=4\nactivation=linear\n[softmax]\n";

struct place {
    char folder[64], data[128];
};

static FILE *create(const struct place *p, const char *name)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", p->folder, name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    return f;
}

static void put32(FILE *f, uint32_t v)
{
    for (int shift = 24; shift >= 0; shift -= 8) putc((int)(v >> shift & 255), f);
}

static void write_files(const struct place *p)
{
    FILE *f = create(p, "noise-images-idx3-ubyte");
    put32(f, 0x803);
    put32(f, IMAGES);
    put32(f, SIDE);
    put32(f, SIDE);
    for (uint64_t i = 0; i < IMAGES * SIDE * SIDE; i++) putc((int)rng_below(rng_key(1, 1, 1), i, 256), f);
    fclose(f);
    f = create(p, "noise-labels-idx1-ubyte");
    put32(f, 0x801);
    put32(f, IMAGES);
    for (int i = 0; i < IMAGES; i++) putc(i % CLASSES, f);
    fclose(f);
    f = create(p, "noise.data");
    const char *images = "noise-images-idx3-ubyte";
    fprintf(f, "classes=%d\ntrain=%s/%s\nvalid=%s/%s\nbackup=%s\n", CLASSES, p->folder, images, p->folder,
            images, p->folder);
    fclose(f);
}

static int setup(void **state)
{
    static struct place p;
    strcpy(p.folder, "/tmp/memorise-XXXXXX");
    assert_non_null(mkdtemp(p.folder));
    snprintf(p.data, sizeof p.data, "%s/noise.data", p.folder);
    write_files(&p);
    *state = &p;
    return 0;
}

static int teardown(void **state)
{
    const struct place *p = *state;
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", p->folder);
    return system(command);
}

struct outcome {
    struct train_line last;
    struct valid_line valid;
    int warned;
};
static void on_iteration(void *ctx, const struct train_line *l) { ((struct outcome *)ctx)->last = *l; }
static void on_validation(void *ctx, const struct valid_line *l) { ((struct outcome *)ctx)->valid = *l; }
static void on_note(void *ctx, const char *line)
{
    ((struct outcome *)ctx)->warned |= strstr(line, "collapsed") != NULL;
}

static struct outcome train(const struct place *p, const char *device, const char *itra)
{
    struct outcome o = { .warned = 0 };
    struct notes notes = { on_note, &o };
    struct train_hooks hooks = { &o, NULL, on_iteration, on_validation };
    struct train_options options = { .base = "noise", .backup = p->folder, .workers = 2, .top = 1 };
    struct err e = { 0 };
    struct data_file *data;
    struct dataset *set, *valid;
    struct backend *be;
    struct cfg *cfg;
    struct net *net;
    char text[1024];
    int n = snprintf(text, sizeof text, "%s%s%s", head, itra, tail);
    ok(data_file_read(&data, p->data, &notes, &e), &e);
    ok(dataset_open(&set, data, SPLIT_TRAIN, &notes, &e), &e);
    ok(dataset_open(&valid, data, SPLIT_VALID, &notes, &e), &e);
    ok(backend_open(&be, device, 1, &e), &e);
    ok(cfg_parse(&cfg, "memorise", text, (size_t)n, &e), &e);
    ok(net_open(&net, cfg, be, 1, &notes, &e), &e);
    ok(trainer_run(net, data, set, valid, &options, &hooks, &e), &e);
    net_close(net);
    backend_close(be);
    dataset_close(valid);
    dataset_close(set);
    data_file_free(data);
    return o;
}

static void check_learnt(const struct outcome *o)
{
    assert_int_equal(o->last.iteration, STEPS);
    assert_int_equal(o->last.seen, STEPS * 8);
    assert_true(o->last.ce_smooth < .1);
    assert_int_equal(o->valid.images, IMAGES);
    assert_true(o->valid.top1 == 1);
    assert_false(o->warned);
}

static void memorises(void **state)
{
    for (int i = 0; backend_at(i); i++) {
        struct outcome o = train(*state, backend_at(i)->name, "");
        check_learnt(&o);
        assert_true(o.valid.compactness < 0);
    }
}

static void memorises_with_itra(void **state)
{
    for (int i = 0; backend_at(i); i++) {
        struct outcome o = train(*state, backend_at(i)->name, "[itra]\nlambda=0.5\n");
        check_learnt(&o);
        assert_true(o.last.lambda > .4 && o.last.match >= 0);
        assert_true(o.valid.compactness > 0 && o.valid.compactness < 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(memorises), cmocka_unit_test(memorises_with_itra) };
    return cmocka_run_group_tests(tests, setup, teardown);
}
