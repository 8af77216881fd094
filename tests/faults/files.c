/* Files that end too early, at every byte, and files with one wrong byte: an error with a message or a sound
 * result, never a crash, and what was open stays as it was. Meant for the sanitizers. */
#include <zlib.h>
#include "tiny.h"
#include "data/dataset.h"
#include "data/packed.h"
#include "train/checkpoint.h"

static const char cfg[] = "[net]\nbatch=2\nchannels=1\nheight=4\nwidth=4\nadam=1\nema_alpha=.9\n"
                          "[convolutional]\nfilters=2\nsize=3\nbatch_normalize=1\nactivation=leaky\n"
                          "[center]\nlambda=.1\n"
                          "[connected]\noutput=2\nactivation=linear\n[softmax]\n";

/* ---- what must not change ---- */

enum { ROOM = 600 };

struct snapshot {
    size_t n;
    real number[ROOM];
    uint64_t seen;
    double ce_average;
};

static void open_net(struct tiny *t)
{
    static const float x[32] = { .1f, .7f, -.3f, .9f, -1, .2f };
    static const int label[2] = { 0, 1 };
    struct err e = { 0 };
    ok(tiny_open(t, cfg, &e), &e);
    for (int i = 0; i < 3; i++) { /* momenta, running statistics and centers that are not 0 */
        tiny_train(t, x, label, 0);
        ok(optim_update(t->net, 1, .1, &e), &e);
    }
    t->net->ce_average = .3;
}

static void keep(const real *x, size_t n, struct snapshot *s)
{
    assert_true(s->n + n <= ROOM);
    memcpy(s->number + s->n, x, n * sizeof *x);
    s->n += n;
}

static struct snapshot look(const struct net *n)
{
    struct snapshot s = { .seen = n->seen, .ce_average = n->ce_average };
    real host[ROOM];
    for (int i = 0; i < n->nparam; i++) {
        const struct param *p = n->param[i];
        assert_true(p->count <= ROOM);
        assert_int_equal(param_get(p, host), OK);
        keep(host, p->count, &s);
        const void *const more[] = { p->v, p->s, p->average };
        for (int k = 0; k < 3; k++) {
            if (!more[k]) continue;
            assert_int_equal(param_unpack(p, more[k], host), OK);
            keep(host, p->count, &s);
        }
    }
    return s;
}

static void same(const struct snapshot *a, const struct net *n)
{
    struct snapshot b = look(n);
    assert_int_equal(a->n, b.n);
    assert_memory_equal(a->number, b.number, a->n * sizeof *a->number);
    assert_true(a->seen == b.seen && a->ce_average == b.ce_average);
}

/* ---- damage ---- */

struct bytes {
    char *x;
    size_t n;
};

static struct bytes get(const char *name)
{
    struct err e = { 0 };
    struct bytes b;
    ok(file_load(tiny_path(name), 1 << 20, &b.x, &b.n, &e), &e);
    return b;
}

static void check_error(int rc, const struct err *e)
{
    assert_true(rc < 0 && e->code == rc && *e->msg);
    assert_null(strchr(e->msg, '\n'));
}

/* ---- .weights ---- */

static void weights(void **state)
{
    struct err e = { 0 };
    struct tiny t;
    int layers;
    (void)state;
    open_net(&t);
    ok(weights_save(t.net, tiny_path("a.weights"), t.net->n, 9, &e), &e);
    struct bytes b = get("a.weights");
    struct snapshot before = look(t.net);
    for (size_t n = 0; n < b.n; n++) {
        struct err why = { 0 };
        check_error(weights_load(t.net, tiny_put("b", b.x, n), WEIGHTS_WHOLE, &layers, &why), &why);
        same(&before, t.net);
    }
    ok(weights_load(t.net, tiny_put("b", b.x, b.n), WEIGHTS_WHOLE, &layers, &e), &e);
    mem_free(b.x);
    tiny_close(&t);
}

/* ---- the training state: the net's part alone, and the file with its checksum ---- */

static int read_state(struct net *n, const void *bytes, size_t size, struct err *e)
{
    struct file_reader r;
    TRY(reader_open(&r, tiny_put("b", bytes, size), 1 << 20, e));
    int rc = net_state_read(n, &r, e);
    reader_close(&r);
    return rc;
}

static void state_of_the_net(void **state)
{
    struct err e = { 0 };
    struct tiny t, other;
    struct file f;
    (void)state;
    open_net(&t);
    ok(file_create(&f, tiny_path("a.state"), &e), &e);
    ok(net_state_write(t.net, &f, &e), &e);
    ok(file_commit(&f, &e), &e);
    struct bytes b = get("a.state");
    struct snapshot before = look(t.net);

    open_net(&other);
    other.net->ce_average = 2;
    struct snapshot untouched = look(other.net);
    for (size_t n = 0; n < b.n; n++) {
        struct err why = { 0 };
        check_error(read_state(other.net, b.x, n, &why), &why);
        same(&untouched, other.net);
    }
    ok(read_state(other.net, b.x, b.n, &e), &e);
    same(&before, other.net);
    tiny_close(&other);
    mem_free(b.x);
    tiny_close(&t);
}

static void state_file(void **state)
{
    struct err e = { 0 };
    struct tiny t;
    struct progress p = { .iteration = 12, .ce_smooth = .5 }, got;
    (void)state;
    open_net(&t);
    ok(state_save(t.net, &p, 100, tiny_path("a.state"), &e), &e);
    struct bytes b = get("a.state");
    struct snapshot before = look(t.net);
    for (size_t n = 0; n < b.n; n++) {
        struct err why = { 0 };
        check_error(state_load(t.net, &got, 100, tiny_put("b", b.x, n), &why), &why);
        same(&before, t.net);
    }
    for (size_t n = 0; n < b.n; n++) { /* the checksum sees every byte */
        struct err why = { 0 };
        b.x[n] ^= 0x10;
        check_error(state_load(t.net, &got, 100, tiny_put("b", b.x, b.n), &why), &why);
        b.x[n] ^= 0x10;
        same(&before, t.net);
    }
    ok(state_load(t.net, &got, 100, tiny_put("b", b.x, b.n), &e), &e);
    assert_memory_equal(&got, &p, sizeof p);
    mem_free(b.x);
    tiny_close(&t);
}

/* ---- text ---- */

/* A prefix may be a sound cfg; what is not says why. */
static void cfgs(void **state)
{
    struct err e = { 0 };
    int opened = 0, refused_n = 0;
    (void)state;
    for (size_t n = 0; n < sizeof cfg; n++) {
        struct backend *be;
        struct cfg *c;
        struct net *net = NULL;
        ok(backend_open(&be, "ref", 1, &e), &e);
        struct err why = { 0 };
        int rc = cfg_read(&c, tiny_put("b.cfg", cfg, n), &why);
        if (!rc) rc = net_open(&net, c, be, 1, NULL, &why);
        if (rc) check_error(rc, &why);
        opened += !rc;
        refused_n += rc != OK;
        net_close(net);
        backend_close(be);
    }
    assert_true(opened > 10 && refused_n > 10);
}

static void data_files(void **state)
{
    static const char data[] =
        "classes = 2\ntrain = list\n# remark\nvalid=list # and more\nlabels = l\ntop=1\nsampling=shuffle\n";
    (void)state;
    for (size_t n = 0; n < sizeof data; n++) {
        struct data_file *d;
        struct err why = { 0 };
        int rc = data_file_read(&d, tiny_put("b.data", data, n), NULL, &why);
        if (rc) check_error(rc, &why);
        data_file_free(d);
    }
}

/* ---- IDX, plain and gzipped ---- */

enum { IMAGES = 3, PIXELS = 2 * 3 };

static struct bytes idx_images(void)
{
    static char x[16 + IMAGES * PIXELS] = { 0, 0, 8, 3, 0, 0, 0, IMAGES, 0, 0, 0, 2, 0, 0, 0, 3 };
    for (int i = 0; i < IMAGES * PIXELS; i++) x[16 + i] = (char)(7 * i);
    return (struct bytes){ x, sizeof x };
}

static struct bytes idx_labels(void)
{
    static char x[8 + IMAGES] = { 0, 0, 8, 1, 0, 0, 0, IMAGES, 1, 0, 1 };
    return (struct bytes){ x, sizeof x };
}

static struct bytes zipped(struct bytes b)
{
    static char room[2][400];
    static int turn;
    z_stream z = { 0 };
    assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    char *to = room[turn++ % 2];
    z.next_in = (Bytef *)b.x;
    z.avail_in = (uInt)b.n;
    z.next_out = (Bytef *)to;
    z.avail_out = sizeof room[0];
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    size_t n = z.total_out;
    deflateEnd(&z);
    return (struct bytes){ to, n };
}

static int read_idx(struct bytes images, struct bytes labels, const char *end, struct err *e)
{
    char name[2][40];
    struct packed x;
    const struct packed_options o = { .classes = 2 };
    snprintf(name[0], sizeof name[0], "t-images-idx3-ubyte%s", end);
    snprintf(name[1], sizeof name[1], "t-labels-idx1-ubyte%s", end);
    tiny_put(name[1], labels.x, labels.n);
    int rc = packed_read(&x, tiny_put(name[0], images.x, images.n), &o, e);
    if (!rc) {
        assert_true(x.n == IMAGES && x.h * x.w == PIXELS);
        assert_memory_equal(x.pixels, idx_images().x + 16, IMAGES * PIXELS);
        assert_true(x.label[0] == 1 && x.label[1] == 0 && x.label[2] == 1);
    }
    packed_free(&x);
    return rc;
}

static void idx_files(void **state)
{
    (void)state;
    for (int zip = 0; zip < 2; zip++) {
        struct err e = { 0 };
        const char *end = zip ? ".gz" : "";
        struct bytes images = zip ? zipped(idx_images()) : idx_images(),
                     labels = zip ? zipped(idx_labels()) : idx_labels();
        ok(read_idx(images, labels, end, &e), &e);
        for (size_t n = 0; n < images.n; n++) {
            struct err why = { 0 };
            check_error(read_idx((struct bytes){ images.x, n }, labels, end, &why), &why);
        }
        for (size_t n = 0; n < labels.n; n++) {
            struct err why = { 0 };
            check_error(read_idx(images, (struct bytes){ labels.x, n }, end, &why), &why);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights), cmocka_unit_test(state_of_the_net), cmocka_unit_test(state_file),
        cmocka_unit_test(cfgs),    cmocka_unit_test(data_files),       cmocka_unit_test(idx_files),
    };
    return cmocka_run_group_tests(tests, tiny_set_up, tiny_tear_down);
}
