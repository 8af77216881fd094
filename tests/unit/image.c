/* Decoding of every kind, damaged files, resize and crops against numbers worked out by hand. */
#include "test.h"
#include <sys/stat.h>
#include "core/mem.h"
#include "core/rng.h"
#include "data/image.h"
#include "picture.h"

static char folder[64], place[200];

static const char *in(const char *name)
{
    snprintf(place, sizeof place, "%s/%s", folder, name);
    return place;
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

/* Decodes and compares with n = c w h bytes. */
static void expect(const char *name, int c, int w, int h, const uint8_t *want)
{
    struct picture got;
    struct err e;
    ok(image_decode(in(name), &(struct decoding){ .c = c }, &got, &e), &e);
    assert_int_equal(got.w, w);
    assert_int_equal(got.h, h);
    assert_null(got.flaw);
    assert_memory_equal(got.pixels, want, (size_t)(c * w * h));
    mem_free(got.pixels);
}

static void expect_error(const char *name, int code, const char *part)
{
    struct picture got;
    struct err e = { 0 };
    assert_int_equal(image_decode(in(name), &(struct decoding){ .c = 3 }, &got, &e), code);
    assert_null(got.pixels);
    assert_non_null(strstr(e.msg, name));
    if (!strstr(e.msg, part)) print_error("%s\n", e.msg);
    assert_non_null(strstr(e.msg, part));
}

static void gray_and_colour(void **state)
{
    (void)state;
    const uint8_t gray[] = { 0, 100, 200, 255 };
    const uint8_t thrice[] = { 0, 100, 200, 255, 0, 100, 200, 255, 0, 100, 200, 255 };
    assert_int_equal(put_png(in("g.png"), 2, 2, 8, 0, gray, 2, NULL, 0), 0);
    expect("g.png", 1, 2, 2, gray);
    expect("g.png", 3, 2, 2, thrice);
    const uint8_t rgb[] = { 255, 0, 0, 0, 255, 0, 0, 0, 255, 10, 20, 30 };
    const uint8_t planes[] = { 255, 0, 0, 10, 0, 255, 0, 20, 0, 0, 255, 30 };
    const uint8_t luma[] = { 76, 150, 29, 18 }; /* .299 R + .587 G + .114 B, rounded */
    assert_int_equal(put_png(in("c.png"), 4, 1, 8, 2, rgb, 12, NULL, 0), 0);
    expect("c.png", 3, 4, 1, planes);
    expect("c.png", 1, 4, 1, luma);
}

static void alpha_is_dropped(void **state)
{
    (void)state;
    const uint8_t rgba[] = { 255, 1, 2, 0, 3, 4, 5, 128 }, planes[] = { 255, 3, 1, 4, 2, 5 };
    assert_int_equal(put_png(in("a.png"), 2, 1, 8, 6, rgba, 8, NULL, 0), 0);
    expect("a.png", 3, 2, 1, planes);
    const uint8_t ga[] = { 9, 0, 200, 77 }, g[] = { 9, 200 };
    assert_int_equal(put_png(in("ga.png"), 2, 1, 8, 4, ga, 4, NULL, 0), 0);
    expect("ga.png", 1, 2, 1, g);
}

static void palettes(void **state)
{
    (void)state;
    const uint8_t colors[] = { 10, 20, 30, 40, 50, 60, 70, 80, 90 }, at[] = { 2, 0, 1 };
    const uint8_t planes[] = { 70, 10, 40, 80, 20, 50, 90, 30, 60 };
    assert_int_equal(put_png(in("p.png"), 3, 1, 8, 3, at, 3, colors, 3), 0);
    expect("p.png", 3, 3, 1, planes);
    const uint8_t bits[] = { 0xa0 }, white[] = { 255, 0, 255 }; /* one bit a pixel */
    assert_int_equal(put_png(in("b.png"), 3, 1, 1, 0, bits, 1, NULL, 0), 0);
    expect("b.png", 1, 3, 1, white);
}

static void sixteen_bits_are_rounded(void **state)
{
    (void)state;
    /* 16 bit v becomes v * 255 / 65535 rounded: 0x00ff = 255 -> 0.99 -> 1, where cutting would give 0 */
    const uint8_t row[] = { 0, 0, 0, 255, 0x80, 0, 255, 255, 0xfe, 0xff }, want[] = { 0, 1, 128, 255, 254 };
    assert_int_equal(put_png(in("d.png"), 5, 1, 16, 0, row, 10, NULL, 0), 0);
    expect("d.png", 1, 5, 1, want);
    const char pnm[] = "P5 5 1 65535\n\0\0\0\xff\x80\0\xff\xff\xfe\xff";
    assert_int_equal(put_bytes(in("d.pgm"), pnm, sizeof pnm - 1), 0);
    expect("d.pgm", 1, 5, 1, want);
}

static void pnm_of_any_maximum(void **state)
{
    (void)state;
    const char p5[] = "P5\n# a comment\n3 1 # more\n15\n\0\x0f\x07", p6[] = "P6 1 2 255 \1\2\3\4\5\6";
    const uint8_t g[] = { 0, 255, 119 }, c[] = { 1, 4, 2, 5, 3, 6 };
    assert_int_equal(put_bytes(in("m.pgm"), p5, sizeof p5 - 1), 0);
    expect("m.pgm", 1, 3, 1, g);
    assert_int_equal(put_bytes(in("m.ppm"), p6, sizeof p6 - 1), 0);
    expect("m.ppm", 3, 1, 2, c);
}

static void damaged_files_are_errors(void **state)
{
    (void)state;
    uint8_t row[300], *whole = NULL;
    for (int i = 0; i < 300; i++) row[i] = (uint8_t)(i * 37);
    expect_error("missing.png", E_FILE, "no such file");
    assert_int_equal(mkdir(in("dir.png"), 0777), 0);
    expect_error("dir.png", E_FILE, "folder");
    assert_int_equal(mkfifo(in("pipe.png"), 0600), 0);
    expect_error("pipe.png", E_FILE, "is not a regular file");
    assert_int_equal(put_text(in("zero.png"), ""), 0);
    expect_error("zero.png", E_FORMAT, "empty");
    assert_int_equal(put_text(in("text.png"), "just a line of text, which is no image at all\n"), 0);
    expect_error("text.png", E_FORMAT, "not an image");
    assert_int_equal(put_png(in("whole.png"), 10, 10, 8, 2, row, 30, NULL, 0), 0);
    FILE *f = fopen(in("whole.png"), "rb");
    assert_non_null(f);
    whole = calloc(1, 4096);
    size_t n = fread(whole, 1, 4096, f);
    fclose(f);
    for (size_t cut = 1; cut + 12 < n; cut += 7) { /* the last 12 bytes are only the end mark */
        assert_int_equal(put_bytes(in("cut.png"), whole, cut), 0);
        expect_error("cut.png", E_FORMAT, "cut.png");
    }
    free(whole);
    assert_int_equal(put_text(in("cut.ppm"), "P6 2 2 255\n12345678901"), 0);
    expect_error("cut.ppm", E_FORMAT, "truncated");
    assert_int_equal(put_text(in("bad.pgm"), "P5 2 2 70000\n1234"), 0);
    expect_error("bad.pgm", E_FORMAT, "header");
}

/* An uncompressed 24 bit BMP: stb_image itself fills what is missing without a word. */
static void short_bmp_is_an_error(void **state)
{
    (void)state;
    uint8_t bmp[54 + 4 * 12] = { 'B', 'M', 54 + 48, 0, 0, 0, 0, 0, 0, 0, 54, 0, 0, 0, 40,
                                 0,   0,   0,       4, 0, 0, 0, 4, 0, 0, 0,  1, 0, 24 };
    for (size_t i = 54; i < sizeof bmp; i++) bmp[i] = 7;
    uint8_t want[48];
    memset(want, 7, sizeof want);
    assert_int_equal(put_bytes(in("a.bmp"), bmp, sizeof bmp), 0);
    expect("a.bmp", 3, 4, 4, want);
    assert_int_equal(put_bytes(in("b.bmp"), bmp, sizeof bmp - 5), 0);
    expect_error("b.bmp", E_FORMAT, "truncated");
}

/* stb_image 2.27 writes beyond its tables when a JPEG has more than 256 codes in one. */
/* As Windows writes what it captures: the rows go from top to bottom where the height is negative. */
static void bmp_from_the_top(void **state)
{
    (void)state;
    static const uint8_t row[2][8] = { { 1, 2, 3, 4, 5, 6 }, { 7, 8, 9, 10, 11, 12 } }; /* BGR, padded */
    static const uint8_t want[] = { 3, 6, 9, 12, 2, 5, 8, 11, 1, 4, 7, 10 };
    for (int down = 0; down < 2; down++) {
        uint8_t b[54 + 16] = {
            [0] = 'B', 'M', [10] = 54, [14] = 40, [18] = 2, [22] = 2, [26] = 1, [28] = 24
        };
        if (down) memset(b + 22, 0xff, 4), b[22] = 0xfe;
        for (int y = 0; y < 2; y++) memcpy(b + 54 + 8 * (down ? y : 1 - y), row[y], 8);
        assert_int_equal(put_bytes(in("a.bmp"), b, sizeof b), 0);
        expect("a.bmp", 3, 2, 2, want);
    }
}

static void png_with_wrong_checksums(void **state)
{
    (void)state;
    static const uint8_t gray[] = { 9, 8, 7, 6 };
    uint8_t bytes[200];
    assert_int_equal(put_png(in("a.png"), 2, 2, 8, 0, gray, 2, NULL, 0), 0);
    FILE *f = fopen(in("a.png"), "rb");
    assert_non_null(f);
    size_t n = fread(bytes, 1, sizeof bytes, f);
    assert_int_equal(fclose(f), 0);
    bytes[32] ^= 1; /* of the header, whose chunk begins at 8 */
    assert_int_equal(put_bytes(in("b.png"), bytes, n), 0);
    expect_error("b.png", E_FORMAT, "the checksum of IHDR is wrong");
    bytes[32] ^= 1;
    bytes[n - 12 - 1] ^= 1; /* before the last chunk, of 12 bytes */
    assert_int_equal(put_bytes(in("b.png"), bytes, n), 0);
    expect_error("b.png", E_FORMAT, "the checksum of IDAT is wrong");
}

/* Whatever the name says. */
static void foreign_kinds_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *head;
        size_t n;
        const char *name;
    } kinds[] = { { "RIFF\x10\0\0\0WEBPVP8 ....", 20, "a WebP image" },
                  { "II*\0\x08\0\0\0\0\0", 10, "a TIFF image" },
                  { "MM\0*\0\0\0\x08\0\0", 10, "a TIFF image" },
                  { "\0\0\0\x20"
                    "ftypavif",
                    12, "an AVIF image: convert it to JPEG or PNG" },
                  { "\0\0\0\x20"
                    "ftypheic",
                    12, "a HEIC image: convert it to JPEG or PNG" },
                  { "<!DOCTYPE html>", 15, "a web page: download the image" },
                  { "\xef\xbb\xbf\n<HTML>", 10, "a web page" },
                  { "<?xml version='1.0'?><svg>", 26, "an SVG drawing" },
                  { "<svg xmlns=", 11, "an SVG drawing: convert it" },
                  { "%PDF-1.4", 8, "a PDF document" },
                  { "\x0a\5\1\x08", 4, "a PCX image: convert it to JPEG or PNG" },
                  { "\1\xda\1\1", 4, "an SGI image" },
                  { "8BPS\0\2", 6, "a PSB image" },
                  { "\0\0\1\0\1\0", 6, "an icon (ICO)" },
                  { "\xff\x0a\xfa", 3, "a JPEG XL image" },
                  { "\0\0\0\x0cjP  \r\n\x87\n", 12, "a JPEG 2000 image" },
                  { "\xff\x4f\xff\x51\0", 5, "a JPEG 2000 image" },
                  { "\x1f\x8b\x08", 3, "a gzip archive: unpack it" },
                  { "\0\0\x08\3\0\0\0\1", 8,
                    "an IDX data set (MNIST and the like): it is for train= and valid=" },
                  { "PK\3\4", 4, "a ZIP archive: unpack it" },
                  { "version https://git-lfs.github.com/spec/v1\noid", 46,
                    "a git-lfs pointer: fetch the image by `git lfs pull`" } };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        assert_int_equal(put_bytes(in("a.jpg"), kinds[i].head, kinds[i].n), 0);
        expect_error("a.jpg", E_FORMAT, kinds[i].name);
    }
}

static void overfull_jpeg_tables_are_refused(void **state)
{
    (void)state;
    const uint8_t head[] = { 0xff, 0xd8, 0xff, 0xe0, 0, 6, 0xff, 0xc4, 1, 2, 0xff, 0xc4, 2, 0x55, 0 };
    uint8_t jpeg[700] = { 0 };
    memcpy(jpeg, head, sizeof head);
    memset(jpeg + sizeof head, 36, 16);
    assert_int_equal(put_bytes(in("a.jpg"), jpeg, sizeof jpeg), 0);
    expect_error("a.jpg", E_FORMAT, "Huffman");
    memset(jpeg + sizeof head, 255, 2);
    assert_int_equal(put_bytes(in("b.jpg"), jpeg, sizeof head + 2), 0);
    expect_error("b.jpg", E_FORMAT, "Huffman");
    assert_int_equal(put_bytes(in("c.jpg"), jpeg, sizeof head), 0); /* those in the APP0 segment are none */
    expect_error("c.jpg", E_FORMAT, "is a damaged JPEG image");
}

static void put_png_head(const char *name, uint32_t w, uint32_t h, uint8_t color)
{
    uint8_t png[64] = "\x89PNG\r\n\x1a\n", head[13] = { 0 };
    put_big_endian(head, w);
    put_big_endian(head + 4, h);
    head[8] = 8;
    head[9] = color;
    uint8_t *end = png_chunk(png + 8, "IHDR", head, 13);
    assert_int_equal(put_bytes(in(name), png, (size_t)(end - png)), 0);
}

static void absurd_sizes_are_refused(void **state)
{
    (void)state;
    assert_int_equal(put_text(in("big.pgm"), "P5 60000 60000 255\n"), 0);
    expect_error("big.pgm", E_FORMAT, "2^28");
    assert_int_equal(put_text(in("none.pgm"), "P5 0 5 255\n"), 0);
    expect_error("none.pgm", E_FORMAT, "without pixels");
    put_png_head("big.png", 30000, 30000, 2);
    expect_error("big.png", E_FORMAT, "has 30000 x 30000 pixels, expected at most 2^28 in all");
    put_png_head("none.png", 0, 7, 2);
    expect_error("none.png", E_FORMAT, "without pixels: 0 x 7");
    put_png_head("odd.png", 7, 7, 1); /* no such colour type */
    expect_error("odd.png", E_FORMAT, "is a damaged PNG image, or of a variant that is not supported");
}

static void other_kinds_of_pnm_are_named(void **state)
{
    (void)state;
    const char *kinds[] = { "P1", "P2", "P3", "P4", "P7" };
    for (int i = 0; i < 5; i++) {
        char text[40], part[80];
        snprintf(text, sizeof text, "%s\n2 1\n255\n0 1 0 1 0 1\n", kinds[i]);
        snprintf(part, sizeof part, "is a PNM image of kind %s, expected binary PNM (P5, P6)", kinds[i]);
        assert_int_equal(put_text(in("a.pnm"), text), 0);
        expect_error("a.pnm", E_FORMAT, part);
    }
    assert_int_equal(put_text(in("a.pnm"), "P3x is no image"), 0);
    expect_error("a.pnm", E_FORMAT, "binary PNM (P5, P6))");
}

static void near(const float *x, const double *want, int n)
{
    for (int i = 0; i < n; i++) assert_float_equal(x[i], (float)want[i], 1e-6f);
}

static void resize_is_corner_aligned(void **state)
{
    (void)state;
    const uint8_t x[] = { 0, 5, 10, 2, 4, 6 }, line[] = { 10, 10, 10, 10, 10, 10, 10 };
    float y[300];
    const double want[] = { 0, .25, .5, .75, 1, .1, .275, .45, .625, .8, .2, .3, .4, .5, .6 };
    assert_int_equal(image_resize(x, area_whole(3, 2), 1, 10, y, area_whole(5, 3), NULL), OK);
    near(y, want, 15);
    assert_int_equal(image_resize(x, area_whole(3, 2), 1, 1, y, area_whole(3, 2), NULL), OK);
    for (int i = 0; i < 6; i++) assert_true(y[i] == x[i]);
    /* every height keeps its last row, whatever the rounding */
    for (int h = 2; h < 300; h++) {
        assert_int_equal(image_resize(line, area_whole(1, 7), 1, 10, y, area_whole(1, h), NULL), OK);
        for (int i = 0; i < h; i++) assert_true(fabsf(y[i] - 1) < 1e-6f);
    }
}

/* By another way: every pixel cut into w x h equal parts, the parts of each output added up. */
static void check_area(int iw, int ih, int w, int h)
{
    uint8_t from[2 * 64], to[2 * 256];
    for (int i = 0; i < 2 * iw * ih; i++) from[i] = (uint8_t)(rng_bits(7, (uint64_t)i) >> 56);
    image_resize_area(from, 2, iw, ih, to, w, h);
    for (int i = 0; i < 2 * w * h; i++) {
        const uint8_t *p = from + i / (w * h) * iw * ih;
        int x = i % w, y = i / w % h, sum = 0, parts = iw * ih;
        for (int part = 0; part < parts; part++) {
            int at_x = (x * iw + part % iw) / w, at_y = (y * ih + part / iw) / h;
            sum += p[at_y * iw + at_x];
        }
        assert_int_equal(to[i], (2 * sum + parts) / (2 * parts));
    }
}

static void area_is_exact(void **state)
{
    (void)state;
    const uint8_t edge[] = { 0, 1, 1, 2, 255, 254 };
    uint8_t out[6];
    image_resize_area(edge, 1, 6, 1, out, 3, 1);
    assert_memory_equal(out, "\1\2\377", 3); /* .5 goes up: 0.5, 1.5, 254.5 */
    image_resize_area(edge, 1, 3, 2, out, 1, 1);
    assert_int_equal(out[0], 86); /* 513 / 6 = 85.5 */
    image_resize_area(edge, 1, 3, 2, out, 3, 2);
    assert_memory_equal(out, edge, 6);
    for (int side = 1; side <= 8; side++)
        for (int to = 1; to <= 9; to++) check_area(side, 9 - side, to, 10 - to);
    check_area(8, 8, 16, 16);
    check_area(1, 1, 5, 3);
}

static void center_takes_the_middle(void **state)
{
    (void)state;
    const uint8_t p[] = { 0, 51, 102, 153, 204, 255, 1, 2 }; /* 4 x 2 */
    float x[8];
    const double square[] = { .2, .4, 1, 1 / 255. }, exact[] = { 0, .2, .4, .6, .8, 1, 1 / 255., 2 / 255. };
    assert_int_equal(image_view(VIEW_CENTER, p, 1, 4, 2, 2, 2, x, NULL), OK);
    near(x, square, 4);
    assert_int_equal(image_view(VIEW_CENTER, p, 1, 4, 2, 4, 2, x, NULL), OK);
    near(x, exact, 8);
    /* a crop of the network's shape: 1 x 2 of 4 x 2, 4 x 1 of 4 x 2 */
    const double tall[] = { .2, 1 }, flat[] = { 0, .2, .4, .6 };
    assert_int_equal(image_view(VIEW_CENTER, p, 1, 4, 2, 1, 2, x, NULL), OK);
    near(x, tall, 2);
    assert_int_equal(image_view(VIEW_CENTER, p, 1, 4, 2, 4, 1, x, NULL), OK);
    near(x, flat, 4);
}

static void letterbox_keeps_the_shape(void **state)
{
    (void)state;
    const uint8_t p[] = { 0, 255, 255, 0, 0, 255, 255, 0 }; /* 4 x 2 */
    float x[16];
    const double want[] = { .5, .5, .5, .5, 0, 1, 1, 0, 0, 1, 1, 0, .5, .5, .5, .5 };
    assert_int_equal(image_view(VIEW_LETTERBOX, p, 1, 4, 2, 4, 4, x, NULL), OK);
    near(x, want, 16);
    const double across[] = { .5, 0, .5, .5, 0, .5 }; /* 1 x 2 into 3 x 2 */
    const uint8_t column[] = { 0, 0 };
    assert_int_equal(image_view(VIEW_LETTERBOX, column, 1, 1, 2, 3, 2, x, NULL), OK);
    near(x, across, 6);
}

/* Corners, the middle, and mirrored: of a map of 32 more pixels each way. */
static void crops_are_of_a_larger_map(void **state)
{
    (void)state;
    enum { W = 3, H = 2, LARGE_W = W + VIEW_MARGIN, LARGE_H = H + VIEW_MARGIN };
    static uint8_t p[LARGE_W * LARGE_H]; /* already of that size: resizing changes nothing */
    for (int i = 0; i < LARGE_W * LARGE_H; i++) p[i] = (uint8_t)(i * 7);
    static const int left[] = { 0, 32, 0, 32, 16 }, top[] = { 0, 0, 32, 32, 16 };
    for (int k = 0; k < 10; k++) {
        float x[W * H];
        double want[W * H];
        for (int i = 0; i < W * H; i++) {
            int across = k < 5 ? i % W : W - 1 - i % W;
            want[i] = p[(top[k % 5] + i / W) * LARGE_W + left[k % 5] + across] / 255.;
        }
        assert_int_equal(image_view((enum view)(VIEW_CROPS + k), p, 1, LARGE_W, LARGE_H, W, H, x, NULL), OK);
        near(x, want, W * H);
    }
    float x[4];
    const uint8_t wide[] = { 0, 51, 102, 153 };
    const double whole[] = { 0, .6, 0, .6 };
    assert_int_equal(image_view(VIEW_WHOLE, wide, 1, 4, 1, 2, 2, x, NULL), OK);
    near(x, whole, 4);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(gray_and_colour),
        CASE(alpha_is_dropped),
        CASE(palettes),
        CASE(sixteen_bits_are_rounded),
        CASE(pnm_of_any_maximum),
        CASE(damaged_files_are_errors),
        CASE(short_bmp_is_an_error),
        CASE(bmp_from_the_top),
        CASE(png_with_wrong_checksums),
        CASE(foreign_kinds_are_named),
        CASE(overfull_jpeg_tables_are_refused),
        CASE(absurd_sizes_are_refused),
        CASE(other_kinds_of_pnm_are_named),
        CASE(resize_is_corner_aligned),
        CASE(area_is_exact),
        CASE(center_takes_the_middle),
        CASE(letterbox_keeps_the_shape),
        CASE(crops_are_of_a_larger_map),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
