/* The loader: the same bytes whatever the number of workers and wherever it starts; pairs; unreadable images;
 * closing. */
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include "core/mem.h"
#include "core/rng.h"
#include "data/loader.h"
#include "data/mix.h"
#include "picture.h"
/* last: cmocka has a macro called fail */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

enum { SAMPLES = 60, CLASSES = 5, SIDE = 8, PIXELS = SIDE * SIDE };

static char folder[64], said[8192];
static struct err e;

static void say(void *ctx, const char *line)
{
    (void)ctx;
    size_t n = strlen(said);
    snprintf(said + n, sizeof said - n, "%s\n", line);
}
static const struct notes notes = { say, NULL };

/* ---- data sets ---- */

struct fixture {
    struct data_file *file;
    struct dataset *d;
};

static int set_up(void **state)
{
    (void)state;
    said[0] = 0;
    return make_folder(folder, sizeof folder);
}

static int tear_down(void **state)
{
    (void)state;
    return remove_folder(folder);
}

static void open_data(struct fixture *f, const char *what)
{
    char path[200], text[400], label[100] = "";
    for (int k = 0; k < CLASSES; k++) sprintf(label + strlen(label), "c%d\n", k);
    snprintf(path, sizeof path, "%s/l.txt", folder);
    assert_int_equal(put_text(path, label), 0);
    snprintf(text, sizeof text, "classes=%d\nlabels=%s/l.txt\ntrain=%s/%s\nvalid=%s/%s\n", CLASSES, folder,
             folder, what, folder, what);
    snprintf(path, sizeof path, "%s/x.data", folder);
    assert_int_equal(put_text(path, text), 0);
    assert_int_equal(data_file_read(&f->file, path, NULL, &e), OK);
    assert_int_equal(dataset_open(&f->d, f->file, SPLIT_TRAIN, NULL, &e), OK);
}

static void close_data(struct fixture *f)
{
    dataset_close(f->d);
    data_file_free(f->file);
}

/* `n` PGM images of SIDE x SIDE, sample i of class i % CLASSES and of brightness i; from `bad` to `bad_end`
 * there are no files. */
static void make_list(struct fixture *f, int n, int bad, int bad_end)
{
    char path[200];
    uint8_t pgm[11 + PIXELS] = "P5 8 8 255 ";
    FILE *list;
    snprintf(path, sizeof path, "%s/t.list", folder);
    assert_non_null(list = fopen(path, "w"));
    for (int i = 0; i < n; i++) {
        snprintf(path, sizeof path, "%s/%d_c%d.pgm", folder, i, i % CLASSES);
        fprintf(list, "%s\n", path);
        memset(pgm + 11, i, PIXELS);
        pgm[11] = (uint8_t)(255 - i);
        if (i < bad || i >= bad_end) assert_int_equal(put_bytes(path, pgm, sizeof pgm), 0);
    }
    fclose(list);
    open_data(f, "t.list");
}

static void make_packed(struct fixture *f)
{
    static uint8_t pixels[SAMPLES * PIXELS], label[SAMPLES];
    const uint32_t dim[] = { SAMPLES, SIDE, SIDE };
    char path[200];
    for (int i = 0; i < SAMPLES * PIXELS; i++) pixels[i] = (uint8_t)(rng_bits(8, (uint64_t)i) >> 56);
    for (int i = 0; i < SAMPLES; i++) label[i] = (uint8_t)(i % CLASSES);
    snprintf(path, sizeof path, "%s/t-images-idx3", folder);
    assert_int_equal(put_idx(path, 3, dim, pixels, sizeof pixels), 0);
    snprintf(path, sizeof path, "%s/t-labels-idx1", folder);
    assert_int_equal(put_idx(path, 1, dim, label, sizeof label), 0);
    open_data(f, "t-images-idx3");
}

static struct loader_options options(int rows, enum pairing pairing)
{
    return (struct loader_options){
        .seed = 7,
        .rows = rows,
        .training = 1,
        .pairing = pairing,
        .subdivisions = 1,
        .every = 1,
        .workers = 2,
        .augment = { .w = SIDE,
                     .h = SIDE,
                     .c = 1,
                     .min_crop = SIDE,
                     .max_crop = 2 * SIDE,
                     .angle = 10,
                     .exposure = 1.5,
                     .flip = 1,
                     .mean = { .3 },
                     .std = { .4 } },
    };
}

static struct loader *open_loader(const struct fixture *f, const struct loader_options *o)
{
    struct loader *l;
    int rc = loader_open(&l, f->d, o, &notes, &e);
    if (rc) print_error("%s\n", e.msg);
    assert_int_equal(rc, OK);
    return l;
}

static const struct batch *next(struct loader *l)
{
    const struct batch *b;
    int rc = loader_next(l, &b, &e);
    if (rc) print_error("%s\n", e.msg);
    assert_int_equal(rc, OK);
    return b;
}

static uint64_t digest(uint64_t h, const struct batch *b)
{
    h = rng_mix(h ^ b->number);
    h = rng_mix(h ^ ((uint64_t)b->rows << 32 | (uint64_t)b->rows_s1));
    for (int i = 0; i < b->rows; i++)
        h = rng_mix(h ^ ((uint64_t)(uint32_t)b->sample[i] << 32 | (uint32_t)b->label[i]));
    for (int i = 0; b->mixed && i < b->rows * MIXED; i++)
        h = rng_mix(h ^ (uint64_t)b->mixed[i / MIXED].label[i % MIXED] ^
                    (uint64_t)(1e6 * (double)b->mixed[i / MIXED].share[i % MIXED]) << 32);
    for (int i = 0; i < b->rows * PIXELS; i++) {
        uint32_t bits;
        memcpy(&bits, b->x + i, sizeof bits);
        h = rng_mix(h ^ bits);
    }
    return h;
}

/* Digest of batches `from`..`to` - 1. */
static uint64_t run(const struct fixture *f, struct loader_options o, uint64_t start, uint64_t from,
                    uint64_t to)
{
    uint64_t h = 1;
    o.start = start;
    struct loader *l = open_loader(f, &o);
    for (uint64_t n = start; n < to; n++) {
        const struct batch *b = next(l);
        assert_int_equal(b->number, n);
        if (n >= from) h = digest(h, b);
        loader_release(l, b);
    }
    loader_close(l);
    return h;
}

/* ---- the same bytes ---- */

static void same_bytes(const struct fixture *f)
{
    const enum pairing kinds[] = { PAIR_NONE, PAIR_RANDOM, PAIR_CLASS };
    const int workers[] = { 1, 2, 5, 16 };
    for (int k = 0; k < 3; k++)
        for (int every = 1; every <= 3; every += 2) {
            struct loader_options o = options(21, kinds[k]);
            o.every = every;
            o.subdivisions = every == 3 ? 2 : 1;
            o.workers = 1;
            uint64_t whole = run(f, o, 0, 0, 12), end = run(f, o, 0, 5, 12);
            for (int w = 1; w < 4; w++) {
                o.workers = workers[w];
                assert_true(run(f, o, 0, 0, 12) == whole);
                assert_true(run(f, o, 5, 5, 12) == end);
            }
            o.augment.mix = MIX_NONE + (k + every) % 5;
            o.augment.blur = 3;
            o.workers = 1;
            uint64_t mixed = run(f, o, 0, 5, 12);
            o.workers = 5;
            assert_true(run(f, o, 5, 5, 12) == mixed && mixed != end);
            o.augment.mix = o.augment.blur = 0;
            o.seed++;
            assert_true(run(f, o, 0, 0, 12) != whole);
        }
}

static void same_bytes_of_lists(void **state)
{
    (void)state;
    struct fixture f;
    make_list(&f, SAMPLES, 0, 0);
    same_bytes(&f);
    close_data(&f);
}

static void same_bytes_of_packed(void **state)
{
    (void)state;
    struct fixture f;
    make_packed(&f);
    same_bytes(&f);
    close_data(&f);
}

/* Half of the rows are mixed, with shares that are 1 together; their label is that of the largest. */
static void mixed_rows(void **state)
{
    (void)state;
    struct fixture f;
    make_packed(&f);
    for (int mix = MIX_UP; mix <= MIX_CUT_OR_MOSAIC; mix++) {
        struct loader_options o = options(32, PAIR_RANDOM);
        o.augment = (struct augment){ .w = SIDE, .h = SIDE, .c = 1, .mix = mix };
        assert_false(augment_only_moves(&o.augment, SIDE, SIDE));
        struct loader *l = open_loader(&f, &o);
        int mixed = 0, rows = 0;
        for (int k = 0; k < 8; k++) {
            const struct batch *b = next(l);
            for (int i = 0; i < b->rows; i++, rows++) {
                const struct mixed_label *m = &b->mixed[i];
                double sum = 0;
                int parts = 0;
                for (int j = 0; j < MIXED; j++) {
                    assert_true(m->share[j] >= 0);
                    sum += (double)m->share[j];
                    parts += m->share[j] > 0;
                }
                assert_true(fabs(sum - 1) < 1e-6);
                assert_int_equal(b->label[i], mixed_main(m));
                assert_int_equal(m->label[0], f.d->label[b->sample[i]]);
                mixed += parts > 1;
                if (mix == MIX_UP && parts > 1) assert_true(m->share[0] == .5f && m->share[1] == .5f);
                if (mix == MIX_CUT) assert_true(m->share[1] < .65f && (parts == 1 || m->share[1] > .05f));
            }
            loader_release(l, b);
        }
        assert_true(mixed > .4 * rows && mixed < .6 * rows);
        loader_close(l);
    }
    close_data(&f);
}

/* What the loader says of a batch, done by hand, is the batch that it makes. */
static void moves_say_what_the_batch_is(void **state)
{
    (void)state;
    struct fixture f;
    make_packed(&f);
    struct loader_options o = options(7, PAIR_CLASS);
    o.augment.pad_crop = 3;
    o.augment.exposure = 1;
    float mean[4], scale[4];
    augment_normaliser(&o.augment, mean, scale);
    struct loader *made = open_loader(&f, &o), *moved;
    o.moves = 1;
    moved = open_loader(&f, &o);
    for (int k = 0; k < 20; k++) {
        const struct batch *a = next(made), *b = next(moved);
        assert_null(b->x);
        assert_int_equal(a->rows, b->rows);
        assert_memory_equal(a->label, b->label, (size_t)a->rows * sizeof *a->label);
        for (int i = 0; i < a->rows * PIXELS; i++) {
            struct crop m = b->move[i / PIXELS];
            int x = i % SIDE, y = i % PIXELS / SIDE + m.top;
            x = (m.mirror ? SIDE - 1 - x : x) + m.left;
            float v = 0;
            assert_int_equal(m.image, a->sample[i / PIXELS]);
            if (x >= 0 && x < SIDE && y >= 0 && y < SIDE)
                v = (float)f.d->pixels[m.image * PIXELS + y * SIDE + x] / 255.f;
            assert_true(a->x[i] == (v - mean[0]) * scale[0]);
        }
        loader_release(made, a);
        loader_release(moved, b);
    }
    loader_close(made);
    loader_close(moved);
    o.augment.angle = 5; /* padded crops are not turned */
    assert_int_equal(augment_only_moves(&o.augment, SIDE, SIDE), 1);
    o.augment.pad_crop = 0;
    assert_int_equal(augment_only_moves(&o.augment, SIDE, SIDE), 0);
    close_data(&f);
}

static void same_bytes_with_unreadable_images(void **state)
{
    (void)state;
    struct fixture f;
    make_list(&f, 250, 3, 5);
    const enum pairing kinds[] = { PAIR_NONE, PAIR_RANDOM, PAIR_CLASS };
    for (int k = 0; k < 3; k++) {
        struct loader_options o = options(25, kinds[k]);
        o.workers = 1;
        uint64_t whole = run(&f, o, 0, 0, 12), end = run(&f, o, 0, 5, 12);
        o.workers = 5;
        assert_true(run(&f, o, 0, 0, 12) == whole);
        assert_true(run(&f, o, 5, 5, 12) == end);
    }
    close_data(&f);
}

/* ---- what is in a batch ---- */

static void epochs_straddle_batches(void **state)
{
    (void)state;
    struct fixture f;
    make_packed(&f);
    struct loader_options o = options(25, PAIR_RANDOM);
    struct loader *l = open_loader(&f, &o);
    int seen[2][SAMPLES] = { { 0 } };
    for (int n = 0; n < 12; n++) { /* 300 rows: 5 epochs */
        const struct batch *b = next(l);
        assert_int_equal(b->rows_s1, 25);
        assert_int_equal(b->rows, 50);
        for (int i = 0; i < 50; i++) {
            assert_int_equal(b->label[i], f.d->label[b->sample[i]]);
            seen[i >= 25][b->sample[i]]++;
        }
        loader_release(l, b);
    }
    for (int i = 0; i < SAMPLES; i++) {
        assert_int_equal(seen[0][i], 5);
        assert_int_equal(seen[1][i], 5);
    }
    loader_close(l);
    close_data(&f);
}

static void class_pairs(void **state)
{
    (void)state;
    struct fixture f;
    make_packed(&f);
    struct loader_options o = options(16, PAIR_CLASS);
    struct loader *l = open_loader(&f, &o);
    for (int n = 0; n < 50; n++) {
        const struct batch *b = next(l);
        for (int i = 0; i < b->rows_s1; i++) {
            assert_int_equal(b->label[i], b->label[b->rows_s1 + i]);
            assert_int_not_equal(b->sample[i], b->sample[b->rows_s1 + i]);
        }
        loader_release(l, b);
    }
    loader_close(l);
    close_data(&f);
}

/* S1 is the same with and without S2; S2 comes at iterations that `every` divides, and misses no number of
 * its own. */
static void pairs_now_and_then(void **state)
{
    (void)state;
    struct fixture f;
    make_packed(&f);
    struct loader_options o = options(10, PAIR_NONE), p = options(10, PAIR_RANDOM);
    p.subdivisions = 2;
    p.every = 3;
    struct loader *one = open_loader(&f, &o), *two = open_loader(&f, &p);
    int seen[SAMPLES] = { 0 };
    for (int n = 0; n < 36; n++) {
        const struct batch *a = next(one), *b = next(two);
        int paired = (n / 2 + 1) % 3 == 0;
        assert_int_equal(b->rows_s1, 10);
        assert_int_equal(b->rows, paired ? 20 : 10);
        assert_memory_equal(a->sample, b->sample, 10 * sizeof(int));
        assert_memory_equal(a->x, b->x, 10 * PIXELS * sizeof(float));
        for (int i = 10; i < b->rows; i++) seen[b->sample[i]]++;
        loader_release(one, a);
        loader_release(two, b);
    }
    for (int i = 0; i < SAMPLES; i++) assert_int_equal(seen[i], 2); /* 12 paired batches of 10 */
    loader_close(one);
    loader_close(two);
    close_data(&f);
}

static void replacement(void **state)
{
    (void)state;
    struct fixture f;
    make_packed(&f);
    struct loader_options o = options(SAMPLES, PAIR_NONE);
    o.replacement = 1;
    struct loader *l = open_loader(&f, &o);
    const struct batch *b = next(l);
    int seen[SAMPLES] = { 0 }, twice = 0;
    for (int i = 0; i < SAMPLES; i++) twice += seen[b->sample[i]]++ > 0;
    assert_true(twice > 5); /* 22 on average */
    loader_close(l);
    close_data(&f);
}

static void validation_in_order(void **state)
{
    (void)state;
    struct fixture f;
    make_list(&f, 25, 0, 0);
    struct loader_options o = options(10, PAIR_NONE);
    o.training = 0;
    struct loader *l = open_loader(&f, &o);
    int at = 0;
    const struct batch *b;
    while ((b = next(l))) {
        assert_int_equal(b->rows, at < 20 ? 10 : 5);
        assert_int_equal(b->rows_s1, b->rows);
        for (int i = 0; i < b->rows; i++, at++) {
            assert_int_equal(b->sample[i], at);
            assert_int_equal(b->label[i], at % CLASSES);
            float want = ((float)at / 255.f - .3f) * (float)(1 / .4); /* neither cropped nor mirrored */
            for (int k = 1; k < PIXELS; k++) assert_true(b->x[i * PIXELS + k] == want);
        }
        loader_release(l, b);
    }
    assert_int_equal(at, 25);
    assert_null(next(l));
    loader_close(l);
    o.start = 99;
    l = open_loader(&f, &o);
    assert_null(next(l));
    loader_close(l);
    close_data(&f);
}

/* ---- unreadable images ---- */

static void unreadable_in_training(void **state)
{
    (void)state;
    struct fixture f;
    make_list(&f, 250, 3, 5); /* 2 of 250 */
    const enum pairing kinds[] = { PAIR_NONE, PAIR_RANDOM, PAIR_CLASS };
    for (int k = 0; k < 3; k++) {
        struct loader_options o = options(25, kinds[k]);
        struct loader *l = open_loader(&f, &o);
        for (int n = 0; n < 30; n++) { /* 3 epochs */
            const struct batch *b = next(l);
            for (int i = 0; i < b->rows; i++) {
                assert_true(b->sample[i] >= 0 && (b->sample[i] < 3 || b->sample[i] >= 5));
                assert_int_equal(b->label[i], f.d->label[b->sample[i]]);
                if (kinds[k] != PAIR_CLASS || i < b->rows_s1) continue;
                assert_int_equal(b->label[i], b->label[i - b->rows_s1]);
                assert_int_not_equal(b->sample[i], b->sample[i - b->rows_s1]);
            }
            loader_release(l, b);
        }
        assert_int_equal(loader_unreadable(l), 2);
        loader_close(l);
    }
    char *three = strstr(said, "3_c3.pgm: no such file: another image is drawn instead\n");
    assert_non_null(three);
    assert_non_null(strstr(said, "4_c4.pgm: no such file"));
    int lines = 0;
    for (char *p = said; *p; p++) lines += *p == '\n';
    assert_int_equal(lines, 3 * 2); /* each once a loader */
    close_data(&f);
}

static void too_many_unreadable(void **state)
{
    (void)state;
    struct fixture f;
    make_list(&f, 100, 10, 20);
    uint64_t at[2];
    for (int k = 0; k < 2; k++) { /* at the same batch, whatever the number of workers */
        struct loader_options o = options(5, PAIR_NONE);
        o.workers = 1 + 4 * k;
        struct loader *l = open_loader(&f, &o);
        const struct batch *b;
        at[k] = 0;
        while (!loader_next(l, &b, &e)) {
            loader_release(l, b);
            assert_true(++at[k] < 20);
        }
        assert_int_equal(e.code, E_FORMAT);
        assert_non_null(strstr(e.msg, " of 100 images were unreadable so far, expected at most 1 %"));
        assert_int_equal(loader_next(l, &b, &e), E_FORMAT); /* and so it stays */
        assert_null(b);
        loader_close(l);
    }
    assert_int_equal(at[0], at[1]);
    close_data(&f);
}

static void nothing_readable(void **state)
{
    (void)state;
    struct fixture f;
    make_list(&f, 10, 0, 10);
    const enum pairing kinds[] = { PAIR_NONE, PAIR_CLASS };
    for (int k = 0; k < 2; k++) {
        struct loader_options o = options(5, kinds[k]);
        struct loader *l = open_loader(&f, &o);
        const struct batch *b;
        assert_int_equal(loader_next(l, &b, &e), E_FORMAT);
        assert_non_null(strstr(e.msg, "draws in a row gave no readable image; the last: "));
        assert_non_null(strstr(e.msg, "no such file"));
        loader_close(l);
    }
    close_data(&f);
}

static void unreadable_in_validation(void **state)
{
    (void)state;
    struct fixture f;
    make_list(&f, 25, 11, 14);
    struct loader_options o = options(10, PAIR_NONE);
    o.training = 0;
    struct loader *l = open_loader(&f, &o);
    const struct batch *b;
    int at = 0;
    while ((b = next(l))) {
        for (int i = 0; i < b->rows; i++, at++) {
            int bad = at >= 11 && at < 14;
            assert_int_equal(b->sample[i], bad ? -1 - at : at);
            assert_int_equal(b->label[i], at % CLASSES);
            for (int k = 0; bad && k < PIXELS; k++) assert_true(b->x[i * PIXELS + k] == 0);
        }
        loader_release(l, b);
    }
    assert_int_equal(at, 25);
    assert_int_equal(loader_unreadable(l), 3);
    assert_non_null(strstr(said, "11_c1.pgm: no such file: counts as wrong\n"));
    loader_close(l);
    close_data(&f);
}

/* ---- opening, holding, closing ---- */

static void bad_options(void **state)
{
    (void)state;
    struct fixture f;
    make_packed(&f);
    struct loader *l;
    struct loader_options o = options(4, PAIR_NONE);
    o.augment.c = 2;
    assert_int_equal(loader_open(&l, f.d, &o, NULL, &e), E_CFG);
    assert_non_null(strstr(e.msg, "channels=2"));
    o = options(2147483647, PAIR_RANDOM);
    o.augment.w = o.augment.h = 2147483647;
    assert_int_equal(loader_open(&l, f.d, &o, NULL, &e), E_MEM);
    assert_null(l);
    o = options(4, PAIR_NONE);
    o.augment.hue = .1;
    l = open_loader(&f, &o);
    assert_string_equal(said, "channels=1: hue and saturation are ignored\n");
    loader_close(l);
    loader_close(NULL);
    close_data(&f);
}

static void holding_batches(void **state)
{
    (void)state;
    struct fixture f;
    make_packed(&f);
    struct loader_options o = options(10, PAIR_NONE);
    uint64_t want = run(&f, o, 0, 0, 9), h = 1;
    struct loader *l = open_loader(&f, &o);
    for (int n = 0; n < 9; n += 3) { /* three at a time, released the wrong way round */
        const struct batch *b[3];
        for (int i = 0; i < 3; i++) b[i] = next(l);
        for (int i = 0; i < 3; i++) h = digest(h, b[i]);
        for (int i = 2; i >= 0; i--) loader_release(l, b[i]);
    }
    assert_true(h == want);
    loader_close(l);
    close_data(&f);
}

static void close_at_any_moment(void **state)
{
    (void)state;
    struct fixture f;
    make_list(&f, SAMPLES, 0, 0);
    for (int n = 0; n < 40; n++) {
        struct loader_options o = options(1 + n % 7 * 5, n % 2 ? PAIR_CLASS : PAIR_RANDOM);
        o.workers = 1 + n % 4;
        struct loader *l = open_loader(&f, &o);
        for (int i = 0; i < n % 4; i++) {
            const struct batch *b = next(l);
            if (i % 2) loader_release(l, b);
        }
        loader_close(l);
    }
    close_data(&f);
}

struct consumer {
    struct loader *l;
    pthread_mutex_t lock;
    pthread_cond_t started;
    int inside, code;
};

static void *consume(void *arg)
{
    struct consumer *c = arg;
    const struct batch *b;
    struct err mine;
    pthread_mutex_lock(&c->lock);
    c->inside = 1;
    pthread_cond_signal(&c->started);
    pthread_mutex_unlock(&c->lock);
    c->code = loader_next(c->l, &b, &mine);
    return NULL;
}

/* One image that takes its time, a thousand times: the batch will not be ready while this test lasts. */
static void make_slow(struct fixture *f)
{
    enum { BIG = 2500 };
    char path[200], line[201], head[32];
    size_t start = (size_t)sprintf(head, "P5 %d %d 255\n", BIG, BIG), n = start + (size_t)BIG * BIG;
    uint8_t *pgm = calloc(n, 1);
    assert_non_null(pgm);
    memcpy(pgm, head, start);
    snprintf(path, sizeof path, "%s/c0.pgm", folder);
    assert_int_equal(put_bytes(path, pgm, n), 0);
    free(pgm);
    snprintf(line, sizeof line, "%s\n", path);
    snprintf(path, sizeof path, "%s/t.list", folder);
    assert_int_equal(put_text(path, line), 0);
    open_data(f, "t.list");
}

static void close_while_blocked(void **state)
{
    (void)state;
    struct fixture f;
    make_slow(&f);
    struct loader_options o = options(1000, PAIR_NONE);
    struct consumer c = { .inside = 0 };
    pthread_t thread;
    c.l = open_loader(&f, &o);
    assert_int_equal(pthread_mutex_init(&c.lock, NULL), 0);
    assert_int_equal(pthread_cond_init(&c.started, NULL), 0);
    assert_int_equal(pthread_create(&thread, NULL, consume, &c), 0);
    pthread_mutex_lock(&c.lock);
    while (!c.inside) pthread_cond_wait(&c.started, &c.lock);
    pthread_mutex_unlock(&c.lock);
    const struct timespec a_while = { 0, 200000000 }; /* to get from there into loader_next */
    nanosleep(&a_while, NULL);
    loader_close(c.l);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(c.code, E_ARG);
    pthread_mutex_destroy(&c.lock);
    pthread_cond_destroy(&c.started);
    close_data(&f);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(same_bytes_of_lists),
        CASE(same_bytes_of_packed),
        CASE(mixed_rows),
        CASE(moves_say_what_the_batch_is),
        CASE(same_bytes_with_unreadable_images),
        CASE(epochs_straddle_batches),
        CASE(class_pairs),
        CASE(pairs_now_and_then),
        CASE(replacement),
        CASE(validation_in_order),
        CASE(unreadable_in_training),
        CASE(too_many_unreadable),
        CASE(nothing_readable),
        CASE(unreadable_in_validation),
        CASE(bad_options),
        CASE(holding_batches),
        CASE(close_at_any_moment),
        CASE(close_while_blocked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
