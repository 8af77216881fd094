/* The shipped cfgs: what each one counts as trainable parameters, and that each one learns. */
#include <dirent.h>
#include "test.h"
#include "core/mem.h"
#include "darknet.h"
#include "net/net.h"

/* rate: in place of the cfg's (NULL: that), which is for mini-batches of 150 and more and blows up with a few
 * images. few: mini-batches of two, where the images are large. */
static const struct pin {
    const char *cfg;
    uint64_t params;
    const char *rate;
    int few;
} pins[] = {
    { .cfg = "cifar10-mobilenetv2", .params = 2296922, .rate = ".02" },
    { .cfg = "cifar10-resnet18", .params = 11173962, .rate = ".02" },
    { .cfg = "cifar10-vgg13", .params = 9413066, .rate = ".02" },
    { .cfg = "cifar100-mobilenetv2", .params = 2412212, .rate = ".02" },
    { .cfg = "cifar100-resnet101", .params = 42697380, .rate = ".02" },
    { .cfg = "cifar100-resnet18", .params = 11220132, .rate = ".02" },
    { .cfg = "cifar100-vgg13", .params = 9459236, .rate = ".02" },
    { .cfg = "demo", .params = 338118 },
    { .cfg = "fmnist-conv5", .params = 14419050 },
    { .cfg = "fmnist-conv5-quarter", .params = 902562, .rate = ".01" },
    { .cfg = "fmnist-lenet", .params = 106680 },
    { .cfg = "imagenet-resnet18", .params = 11689512, .rate = ".02", .few = 1 },
    { .cfg = "imagenet-resnet50", .params = 25557032, .rate = ".02", .few = 1 },
    { .cfg = "kmnist-conv5", .params = 14419050 },
    { .cfg = "kmnist-lenet", .params = 106680 },
    { .cfg = "qmnist-lenet", .params = 106680 },
    { .cfg = "stl10-mobilenetv2", .params = 2296922, .rate = ".02" },
    { .cfg = "stl10-resnet18", .params = 11173962, .rate = ".02" },
    { .cfg = "stl10-vgg13", .params = 9413066, .rate = ".02" },
};
enum { PINS = sizeof pins / sizeof *pins, PATH = 100 };

static const char *path_of(const struct pin *p, char path[PATH])
{
    snprintf(path, PATH, "cfg/%s.cfg", p->cfg);
    return path;
}

/* ---- parameters ---- */

static uint64_t count(const char *path)
{
    const struct program_desc desc = { .rows = 1, .train = 1, .plan_only = 1 };
    const struct notes quiet = { NULL, NULL };
    struct err e = { 0 };
    struct backend *be;
    struct cfg *cfg;
    struct net *net;
    struct program *p;
    uint64_t sum = 0;
    ok(backend_open(&be, backend_at(0)->name, 1, &e), &e);
    ok(cfg_read(&cfg, path, &e), &e);
    ok(net_open(&net, cfg, be, 1, &quiet, &e), &e);
    ok(program_open(&p, net, &desc, &e), &e);
    for (int i = 0; i < net->n; i++) sum += net->layer[i].learnt;
    program_close(p);
    net_close(net);
    backend_close(be);
    return sum;
}

static void parameters_are_pinned(void **state)
{
    char path[PATH];
    (void)state;
    for (int i = 0; i < PINS; i++) {
        uint64_t n = count(path_of(&pins[i], path));
        if (n != pins[i].params)
            print_error("%s: %llu trainable parameters, expected %llu\n", path, (unsigned long long)n,
                        (unsigned long long)pins[i].params);
        assert_int_equal(n, pins[i].params);
    }
}

static int pinned(const char *file)
{
    char name[PATH];
    for (int i = 0; i < PINS; i++) {
        snprintf(name, sizeof name, "%s.cfg", pins[i].cfg);
        if (!strcmp(file, name)) return 1;
    }
    return 0;
}

static void every_cfg_has_a_pin(void **state)
{
    DIR *folder = opendir("cfg");
    const struct dirent *f;
    int without = 0;
    (void)state;
    assert_non_null(folder);
    while ((f = readdir(folder))) {
        size_t n = strlen(f->d_name);
        if (n < 4 || strcmp(f->d_name + n - 4, ".cfg") != 0 || pinned(f->d_name)) continue;
        print_error("cfg/%s: add its number of trainable parameters to tests/train/cfgs.c\n", f->d_name);
        without++;
    }
    closedir(folder);
    assert_int_equal(without, 0);
}

/* ---- training ---- */

enum { STEPS = 20, LAST = 5, ROWS = 4, FEW = 2, BLOCK = 8 };

static int rows_of(const struct pin *p) { return p->few ? FEW : ROWS; }

/* An image of a class: blocks of +-1, the same for all of the class, and noise. */
static void draw(float *x, int channels, int side, int label, uint64_t image)
{
    uint64_t pattern = rng_key(1, 1, (uint64_t)label), noise = rng_key(1, 2, image), at = 0;
    for (int k = 0; k < channels; k++)
        for (int j = 0; j < side; j++)
            for (int i = 0; i < side; i++, at++) {
                int block = (k * side + j / BLOCK) * side + i / BLOCK;
                float mean = rng_bits(pattern, (uint64_t)block) & 1 ? 1.f : -1.f;
                x[at] = mean + .5f * (float)rng_normal(noise, at);
            }
}

static void must(int rc, const dn_error *e)
{
    if (rc) print_error("%s\n", e->msg);
    assert_int_equal(rc, DN_OK);
}

struct outcome {
    double ce;     /* mean over the LAST steps */
    double lambda; /* largest */
};

/* Every mini-batch has one image of each of `rows` classes; so has its second half, if the cfg wants one. */
static struct outcome run(dn_net *net, int rows)
{
    struct outcome o = { 0 };
    dn_error e;
    dn_stats s;
    int channels, side, second, label[2 * ROWS];
    size_t n = (size_t)dn_input(net, &channels, &side, NULL);
    float *x = mem_alloc(2 * (size_t)rows * n, sizeof *x);
    assert_non_null(x);
    for (int k = 0; k < STEPS; k++) {
        assert_int_equal(dn_rows(net, &second), rows);
        for (int i = 0; i < rows + second; i++) {
            label[i] = i % rows;
            draw(x + (size_t)i * n, channels, side, label[i], (uint64_t)(2 * rows * k + i));
        }
        const dn_batch b = { x, label, rows + second };
        must(dn_step(net, &b, &s, &e), &e);
        o.ce += k < STEPS - LAST ? 0 : s.ce / LAST;
        o.lambda = s.lambda > o.lambda ? s.lambda : o.lambda;
    }
    mem_free(x);
    return o;
}

enum { SETS = 5 };

static struct outcome train(const struct pin *p, const char *more, const char *and_more)
{
    dn_net *net;
    dn_error e;
    char path[PATH], rate[40], batch[40];
    const char *set[SETS] = { batch };
    const dn_options options = { .train = 1, .seed = 1, .set = set };
    int n = 1;
    snprintf(rate, sizeof rate, "net.learning_rate=%s", p->rate ? p->rate : "");
    snprintf(batch, sizeof batch, "net.batch=%d", rows_of(p));
    if (p->rate) set[n++] = rate;
    if (more) set[n++] = more;
    if (and_more) set[n++] = and_more;
    must(dn_open(&net, path_of(p, path), &options, &e), &e);
    struct outcome o = run(net, rows_of(p));
    dn_close(net);
    return o;
}

/* Who does not look at the image, or sees all images alike, as with features that have collapsed into a
 * point, gets ln(rows) at best: each mini-batch has as many images of one class as of another. */
static int looks(const struct outcome *o, const struct pin *p) { return o->ce < log(rows_of(p)); }

static void learns(void **state)
{
    const struct pin *p = *state;
    const struct outcome o = train(p, NULL, NULL);
    if (!looks(&o, p)) print_error("CE %g, guessing gives %g\n", o.ce, log(rows_of(p)));
    assert_true(looks(&o, p));
    assert_true(o.lambda > 0);
}

/* That the test above can tell. */
static void a_collapse_is_seen(void **state)
{
    const struct pin lenet = { .cfg = "fmnist-lenet" };
    (void)state;
    const struct outcome o = train(&lenet, "itra.lambda=100", "itra.warmup=0");
    assert_false(looks(&o, &lenet));
}

int main(void)
{
    struct CMUnitTest tests[3 + PINS] = { cmocka_unit_test(every_cfg_has_a_pin),
                                          cmocka_unit_test(parameters_are_pinned),
                                          cmocka_unit_test(a_collapse_is_seen) };
    for (int i = 0; i < PINS; i++)
        tests[3 + i] = (struct CMUnitTest){ pins[i].cfg, learns, NULL, NULL, (void *)(uintptr_t)&pins[i] };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
