/* Writes what the loader is timed on: PNG files of 64x64 with a list of them, and packed sets with images of
 * the size of Fashion-MNIST's and CIFAR's.
 *
 *   pictures FOLDER COUNT       FOLDER must exist; writes png.data, packed.data and cifar.data into it */
#include "core/rng.h"
#include "unit/picture.h"

enum { SIDE = 64, PACKED = 28, PACKED_COUNT = 10000 };

static const char *const names[] = { "stripes", "checks" }; /* the classes, found in the paths */

/* Smooth waves with some noise: compresses about as well as a photograph does. */
static int put_picture(const char *path, int number)
{
    static uint8_t row[SIDE * SIDE * 3];
    uint64_t key = rng_key(1, RNG_SAMPLE, (uint64_t)number);
    double fx = .5 * rng_uniform(key, 0), fy = number % 2 ? .5 * rng_uniform(key, 1) : 0;
    for (int i = 0; i < SIDE * SIDE * 3; i++) {
        double wave = 100 * sin(fx * (i / 3 % SIDE) + i % 3) * cos(fy * (i / 3 / SIDE));
        row[i] = (uint8_t)(128 + wave + 12 * rng_uniform(key, 2 + (uint64_t)i));
    }
    return put_png(path, SIDE, SIDE, 8, 2, row, SIDE * 3, NULL, 0);
}

static int put_pictures(const char *folder, int count)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/png.list", folder);
    FILE *list = fopen(path, "w");
    if (!list) return -1;
    int bad = 0;
    for (int i = 0; i < count && !bad; i++) {
        snprintf(path, sizeof path, "%s/%s_%d.png", folder, names[i % 2], i);
        bad = put_picture(path, i);
        fprintf(list, "%s\n", path);
    }
    return fclose(list) || bad ? -1 : 0;
}

static int put_fashion(const char *folder)
{
    const uint32_t dim[] = { PACKED_COUNT, PACKED, PACKED };
    size_t n = (size_t)PACKED_COUNT * PACKED * PACKED;
    char path[1024];
    uint8_t *bytes = malloc(n);
    if (!bytes) return -1;
    for (size_t i = 0; i < n; i++) bytes[i] = (uint8_t)rng_below(2, i, 256);
    snprintf(path, sizeof path, "%s/train-images-idx3-ubyte", folder);
    int bad = put_idx(path, 3, dim, bytes, n);
    for (size_t i = 0; i < PACKED_COUNT; i++) bytes[i] = (uint8_t)(i % 10);
    snprintf(path, sizeof path, "%s/train-labels-idx1-ubyte", folder);
    bad |= put_idx(path, 1, dim, bytes, PACKED_COUNT);
    free(bytes);
    return bad;
}

/* One batch of CIFAR-10. */
static int put_cifar(const char *folder)
{
    enum { RECORD = 1 + 3 * 32 * 32 };
    char path[1024];
    size_t n = (size_t)PACKED_COUNT * RECORD;
    uint8_t *bytes = malloc(n);
    if (!bytes) return -1;
    for (size_t i = 0; i < n; i++) bytes[i] = (uint8_t)rng_below(3, i, i % RECORD ? 256 : 10);
    snprintf(path, sizeof path, "%s/data_batch_1.bin", folder);
    int bad = put_bytes(path, bytes, n);
    free(bytes);
    return bad;
}

static int put_data_files(const char *folder)
{
    char path[1024], text[4096];
    snprintf(path, sizeof path, "%s/png.names", folder);
    snprintf(text, sizeof text, "%s\n%s\n", names[0], names[1]);
    if (put_text(path, text)) return -1;
    snprintf(path, sizeof path, "%s/png.data", folder);
    snprintf(text, sizeof text, "classes=2\ntrain=%s/png.list\nlabels=%s/png.names\n", folder, folder);
    if (put_text(path, text)) return -1;
    snprintf(path, sizeof path, "%s/packed.data", folder);
    snprintf(text, sizeof text, "classes=10\ntrain=%s/train-images-idx3-ubyte\n", folder);
    if (put_text(path, text)) return -1;
    snprintf(path, sizeof path, "%s/cifar.data", folder);
    snprintf(text, sizeof text, "classes=10\ntrain=%s/data_batch_1.bin\n", folder);
    return put_text(path, text);
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: pictures FOLDER COUNT\n");
        return 2;
    }
    if (put_pictures(argv[1], atoi(argv[2])) || put_fashion(argv[1]) || put_cifar(argv[1]) ||
        put_data_files(argv[1])) {
        fprintf(stderr, "pictures: %s: cannot be written\n", argv[1]);
        return 1;
    }
    return 0;
}
