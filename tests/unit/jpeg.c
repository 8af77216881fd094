/* JPEGs as cameras and browsers leave them: without an end, with four inks, not upright. The files are those
 * that tests/unit/jpeg/make.py made; run from the top of the tree. */
#include "test.h"
#include <unistd.h>
#include "core/file.h"
#include "core/mem.h"
#include "data/exif.h"
#include "data/image.h"
#include "data/jpeg.h"
#include "picture.h"

enum { FORMS = 7, MOST = 4096 };
static const char *const form[FORMS] = { "444", "422", "420", "progressive", "turned", "gray", "cmyk" };

struct bytes {
    uint8_t x[MOST];
    size_t n;
};

static struct bytes load(const char *name)
{
    char path[100], *x;
    struct bytes b;
    struct err e;
    snprintf(path, sizeof path, "tests/unit/jpeg/%s.jpg", name);
    ok(file_load(path, MOST - 128, &x, &b.n, &e), &e);
    memcpy(b.x, x, b.n);
    mem_free(x);
    return b;
}

static int decode(const struct bytes *b, int orient, struct picture *to, struct err *e)
{
    char path[64];
    snprintf(path, sizeof path, "/tmp/jpeg-%ld.jpg", (long)getpid());
    assert_int_equal(put_bytes(path, b->x, b->n), 0);
    int rc = image_decode(path, &(struct decoding){ .c = 3, .orient = orient }, to, e);
    remove(path);
    return rc;
}

static struct picture decoded(const struct bytes *b, int orient)
{
    struct picture p;
    struct err e;
    ok(decode(b, orient, &p, &e), &e);
    return p;
}

static void assert_same(struct picture a, struct picture b)
{
    assert_int_equal(a.w, b.w);
    assert_int_equal(a.h, b.h);
    assert_memory_equal(a.pixels, b.pixels, 3 * (size_t)a.w * (size_t)a.h);
}

/* All pixels are there: without an end marker, with half of it, with zeros or a trailer in its place. */
static void the_end_marker_may_be_missing(void **state)
{
    (void)state;
    for (int k = 0; k < FORMS; k++) {
        struct bytes whole = load(form[k]);
        struct picture want = decoded(&whole, 0);
        assert_null(want.flaw);
        for (int how = 0; how < 4; how++) {
            struct bytes cut = whole;
            cut.n -= how == 1 ? 1 : 2;
            memset(cut.x + cut.n, 0, 64);
            if (how == 2) cut.n += 64;
            if (how == 3) cut.n += 2, memcpy(cut.x + cut.n, "trailing bytes", 14), cut.n += 14;
            if (how == 3) cut.x[whole.n - 1] = 0xd9, cut.x[whole.n - 2] = 0xff;
            struct picture got = decoded(&cut, 0);
            assert_same(got, want);
            if (how < 3)
                assert_non_null(got.flaw);
            else
                assert_null(got.flaw); /* what follows the end is nobody's concern */
            mem_free(got.pixels);
        }
        mem_free(want.pixels);
    }
}

static void what_lacks_pixels_is_refused(void **state)
{
    (void)state;
    for (int k = 0; k < FORMS; k++) {
        struct bytes cut = load(form[k]);
        for (size_t n = cut.n - 8; n > 8; n -= 7) {
            struct picture got;
            struct err e;
            cut.n = n;
            assert_int_equal(decode(&cut, 0, &got, &e), E_FORMAT);
            assert_null(got.pixels);
        }
    }
}

/* Takes the segments of a type out. */
static void strip(struct bytes *b, int type)
{
    for (size_t at = 2; b->x[at + 1] != 0xda;) {
        size_t n = 2 + (size_t)b->x[at + 2] * 256 + b->x[at + 3];
        if (b->x[at + 1] != type) {
            at += n;
            continue;
        }
        memmove(b->x + at, b->x + at + n, b->n - at - n);
        b->n -= n;
    }
}

/* Four components without the marker that says so are inks all the same, inverted as everybody writes them.
 */
static void inks_need_no_marker(void **state)
{
    (void)state;
    struct bytes b = load("cmyk");
    assert_int_equal(jpeg_inspect(b.x, b.n).components, 4);
    assert_true(jpeg_inspect(b.x, b.n).adobe);
    struct picture want = decoded(&b, 0);
    strip(&b, 0xee);
    assert_false(jpeg_inspect(b.x, b.n).adobe);
    struct picture got = decoded(&b, 0);
    assert_same(got, want);
    mem_free(got.pixels);
    b.n -= 2; /* both at once */
    got = decoded(&b, 0);
    assert_non_null(got.flaw);
    assert_same(got, want);
    mem_free(got.pixels);
    mem_free(want.pixels);
}

/* The pixel (across, down) of an upright image, in one that is stored with orientation v. EXIF 2.3, 4.6.4 A:
 * what the first row and the first column of the stored image are in the upright one. */
static size_t stored_at(int v, int across, int down, int w, int h)
{
    const int right = w - 1 - across, below = h - 1 - down;
    const int row[] = { down, down, below, below, across, right, right, across };
    const int column[] = { across, right, right, across, down, down, below, below };
    return (size_t)row[v - 1] * (size_t)(v > 4 ? h : w) + (size_t)column[v - 1];
}

static void orientations_are_turned(void **state)
{
    (void)state;
    struct bytes plain = load("444");
    struct picture p = decoded(&plain, 1);
    for (int v = 1; v <= 8; v++)
        for (int little = 0; little < 2; little++) {
            const uint8_t big[] = "\xff\xe1\0\x22"
                                  "Exif\0\0"
                                  "MM\0*\0\0\0\x08\0\1\x01\x12\0\3\0\0\0\1\0v\0\0\0\0\0\0";
            const uint8_t small[] = "\xff\xe1\0\x22"
                                    "Exif\0\0"
                                    "II*\0\x08\0\0\0\1\0\x12\x01\3\0\1\0\0\0v\0\0\0\0\0\0\0";
            enum { SEGMENT = 36 };
            struct bytes b = plain;
            memmove(b.x + 2 + SEGMENT, b.x + 2, b.n - 2);
            memcpy(b.x + 2, little ? small : big, SEGMENT);
            *(uint8_t *)memchr(b.x + 2, 'v', SEGMENT) = (uint8_t)v;
            b.n += SEGMENT;
            assert_int_equal(jpeg_inspect(b.x, b.n).orientation, v);
            struct picture as_is = decoded(&b, 0), up = decoded(&b, 1);
            assert_same(as_is, p);
            assert_int_equal(up.w, v > 4 ? p.h : p.w);
            assert_int_equal(up.h, v > 4 ? p.w : p.h);
            size_t n = (size_t)p.w * (size_t)p.h;
            for (size_t i = 0; i < 3 * n; i++) {
                int at = (int)(i % n);
                size_t from = stored_at(v, at % up.w, at / up.w, up.w, up.h);
                assert_int_equal(up.pixels[i], p.pixels[i - i % n + from]);
            }
            mem_free(as_is.pixels);
            mem_free(up.pixels);
        }
    mem_free(p.pixels);
}

/* To be turned by 90 degrees, as a TIFF file of either byte order says: the directory has one entry. */
#define TURN_LITTLE "II*\0\10\0\0\0\1\0\x12\1\3\0\1\0\0\0\6\0\0\0\0\0\0\0"
#define TURN_BIG    "MM\0*\0\0\0\10\0\1\1\x12\0\3\0\0\0\1\0\6\0\0\0\0\0\0"
enum { TURN = sizeof TURN_BIG - 1 };

static void other_files_say_it_too(void **state)
{
    (void)state;
    static const char webp[] = "RIFF\60\0\0\0WEBPXYZ \1\0\0\0a\0EXIF\40\0\0\0Exif\0\0" TURN_LITTLE;
    static const uint8_t gray[] = { 10, 20 };
    static const char chunk[] = "\0\0\0\32eXIf" TURN_BIG "\0\0\0"; /* no checksum is needed */
    enum { HEAD = 8 + 25 };
    assert_int_equal(exif_orientation((const uint8_t *)TURN_LITTLE, TURN), 6);
    assert_int_equal(exif_orientation((const uint8_t *)TURN_BIG, TURN), 6);
    for (size_t n = 0; n <= sizeof webp - 1; n++) /* cut off, too */
        assert_int_equal(exif_orientation_of_file((const uint8_t *)webp, n), n < sizeof webp - 1 ? 1 : 6);
    char path[64];
    snprintf(path, sizeof path, "/tmp/jpeg-%ld.png", (long)getpid());
    assert_int_equal(put_png(path, 2, 1, 8, 0, gray, 2, NULL, 0), 0);
    char *x;
    struct bytes b;
    struct err e;
    ok(file_load(path, MOST / 2, &x, &b.n, &e), &e);
    remove(path);
    memcpy(b.x, x, HEAD);
    memcpy(b.x + HEAD, chunk, sizeof chunk);
    memcpy(b.x + HEAD + sizeof chunk, x + HEAD, b.n - HEAD);
    b.n += sizeof chunk;
    mem_free(x);
    for (int orient = 0; orient < 2; orient++) {
        struct picture p = decoded(&b, orient);
        assert_true(p.w == 2 - orient && p.h == 1 + orient && p.askew == !orient);
        assert_true(p.pixels[0] == 10 && p.pixels[1] == 20);
        mem_free(p.pixels);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_end_marker_may_be_missing), cmocka_unit_test(what_lacks_pixels_is_refused),
        cmocka_unit_test(inks_need_no_marker),           cmocka_unit_test(orientations_are_turned),
        cmocka_unit_test(other_files_say_it_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
