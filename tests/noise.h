/* Images of noise as a data set, for whole trainings of nets from tiny.h. */
#ifndef NOISE_H
#define NOISE_H
#include "tiny.h"
#include "data/dataset.h"

struct noise {
    struct data_file *data;
    struct dataset *train, *valid; /* the same images */
};

static inline void noise_put32(FILE *f, uint32_t v)
{
    for (int shift = 24; shift >= 0; shift -= 8) putc((int)(v >> shift & 255), f);
}

/* Writes IDX files, one channel, and noise.data into tiny_folder, which is also the backup folder. */
static inline void noise_put(int images, int side, int classes)
{
    const char *path = tiny_path("noise-images-idx3-ubyte");
    FILE *x = fopen(path, "wb"), *y = fopen(tiny_path("noise-labels-idx1-ubyte"), "wb"),
         *data = fopen(tiny_path("noise.data"), "w");
    assert_true(x && y && data);
    noise_put32(x, 0x803), noise_put32(x, (uint32_t)images);
    noise_put32(x, (uint32_t)side), noise_put32(x, (uint32_t)side);
    for (uint64_t i = 0; i < (uint64_t)(images * side * side); i++)
        putc((int)rng_below(rng_key(1, 1, 1), i, 256), x);
    noise_put32(y, 0x801), noise_put32(y, (uint32_t)images);
    for (int i = 0; i < images; i++) putc(i % classes, y);
    fprintf(data, "classes=%d\ntrain=%s\nvalid=%s\nbackup=%s\n", classes, path, path, tiny_folder);
    assert_true(!fclose(x) && !fclose(y) && !fclose(data));
}

static inline struct noise noise_open(void)
{
    struct noise s;
    struct err e = { 0 };
    ok(data_file_read(&s.data, tiny_path("noise.data"), NULL, &e), &e);
    ok(dataset_open(&s.train, s.data, SPLIT_TRAIN, NULL, &e), &e);
    ok(dataset_open(&s.valid, s.data, SPLIT_VALID, NULL, &e), &e);
    return s;
}

static inline void noise_close(struct noise *s)
{
    dataset_close(s->valid);
    dataset_close(s->train);
    data_file_free(s->data);
}

#endif
