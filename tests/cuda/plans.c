/* Every convolution of every shipped cfg, and dilated ones and those with two strides, have an engine in
 * cuDNN within the workspace limit: on an H100 (compute capability 9.0) and on an A100 (8.0), in every
 * precision, deterministic or not; on the H100 also one that wants no workspace, for when memory is short.
 * cuDNN plans for a card that is described to it: neither a GPU nor a driver is needed. What the convolutions
 * are is asked of the programs that the cfgs become: training, paired where the cfg wants it, and inference.
 */
#include <dirent.h>
#include "test.h"
#include "backend/cuda/cuda.h"
#include "backend/cuda/dnn.h"
#include "backend/cuda/dnn_engines.h"
#include "backend/ops/conv.h"
#include "core/mem.h"
#include "net/net.h"

enum { MOST = 4096, PASSES = 3 };

/* A backend that notes which convolutions it is asked for. */
struct watch {
    struct backend_ops ops; /* first: backend->ops points here */
    struct conv_ops conv;
    const struct backend_ops *real;
    const struct tensor *image; /* of the program */
    int pads;                   /* see backend_ops.image */
    struct cudnn_conv found[MOST];
    int n, cfgs, plans;
    size_t largest; /* workspace */
};

static void add(struct watch *t, const struct cudnn_conv *c)
{
    for (int i = 0; i < t->n; i++)
        if (!memcmp(&t->found[i], c, sizeof *c)) return;
    assert_true(t->n < MOST);
    t->found[t->n++] = *c;
}

static int plan(struct backend *be, const struct linear_desc *d, struct tensor *out, struct op_plan *p,
                struct err *e)
{
    struct watch *t = (struct watch *)(uintptr_t)be->ops;
    struct tensor in = *d->in;
    struct linear_desc laid_out = *d;
    laid_out.in = &in;
    for (int i = 0; i < 2 * PASSES; i++) {
        const int bf16 = i % 2;
        const enum cudnn_pass pass = (enum cudnn_pass)(i / 2);
        in.layout = cuda_image_layout(in.shape.c, bf16, d->in == t->image && t->pads);
        struct cudnn_conv c = cuda_conv_pass(&laid_out, out->shape, pass, bf16, 0);
        if (cuda_conv_wants(d, pass)) add(t, &c);
    }
    return t->real->conv->linear.plan(be, d, out, p, e);
}

static int image(struct backend *be, struct tensor *x, int pads, struct err *e)
{
    struct watch *t = (struct watch *)(uintptr_t)be->ops;
    t->image = x;
    t->pads = pads;
    return t->real->image(be, x, pads, e);
}

/* The convolutions of one program of a cfg. */
static void compile(struct watch *t, const char *path, int train, int paired)
{
    const struct notes quiet = { NULL, NULL };
    struct err e = { 0 };
    struct backend *be;
    struct cfg *cfg;
    struct net *net;
    struct program *p;
    ok(backend_open(&be, "ref", 1, &e), &e);
    const struct backend_ops *ops = be->ops;
    t->ops = *ops;
    t->real = ops;
    t->conv = *ops->conv;
    t->conv.linear.plan = plan;
    t->ops.conv = &t->conv;
    t->ops.image = image;
    be->ops = &t->ops;
    ok(cfg_read(&cfg, path, &e), &e);
    ok(net_open(&net, cfg, be, 1, &quiet, &e), &e);
    struct program_desc d = {
        .rows = net->mini, .train = train, .paired = paired && net->pair_loader, .plan_only = 1
    };
    ok(program_open(&p, net, &d, &e), &e);
    program_close(p);
    net_close(net);
    be->ops = ops;
    backend_close(be);
}

static int collect(void **state)
{
    static struct watch t;
    DIR *dir = opendir("cfg");
    assert_non_null(dir);
    for (struct dirent *f; (f = readdir(dir));) {
        char path[300];
        if (!strstr(f->d_name, ".cfg")) continue;
        snprintf(path, sizeof path, "cfg/%s", f->d_name);
        compile(&t, path, 1, 1);
        compile(&t, path, 1, 0);
        compile(&t, path, 0, 0);
        t.cfgs++;
    }
    closedir(dir);
    compile(&t, "tests/torch/geometry.cfg", 1, 0);
    assert_true(t.cfgs > 0 && t.n > 0);
    *state = &t;
    return 0;
}

static int report(void **state)
{
    const struct watch *t = *state;
    print_message("%d different passes of convolutions in %d cfgs, %d plans, workspace up to %.0f MiB\n",
                  t->n, t->cfgs, t->plans, (double)t->largest / (1 << 20));
    return 0;
}

/* A descriptor of the card that cuDNN plans for, which it takes from 9.11 on. */
static cudnnStatus_t describe(const char *json, cudnnBackendDescriptor_t *card)
{
#if CUDNN_VERSION >= 91100
    CUDNN(cudnnBackendCreateDescriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, card));
    CUDNN_SET(*card, DEVICEPROP_JSON_REPRESENTATION, CHAR, (int64_t)strlen(json), json);
    return cudnnBackendFinalize(*card);
#else
    (void)json, (void)card;
    return CUDNN_STATUS_NOT_SUPPORTED;
#endif
}

static cudnnBackendDescriptor_t open_card(const char *name)
{
    char path[100], json[4096];
    cudnnBackendDescriptor_t card;
    snprintf(path, sizeof path, "tests/cuda/%s.json", name);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    json[fread(json, 1, sizeof json - 1, f)] = 0;
    fclose(f);
    assert_int_equal(describe(json, &card), CUDNN_STATUS_SUCCESS);
    return card;
}

/* What is timed are configurations of several engines, no more than a few of each. */
static void candidates(void **state)
{
    enum { CONVOLUTIONS = 40, OF_AN_ENGINE = 5 };
    const struct watch *t = *state;
    cudnnBackendDescriptor_t card = open_card("h100");
    int n = 0, found = 0, engines = 0;
    for (int i = 0; i < t->n && n < CONVOLUTIONS; i++) {
        struct engine_search s = {
            .card = card, .conv = &t->found[i], .workspace_limit = CUDNN_WORKSPACE, .wanted = ENGINES_MAX
        };
        struct err e = { 0 };
        if (!s.conv->bf16) continue;
        n++;
        ok(cudnn_find_engines(&s, &e), &e);
        found += s.n;
        for (int k = 0; k < s.n; k++) {
            int same = 0, before = 0;
            for (int j = 0; j < s.n; j++) same += s.found[j].id == s.found[k].id;
            for (int j = 0; j < k; j++) before += s.found[j].id == s.found[k].id;
            assert_true(same <= OF_AN_ENGINE);
            engines += !before;
        }
        while (s.n) cudnn_drop_engine(&s.found[--s.n]);
        cudnn_drop_graph(&s.graph);
    }
    cudnnBackendDestroyDescriptor(card);
    print_message("%.1f candidates of %.1f engines a convolution, in bf16\n", (double)found / n,
                  (double)engines / n);
    assert_true(found > 8 * n && engines > 2 * n);
}

/* Returns whether there is an engine; *bytes: its workspace. */
static int plan_one(struct engine_search *s, const char *card, size_t *bytes)
{
    struct err e = { 0 };
    int rc = cudnn_find_engines(s, &e);
    if (rc) print_error("%s: %s\n", card, e.msg);
    *bytes = s->found[0].workspace;
    while (s->n) cudnn_drop_engine(&s->found[--s->n]);
    cudnn_drop_graph(&s->graph);
    return rc == OK;
}

static void plan_all(struct watch *t, const char *card, enum precision precision, int deterministic,
                     size_t limit)
{
    cudnnBackendDescriptor_t described = open_card(card);
    size_t largest = 0;
    int missing = 0;
    for (int i = 0; i < t->n; i++) {
        struct cudnn_conv c = t->found[i];
        struct engine_search s = { .card = described,
                                   .conv = &c,
                                   .deterministic = deterministic,
                                   .workspace_limit = limit,
                                   .wanted = 1 };
        size_t bytes;
        if (c.bf16 != (precision == PRECISION_BF16)) continue;
        c.tf32 = precision == PRECISION_TF32;
        missing += !plan_one(&s, card, &bytes);
        if (bytes > largest) largest = bytes;
        t->plans++;
    }
    cudnnBackendDestroyDescriptor(described);
    assert_int_equal(missing, 0);
    assert_true(largest <= limit);
    if (largest > t->largest) t->largest = largest;
}

static void plan_card(struct watch *t, const char *card)
{
    for (int p = 0; p < PRECISION_COUNT; p++) {
        plan_all(t, card, (enum precision)p, 0, CUDNN_WORKSPACE);
        plan_all(t, card, (enum precision)p, 1, CUDNN_WORKSPACE);
    }
}

static void h100(void **state) { plan_card(*state, "h100"); }
static void a100(void **state) { plan_card(*state, "a100"); }

static void short_of_memory(void **state)
{
    for (int p = 0; p < PRECISION_COUNT; p++) plan_all(*state, "h100", (enum precision)p, 0, 0);
}

/* The weights' gradient of a first layer does without a padded copy of the images. */
static void images(void **state)
{
    static const int channels[] = { 1, 3, 4 };
    const struct shape out = { 512, 64, 32, 32 };
    const size_t copy = (size_t)out.n * 32 * 32 * 8 * 2;
    (void)state;
    for (size_t i = 0; i < sizeof channels / sizeof *channels; i++) {
        const int c = channels[i];
        const struct tensor x = { .shape = { out.n, c, 32, 32 }, .layout = cuda_image_layout(c, 1, 1) };
        const struct linear_desc d = { .in = &x,
                                       .size = 3,
                                       .dilation = 1,
                                       .stride_y = 1,
                                       .stride_x = 1,
                                       .pad = 1,
                                       .groups = 1,
                                       .rows_back = out.n };
        const struct cudnn_conv conv = cuda_conv_pass(&d, out, CUDNN_PASS_WEIGHTS, 1, 0);
        struct engine_search s = {
            .card = open_card("h100"), .conv = &conv, .workspace_limit = CUDNN_WORKSPACE, .wanted = 1
        };
        size_t bytes;
        assert_true(plan_one(&s, "h100", &bytes));
        cudnnBackendDestroyDescriptor(s.card);
        assert_true(bytes < copy);
    }
}

/* The message names the convolution. */
static void refusals(void **state)
{
    const struct watch *t = *state;
    struct cudnn_conv c = t->found[0];
    struct engine_search s = { .conv = &c, .workspace_limit = CUDNN_WORKSPACE, .wanted = 1 };
    struct err e = { 0 };
    c.groups = -1;
    s.card = open_card("h100");
    assert_int_equal(cudnn_find_engines(&s, &e), E_DEVICE);
    assert_non_null(strstr(e.msg, "groups -1, in fp32: "));
    cudnn_drop_graph(&s.graph);
    cudnnBackendDestroyDescriptor(s.card);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(h100),     cmocka_unit_test(a100),       cmocka_unit_test(short_of_memory),
        cmocka_unit_test(refusals), cmocka_unit_test(candidates), cmocka_unit_test(images)
    };
    return cmocka_run_group_tests(tests, collect, report);
}
