/* Packed images: the readers of IDX, CIFAR and STL-10. Byte 0 tells which, and whether to resize and to hold
 * out; byte 1 the length of the labels file that the rest starts with, where the format has one. */
#include "fuzz.h"
#include <stdlib.h>
#include "core/mem.h"
#include "data/packed.h"

static const struct packed_kind {
    const char *images, *labels;
    int classes;
} kinds[] = {
    { "t-images-idx3-ubyte", "t-labels-idx1-ubyte", 10 },
    { "t-images-idx3-ubyte", "t-labels-idx2-int", 10 },
    { "data_batch_1.bin", NULL, 10 },
    { "train.bin", NULL, 20 },
    { "train.bin", NULL, 100 },
    { "train_X.bin", "train_y.bin", 10 },
};

static char packed_folder[] = "/tmp/packed-XXXXXX";

static void remove_packed_folder(void) { rmdir(packed_folder); }

/* Labels are found by name, so the files need a folder: one for the whole process. */
static int put_part(char *path, size_t room, const char *name, const uint8_t *bytes, size_t n)
{
    static int made;
    if (!made) {
        if (!mkdtemp(packed_folder)) return -1;
        atexit(remove_packed_folder);
        made = 1;
    }
    snprintf(path, room, "%s/%s", packed_folder, name);
    FILE *f = fopen(path, "wb");
    if (!f) return -1;
    int bad = fwrite(bytes, 1, n, f) != n;
    return fclose(f) || bad ? -1 : 0;
}

static void check_packed(const struct packed *p, const struct packed_options *o)
{
    size_t size = (size_t)p->c * (size_t)p->h * (size_t)p->w * (size_t)p->n;
    const volatile uint8_t *read = p->pixels; /* every pixel must be there */
    assert(p->n > 0 && (!o->pick.held || p->n == o->pick.holdout));
    assert(!o->width || (p->w == o->width && p->h == o->height));
    for (int i = 0; i < p->n; i++) assert(p->label[i] >= 0 && p->label[i] < o->classes);
    for (size_t i = 0; i < size; i++) (void)read[i];
}

int fuzz_packed(const uint8_t *bytes, size_t n)
{
    char images[60], labels[60] = "";
    struct packed p;
    struct err e = { 0 };
    if (n < 2 || n > 1 << 16 || bytes[1] > n - 2) return -1;
    const struct packed_kind *k = &kinds[bytes[0] % (sizeof kinds / sizeof kinds[0])];
    struct packed_options o = { .classes = k->classes };
    size_t split = k->labels ? bytes[1] : 0;
    if (bytes[0] & 64) {
        o.width = 3;
        o.height = 5;
    }
    if (bytes[0] & 128) o.pick = (struct pick){ .holdout = 1, .held = bytes[1] & 1 };
    int bad = k->labels && put_part(labels, sizeof labels, k->labels, bytes + 2, split);
    if (bad || put_part(images, sizeof images, k->images, bytes + 2 + split, n - 2 - split)) return -1;
    int rc = packed_read(&p, images, &o, &e);
    fuzz_check(rc, &e);
    if (!rc) check_packed(&p, &o);
    assert(!rc || (!p.pixels && !p.label));
    packed_free(&p);
    unlink(images);
    if (k->labels) unlink(labels);
    return 0;
}
