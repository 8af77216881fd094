/* Augmentation: exact where it should be, Darknet's geometry and colours against numbers worked out by hand.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "core/rng.h"
#include "data/augment.h"
/* last: cmocka has a macro called fail */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

enum { W = 9, H = 6, C = 3, N = W * H };

static uint8_t pixels[C * 40 * 40];
static float x[C * 40 * 40], y[C * 40 * 40];

static void fill(int n)
{
    for (int i = 0; i < n; i++) pixels[i] = (uint8_t)(rng_bits(3, (uint64_t)i) >> 56);
}

static void unchanged_is_exact(void **state)
{
    (void)state;
    const struct augment a = {
        .w = W, .h = H, .c = C, .min_crop = W, .max_crop = W, .saturation = 1, .exposure = 1
    };
    fill(C * N);
    for (uint64_t key = 0; key < 20; key++) {
        assert_int_equal(augment_image(&a, key, pixels, W, H, x, NULL), 0);
        for (int i = 0; i < C * N; i++) assert_true(x[i] == (float)pixels[i] / 255.f);
    }
}

static void flip_is_an_exact_mirror(void **state)
{
    (void)state;
    const struct augment a = { .w = W, .h = H, .c = C, .min_crop = W, .max_crop = W, .flip = 1 };
    int flips = 0;
    fill(C * N);
    for (uint64_t key = 0; key < 1000; key++) {
        assert_int_equal(augment_image(&a, rng_mix(key), pixels, W, H, x, NULL), 0);
        int flip = x[0] != (float)pixels[0] / 255.f;
        flips += flip;
        for (int r = 0; r < C * H; r++)
            for (int i = 0; i < W; i++)
                assert_true(x[r * W + i] == (float)pixels[r * W + (flip ? W - 1 - i : i)] / 255.f);
    }
    assert_in_range(flips, 420, 580); /* 500, 5 standard deviations */
}

static void normalised_per_channel(void **state)
{
    (void)state;
    const struct augment a = { .w = W, .h = H, .c = C, .mean = { .5, .25, .1 }, .std = { .5, .2, 0 } };
    fill(C * N);
    assert_int_equal(augment_image(&a, 1, pixels, W, H, x, NULL), 0);
    for (int i = 0; i < N; i++) {
        assert_true(fabs((double)x[i] - (pixels[i] / 255. - .5) / .5) < 1e-6);
        assert_true(fabs((double)x[N + i] - (pixels[N + i] / 255. - .25) / .2) < 1e-6);
        assert_true(x[2 * N + i] == (float)pixels[2 * N + i] / 255.f); /* std 0: as it is */
    }
}

static void padded_crops_move_whole_pixels(void **state)
{
    (void)state;
    enum { PAD = 4 };
    const struct augment a = { .w = W, .h = H, .c = C, .pad_crop = PAD };
    int seen[2 * PAD + 1][2 * PAD + 1] = { { 0 } };
    fill(C * N);
    for (uint64_t key = 0; key < 4000; key++) {
        assert_int_equal(augment_image(&a, rng_mix(key), pixels, W, H, x, NULL), 0);
        int fits = 0;
        for (int dy = -PAD; dy <= PAD; dy++)
            for (int dx = -PAD; dx <= PAD; dx++) {
                int same = 1;
                for (int k = 0; same && k < C; k++)
                    for (int j = 0; same && j < H; j++)
                        for (int i = 0; same && i < W; i++) {
                            int in = i + dx >= 0 && i + dx < W && j + dy >= 0 && j + dy < H;
                            float want = in ? (float)pixels[(k * H + j + dy) * W + i + dx] / 255.f : 0;
                            same = x[(k * H + j) * W + i] == want;
                        }
                fits += same;
                seen[dy + PAD][dx + PAD] += same;
            }
        assert_int_equal(fits, 1);
    }
    for (int j = 0; j <= 2 * PAD; j++)
        for (int i = 0; i <= 2 * PAD; i++) assert_in_range(seen[j][i], 14, 90); /* 49 on average */
}

static void padding_wider_than_the_image(void **state)
{
    (void)state;
    const struct augment a = { .w = 3, .h = 2, .c = 1, .pad_crop = 50 };
    fill(6);
    for (uint64_t key = 0; key < 500; key++)
        assert_int_equal(augment_image(&a, key, pixels, 3, 2, x, NULL), 0);
}

static void padded_crops_resize_first(void **state)
{
    (void)state;
    const struct augment a = { .w = 4, .h = 4, .c = 1, .pad_crop = 1 };
    memset(pixels, 200, 64);
    for (uint64_t key = 0; key < 50; key++) {
        assert_int_equal(augment_image(&a, key, pixels, 8, 8, x, NULL), 0);
        for (int i = 0; i < 16; i++) assert_true(x[i] == 0 || x[i] == 200 / 255.f);
    }
}

/* A linear ramp survives bilinear sampling: value = position, so that the map can be read off the result. */
static void ramp(int w, int h, int across)
{
    for (int j = 0; j < h; j++)
        for (int i = 0; i < w; i++) pixels[j * w + i] = (uint8_t)(2 * (across ? i : j));
}

static double at(int w, int i, int j) { return (double)x[j * w + i] * 255 / 2; }

static void scale_follows_the_crop_length(void **state)
{
    (void)state;
    /* 40 x 20 scaled so that the shorter side is 10..20: steps of 20/length pixels, inside the picture */
    const struct augment a = { .w = 10, .h = 10, .c = 1, .min_crop = 10, .max_crop = 20 };
    int lengths[21] = { 0 };
    for (uint64_t key = 0; key < 1000; key++) {
        ramp(40, 20, 1);
        assert_int_equal(augment_image(&a, rng_mix(key), pixels, 40, 20, x, NULL), 0);
        double step = (at(10, 7, 4) - at(10, 2, 4)) / 5, length = 20 / step;
        int n = (int)lround(length);
        assert_true(fabs(length - n) < 1e-3);
        assert_in_range(n, 10, 20);
        lengths[n]++;
        double left = at(10, 0, 4), right = at(10, 8, 4) + step; /* 9 may touch the black outside */
        assert_true(left > -1e-4 && right < 40 - step + 1e-3);
    }
    for (int n = 10; n <= 20; n++) assert_in_range(lengths[n], 45, 140); /* 91 on average */
}

/* With w != h and length = width, either orientation is just covered by a square picture (known fault of
 * Darknet). */
static void rectangles_are_covered(void **state)
{
    (void)state;
    const int sizes[][2] = { { 16, 8 }, { 8, 16 } };
    memset(pixels, 100, sizeof pixels);
    for (int s = 0; s < 2; s++) {
        const struct augment a = {
            .w = sizes[s][0], .h = sizes[s][1], .c = 1, .min_crop = sizes[s][0], .max_crop = 2 * sizes[s][0]
        };
        for (uint64_t key = 0; key < 300; key++) {
            assert_int_equal(augment_image(&a, rng_mix(key), pixels, 32, 32, x, NULL), 0);
            for (int j = 0; j + 1 < a.h; j++) /* the last row and column may blend into the black outside */
                for (int i = 0; i + 1 < a.w; i++) assert_true(fabsf(x[j * a.w + i] - 100 / 255.f) < 1e-5f);
        }
    }
}

static void small_pictures_stay_in_the_middle(void **state)
{
    (void)state;
    const struct augment a = { .w = 12, .h = 12, .c = 1, .min_crop = 4, .max_crop = 4 };
    memset(pixels, 255, 16);
    assert_int_equal(augment_image(&a, 77, pixels, 4, 4, x, NULL), 0);
    for (int j = 0; j < 12; j++)
        for (int i = 0; i < 12; i++)
            assert_true(x[j * 12 + i] == (float)(i >= 4 && i < 8 && j >= 4 && j < 8));
}

static void rotation_stays_within_its_angle(void **state)
{
    (void)state;
    const struct augment a = { .w = 11, .h = 11, .c = 1, .min_crop = 40, .max_crop = 40, .angle = 30 };
    double most = 0;
    for (uint64_t key = 0; key < 500; key++) {
        ramp(40, 40, 1);
        assert_int_equal(augment_image(&a, rng_mix(key), pixels, 40, 40, x, NULL), 0);
        double c = at(11, 6, 5) - at(11, 5, 5);
        ramp(40, 40, 0);
        assert_int_equal(augment_image(&a, rng_mix(key), pixels, 40, 40, x, NULL), 0);
        double s = at(11, 6, 5) - at(11, 5, 5);
        if (fabs(c) + fabs(s) < .5 || at(11, 5, 5) < 2) continue; /* rotated out of the picture */
        double angle = atan2(s, c) * 57.29577951308232;
        assert_true(fabs(angle) < 30 + 1e-2);
        assert_true(fabs(c * c + s * s - 1) < 1e-3);
        most = fmax(most, fabs(angle));
    }
    assert_true(most > 28);
}

static void aspect_stretches_one_way_or_the_other(void **state)
{
    (void)state;
    const struct augment a = { .w = 5, .h = 5, .c = 1, .min_crop = 30, .max_crop = 30, .aspect = 1.5 };
    int wide = 0, n = 0;
    for (uint64_t key = 0; key < 400; key++) {
        ramp(40, 40, 1);
        assert_int_equal(augment_image(&a, rng_mix(key), pixels, 40, 40, x, NULL), 0);
        double across = at(5, 3, 2) - at(5, 2, 2);
        ramp(40, 40, 0);
        assert_int_equal(augment_image(&a, rng_mix(key), pixels, 40, 40, x, NULL), 0);
        double down = at(5, 2, 3) - at(5, 2, 2), aspect = across / down;
        assert_true(aspect > 1 / 1.5 - 1e-3 && aspect < 1.5 + 1e-3);
        wide += aspect < 1;
        n++;
    }
    assert_in_range(wide, n * 37 / 100, n * 63 / 100);
}

static void colour_of(const struct augment *a, uint64_t key, float *r, float *g, float *b)
{
    assert_int_equal(augment_image(a, key, pixels, 1, 1, x, NULL), 0);
    *r = x[0];
    *g = x[1];
    *b = x[2];
}

static void colours_move_in_hsv(void **state)
{
    (void)state;
    float r, g, b;
    for (uint64_t key = 0; key < 400; key++) {
        /* exposure: all channels by one factor, clamped; the others zero or one: the picture as it is */
        const struct augment v = { .w = 1, .h = 1, .c = 3, .exposure = 2 };
        memcpy(pixels, "\x28\x50\x64", 3);
        colour_of(&v, rng_mix(key), &r, &g, &b);
        assert_true(fabsf(g - 2 * r) < 1e-5f && fabsf(b - 2.5f * r) < 1e-5f);
        assert_true(b > 49 / 255.f && b < 201 / 255.f);
        /* saturation: the largest channel stays, the others move away from it by one factor */
        const struct augment s = { .w = 1, .h = 1, .c = 3, .saturation = 1.5 };
        colour_of(&s, rng_mix(key), &r, &g, &b);
        assert_true(fabsf(b - 100 / 255.f) < 1e-6f);
        assert_true(fabsf((b - r) - 3 * (b - g)) < 1e-5f);
        /* hue: the largest and the smallest channel stay as values */
        const struct augment h = { .w = 1, .h = 1, .c = 3, .hue = 1 };
        colour_of(&h, rng_mix(key), &r, &g, &b);
        assert_true(fabsf(fmaxf(r, fmaxf(g, b)) - 100 / 255.f) < 1e-6f);
        assert_true(fabsf(fminf(r, fminf(g, b)) - 40 / 255.f) < 1e-6f);
        /* gray stays gray; black stays black */
        const struct augment all = { .w = 1, .h = 1, .c = 3, .hue = .1, .saturation = 2, .exposure = 2 };
        memset(pixels, 90, 3);
        colour_of(&all, rng_mix(key), &r, &g, &b);
        assert_true(r == g && g == b && r >= 44 / 255.f && r <= 181 / 255.f);
        memset(pixels, 0, 3);
        colour_of(&all, rng_mix(key), &r, &g, &b);
        assert_true(r == 0 && g == 0 && b == 0);
    }
}

static void hue_turns_the_wheel(void **state)
{
    (void)state;
    /* pure red, hue h in [-.1, .1]: red stays 1; green is 6h for h > 0, blue -6h for h < 0 */
    const struct augment a = { .w = 1, .h = 1, .c = 3, .hue = .1 };
    double most = 0, least = 0;
    memcpy(pixels, "\xff\0\0", 3);
    for (uint64_t key = 0; key < 400; key++) {
        float r, g, b;
        colour_of(&a, rng_mix(key), &r, &g, &b);
        assert_true(r == 1 && (g < 1e-6f || b < 1e-6f));
        most = fmax(most, (double)g);
        least = fmax(least, (double)b);
    }
    assert_true(most > .57 && most <= .6 + 1e-6 && least > .57 && least <= .6 + 1e-6);
}

static void one_channel_knows_exposure_only(void **state)
{
    (void)state;
    const struct augment a = { .w = 1, .h = 1, .c = 1, .hue = .5, .saturation = 3 };
    const struct augment v = { .w = 1, .h = 1, .c = 1, .exposure = 4 };
    pixels[0] = 200;
    for (uint64_t key = 0; key < 100; key++) {
        assert_int_equal(augment_image(&a, rng_mix(key), pixels, 1, 1, x, NULL), 0);
        assert_true(x[0] == 200 / 255.f);
        assert_int_equal(augment_image(&v, rng_mix(key), pixels, 1, 1, x, NULL), 0);
        assert_true(x[0] >= 49 / 255.f && x[0] <= 1);
    }
}

/* Twice as wide as high: a quarter of the height is gray above and below, whatever the size of the image; a
 * crop that is half as large as the letterbox shows half of what is there. */
static void letter_boxes(void **state)
{
    (void)state;
    struct augment a = { .w = 8, .h = 8, .c = C, .min_crop = 8, .max_crop = 8, .letter_box = 1 };
    fill(C * 8 * 4);
    for (uint64_t key = 0; key < 20; key++) {
        assert_int_equal(augment_image(&a, key, pixels, 8, 4, x, NULL), 0);
        for (int i = 0; i < C * 64; i++) {
            int k = i / 64, row = i % 64 / 8 - 2, gray = row < 0 || row >= 4;
            float expected = gray ? .5f : (float)pixels[k * 32 + row * 8 + i % 8] / 255.f;
            assert_true(x[i] == expected);
        }
    }
    memset(pixels, 255, C * 40 * 20);
    a.min_crop = a.max_crop = 16;
    a.angle = 180;
    for (uint64_t key = 0; key < 50; key++) {
        int white = 0;
        assert_int_equal(augment_image(&a, key, pixels, 40, 20, x, NULL), 0);
        for (int i = 0; i < 64; i++) {
            assert_true(x[i] > .49999f && x[i] < 1.00001f); /* nothing is black */
            white += x[i] > .99999f;
        }
        assert_in_range(white, 8, 64);
    }
    a.pad_crop = 1;
    assert_int_equal(augment_image(&a, 1, pixels, 40, 20, x, NULL), 0);
    for (int i = 1; i < 7; i++) assert_true(fabs((double)x[8 + 8 * (i % 2) * 5 + i] - .5) < .003);
    assert_true(x[8 * 4 + 4] == 1);
}

/* A quarter of the images; a dot becomes the product of two kernels, which are reflected at the edges. */
static void blurs(void **state)
{
    (void)state;
    struct augment a = { .w = 9, .h = 7, .c = 1, .blur = 3 };
    const double side = exp(-1 / (2 * .8 * .8)), k[2] = { 1 / (1 + 2 * side), side / (1 + 2 * side) };
    int blurred = 0;
    for (uint64_t key = 0; key < 400; key++) {
        memset(x, 0, sizeof x);
        x[3 * 9 + 1] = 1;
        assert_int_equal(augment_blur(&a, rng_mix(key), x, NULL), 0);
        if (x[3 * 9 + 1] == 1) continue;
        blurred++;
        for (int j = 0; j < 7; j++)
            for (int i = 0; i < 9; i++) {
                double across = i == 0 ? 2 * k[1] : i == 1 ? k[0] : i == 2 ? k[1] : 0;
                double down = abs(j - 3) < 2 ? k[abs(j - 3)] : 0;
                assert_true(fabs((double)x[j * 9 + i] - across * down) < 1e-6);
            }
    }
    assert_in_range(blurred, 65, 135);
    a.blur = 31; /* wider than the image; what is of one colour stays so */
    for (uint64_t key = 0; key < 20; key++) {
        for (int i = 0; i < 63; i++) x[i] = .75f;
        assert_int_equal(augment_blur(&a, key, x, NULL), 0);
        for (int i = 0; i < 63; i++) assert_true(fabs((double)x[i] - .75) < 1e-5);
    }
    a.w = a.h = 1;
    for (uint64_t key = 0; key < 20; key++) assert_int_equal(augment_blur(&a, key, x, NULL), 0);
}

static void one_key_one_result(void **state)
{
    (void)state;
    const struct augment a = { .w = 16,
                               .h = 12,
                               .c = 3,
                               .min_crop = 16,
                               .max_crop = 32,
                               .angle = 7,
                               .aspect = 1.3,
                               .hue = .1,
                               .saturation = 1.5,
                               .exposure = 1.5,
                               .flip = 1 };
    fill(3 * 30 * 30);
    assert_int_equal(augment_image(&a, 123, pixels, 30, 30, x, NULL), 0);
    assert_int_equal(augment_image(&a, 123, pixels, 30, 30, y, NULL), 0);
    assert_memory_equal(x, y, 3 * 16 * 12 * sizeof *x);
    assert_int_equal(augment_image(&a, 124, pixels, 30, 30, y, NULL), 0);
    assert_memory_not_equal(x, y, 3 * 16 * 12 * sizeof *x);
    /* a draw that is not made shifts none of the others: without the mirror the rest is the same */
    struct augment b = a;
    b.flip = 0;
    assert_int_equal(augment_image(&b, 123, pixels, 30, 30, y, NULL), 0);
    int mirrored = memcmp(x, y, sizeof *x * 16) != 0;
    for (int i = 0; i < 16; i++) assert_true(x[i] == y[mirrored ? 15 - i : i]);
}

/* ---- images that were reduced ---- */

/* A picture without detail, as planes of w x h: the same view at any size. */
static void paint(uint8_t *to, int w, int h, int white)
{
    for (int j = 0; j < h; j++)
        for (int i = 0; i < w; i++) {
            double u = (i + .5) / w, v = (j + .5) / h;
            to[j * w + i] = (uint8_t)(white ? 255 : 128 + 60 * sin(5 * u + 2 * v) + 60 * cos(6 * v - u));
        }
}

static void half_the_size_is_the_same_view(void **state)
{
    (void)state;
    enum { WIDE = 160, TALL = 120, CROP = 24, OUT = CROP * CROP };
    const struct augment a = { .w = CROP,
                               .h = CROP,
                               .c = 1,
                               .min_crop = CROP,
                               .max_crop = TALL / 2,
                               .angle = 15,
                               .aspect = .9,
                               .flip = 1 };
    static uint8_t picture[WIDE * TALL];
    static float seen[2][2][OUT]; /* white or not, whole or half */
    for (uint64_t key = 0; key < 200; key++) {
        int compared = 0;
        for (int k = 0; k < 4; k++) {
            int w = WIDE >> k % 2, h = TALL >> k % 2;
            paint(picture, w, h, k / 2);
            assert_int_equal(augment_image(&a, rng_mix(key), picture, w, h, seen[k / 2][k % 2], NULL), 0);
        }
        for (int i = 0; i < OUT; i++) {
            if (seen[1][0][i] < 1 || seen[1][1][i] < 1) continue; /* beyond the border */
            compared++;
            assert_true(fabsf(seen[0][0][i] - seen[0][1][i]) < .03f); /* half a pixel of the smaller one */
        }
        assert_true(compared > OUT / 2);
    }
}

/* Steps of one output to the right and down, in pixels of a square image. */
static double step(const struct augment *a, uint64_t key, int side, int down)
{
    for (int i = 0; i < side * side; i++) pixels[i] = (uint8_t)(3 * (down ? i / side : i % side));
    assert_int_equal(augment_image(a, key, pixels, side, side, x, NULL), 0);
    int at = a->h / 2 * a->w + a->w / 2;
    return (double)(x[at] - x[at - (down ? a->w : 1)]) * 255 / 3;
}

static void no_pixel_is_enlarged(void **state)
{
    (void)state;
    struct augment a = { .w = 8, .h = 12, .c = 1, .min_crop = 8, .max_crop = 16, .aspect = 1.4 };
    for (uint64_t k = 0; k < 200; k++) {
        uint64_t key = rng_mix(k);
        int side = augment_shorter(&a, key);
        assert_in_range(side, 12, 40);
        double right = step(&a, key, side, 0), down = step(&a, key, side, 1);
        double least = right < down ? right : down;
        assert_true(least > 1 - 1.5 / side && least < 1 + 1.5 / side); /* sides are whole numbers */
    }
    a.pad_crop = 4;
    assert_int_equal(augment_shorter(&a, 1), 12);
    a = (struct augment){ .w = 32, .h = 32, .c = 3 };
    assert_int_equal(augment_shorter(&a, 1), 32);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unchanged_is_exact),
        cmocka_unit_test(flip_is_an_exact_mirror),
        cmocka_unit_test(normalised_per_channel),
        cmocka_unit_test(padded_crops_move_whole_pixels),
        cmocka_unit_test(padding_wider_than_the_image),
        cmocka_unit_test(padded_crops_resize_first),
        cmocka_unit_test(scale_follows_the_crop_length),
        cmocka_unit_test(rectangles_are_covered),
        cmocka_unit_test(small_pictures_stay_in_the_middle),
        cmocka_unit_test(rotation_stays_within_its_angle),
        cmocka_unit_test(aspect_stretches_one_way_or_the_other),
        cmocka_unit_test(colours_move_in_hsv),
        cmocka_unit_test(hue_turns_the_wheel),
        cmocka_unit_test(one_channel_knows_exposure_only),
        cmocka_unit_test(letter_boxes),
        cmocka_unit_test(blurs),
        cmocka_unit_test(one_key_one_result),
        cmocka_unit_test(half_the_size_is_the_same_view),
        cmocka_unit_test(no_pixel_is_enlarged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
