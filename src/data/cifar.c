/* CIFAR-10 and CIFAR-100, binary version: one image after the other, its label or labels and then 3 planes of
 * 32x32 bytes, red, green, blue, row by row. */
#include "data/packed.h"
#include "data/stream.h"

enum { CHANNELS = 3, SIDE = 32, PIXELS = CHANNELS * SIDE * SIDE };
enum { MOST_LABELS = 2 };

static int open_file(struct stream *s, const char *path, int labels, int *images, struct err *e)
{
    uint64_t bytes, record = (uint64_t)labels + PIXELS;
    TRY(stream_open(s, path, e));
    TRY(stream_length(s, &bytes, e));
    *images = (int)(bytes / record);
    if (bytes && bytes % record == 0) return OK;
    return fail_at(
        e, E_FORMAT, path, 0,
        "has %llu bytes, expected a multiple of %llu (of an image: %d of label, %d of pixels): is it "
        "truncated, or another format?",
        (unsigned long long)bytes, (unsigned long long)record, labels, PIXELS);
}

static int count_images(char *const *path, int n, int labels, int *total, struct err *e)
{
    *total = 0;
    for (int i = 0; i < n; i++) {
        struct stream s;
        int images, rc = open_file(&s, path[i], labels, &images, e);
        stream_close(&s);
        if (rc) return rc;
        *total += images; /* at most 5 x 2^33 / 3073 */
    }
    return OK;
}

/* The class is the last label byte, or the one before. */
static int read_images(struct intake *x, struct stream *s, int images, int labels, int which, struct err *e)
{
    uint8_t label[MOST_LABELS];
    for (int i = 0; i < images; i++) {
        TRY(stream_read(s, label, (uint64_t)labels, e));
        TRY(stream_read(s, x->image, PIXELS, e));
        TRY(intake_check(x, s->path, i, label[which], 0, e));
        intake_add(x, label[which]);
    }
    return stream_end(s, e);
}

static int read_files(struct intake *x, char *const *path, int n, int labels, int which, struct err *e)
{
    int total;
    TRY(count_images(path, n, labels, &total, e));
    TRY(intake_open(x, total, CHANNELS, SIDE, SIDE, e));
    for (int i = 0; i < n; i++) {
        struct stream s;
        int images, rc = open_file(&s, path[i], labels, &images, e);
        if (!rc) rc = read_images(x, &s, images, labels, which, e);
        stream_close(&s);
        if (rc) return rc;
    }
    return OK;
}

int cifar10_read(struct intake *x, char *const *path, int n, struct err *e)
{
    return read_files(x, path, n, 1, 0, e);
}

int cifar100_read(struct intake *x, char *const *path, int n, struct err *e)
{
    enum { COARSE = 20, FINE = 100 };
    int classes = x->o->classes;
    if (classes != COARSE && classes != FINE)
        return fail_at(e, E_FORMAT, path[0], 0,
                       "CIFAR-100 has %d classes, or %d coarse ones, but the data file says classes=%d", FINE,
                       COARSE, classes);
    return read_files(x, path, n, 2, classes == FINE, e);
}
