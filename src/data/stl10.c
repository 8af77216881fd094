/* STL-10, binary version: an X file with 3 planes of 96x96 bytes for each image, red, green, blue, column by
 * column, and a y file with a label byte for each, 1 to 10. */
#include <string.h>
#include "core/mem.h"
#include "data/packed.h"
#include "data/stream.h"

enum { CHANNELS = 3, SIDE = 96, PLANE = SIDE * SIDE, PIXELS = CHANNELS * PLANE };

static int count_images(struct stream *s, int *n, struct err *e)
{
    uint64_t bytes;
    TRY(stream_length(s, &bytes, e));
    *n = (int)(bytes / PIXELS);
    if (bytes && bytes % PIXELS == 0) return OK;
    return fail_at(
        e, E_FORMAT, s->path, 0,
        "has %llu bytes, expected a multiple of %d (an image): is it truncated, or another format?",
        (unsigned long long)bytes, PIXELS);
}

static int check_labels(struct stream *s, int images, struct err *e)
{
    uint64_t bytes;
    TRY(stream_length(s, &bytes, e));
    if (bytes == (uint64_t)images) return OK;
    return fail_at(e, E_FORMAT, s->path, 0,
                   "has %llu bytes, expected %d: one label for each image of the X file",
                   (unsigned long long)bytes, images);
}

static void transpose(const uint8_t *columns, uint8_t *rows)
{
    for (int k = 0; k < CHANNELS; k++)
        for (int y = 0; y < SIDE; y++)
            for (int x = 0; x < SIDE; x++) rows[k * PLANE + y * SIDE + x] = columns[k * PLANE + x * SIDE + y];
}

static int read_both(struct intake *to, struct stream *images, struct stream *labels, struct err *e)
{
    uint8_t raw[PIXELS], label;
    int n;
    TRY(count_images(images, &n, e));
    TRY(check_labels(labels, n, e));
    TRY(intake_open(to, n, CHANNELS, SIDE, SIDE, e));
    for (int i = 0; i < n; i++) {
        TRY(stream_read(images, raw, PIXELS, e));
        TRY(stream_read(labels, &label, 1, e));
        TRY(intake_check(to, labels->path, i, label, 1, e));
        transpose(raw, to->image);
        intake_add(to, label - 1);
    }
    TRY(stream_end(images, e));
    return stream_end(labels, e);
}

/* train_X.bin -> train_y.bin; the path is known to end in X.bin or X.bin.gz. */
static int find_labels(char **found, const char *images, struct err *e)
{
    char *path = mem_text(images, strlen(images));
    if (!path) return fail(e, E_MEM, "not enough memory");
    *strrchr(path, 'X') = 'y';
    int rc = packed_find_labels(found, images, path, NULL, e);
    mem_free(path);
    return rc;
}

int stl10_read(struct intake *to, char *const *path, int n, struct err *e)
{
    struct stream images = { 0 }, labels = { 0 };
    char *beside;
    (void)n; /* 1 */
    TRY(find_labels(&beside, path[0], e));
    int rc = stream_open(&images, path[0], e);
    if (!rc) rc = stream_open(&labels, beside, e);
    if (!rc) rc = read_both(to, &images, &labels, e);
    stream_close(&images);
    stream_close(&labels);
    mem_free(beside);
    return rc;
}
