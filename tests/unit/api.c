/* The public API, as a program that links the library sees it: only include/darknet.h. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "darknet.h"

enum { ROWS = 4, CLASSES = 3, IMAGE = 2 * 5 * 4 };

static const char cfg[] =
    "[net]\nbatch=8\nsubdivisions=2\nchannels=2\nheight=5\nwidth=4\nlearning_rate=.1\nmomentum=.9\n"
    "[convolutional]\nfilters=6\nsize=3\npad=1\nbatch_normalize=1\nactivation=leaky\n"
    "[avgpool]\n%s[connected]\noutput=3\nactivation=linear\n[softmax]\n";

static char folder[64];
static float images[2 * ROWS * IMAGE];
static int label[2 * ROWS];

static const char *path(const char *name)
{
    static char p[4][128];
    static int turn;
    char *s = p[turn++ % 4];
    snprintf(s, sizeof p[0], "%s/%s", folder, name);
    return s;
}

static void put(const char *name, const char *text)
{
    FILE *f = fopen(path(name), "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

/* Images whose brightness tells their class. */
static int set_up(void **state)
{
    char text[1000];
    (void)state;
    strcpy(folder, "/tmp/api-XXXXXX");
    if (!mkdtemp(folder)) return -1;
    snprintf(text, sizeof text, cfg, "");
    put("a.cfg", text);
    snprintf(text, sizeof text, cfg, "[itra]\nwarmup=0\nlambda=.1\nevery=2\n");
    put("itra.cfg", text);
    for (int i = 0; i < 2 * ROWS; i++) {
        label[i] = i % CLASSES;
        for (int k = 0; k < IMAGE; k++)
            images[i * IMAGE + k] = (float)(k % 7) / 14 + (float)label[i] + (float)i / 100;
    }
    return 0;
}

static int tear_down(void **state)
{
    char command[100];
    (void)state;
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

#define ok(call) ok_(call, &e, __LINE__)
static void ok_(int rc, const dn_error *e, int line)
{
    if (rc) print_error("line %d: %d: %s\n", line, rc, e->msg);
    assert_int_equal(rc, DN_OK);
}

#define refused(call, expected, words) refused_(call, expected, words, &e, __LINE__)
static void refused_(int rc, int expected, const char *words, const dn_error *e, int line)
{
    if (rc != expected || e->code != rc || !strstr(e->msg, words))
        print_error("line %d: %d '%s', expected %d '%s'\n", line, rc, e->msg, expected, words);
    assert_int_equal(rc, expected);
    assert_int_equal(e->code, expected);
    assert_non_null(strstr(e->msg, words));
    assert_null(strchr(e->msg, '\n'));
}

static void trains_saves_and_loads(void **state)
{
    dn_error e;
    dn_net *a, *b;
    dn_stats s;
    double first = 0;
    float p[2][2 * ROWS * CLASSES];
    (void)state;
    const dn_options train = { .train = 1, .seed = 3 };
    ok(dn_open(&a, path("a.cfg"), &train, &e));
    ok(dn_predict(a, images, ROWS, p[1],
                  &e)); /* the inference program must not come in the way of training */
    for (int i = 0; i < 200; i++) {
        const dn_batch batch = { images + i % 2 * ROWS * IMAGE, label + i % 2 * ROWS, ROWS };
        ok(dn_step(a, &batch, &s, &e));
        assert_int_equal(s.updated, i % 2);
        assert_int_equal(s.iteration, i / 2 + 1);
        assert_true(fabs(s.rate - .1) < 1e-12 && isnan(s.match) && s.lambda == 0);
        if (i < 2) first += s.ce / 2;
    }
    assert_true(s.ce < first / 4);
    assert_int_equal(dn_seen(a), 800);
    ok(dn_predict(a, images, 2 * ROWS, p[0], &e));
    for (int i = 0; i < 2 * ROWS; i++) {
        float sum = 0, *row = p[0] + i * CLASSES;
        for (int k = 0; k < CLASSES; k++) sum += row[k];
        assert_true(fabsf(sum - 1) < 1e-5f);
        assert_true(row[label[i]] > .5f);
    }
    assert_true(memcmp(p[0], p[1], sizeof p[0] / 2) != 0); /* refreshed after training */

    ok(dn_save(a, path("a.weights"), &e));
    const dn_options one = { .rows = 1 }; /* another pass size: images one by one */
    ok(dn_open(&b, path("a.cfg"), &one, &e));
    ok(dn_load(b, path("a.weights"), &e));
    assert_int_equal(dn_seen(b), 800);
    ok(dn_predict(b, images, 2 * ROWS, p[1], &e));
    for (int i = 0; i < 2 * ROWS * CLASSES; i++) assert_true(fabsf(p[0][i] - p[1][i]) < 1e-5f);
    dn_close(b);
    ok(dn_open(&b, path("a.cfg"), &train, &e)); /* the same kind of handle: the same bits */
    ok(dn_load(b, path("a.weights"), &e));
    ok(dn_predict(b, images, 2 * ROWS, p[1], &e));
    ok(dn_load(a, path("a.weights"), &e)); /* files hold floats, whatever the build computes with */
    ok(dn_predict(a, images, 2 * ROWS, p[0], &e));
    assert_memory_equal(p[0], p[1], sizeof p[0]);
    dn_close(b);
    dn_close(a);
}

static void two_handles_train_alike_and_apart(void **state)
{
    dn_error e;
    dn_net *n[3];
    float p[3][CLASSES];
    (void)state;
    for (int i = 0; i < 3; i++) {
        const dn_options o = { .train = 1, .seed = i == 2 };
        ok(dn_open(&n[i], path("a.cfg"), &o, &e));
    }
    const dn_batch batch = { images, label, ROWS };
    for (int k = 0; k < 4; k++)
        for (int i = 0; i < 3; i++) ok(dn_step(n[i], &batch, NULL, &e));
    for (int i = 0; i < 3; i++) ok(dn_predict(n[i], images, 1, p[i], &e));
    assert_memory_equal(p[0], p[1], sizeof p[0]);
    assert_true(memcmp(p[0], p[2], sizeof p[0]) != 0); /* another seed */
    for (int i = 0; i < 3; i++) dn_close(n[i]);
}

static void getters_tell_shapes(void **state)
{
    dn_error e;
    dn_net *n;
    int c, h, w, second;
    (void)state;
    const dn_options train = { .train = 1 };
    ok(dn_open(&n, path("a.cfg"), &train, &e));
    assert_int_equal(dn_input(n, &c, &h, &w), IMAGE);
    assert_true(c == 2 && h == 5 && w == 4);
    assert_int_equal(dn_classes(n), CLASSES);
    assert_int_equal(dn_rows(n, &second), ROWS);
    assert_int_equal(second, 0);
    dn_close(n);
    put("flat.cfg", "[net]\ninputs=7\n[connected]\noutput=2\n[softmax]\n");
    ok(dn_open(&n, path("flat.cfg"), NULL, &e));
    assert_int_equal(dn_input(n, &c, &h, &w), 7);
    assert_true(c == 7 && h == 1 && w == 1);
    assert_int_equal(dn_rows(n, NULL), 0); /* not for training */
    dn_close(n);
    assert_string_equal(dn_version(), DN_VERSION);
}

static void second_mini_batch_when_itra_asks(void **state)
{
    dn_error e;
    dn_net *n;
    dn_stats s;
    int second;
    (void)state;
    const char *const set[] = { "net.subdivisions=2", "itra.lambda=.2", NULL };
    const dn_options o = { .train = 1, .set = set };
    ok(dn_open(&n, path("itra.cfg"), &o, &e));
    for (int i = 0; i < 8; i++) {
        int wanted = i / 2 % 2 ? ROWS : 0; /* iterations 2 and 4 */
        assert_int_equal(dn_rows(n, &second), ROWS);
        assert_int_equal(second, wanted);
        const dn_batch good = { images, label, ROWS + wanted }, bad = { images, label, 2 * ROWS - wanted };
        refused(dn_step(n, &bad, &s, &e), DN_ARG, "dn_rows");
        ok(dn_step(n, &good, &s, &e));
        assert_int_equal(s.iteration, i / 2 + 1);
        assert_int_equal(!isnan(s.match), wanted != 0);
        if (wanted) assert_true(fabs(s.lambda - .2) < 1e-12);
    }
    dn_close(n);
}

static void warned(void *ctx, const char *line) { strcat(ctx, line); }

static void errors_come_back_as_text(void **state)
{
    dn_error e;
    dn_net *n = (dn_net *)&e; /* must become NULL */
    char notes[1000] = "";
    float x[ROWS * IMAGE] = { 0 }, p[ROWS * CLASSES];
    int bad_label[ROWS] = { 0, 1, 2, 3 };
    (void)state;
    refused(dn_open(&n, path("none.cfg"), NULL, &e), DN_FILE, "none.cfg: no such file");
    assert_null(n);
    put("b.cfg", "[net]\nheight=2\nwidth=2\nchannels=1\n[convolutional]\nfilters=-5\n");
    refused(dn_open(&n, path("b.cfg"), NULL, &e), DN_CFG,
            "b.cfg:6: [convolutional] filters=-5: expected a whole number in [1,");
    const dn_options device = { .device = "abacus" }, rows = { .rows = -1 };
    refused(dn_open(&n, path("a.cfg"), &device, &e), DN_DEVICE, "abacus");
    refused(dn_open(&n, path("a.cfg"), &rows, &e), DN_ARG, "rows=-1");
    const dn_options fewer = { .threads = -1 }, many = { .threads = 100000 };
    refused(dn_open(&n, path("a.cfg"), &fewer, &e), DN_ARG, "-1 threads");
    refused(dn_open(&n, path("a.cfg"), &many, &e), DN_ARG, "100000 threads: expected at most 1024");
    const dn_options precise = { .precision = "bf61" };
    refused(dn_open(&n, path("a.cfg"), &precise, &e), DN_CFG, "did you mean bf16?");
    const dn_options rounded = { .device = "ref", .precision = "bf16" };
    refused(dn_open(&n, path("a.cfg"), &rounded, &e), DN_CFG, "device ref computes in fp32");
    const dn_options exact = { .device = "ref", .precision = "fp32", .deterministic = 1 };
    ok(dn_open(&n, path("a.cfg"), &exact, &e));
    dn_close(n);
    const char *const set[] = { "itra.lambda=1", NULL };
    const dn_options other = { .set = set };
    refused(dn_open(&n, path("a.cfg"), &other, &e), DN_ARG, "no section [itra]");
    refused(dn_open(&n, NULL, NULL, &e), DN_ARG, "cfg");
    refused(dn_open(NULL, path("a.cfg"), NULL, &e), DN_ARG, "handle");

    put("c.cfg", "[net]\nheight=2\nwidth=2\nchannels=1\nlearning_rat=1\n[connected]\noutput=3\n[softmax]\n");
    const dn_options say = { .say = warned, .say_ctx = notes };
    ok(dn_open(&n, path("c.cfg"), &say, &e));
    assert_non_null(
        strstr(notes, "c.cfg:5: unused key 'learning_rat' in [net]; did you mean learning_rate?"));
    dn_close(n);

    const dn_batch batch = { x, bad_label, ROWS };
    ok(dn_open(&n, path("a.cfg"), NULL, &e));
    refused(dn_step(n, &batch, NULL, &e), DN_ARG, "inference");
    refused(dn_load(n, path("none.weights"), &e), DN_FILE, "none.weights");
    put("bad.weights", "no weights at all");
    refused(dn_load(n, path("bad.weights"), &e), DN_FORMAT, "bad.weights");
    refused(dn_save(n, path("no/such/folder"), &e), DN_FILE, "folder");
    refused(dn_predict(n, x, -1, p, &e), DN_ARG, "-1");
    refused(dn_predict(n, NULL, 1, p, &e), DN_ARG, "NULL");
    ok(dn_predict(n, NULL, 0, NULL, &e));
    ok(dn_predict(n, x, 1, p, &e)); /* still of use */
    dn_close(n);
    const dn_options train = { .train = 1 };
    ok(dn_open(&n, path("a.cfg"), &train, &e));
    refused(dn_step(n, &batch, NULL, &e), DN_ARG, "label 3 of image 3: expected 0..2");
    refused(dn_step(n, NULL, NULL, &e), DN_ARG, "NULL");
    dn_close(n);
}

static void loss_without_bounds_is_an_error(void **state)
{
    dn_error e;
    dn_net *n;
    dn_stats s;
    float x[ROWS * IMAGE], p[2][CLASSES];
    (void)state;
    const dn_options train = { .train = 1 };
    ok(dn_open(&n, path("a.cfg"), &train, &e));
    for (int i = 0; i < ROWS * IMAGE; i++) x[i] = NAN;
    const dn_batch bad = { x, label, ROWS }, good = { images, label, ROWS };
    ok(dn_predict(n, images, 1, p[0], &e));
    ok(dn_step(n, &good, &s, &e));
    refused(dn_step(n, &bad, &s, &e), DN_NUMBER, "[convolutional] (layer 0): the output is not finite");
    ok(dn_step(n, &good, &s, &e)); /* the iteration starts again */
    assert_true(s.iteration == 1 && !s.updated);
    ok(dn_step(n, &good, &s, &e));
    assert_true(s.updated && isfinite(s.ce));
    ok(dn_predict(n, images, 1, p[1], &e));
    for (int k = 0; k < CLASSES; k++) assert_true(isfinite(p[1][k]));
    dn_close(n);
}

static const char colour_cfg[] =
    "[net]\nbatch=3\nchannels=3\nheight=4\nwidth=6\nmean=.5,.4,.3\nstd=.5,.5,.5\n"
    "[convolutional]\nfilters=4\nsize=3\npad=1\nactivation=relu\n"
    "[avgpool]\n[connected]\noutput=3\nactivation=linear\n[softmax]\n";
enum { COLOUR = 3 * 4 * 6, PIXELS = 9 * 7 };

/* One image in several forms: each gives the same row of input. */
static void images_of_every_kind(void **state)
{
    static const char head[] = "P6 7 9 255\n", gray_head[] = "P5 7 9 255\n";
    dn_error e;
    dn_net *n[3];
    unsigned char file[sizeof head - 1 + 3 * PIXELS], rgba[4 * PIXELS], gray[sizeof gray_head - 1 + PIXELS];
    float x[3][COLOUR], y[COLOUR];
    (void)state;
    put("colour.cfg", colour_cfg);
    for (int i = 0; i < 3; i++) {
        const dn_options o = { .view = i };
        ok(dn_open(&n[i], path("colour.cfg"), &o, &e));
    }
    memcpy(file, head, sizeof head - 1);
    memcpy(gray, gray_head, sizeof gray_head - 1);
    unsigned char *rgb = file + sizeof head - 1, *luma = gray + sizeof gray_head - 1;
    for (int i = 0; i < PIXELS; i++) {
        luma[i] = (unsigned char)(i * 4);
        for (int c = 0; c < 4; c++) rgba[4 * i + c] = (unsigned char)(i * (c + 1));
        memcpy(rgb + 3 * i, rgba + 4 * i, 3);
    }
    FILE *f = fopen(path("a.ppm"), "wb");
    assert_true(f && fwrite(file, 1, sizeof file, f) == sizeof file && !fclose(f));
    for (int i = 0; i < 3; i++) {
        ok(dn_prepare_file(n[i], path("a.ppm"), x[i], &e));
        ok(dn_prepare_memory(n[i], file, sizeof file, y, &e));
        assert_memory_equal(x[i], y, sizeof y);
        ok(dn_prepare_pixels(n[i], rgb, 9, 7, 3, y, &e));
        assert_memory_equal(x[i], y, sizeof y);
        ok(dn_prepare_pixels(n[i], rgba, 9, 7, 4, y, &e));
        assert_memory_equal(x[i], y, sizeof y);
        for (int k = 0; k < i; k++) assert_true(memcmp(x[i], x[k], sizeof y) != 0);
    }
    ok(dn_prepare_pixels(n[0], luma, 9, 7, 1, y, &e));
    ok(dn_prepare_memory(n[0], gray, sizeof gray, x[1], &e));
    assert_memory_equal(x[1], y, sizeof y);
    /* Letterbox of 7x9 into 6x4: three columns, and gray, which is .5 before (x - mean) / std. */
    assert_true(fabsf(x[0][0]) < 1e-6f && fabsf(x[0][2 * 24] - .4f) < 1e-6f);
    assert_true(fabsf(x[0][1] - (0 - .5f) / .5f) < 1e-6f); /* the first pixel */

    const char *const paths[] = { path("a.ppm"), path("none.ppm") };
    float p[3 * 3], q[3 * 3], features[3 * 4];
    ok(dn_prepare_file(n[0], paths[0], y, &e));
    ok(dn_predict(n[0], y, 1, p, &e));
    ok(dn_predict_files(n[0], paths, 1, q, &e));
    assert_memory_equal(p, q, 3 * sizeof *p);
    ok(dn_predict_files(n[0], paths, 0, NULL, &e));
    assert_int_equal(dn_layers(n[0]), 4);
    assert_int_equal(dn_feature_layer(n[0]), 1);
    assert_int_equal(dn_feature_size(n[0], 1), 4);
    for (int layer = 0; layer < 2; layer++) { /* the mean of each map is what [avgpool] gives */
        float maps[4 * 24];
        ok(dn_features(n[0], layer, y, 1, layer ? features : maps, q, &e));
        for (int k = 0; k < 3; k++) assert_true(fabsf(p[k] - q[k]) < 1e-6f);
        for (int c = 0; layer == 0 && c < 4; c++) {
            features[4 + c] = 0;
            for (int i = 0; i < 24; i++) features[4 + c] += maps[c * 24 + i] / 24;
        }
    }
    for (int c = 0; c < 4; c++) assert_true(fabsf(features[c] - features[4 + c]) < 1e-6f);

    refused(dn_predict_files(n[0], paths, 2, p, &e), DN_FILE, "none.ppm");
    refused(dn_predict_files(n[0], NULL, 2, p, &e), DN_ARG, "NULL");
    refused(dn_predict_files(n[0], paths, -2, p, &e), DN_ARG, "-2 images");
    refused(dn_prepare_memory(n[0], "no image", 8, y, &e), DN_FORMAT, "the image in memory");
    refused(dn_prepare_memory(n[0], file, 0, y, &e), DN_FORMAT, "is empty");
    refused(dn_prepare_memory(n[0], NULL, 8, y, &e), DN_ARG, "NULL");
    refused(dn_prepare_file(n[0], path("a.ppm"), NULL, &e), DN_ARG, "NULL");
    refused(dn_prepare_file(NULL, path("a.ppm"), y, &e), DN_ARG, "no net");
    refused(dn_prepare_pixels(n[0], rgb, 9, 7, 5, y, &e), DN_ARG, "5 channels");
    refused(dn_prepare_pixels(n[0], rgb, 0, 7, 3, y, &e), DN_FORMAT, "without pixels");
    refused(dn_prepare_pixels(n[0], rgb, 1 << 20, 1 << 20, 3, y, &e), DN_FORMAT, "2^28");
    refused(dn_features(n[0], 4, y, 1, features, NULL, &e), DN_ARG, "layer 4: expected 0..3");
    refused(dn_features(n[0], -1, y, 1, features, NULL, &e), DN_ARG, "layer -1");
    assert_int_equal(dn_feature_size(n[0], 4), 0);
    for (int i = 0; i < 3; i++) dn_close(n[i]);

    const dn_options view = { .view = 3 };
    refused(dn_open(&n[0], path("colour.cfg"), &view, &e), DN_ARG, "view=3");
    ok(dn_open(&n[0], path("flat.cfg"), NULL, &e));
    refused(dn_prepare_pixels(n[0], rgb, 9, 7, 3, y, &e), DN_CFG, "flat.cfg");
    dn_close(n[0]);
    ok(dn_open(&n[0], path("a.cfg"), NULL, &e)); /* of two channels */
    refused(dn_prepare_file(n[0], path("a.ppm"), y, &e), DN_ARG, "channels=2");
    dn_close(n[0]);
}

static void the_best_come_first(void **state)
{
    const float p[] = { .1f, .3f, NAN, .3f, 0, .2f };
    int best[6];
    (void)state;
    static const int all[] = { 1, 3, 5, 0, 4, 2 };
    for (int k = 1; k <= 7; k++) {
        memset(best, 0xff, sizeof best);
        dn_top(p, 6, k, best);
        assert_memory_equal(best, all, (size_t)(k < 6 ? k : 6) * sizeof *best);
        if (k < 6) assert_int_equal(best[k], -1);
    }
    dn_top(NULL, 6, 1, best);
    dn_top(p, 0, 1, best);
}

struct seen {
    int n, stop, unreadable, label[8];
    float prob[8][CLASSES];
};

static int look(void *ctx, int image_label, const float *prob)
{
    struct seen *v = ctx;
    assert_in_range(v->n, 0, 7);
    v->label[v->n] = image_label;
    v->unreadable += !prob;
    if (prob) memcpy(v->prob[v->n], prob, sizeof v->prob[0]);
    return ++v->n == v->stop;
}

/* Seven images of three classes, one of them unreadable, three at once. */
static void validation_shows_each_image(void **state)
{
    dn_error e;
    dn_net *n;
    dn_score s;
    char list[1000] = "", data[300];
    (void)state;
    put("colour.cfg", colour_cfg);
    for (int i = 0; i < 7; i++) {
        char name[20], text[40];
        snprintf(name, sizeof name, "%d_%c.ppm", i, "xyz"[i % 3]);
        snprintf(text, sizeof text, "P6 1 1 255\n%c%c%c", 30 * i + 1, 200 - 9 * i, i + 1);
        put(name, i == 4 ? "none" : text);
        snprintf(list + strlen(list), sizeof list - strlen(list), "%s\n", path(name));
    }
    put("list", list);
    put("names", "_x\n_y\n_z\n");
    snprintf(data, sizeof data, "classes=3\nvalid=%s\nlabels=%s\n", path("list"), path("names"));
    put("seven.data", data);
    const dn_options as_valid = { .view = DN_CENTER };
    ok(dn_open(&n, path("colour.cfg"), &as_valid, &e));
    for (int stop = 0; stop < 8; stop += 2) {
        struct seen v = { .stop = stop };
        const dn_validation asked = { .workers = 2, .ctx = &v, .image = look };
        ok(dn_validate(n, path("seven.data"), &asked, &s, &e));
        assert_int_equal(v.n, stop ? (stop + 2) / 3 * 3 : 7); /* to the end of the mini-batch */
        assert_int_equal(s.images, v.n);
        assert_int_equal(s.unreadable, v.n > 4);
        assert_int_equal(v.unreadable, s.unreadable);
        double right = 0, ce = 0;
        for (int i = 0; i < v.n; i++) {
            float x[COLOUR], p[CLASSES];
            char name[20];
            int best;
            assert_int_equal(v.label[i], i % 3);
            if (i == 4) continue;
            snprintf(name, sizeof name, "%d_%c.ppm", i, "xyz"[i % 3]);
            ok(dn_prepare_file(n, path(name), x, &e));
            ok(dn_predict(n, x, 1, p, &e));
            for (int k = 0; k < CLASSES; k++) assert_true(fabsf(p[k] - v.prob[i][k]) < 1e-6f);
            dn_top(p, CLASSES, 1, &best);
            right += best == i % 3;
            ce -= log(p[i % 3]);
        }
        assert_true(fabs(s.top1 - right / v.n) < 1e-9);
        assert_true(fabs(s.ce - ce / (v.n - v.unreadable)) < 1e-5);
    }
    dn_close(n);
}

static void read_images_and_scales(void **state)
{
    dn_error e;
    dn_net *n;
    int h = 0, w = 0;
    uint8_t *pixels = NULL;
    float x[2 * COLOUR], maps[2 * 4 * 24];
    (void)state;
    put("a.ppm", "P6 2 1 255\nabcdef");
    ok(dn_read_image(path("a.ppm"), 3, 0, &h, &w, &pixels, &e));
    assert_true(h == 1 && w == 2);
    assert_memory_equal(pixels, "abcdef", 6);
    dn_free(pixels);
    ok(dn_read_image(path("a.ppm"), 1, 0, &h, &w, &pixels, &e));
    assert_in_range(pixels[0], 'a', 'c');
    assert_in_range(pixels[1], 'd', 'f');
    dn_free(pixels);
    dn_free(NULL);
    refused(dn_read_image(path("a.ppm"), 2, 0, &h, &w, &pixels, &e), DN_ARG, "2");
    refused(dn_read_image(path("no.ppm"), 3, 0, &h, &w, &pixels, &e), DN_FILE, "no.ppm");
    refused(dn_read_image(path("a.ppm"), 3, 0, &h, NULL, &pixels, &e), DN_ARG, "NULL");

    put("colour.cfg", colour_cfg);
    ok(dn_open(&n, path("colour.cfg"), NULL, &e));
    for (int i = 0; i < 2 * COLOUR; i++) x[i] = 1;
    ok(dn_normalise(n, x, 2, &e));
    for (int i = 0; i < 2 * COLOUR; i++) /* (1 - mean) / std, planes of 24 */
        assert_true(fabsf(x[i] - (.5f + .1f * (float)(i / 24 % 3)) / .5f) < 1e-6f);
    refused(dn_normalise(n, x, -1, &e), DN_ARG, "-1 images");
    refused(dn_normalise(n, NULL, 1, &e), DN_ARG, "NULL");
    refused(dn_normalise(NULL, x, 1, &e), DN_ARG, "no net");
    float large[4 * 3 * 9], p[2 * 3];
    for (int i = 0; i < 4 * 3 * 9; i++) large[i] = 1;
    ok(dn_set_param(n, dn_find_param(n, "0.convolutional.weights", &e), large, &e));
    for (int i = 0; i < 4 * 3; i++) large[i] = 3e38f;
    ok(dn_set_param(n, dn_find_param(n, "2.connected.weights", &e), large, &e));
    for (int i = 0; i < COLOUR; i++) x[i] = 0; /* the first image has nothing to multiply */
    refused(dn_predict(n, x, 2, p, &e), DN_NUMBER, "image 1: a probability is not a number");
    refused(dn_features(n, 0, x, 2, maps, p, &e), DN_NUMBER, "image 1");
    ok(dn_features(n, 0, x, 2, maps, NULL, &e));
    ok(dn_predict(n, x, 1, p, &e));
    dn_close(n);
    ok(dn_open(&n, path("a.cfg"), NULL, &e));
    x[0] = .25f;
    ok(dn_normalise(n, x, 1, &e));
    assert_true(x[0] == .25f); /* the cfg has no mean */
    ok(dn_set_seen(n, 1234567890123, &e));
    assert_true(dn_seen(n) == 1234567890123);
    refused(dn_set_seen(n, UINT64_MAX, &e), DN_ARG, "18446744073709551615 images: expected at most 2^53");
    assert_true(dn_seen(n) == 1234567890123);
    refused(dn_set_seen(NULL, 1, &e), DN_ARG, "dn_set_seen");
    dn_close(n);
}

/* The numbers of one net, set one by one into another, make it the same; in the order and shapes of the file.
 */
static void parameters_by_name(void **state)
{
    static const struct {
        const char *name;
        int rank;
        int64_t shape[DN_RANK];
    } known[] = {
        { "0.convolutional.bias", 1, { 6 } },
        { "0.convolutional.scale", 1, { 6 } },
        { "0.convolutional.mean", 1, { 6 } },
        { "0.convolutional.variance", 1, { 6 } },
        { "0.convolutional.weights", 4, { 6, 2, 3, 3 } },
        { "2.connected.bias", 1, { 3 } },
        { "2.connected.weights", 2, { 3, 6 } },
    };
    enum { PARAMS = sizeof known / sizeof *known };
    dn_error e;
    dn_net *n[2];
    dn_param p;
    float x[2][128], prob[2][2 * CLASSES];
    (void)state;
    for (int i = 0; i < 2; i++) { /* kept dense in one, packed in the other */
        const dn_options o = { .train = i, .seed = (uint64_t)i + 5 };
        ok(dn_open(&n[i], path("a.cfg"), &o, &e));
        assert_int_equal(dn_params(n[i], &e), PARAMS);
        ok(dn_predict(n[i], images, 2, prob[i], &e));
    }
    assert_true(memcmp(prob[0], prob[1], sizeof prob[0]) != 0);
    for (int i = 0; i < PARAMS; i++) {
        ok(dn_param_info(n[0], i, &p, &e));
        assert_string_equal(p.name, known[i].name);
        assert_int_equal(p.rank, known[i].rank);
        size_t count = 1;
        for (int k = 0; k < p.rank; k++) {
            assert_int_equal(p.shape[k], known[i].shape[k]);
            count *= (size_t)p.shape[k];
        }
        assert_int_equal(p.count, count);
        assert_int_equal(dn_find_param(n[0], p.name, &e), i);
        for (size_t k = 0; k < count; k++) x[0][k] = (float)((k * 7 + (size_t)i) % 11) / 10;
        ok(dn_set_param(n[0], i, x[0], &e));
        ok(dn_get_param(n[0], i, x[1], &e));
        assert_memory_equal(x[0], x[1], count * sizeof **x);
        ok(dn_set_param(n[1], i, x[1], &e));
    }
    for (int i = 0; i < 2; i++) ok(dn_predict(n[i], images, 2, prob[i], &e));
    for (int k = 0; k < 2 * CLASSES; k++) assert_true(fabsf(prob[0][k] - prob[1][k]) < 1e-5f);
    ok(dn_save(n[0], path("set.weights"), &e)); /* the file begins with them, behind 20 bytes */
    FILE *f = fopen(path("set.weights"), "rb");
    assert_true(f && !fseek(f, 20, SEEK_SET) && fread(x[0], sizeof **x, 6, f) == 6 && !fclose(f));
    ok(dn_get_param(n[1], 0, x[1], &e));
    assert_memory_equal(x[0], x[1], 6 * sizeof **x);

    x[0][1] = NAN;
    refused(dn_set_param(n[0], 4, x[0], &e), DN_NUMBER, "number 1 of its weights is nan");
    x[0][1] = -1;
    refused(dn_set_param(n[0], 3, x[0], &e), DN_NUMBER, "number 1 of its variance is -1");
    refused(dn_set_param(n[0], PARAMS, x[0], &e), DN_ARG, "no parameter 7");
    refused(dn_get_param(n[0], -1, x[0], &e), DN_ARG, "no parameter -1");
    refused(dn_get_param(n[0], 0, NULL, &e), DN_ARG, "NULL");
    refused(dn_find_param(n[0], "0.convolutional.weight", &e), DN_ARG, "0.convolutional.weight:");
    refused(dn_params(NULL, &e), DN_ARG, "no net");
    ok(dn_predict(n[0], images, 2, prob[1], &e));
    assert_memory_equal(prob[0], prob[1], sizeof *prob);
    for (int i = 0; i < 2; i++) dn_close(n[i]);
}

static void data_files_are_checked(void **state)
{
    dn_error e;
    dn_net *n;
    dn_score s;
    (void)state;
    put("colour.cfg", colour_cfg);
    put("four.data", "classes=4\ntrain=t\n");
    put("none.data", "classes=3\ntrain=no/such.list\nlabels=no.list\n");
    const dn_options train = { .train = 1 };
    const dn_training many = { .workers = -1 };
    const dn_validation few = { .workers = -2 };
    ok(dn_open(&n, path("colour.cfg"), NULL, &e));
    refused(dn_train(n, path("none.data"), NULL, &e), DN_ARG, "opened for inference");
    put("three.data", "classes=3\ntrain=t\n");
    refused(dn_validate(n, path("three.data"), NULL, &s, &e), DN_CFG, "no valid=");
    refused(dn_validate(n, path("none.data"), NULL, NULL, &e), DN_ARG, "NULL");
    refused(dn_validate(n, path("none.data"), &few, &s, &e), DN_ARG, "dn_validate: workers=-2");
    dn_close(n);
    ok(dn_open(&n, path("colour.cfg"), &train, &e));
    refused(dn_train(n, path("four.data"), NULL, &e), DN_CFG, "classes=4");
    refused(dn_train(n, path("none.data"), NULL, &e), DN_FILE, "no.list");
    refused(dn_train(n, path("none.data"), &many, &e), DN_ARG, "workers=-1");
    const dn_training elsewhere = { .name = "../a" }, unnamed = { .name = "" }, root = { .backup = "" };
    refused(dn_train(n, path("none.data"), &elsewhere, &e), DN_ARG, "without a folder");
    refused(dn_train(n, path("none.data"), &unnamed, &e), DN_ARG, "name ''");
    refused(dn_train(n, path("none.data"), &root, &e), DN_ARG, "backup ''");
    refused(dn_train(n, NULL, NULL, &e), DN_ARG, "NULL");
    refused(dn_train(NULL, path("none.data"), NULL, &e), DN_ARG, "no net");
    dn_close(n);
}

static void null_handles_are_fine(void **state)
{
    dn_error e;
    float x[1] = { 0 };
    const dn_batch batch = { x, label, 1 };
    int second = 9, c = 9;
    (void)state;
    dn_close(NULL);
    assert_int_equal(dn_classes(NULL), 0);
    assert_int_equal(dn_input(NULL, &c, NULL, NULL), 0);
    assert_int_equal(c, 0);
    assert_int_equal(dn_rows(NULL, &second), 0);
    assert_int_equal(second, 0);
    assert_int_equal(dn_seen(NULL), 0);
    refused(dn_load(NULL, "a", &e), DN_ARG, "dn_load");
    refused(dn_save(NULL, "a", &e), DN_ARG, "dn_save");
    refused(dn_predict(NULL, x, 1, x, &e), DN_ARG, "dn_predict");
    refused(dn_step(NULL, &batch, NULL, &e), DN_ARG, "dn_step");
    assert_int_equal(dn_load(NULL, NULL, NULL), DN_ARG); /* nor is an error wanted */
    assert_int_equal(dn_open(NULL, NULL, NULL, NULL), DN_ARG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trains_saves_and_loads),   cmocka_unit_test(two_handles_train_alike_and_apart),
        cmocka_unit_test(getters_tell_shapes),      cmocka_unit_test(second_mini_batch_when_itra_asks),
        cmocka_unit_test(errors_come_back_as_text), cmocka_unit_test(loss_without_bounds_is_an_error),
        cmocka_unit_test(images_of_every_kind),     cmocka_unit_test(the_best_come_first),
        cmocka_unit_test(parameters_by_name),       cmocka_unit_test(data_files_are_checked),
        cmocka_unit_test(null_handles_are_fine),    cmocka_unit_test(validation_shows_each_image),
        cmocka_unit_test(read_images_and_scales),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
