/* Keys and sections of other Darknets: none may go by without a word where it would make another net. */
#include "tiny.h"
#include "net/stock.h"

static struct tiny t;

/* A net in which the given section has one more line. */
static int open_with(const char *section, const char *key, const char *value, struct err *e)
{
    static const struct {
        const char *name, *body;
    } bodies[] = {
        { "convolutional", "filters=4\nsize=3\npad=1\nactivation=leaky\n" },
        { "connected", "output=4\nactivation=leaky\n" },
        { "maxpool", "size=2\nstride=1\n" },
        { "dropout", "probability=.5\n" },
        { "route", "layers=-1\n" },
        { "shortcut", "from=-2\nactivation=leaky\n" },
        { "reorg", "stride=1\n" },
        { "cost", "type=sse\n" },
        { "softmax", "" },
        { "avgpool", "" },
    };
    char line[100], text[1000], *at = text;
    const char *where = *section ? section : "avgpool";
    snprintf(line, sizeof line, "%s=%s\n", key, value);
    at += sprintf(at, "[net]\nbatch=2\nchannels=3\nheight=4\nwidth=4\n%s", strcmp(where, "net") ? "" : line);
    for (int i = 0; i < 2; i++) at += sprintf(at, "[convolutional]\nfilters=3\nactivation=leaky\n");
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        if (!strcmp(bodies[i].name, where)) at += sprintf(at, "[%s]\n%s%s", where, bodies[i].body, line);
    }
    if (strcmp(where, "softmax") && strcmp(where, "cost"))
        sprintf(at, "[connected]\noutput=3\nactivation=linear\n[softmax]\n");
    return tiny_net(&t, text, NULL, e);
}

/* A value other than the neutral one, and that one. */
static void values(const struct stock_key *k, char *other, char *neutral)
{
    sprintf(other, "%g", k->neutral == 2 ? 3. : 2.);
    sprintf(neutral, "%g", k->neutral);
}

static void each_key(void **state)
{
    (void)state;
    for (const struct stock_key *k = stock_keys; k->name; k++) {
        struct err e = { 0 };
        char other[30], neutral[30], named[100];
        values(k, other, neutral);
        snprintf(named, sizeof named, "] %s=%s: %s", k->name, other, k->advice ? k->advice : "");
        int rc = open_with(k->section, k->name, other, &e);
        if (k->verdict == STOCK_REFUSED) {
            refused(rc, E_CFG, &e, named);
        } else {
            ok(rc, &e);
            const char *expected = k->verdict == STOCK_MISSED ? named : k->name;
            if (!strstr(t.notes, expected)) print_error("%s: '%s'\n", k->name, t.notes);
            assert_non_null(strstr(t.notes, expected));
            assert_null(strstr(t.notes, "unused key"));
        }
        tiny_close(&t);
        if (k->verdict == STOCK_NOTHING) continue;
        e = (struct err){ 0 };
        ok(open_with(k->section, k->name, neutral, &e), &e);
        assert_string_equal(t.notes, "");
        tiny_close(&t);
    }
}

/* A row of the table for a key that works would refuse it. */
static void no_key_that_works(void **state)
{
    (void)state;
    for (const struct stock_key *k = stock_keys; k->name; k++) {
        int is_net = !strcmp(k->section, "net");
        const struct layer_ops *ops = is_net || !*k->section ? NULL : layer_find(k->section);
        assert_true(is_net || !*k->section || ops);
        const struct key *works = is_net ? net_config_keys : ops ? ops->keys : layer_common_keys;
        for (; works && works->name; works++) assert_string_not_equal(works->name, k->name);
    }
    for (const struct stock_section *s = stock_sections; s->name; s++) assert_null(layer_find(s->name));
}

static void each_section(void **state)
{
    (void)state;
    for (const struct stock_section *s = stock_sections; s->name; s++) {
        struct err e = { 0 };
        char text[200], named[200];
        snprintf(text, sizeof text, "[net]\nchannels=3\nheight=4\nwidth=4\n[%s]\n[softmax]\n", s->name);
        snprintf(named, sizeof named, "tiny.cfg:5: [%s]: %s", s->name, s->reason);
        refused(tiny_net(&t, text, NULL, &e), E_CFG, &e, named);
        tiny_close(&t);
    }
}

static void keys_without_effect_share_a_line(void **state)
{
    struct err e = { 0 };
    (void)state;
    ok(open_with("net", "notruth", "1\ncenter=0\nnotruth=1\nloss_scale=128", &e), &e);
    assert_non_null(
        strstr(t.notes, "tiny.cfg: no effect here: [net] notruth, [net] center, [net] loss_scale\n"));
    tiny_close(&t);
}

static void words_that_mean_nothing(void **state)
{
    struct err e = { 0 };
    (void)state;
    ok(open_with("softmax", "tree", "none", &e), &e);
    assert_string_equal(t.notes, "");
    tiny_close(&t);
    refused(open_with("softmax", "tree", "data/imagenet.tree", &e), E_CFG, &e, "class hierarchies");
    tiny_close(&t);
}

static void values_are_named(void **state)
{
    (void)state;
    static const char *const refused_ones[][2] = { { "silu", "write swish" },
                                                   { "norm_chan", "across channels" },
                                                   { "norm_chan_softmax", "across channels" },
                                                   { "norm_chan_softmax_maxval", "across channels" } };
    struct err e = { 0 };
    char text[200];
    static const char around[] = "[net]\nbatch=2\nchannels=3\nheight=4\nwidth=4\n[convolutional]\nfilters=3\n"
                                 "%s=%s\n[avgpool]\n[softmax]\n";
    for (int i = 0; i < 4; i++) {
        snprintf(text, sizeof text, around, "activation", refused_ones[i][0]);
        refused(tiny_net(&t, text, NULL, &e), E_CFG, &e, refused_ones[i][1]);
        tiny_close(&t);
    }
    snprintf(text, sizeof text, around, "batch_normalize", "2");
    refused(tiny_net(&t, text, NULL, &e), E_CFG, &e, "several mini-batches are not supported: write 1");
    tiny_close(&t);
}

/* A key that needs another one is said to do nothing without it, and only then. */
static void keys_that_need_another(void **state)
{
    (void)state;
    static const char *const key[][4] = {
        /* section, key, its value, what it needs */
        { "shortcut", "weights_normalization", "relu", "weights_type=per_channel" },
        { "maxpool", "out_channels", "1", "maxpool_depth=1" },
        { "dropout", "dropblock_size_abs", "3", "dropblock=1" },
        { "dropout", "dropblock_size_rel", "0.3", "dropblock=1" }
    };
    struct err e = { 0 };
    for (int i = 0; i < 4; i++)
        for (int with = 0; with < 2; with++) {
            char value[100];
            snprintf(value, sizeof value, "%s%s%s", key[i][2], with ? "\n" : "", with ? key[i][3] : "");
            ok(open_with(key[i][0], key[i][1], value, &e), &e);
            assert_int_equal(strstr(t.notes, "no effect here") != NULL, !with);
            if (!with) assert_non_null(strstr(t.notes, key[i][1]));
            tiny_close(&t);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_key),
        cmocka_unit_test(no_key_that_works),
        cmocka_unit_test(each_section),
        cmocka_unit_test(keys_without_effect_share_a_line),
        cmocka_unit_test(words_that_mean_nothing),
        cmocka_unit_test(values_are_named),
        cmocka_unit_test(keys_that_need_another),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
