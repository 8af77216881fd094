/* .weights files: order, headers, what is refused. */
#include "tiny.h"

/* Layer 0: bias 2, weights 2x2x2x2; layer 1: bias, scale, mean, variance 3 each, weights 3x2; layer 2: bias
 * 2, weights 2 x 12, scale, mean, variance 2 each. */
#define HEAD   "[net]\nbatch=2\nchannels=2\nheight=3\nwidth=3\n"
#define LAYER0 "[convolutional]\nfilters=2\nsize=2\nactivation=linear\n"
#define LAYER1 "[convolutional]\nfilters=3\nsize=1\nbatch_normalize=1\nactivation=linear\n"
#define LAYER2 "[connected]\noutput=2\nbatch_normalize=1\nactivation=linear\n"
#define CFG    HEAD LAYER0 LAYER1 LAYER2 "[softmax]\n"
enum {
    FLOATS0 = 18,
    FLOATS1 = 18,
    FLOATS2 = 32,
    FLOATS = FLOATS0 + FLOATS1 + FLOATS2,
    PARAMS = 12,
    HEADER = 20
};

static struct tiny t;

/* Opens a net whose numbers are all -1; training nets have the packed memory of the backend, others host
 * memory. */
static void fresh(const char *cfg, int train)
{
    struct err e = { 0 };
    ok(tiny_net(&t, cfg, NULL, &e), &e);
    struct program_desc d = { .rows = 2, .train = train };
    ok(program_open(&t.p, t.net, &d, &e), &e);
    real ones[64];
    for (int i = 0; i < 64; i++) ones[i] = -1;
    for (int i = 0; i < t.net->nparam; i++) tiny_set(&t, i, ones);
}

/* Parameter i holds first, first + 1, ... */
static void counts_from(int i, int first)
{
    real host[64];
    assert_int_equal(param_get(t.net->param[i], host), OK);
    for (size_t k = 0; k < t.net->param[i]->count; k++) assert_true(host[k] == (real)(first + (int)k));
}

static void is_untouched(int i)
{
    real host[64];
    assert_int_equal(param_get(t.net->param[i], host), OK);
    for (size_t k = 0; k < t.net->param[i]->count; k++) assert_true(host[k] == -1);
}

/* A file of 0, 1, 2, ... */
struct image {
    size_t n;
    char bytes[1000];
};

static struct image file_of(int major, int minor, uint64_t seen, int wide, int floats)
{
    struct image f = { 0 };
    const int32_t version[3] = { major, minor, 0 }, narrow = (int32_t)seen;
    memcpy(f.bytes, version, 12);
    memcpy(f.bytes + 12, wide ? (const void *)&seen : (const void *)&narrow, wide ? 8 : 4);
    f.n = wide ? 20 : 16;
    for (int i = 0; i < floats; i++, f.n += 4) {
        float v = (float)i;
        memcpy(f.bytes + f.n, &v, 4);
    }
    return f;
}

static int load(const struct image *f, int partial, int *layers, struct err *e)
{
    return weights_load(t.net, tiny_put("a.weights", f->bytes, f->n), partial, layers, e);
}

static void load_ok(const struct image *f, int expected_layers)
{
    struct err e = { 0 };
    int layers = -1;
    ok(load(f, 0, &layers, &e), &e);
    assert_int_equal(layers, expected_layers);
}

/* Numbers in the file before parameter i: bias, weights; bias, scale, mean, variance, weights; bias, weights,
 * scale, ... */
static const int starts[PARAMS] = { 0, 2, 18, 21, 24, 27, 30, 36, 38, 62, 64, 66 };

static void order_is_darknets(void **state)
{
    (void)state;
    for (int train = 0; train < 2; train++) {
        fresh(CFG, train);
        struct image f = file_of(0, 2, 77, 1, FLOATS);
        assert_int_equal(t.net->nparam, PARAMS);
        assert_int_equal(weights_floats(t.net), FLOATS);
        load_ok(&f, 4);
        assert_int_equal(t.net->seen, 77);
        for (int i = 0; i < PARAMS; i++) counts_from(i, starts[i]);
        tiny_close(&t);
    }
}

/* [shortcut] with weights: those of the previous layer, then those of each of `from`. */
static void weights_of_sums(void **state)
{
    static const char *const cfg = HEAD LAYER0 "[convolutional]\nfilters=2\nactivation=linear\n"
                                               "[shortcut]\nfrom=0,-1\nweights_type=per_channel\n"
                                               "[convolutional]\nfilters=2\nactivation=linear\n"
                                               "[shortcut]\nfrom=-1\nweights_type=per_feature\n[softmax]\n";
    (void)state;
    for (int train = 0; train < 2; train++) {
        fresh(cfg, train);
        struct image f = file_of(0, 2, 77, 1, 38);
        assert_int_equal(weights_floats(t.net), 38); /* 18, 6, 3 x 2, 6, 2 */
        load_ok(&f, 6);
        counts_from(4, 24);
        counts_from(5, 30);
        counts_from(7, 36);
        tiny_close(&t);
    }
}

static void headers_old_and_new(void **state)
{
    static const struct {
        int major, minor, wide;
    } header[] = { { 0, 1, 0 }, { 0, 2, 1 },    { 0, 3, 1 },  { 1, 0, 1 },
                   { 0, 0, 0 }, { 0, 1000, 0 }, { 999, 0, 1 } };
    (void)state;
    for (size_t i = 0; i < sizeof header / sizeof *header; i++) {
        fresh(CFG, 0);
        struct image f = file_of(header[i].major, header[i].minor, 1 << 20, header[i].wide, FLOATS);
        load_ok(&f, 4);
        assert_int_equal(t.net->seen, 1 << 20);
        counts_from(0, 0);
        counts_from(PARAMS - 1, starts[PARAMS - 1]);
        tiny_close(&t);
    }
    struct err e = { 0 };
    int layers;
    fresh(CFG, 0);
    struct image f = file_of(0, 2, (uint64_t)5 << 32, 1, FLOATS);
    load_ok(&f, 4);
    assert_true(t.net->seen == (uint64_t)5 << 32);
    f = file_of(0, 2, UINT64_MAX - 10, 1, FLOATS);
    refused(load(&f, 0, &layers, &e), E_FORMAT, &e, "18446744073709551605 images of training");
    f = file_of(0, 1, (uint64_t)-7, 0, FLOATS); /* an int that ran over */
    load_ok(&f, 4);
    assert_int_equal(t.net->seen, 0);
    tiny_close(&t);
}

/* inputs x outputs, for [connected] only: element (o, i) of 2 x 12 is number i * 2 + o. */
static void transposed_matrices(void **state)
{
    (void)state;
    for (int k = 0; k < 2; k++) {
        fresh(CFG, 1);
        struct image f = file_of(k ? 1001 : 0, k ? 0 : 1001, 3, 0, FLOATS);
        load_ok(&f, 4);
        for (int i = 0; i < PARAMS; i++)
            if (i != 8) counts_from(i, starts[i]);
        for (size_t o = 0; o < 2; o++)
            for (size_t i = 0; i < 12; i++)
                assert_true(tiny_w(&t, 8, o * 12 + i) == 38 + (double)(i * 2 + o));
        tiny_close(&t);
    }
}

/* Shorter by any number of bytes: says which layer, how much; nothing changes. */
static void short_at_every_byte(void **state)
{
    static const size_t end[] = { HEADER + 4 * FLOATS0, HEADER + 4 * (FLOATS0 + FLOATS1),
                                  HEADER + 4 * FLOATS };
    (void)state;
    fresh(CFG, 1);
    t.net->seen = 5;
    for (size_t n = 0; n < HEADER + 4 * FLOATS; n++) {
        struct err e = { 0 };
        char words[100] = "a.weights: the file is too short";
        struct image f = file_of(0, 2, 77, 1, FLOATS);
        int layers, layer = 0;
        f.n = n;
        while (n >= end[layer]) layer++;
        size_t start = layer ? end[layer - 1] : HEADER;
        const char *name = layer < 2 ? "convolutional" : "connected";
        if (n == start)
            snprintf(words, sizeof words, "[%s] (layer %d): it holds %d of the 4 layers", name, layer, layer);
        else if (n > HEADER)
            snprintf(words, sizeof words, "[%s] (layer %d): it holds %zu of the %zu bytes there", name, layer,
                     n - start, end[layer] - start);
        refused(load(&f, 0, &layers, &e), E_FORMAT, &e, words);
        for (int i = 0; i < PARAMS; i++) is_untouched(i);
        assert_int_equal(t.net->seen, 5);
        if (n > HEADER && n != start) refused(load(&f, 1, &layers, &e), E_FORMAT, &e, "ends inside");
    }
    tiny_close(&t);
}

static void long_ones_are_of_another_cfg(void **state)
{
    (void)state;
    fresh(CFG, 0);
    for (size_t more = 1; more <= 5; more++) {
        struct err e = { 0 };
        struct image f = file_of(0, 2, 77, 1, FLOATS);
        char words[60];
        int layers;
        f.n += more;
        snprintf(words, sizeof words, "a.weights: %zu bytes are left after the last layer", more);
        refused(load(&f, 0, &layers, &e), E_FORMAT, &e, words);
        refused(load(&f, 1, &layers, &e), E_FORMAT, &e, words);
        for (int i = 0; i < PARAMS; i++) is_untouched(i);
    }
    tiny_close(&t);
}

/* NaN and infinity anywhere, and a negative variance, are refused before anything changes. */
static void numbers_that_cannot_be(void **state)
{
    static const float bad[] = { NAN, INFINITY, -INFINITY };
    (void)state;
    fresh(CFG, 0);
    for (int i = 0; i < FLOATS; i++) {
        struct err e = { 0 };
        struct image f = file_of(0, 2, 77, 1, FLOATS);
        int layers;
        memcpy(f.bytes + HEADER + 4 * i, &bad[i % 3], 4);
        refused(load(&f, 0, &layers, &e), E_FORMAT, &e, "the file is damaged");
        for (int k = 0; k < PARAMS; k++) is_untouched(k);
    }
    for (int i = 0, refusals = 0; i <= FLOATS; i++) {
        struct image f = file_of(0, 2, 77, 1, FLOATS);
        const float minus = -1;
        int layers;
        if (i == FLOATS) {
            assert_int_equal(refusals, 3 + 2); /* of the two normalised layers */
            break;
        }
        memcpy(f.bytes + HEADER + 4 * i, &minus, 4);
        refusals += load(&f, 0, &layers, NULL) == E_FORMAT;
    }
    tiny_close(&t);
}

static void partial_ones_end_between_layers(void **state)
{
    static const int floats[] = { 0, FLOATS0, FLOATS0 + FLOATS1, FLOATS }, layers[] = { 0, 1, 2, 4 },
                     params[] = { 0, 2, 7, 12 };
    (void)state;
    for (int k = 0; k < 4; k++) {
        struct err e = { 0 };
        int got = -1;
        fresh(CFG, 1);
        struct image f = file_of(0, 2, 0, 1, floats[k]);
        ok(load(&f, 1, &got, &e), &e);
        assert_int_equal(got, layers[k]);
        for (int i = 0; i < PARAMS; i++)
            if (i < params[k])
                counts_from(i, starts[i]);
            else
                is_untouched(i);
        tiny_close(&t);
    }
}

static void dontload_skips_a_layer(void **state)
{
    (void)state;
    fresh(HEAD LAYER0 LAYER1 "dontload=1\n" LAYER2 "[softmax]\n", 1);
    struct image f = file_of(0, 2, 0, 1, FLOATS0 + FLOATS2);
    load_ok(&f, 4);
    counts_from(0, 0);
    counts_from(1, 2);
    for (int i = 2; i < 7; i++) is_untouched(i);
    counts_from(7, 18);
    counts_from(11, 48);
    tiny_close(&t);
}

static void dontloadscales_skips_the_triple(void **state)
{
    (void)state;
    fresh(HEAD LAYER0 LAYER1 "dontloadscales=1\n" LAYER2 "[softmax]\n", 1);
    struct image f = file_of(0, 2, 0, 1, FLOATS - 9);
    load_ok(&f, 4);
    counts_from(2, 18);
    for (int i = 3; i < 6; i++) is_untouched(i);
    counts_from(6, 21);
    counts_from(7, 27);
    tiny_close(&t);
}

static void not_weights(void **state)
{
    static const char png[] = "\x89PNG\r\n\x1a\n and more, and more";
    struct err e = { 0 };
    int layers;
    (void)state;
    fresh(CFG, 0);
    refused(weights_load(t.net, tiny_put("b", png, sizeof png), WEIGHTS_WHOLE, &layers, &e), E_FORMAT, &e,
            "not a .weights file");
    refused(weights_load(t.net, tiny_put("b", "", 0), WEIGHTS_WHOLE, &layers, &e), E_FORMAT, &e, "too short");
    refused(weights_load(t.net, tiny_path("none"), WEIGHTS_WHOLE, &layers, &e), E_FILE, &e, "none");
    refused(weights_load(t.net, tiny_put("b", STATE_MAGIC "\0\4\0\0\0", 12), WEIGHTS_WHOLE, &layers, &e),
            E_FORMAT, &e, "is the state of a training, for -resume");
    struct image f = file_of(-1, 2, 0, 1, FLOATS);
    refused(load(&f, 0, &layers, &e), E_FORMAT, &e, "not a .weights file");
    tiny_close(&t);
}

/* Saving writes what loading has read, to the byte; version 0.2.0. */
static void saving_is_the_inverse(void **state)
{
    struct err e = { 0 };
    (void)state;
    for (int train = 0; train < 2; train++)
        for (int upto = 0; upto <= 4; upto++) {
            static const int floats[] = { 0, FLOATS0, FLOATS0 + FLOATS1, FLOATS, FLOATS };
            fresh(CFG, train);
            struct image whole = file_of(0, 2, 77, 1, FLOATS), expected = file_of(0, 2, 99, 1, floats[upto]);
            load_ok(&whole, 4);
            ok(weights_save(t.net, tiny_path("b.weights"), upto, 99, &e), &e);
            char *bytes;
            size_t n;
            ok(file_load(tiny_path("b.weights"), 10000, &bytes, &n, &e), &e);
            assert_int_equal(n, expected.n);
            assert_memory_equal(bytes, expected.bytes, n);
            mem_free(bytes);
            tiny_close(&t);
        }
}

static void training_only_layers_leave_no_trace(void **state)
{
    (void)state;
    fresh(HEAD LAYER0 LAYER1 "[center]\n[itra]\npair=memory\n" LAYER2 "[softmax]\n", 1);
    assert_true(t.net->nparam > PARAMS); /* centers and remembered features are in the training state only */
    assert_int_equal(weights_floats(t.net), FLOATS);
    struct image f = file_of(0, 2, 0, 1, FLOATS);
    load_ok(&f, 6);
    tiny_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(order_is_darknets),
        cmocka_unit_test(weights_of_sums),
        cmocka_unit_test(headers_old_and_new),
        cmocka_unit_test(transposed_matrices),
        cmocka_unit_test(short_at_every_byte),
        cmocka_unit_test(long_ones_are_of_another_cfg),
        cmocka_unit_test(partial_ones_end_between_layers),
        cmocka_unit_test(dontload_skips_a_layer),
        cmocka_unit_test(dontloadscales_skips_the_triple),
        cmocka_unit_test(numbers_that_cannot_be),
        cmocka_unit_test(not_weights),
        cmocka_unit_test(saving_is_the_inverse),
        cmocka_unit_test(training_only_layers_leave_no_trace),
    };
    return cmocka_run_group_tests(tests, tiny_set_up, tiny_tear_down);
}
