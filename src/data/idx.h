/* The IDX files of the MNIST family, plain or gzipped. */
#ifndef DATA_IDX_H
#define DATA_IDX_H
#include <stdint.h>
#include "core/err.h"

struct idx {
    int n, c, h, w;
    uint8_t *pixels; /* n x c x h x w */
    int *label;      /* n */
};

/* Whether a file looks like IDX (or at least like no text): to tell it from a list of paths. */
int idx_recognise(const char *path);

/* The first `limit` images (0: all) of a file of n x h x w or n x c x h x w bytes, and their labels from the
 * file beside it: `images` and `idx3` (or `idx4`) in its name become `labels` and `idx1`, with or without
 * .gz. The images that are left out are checked to be there. */
int idx_read(struct idx *, const char *path, int limit, int classes, struct err *);
void idx_free(struct idx *);

#endif
