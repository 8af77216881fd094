/* What decoding photographs costs: images per second of thread time, for each library that is built in, for
 * decoding alone and up to the square of floats that a network gets. The photographs are made here: 4:2:0,
 * quality 90, noise at every scale; at 500x375 they take about 100 kB, as ImageNet's do. The contenders take
 * turns photograph by photograph, so that a change in the machine's speed affects them all.
 *
 *   decode ROUNDS      lines "DECODER full|scaled WIDTHxHEIGHT SIDE DECODED INPUT"; needs TURBOJPEG=1 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <turbojpeg.h>
#include "core/mem.h"
#include "core/rng.h"
#include "data/decoder.h"
#include "data/image.h"

enum { PHOTOS = 4, MOST_SIDE = 256, QUALITY = 90, MOST_ROUNDS = 1000, MOST_CONTENDERS = 8 };

/* Pictures of w x h for a network of side x side. */
struct task {
    int w, h, side;
};
static const struct task tasks[] = { { 500, 375, 256 }, { 500, 375, 128 }, { 1600, 1200, 256 } };

/* ---- photographs ---- */

/* Smooth between random values on a grid of `cell` pixels, -1..1. */
static double smooth(uint64_t key, int cell, int x, int y)
{
    int i = x / cell, j = y / cell;
    double u = (double)(x % cell) / cell, v = (double)(y % cell) / cell, corner[4];
    for (int k = 0; k < 4; k++)
        corner[k] = 2 * rng_uniform(key, (uint64_t)(j + k / 2) << 16 | (uint64_t)(i + k % 2)) - 1;
    u = u * u * (3 - 2 * u);
    v = v * v * (3 - 2 * v);
    return (1 - v) * ((1 - u) * corner[0] + u * corner[1]) + v * ((1 - u) * corner[2] + u * corner[3]);
}

/* Colours vary slowly, brightness at every scale down to the pixel. */
static void paint(uint64_t number, const struct task *t, uint8_t *rgb)
{
    uint64_t key = rng_key(1, RNG_SAMPLE, number);
    for (int y = 0; y < t->h; y++)
        for (int x = 0; x < t->w; x++) {
            double light = 128;
            for (int cell = 128, octave = 0; cell; cell /= 2, octave++)
                light += (cell > 1 ? 60. * cell / 128 + 10 : 36) * smooth(key + (uint64_t)octave, cell, x, y);
            for (int k = 0; k < 3; k++) {
                double v = light + 40 * smooth(key + 100 + (uint64_t)k, 64, x, y);
                *rgb++ = (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
            }
        }
}

static int make_photo(uint64_t number, const struct task *t, struct encoded *to)
{
    unsigned char *jpeg = NULL;
    unsigned long n = 0;
    tjhandle tj = tjInitCompress();
    uint8_t *rgb = mem_alloc((size_t)t->w * (size_t)t->h, 3);
    if (!tj || !rgb) return -1;
    paint(number, t, rgb);
    int rc = tjCompress2(tj, rgb, t->w, 0, t->h, TJPF_RGB, &jpeg, &n, TJSAMP_420, QUALITY, 0);
    if (rc) fprintf(stderr, "decode: %s\n", tjGetErrorStr2(tj));
    tjDestroy(tj);
    mem_free(rgb);
    *to = (struct encoded){ "a photograph", jpeg, n, t->w, t->h, NULL };
    return rc;
}

/* ---- contenders ---- */

struct contender {
    const struct decoder *by;
    int shorter;
    double decoded[MOST_ROUNDS], done[MOST_ROUNDS]; /* seconds per image, of each round */
};

/* Of this thread, so that other users of the machine do not count. */
static double cpu_clock(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Decodes, and continues to the network's input as image_decode and the loader do. */
static int take(struct contender *c, const struct encoded *f, int side, int round)
{
    static float x[3 * MOST_SIDE * MOST_SIDE];
    struct raw r = { 0 };
    struct err e;
    double start = cpu_clock();
    int rc = c->by->decode(f, c->shorter, &r, &e);
    c->decoded[round] += cpu_clock() - start;
    uint8_t *planes = rc ? NULL : mem_alloc((size_t)r.w * (size_t)r.h, 3);
    if (planes) {
        raw_planes(&r, 3, planes);
        rc = image_view(VIEW_CENTER, planes, 3, r.w, r.h, side, side, x, &e);
    }
    c->done[round] += cpu_clock() - start;
    mem_free(planes);
    mem_free(r.x);
    return rc || !planes ? -1 : 0;
}

static int by_time(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static double rate(double *seconds, int rounds)
{
    qsort(seconds, (size_t)rounds, sizeof *seconds, by_time);
    return PHOTOS / seconds[rounds / 2];
}

/* Every library but the last can reduce; where no reduction fits, the two ways are the same. */
static int contenders(struct contender *c, const struct task *t)
{
    const struct encoded f = { .w = t->w, .h = t->h };
    int n = 0;
    memset(c, 0, MOST_CONTENDERS * sizeof *c);
    for (int i = 0; decoder_at(i) && n + 2 <= MOST_CONTENDERS; i++) {
        c[n++].by = decoder_at(i);
        if (!decoder_at(i + 1) || jpeg_reduction(&f, t->side) == 1) continue;
        c[n].by = decoder_at(i);
        c[n++].shorter = t->side;
    }
    return n;
}

static int run(const struct task *t, int rounds)
{
    static struct contender c[MOST_CONTENDERS];
    struct encoded photo[PHOTOS];
    int n = contenders(c, t), rc = 0;
    for (int p = 0; p < PHOTOS; p++)
        if (make_photo((uint64_t)p, t, photo + p)) return -1;
    for (int round = 0; round < rounds; round++)
        for (int p = 0; p < PHOTOS; p++)
            for (int i = 0; i < n; i++) rc |= take(c + i, photo + p, t->side, round);
    for (int i = 0; i < n; i++)
        printf("%s %s %dx%d %d %.0f %.0f\n", c[i].by->name, c[i].shorter ? "scaled" : "full", t->w, t->h,
               t->side, rate(c[i].decoded, rounds), rate(c[i].done, rounds));
    for (int p = 0; p < PHOTOS; p++) tjFree((unsigned char *)photo[p].x);
    return rc;
}

int main(int argc, char **argv)
{
    int rounds = argc == 2 ? atoi(argv[1]) : 0;
    if (rounds < 1 || rounds > MOST_ROUNDS) {
        fprintf(stderr, "usage: decode ROUNDS\n");
        return 2;
    }
    for (size_t i = 0; i < sizeof tasks / sizeof *tasks; i++)
        if (run(tasks + i, rounds)) {
            fprintf(stderr, "decode: a photograph cannot be made or decoded\n");
            return 1;
        }
    return 0;
}
