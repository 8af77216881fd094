/* The decoders that are built in against stb_image, on the files that tests/unit/jpeg/make.py made and on
 * PNGs of every kind; reduced images; damaged files; and that the loader's bytes do not depend on its
 * workers. Built where TURBOJPEG=1 or OPENCV=1 only; run from the top of the tree. */
#include "test.h"
#include "core/file.h"
#include "core/mem.h"
#include "data/decoder.h"
#include "data/image.h"
#include "data/loader.h"
#include "picture.h"

enum { JPEGS = 7, CMYK = 6, WIDE = 61, TALL = 45 };
static const char *const jpeg[JPEGS] = { "444", "422", "420", "progressive", "turned", "gray", "cmyk" };
static char folder[64];

static const char *in(const char *name)
{
    static char path[200];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static struct encoded load(const char *path)
{
    struct err e;
    char *bytes;
    struct encoded f = { .path = path };
    ok(file_load(path, 1 << 20, &bytes, &f.n, &e), &e);
    f.x = (uint8_t *)bytes;
    ok(encoded_inspect(&f, &e), &e);
    return f;
}

static struct encoded load_jpeg(int i)
{
    char path[100];
    snprintf(path, sizeof path, "tests/unit/jpeg/%s.jpg", jpeg[i]);
    struct encoded f = load(path);
    f.path = jpeg[i];
    assert_int_equal(f.w, WIDE);
    assert_int_equal(f.h, TALL);
    return f;
}

static void destroy(struct encoded *f) { mem_free((void *)f->x); }

/* As planes of RGB; NULL when the decoder passes. */
static uint8_t *planes(const struct decoder *d, const struct encoded *f, int shorter, int *w, int *h)
{
    struct raw r = { 0 };
    struct err e;
    int rc = d->decode(f, shorter, &r, &e);
    if (rc == DECODER_PASSES) {
        assert_null(r.x);
        return NULL;
    }
    ok(rc, &e);
    uint8_t *x = mem_alloc((size_t)r.w * (size_t)r.h, 3);
    assert_non_null(x);
    raw_planes(&r, 3, x);
    mem_free(r.x);
    *w = r.w;
    *h = r.h;
    return x;
}

static const struct decoder *stb(void)
{
    int i = 0;
    while (decoder_at(i + 1)) i++;
    assert_string_equal(decoder_at(i)->name, "stb");
    return decoder_at(i);
}

static int reads_png(const struct decoder *d) { return !strcmp(d->name, "opencv"); }

/* ---- whole images ---- */

static int most_apart(const uint8_t *a, const uint8_t *b, int n)
{
    int most = 0;
    for (int i = 0; i < n; i++)
        if (abs(a[i] - b[i]) > most) most = abs(a[i] - b[i]);
    return most;
}

/* libjpeg and stb_image each have their own rounding in the transform, in what they make of halved chroma and
 * in the conversion to RGB: 2 is what that comes to. */
static void compare_with_stb(const struct encoded *f, int foreign)
{
    int w, h;
    uint8_t *want = planes(stb(), f, 0, &w, &h);
    for (int i = 0; decoder_at(i + 1); i++) {
        uint8_t *got = planes(decoder_at(i), f, 0, &w, &h);
        assert_int_equal(got != NULL, !foreign);
        if (!got) continue;
        assert_true(w == f->w && h == f->h);
        int most = most_apart(got, want, 3 * w * h);
        if (most > 2) print_message("%s: %s and stb_image differ\n", f->path, decoder_at(i)->name);
        assert_in_range(most, 0, 2);
        mem_free(got);
    }
    mem_free(want);
}

static void jpegs_are_stbs(void **state)
{
    (void)state;
    for (int k = 0; k < JPEGS; k++) {
        struct encoded f = load_jpeg(k);
        compare_with_stb(&f, k == CMYK); /* four inks: stb_image's alone */
        destroy(&f);
    }
}

/* Loud colours to the edge, in images that are narrower than what chroma is interpolated from. */
static void narrow_jpegs_are_stbs(void **state)
{
    (void)state;
    for (int k = 0; k < 2; k++)
        for (int w = 1; w <= 7; w++) {
            char path[60];
            snprintf(path, sizeof path, "tests/unit/jpeg/%s-%d.jpg", k ? "422" : "420", w);
            struct encoded f = load(path);
            assert_int_equal(f.w, w);
            compare_with_stb(&f, 0);
            destroy(&f);
        }
}

static void pngs_are_stbs(void **state)
{
    (void)state;
    static const int kind[][3] = { { 0, 1, 1 }, { 0, 8, 8 },  { 0, 16, 16 }, { 2, 8, 24 }, { 2, 16, 48 },
                                   { 3, 8, 8 }, { 4, 8, 16 }, { 4, 16, 32 }, { 6, 8, 32 }, { 6, 16, 64 } };
    enum { W = 24, H = 7 }; /* kind: colour type, bits a sample, bits a pixel */
    uint8_t rows[H * W * 8], palette[768];
    for (size_t i = 0; i < sizeof rows; i++) rows[i] = (uint8_t)(rng_bits(5, i) >> 56);
    for (size_t i = 0; i < sizeof palette; i++) palette[i] = (uint8_t)(rng_bits(6, i) >> 56);
    for (size_t k = 0; k < sizeof kind / sizeof *kind; k++) {
        int color = kind[k][0], w, h;
        assert_int_equal(put_png(in("a.png"), W, H, kind[k][1], color, rows, (size_t)(W * kind[k][2] / 8),
                                 color == 3 ? palette : NULL, 256),
                         0);
        struct encoded f = load(in("a.png"));
        uint8_t *want = planes(stb(), &f, 0, &w, &h);
        for (int i = 0; decoder_at(i + 1); i++) {
            uint8_t *got = planes(decoder_at(i), &f, 3, &w, &h); /* never reduced */
            assert_int_equal(got != NULL, reads_png(decoder_at(i)));
            if (!got) continue;
            assert_true(w == W && h == H);
            assert_memory_equal(got, want, 3 * W * H);
            mem_free(got);
        }
        mem_free(want);
        destroy(&f);
    }
}

/* ---- reduced images ---- */

/* Mean difference between a reduced image and blocks of by x by pixels of the whole one. */
static double unlike(const uint8_t *small, int w, int h, const uint8_t *whole, int by)
{
    double sum = 0;
    int n = 0;
    for (int k = 0; k < 3; k++)
        for (int j = 0; j < TALL / by; j++)
            for (int i = 0; i < WIDE / by; i++, n++) {
                double mean = 0;
                for (int p = 0; p < by * by; p++)
                    mean += whole[(k * TALL + j * by + p / by) * WIDE + i * by + p % by];
                sum += fabs(mean / (by * by) - small[(k * h + j) * w + i]);
            }
    return sum / n;
}

static void reduced_no_further_than_asked(void **state)
{
    (void)state;
    static const int want[][2] = {
        { 46, 1 }, { 45, 1 }, { 24, 1 }, { 23, 2 }, { 13, 2 },
        { 12, 4 }, { 7, 4 },  { 6, 8 },  { 1, 8 },  { 0, 1 }
    }; /* shorter side, reduction of 61x45 */
    for (int k = 0; k < JPEGS - 1; k++) {
        struct encoded f = load_jpeg(k);
        for (int i = 0; decoder_at(i + 1); i++)
            for (size_t q = 0; q < sizeof want / sizeof *want; q++) {
                int w, h, by = want[q][1];
                uint8_t *whole = planes(decoder_at(i), &f, 0, &w, &h);
                uint8_t *got = planes(decoder_at(i), &f, want[q][0], &w, &h);
                assert_non_null(got);
                assert_int_equal(w, (WIDE + by - 1) / by);
                assert_int_equal(h, (TALL + by - 1) / by);
                double far = unlike(got, w, h, whole, by);
                if (far >= 3) print_error("%s, %s, 1/%d: %g\n", decoder_at(i)->name, jpeg[k], by, far);
                assert_true(far < 3);
                mem_free(whole);
                mem_free(got);
            }
        destroy(&f);
    }
}

/* ---- kinds that stb_image does not know ---- */

static void opencv_reads_webp_and_tiff(void **state)
{
    (void)state;
    static const uint8_t tiff[] = {
        'I', 'I', 42, 0, 14, 0, 0, 0, 1, 2, 3, 4, 5, 6,            /* two pixels, then the directory: */
        10,  0,   0,  1, 3,  0, 1, 0, 0, 0, 2, 0, 0, 0,            /* width */
        1,   1,   3,  0, 1,  0, 0, 0, 1, 0, 0, 0,                  /* height */
        2,   1,   3,  0, 1,  0, 0, 0, 8, 0, 0, 0,                  /* bits */
        3,   1,   3,  0, 1,  0, 0, 0, 1, 0, 0, 0,                  /* not compressed */
        6,   1,   3,  0, 1,  0, 0, 0, 2, 0, 0, 0,                  /* RGB */
        17,  1,   4,  0, 1,  0, 0, 0, 8, 0, 0, 0,                  /* where the pixels are */
        18,  1,   3,  0, 1,  0, 0, 0, 6, 0, 0, 0,                  /* orientation: to be turned */
        21,  1,   3,  0, 1,  0, 0, 0, 3, 0, 0, 0,                  /* samples a pixel */
        22,  1,   3,  0, 1,  0, 0, 0, 1, 0, 0, 0,                  /* rows a strip */
        23,  1,   4,  0, 1,  0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0, 0, 0 /* its bytes */
    };
    /* one pixel of RGB 255, 0, 0, without loss */
    static const uint8_t webp[] = { 'R', 'I', 'F',  'F',  28,   0,    0, 0,    'W',  'E',  'B', 'P',
                                    'V', 'P', '8',  'L',  15,   0,    0, 0,    0x2f, 0,    0,   0,
                                    0,   7,   0x10, 0xfd, 0x8f, 0xfe, 7, 0x22, 0xa2, 0xff, 1,   0 };
    static const struct {
        const uint8_t *x;
        size_t n;
        int w, orient;
        uint8_t first[3]; /* pixel */
    } file[] = { { tiff, sizeof tiff, 2, 0, { 1, 2, 3 } },
                 { tiff, sizeof tiff, 1, 1, { 1, 2, 3 } },
                 { webp, sizeof webp, 1, 0, { 255, 0, 0 } } };
    int opencv = decoder_has_opencv();
    for (int i = 0; i < 3; i++) {
        struct picture got;
        struct err e = { 0 };
        assert_int_equal(put_bytes(in("a.jpg"), file[i].x, file[i].n), 0); /* whatever its name */
        int rc = image_decode(in("a.jpg"), &(struct decoding){ .c = 3, .orient = file[i].orient }, &got, &e);
        if (opencv) {
            ok(rc, &e);
            assert_int_equal(got.w, file[i].w);
            for (int k = 0; k < 3; k++) assert_int_equal(got.pixels[k * got.w * got.h], file[i].first[k]);
        } else {
            assert_int_equal(rc, E_FORMAT);
            assert_non_null(strstr(e.msg, "build with OPENCV=1"));
        }
        mem_free(got.pixels);
    }
}

/* ---- damaged files ---- */

static void truncated_files_are_left_to_stb(void **state)
{
    (void)state;
    for (int k = 0; k < JPEGS; k++) {
        struct encoded f = load_jpeg(k), cut = f;
        for (size_t gone = 3; gone < f.n; gone += 11) {
            struct picture got;
            int w, h;
            struct err e = { 0 };
            cut.n = f.n - gone;
            for (int i = 0; decoder_at(i + 1); i++) assert_null(planes(decoder_at(i), &cut, 0, &w, &h));
            assert_int_equal(put_bytes(in("cut.jpg"), f.x, cut.n), 0);
            int rc = image_decode(in("cut.jpg"), &(struct decoding){ .c = 3 }, &got, &e);
            assert_int_equal(rc,
                             gone < 16 && got.flaw ? OK : E_FORMAT); /* its last bits may change nothing */
            mem_free(got.pixels);
        }
        destroy(&f);
    }
}

/* Any wrong byte: a sound image or none, whoever decodes. */
static void garbled_files_do_no_harm(void **state)
{
    (void)state;
    for (int k = 0; k < JPEGS; k++) {
        struct encoded f = load_jpeg(k), bad = f;
        uint8_t *copy = mem_alloc(f.n, 1);
        bad.x = copy;
        for (size_t at = 2; at < f.n; at += 13) {
            memcpy(copy, f.x, f.n);
            copy[at] ^= (uint8_t)(1u << at % 8);
            if (encoded_inspect(&bad, NULL)) continue;
            for (int i = 0; decoder_at(i + 1); i++) {
                int w = 0, h = 0;
                uint8_t *x = planes(decoder_at(i), &bad, at % 3 ? 0 : 20, &w, &h), any = 0;
                for (int p = 0; x && p < 3 * w * h; p++) any |= x[p];
                assert_true(!x || any);
                mem_free(x);
            }
        }
        mem_free(copy);
        destroy(&f);
    }
}

/* ---- the loader ---- */

static void open_files(struct data_file **file, struct dataset **set)
{
    char text[400], list[400] = "";
    struct err e;
    for (int k = 0; k < JPEGS; k++) {
        struct encoded f = load_jpeg(k);
        char name[40];
        snprintf(name, sizeof name, "%s_%s.jpg", jpeg[k], k % 2 ? "odd" : "even");
        assert_int_equal(put_bytes(in(name), f.x, f.n), 0);
        size_t n = strlen(list);
        snprintf(list + n, sizeof list - n, "%s\n", in(name));
        destroy(&f);
    }
    assert_int_equal(put_text(in("t.list"), list), 0);
    assert_int_equal(put_text(in("l.txt"), "even\nodd\n"), 0);
    snprintf(text, sizeof text, "classes=2\nlabels=%s/l.txt\ntrain=%s/t.list\nvalid=%s/t.list\n", folder,
             folder, folder);
    assert_int_equal(put_text(in("x.data"), text), 0);
    ok(data_file_read(file, in("x.data"), NULL, &e), &e);
    ok(dataset_open(set, *file, SPLIT_TRAIN, NULL, &e), &e);
}

enum { SIDE = 16, ROWS = JPEGS, BATCHES = 6, FLOATS = ROWS * 3 * SIDE * SIDE };

static int take(const struct dataset *set, int training, int workers, float *x)
{
    const struct loader_options o = { .seed = 3,
                                      .rows = ROWS,
                                      .training = training,
                                      .workers = workers,
                                      .augment = { .w = SIDE,
                                                   .h = SIDE,
                                                   .c = 3,
                                                   .min_crop = 6, /* every reduction is met */
                                                   .max_crop = 50,
                                                   .angle = 7,
                                                   .flip = 1 } };
    struct loader *l;
    struct err e;
    const struct batch *b;
    int n = 0;
    ok(loader_open(&l, set, &o, NULL, &e), &e);
    for (; n < BATCHES; n++) {
        ok(loader_next(l, &b, &e), &e);
        if (!b) break;
        assert_int_equal(b->rows, ROWS);
        memcpy(x + n * FLOATS, b->x, FLOATS * sizeof *x);
        loader_release(l, b);
    }
    loader_close(l);
    return n;
}

static void workers_make_no_difference(void **state)
{
    (void)state;
    static float one[BATCHES * FLOATS], four[BATCHES * FLOATS];
    struct data_file *file;
    struct dataset *set;
    open_files(&file, &set);
    for (int training = 0; training < 2; training++) {
        int n = take(set, training, 1, one);
        assert_int_equal(n, training ? BATCHES : 1);
        assert_int_equal(take(set, training, 4, four), n);
        assert_memory_equal(one, four, (size_t)(n * FLOATS) * sizeof *one);
    }
    dataset_close(set);
    data_file_free(file);
}

static int set_up(void **state)
{
    (void)state;
    return make_folder(folder, sizeof folder);
}

static int tear_down(void **state)
{
    (void)state;
    return remove_folder(folder);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(jpegs_are_stbs),
        CASE(narrow_jpegs_are_stbs),
        CASE(pngs_are_stbs),
        CASE(reduced_no_further_than_asked),
        CASE(truncated_files_are_left_to_stb),
        CASE(opencv_reads_webp_and_tiff),
        CASE(garbled_files_do_no_harm),
        CASE(workers_make_no_difference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
