/* Collections of small images in few files, read as they are distributed, and kept in memory as bytes. */
#ifndef DATA_PACKED_H
#define DATA_PACKED_H
#include <stdint.h>
#include "core/err.h"
#include "data/pick.h"

struct packed {
    int n, c, h, w;
    uint8_t *pixels; /* n x c x h x w */
    int *label;      /* n */
};

struct packed_options {
    int test;          /* of a folder the files of the test set, not those of the training set */
    int classes;       /* every label must be below */
    int width, height; /* resized to these, by area; 0: as they are */
    struct pick pick;  /* which of the images are kept; the others are checked to be there */
};

/* Whether a path, which exists, is for packed_read: a folder, a file of one of the collections by its name,
 * an IDX file by its first bytes. What else there is can only be a list. */
int packed_recognise(const char *path);

/* Reads one of
 * - an IDX images file (n x h x w or n x c x h x w bytes) and the labels file beside it, found by its name:
 *   images -> labels, idx3 or idx4 -> idx1; or idx3-ubyte -> idx2-int, whose rows start with the class
 * (QMNIST)
 * - the folder of the binary version of CIFAR-10, CIFAR-100 or STL-10, or one file of it (STL-10: train_X.bin
 * or test_X.bin; the labels are beside it) each with or without .gz. */
int packed_read(struct packed *, const char *path, const struct packed_options *, struct err *);
void packed_free(struct packed *);

/* ---- for the readers of the formats ---- */

/* Takes all images of a collection in their order; keeps those that are wanted, at the size that is wanted.
 */
struct intake {
    struct packed *to;
    const struct packed_options *o;
    const char *from; /* what the data file names, for messages */
    struct pick pick;
    int c, h, w;    /* of images as the files have them */
    uint8_t *image; /* c x h x w: the next one is written here */
};
/* First, once it is known what there is. */
int intake_open(struct intake *, int n, int c, int h, int w, struct err *);
/* The class `label` of image `i` in its file, whose classes count from `first`: an error when it is too
 * large. */
int intake_check(const struct intake *, const char *path, int i, int label, int first, struct err *);
/* The image that was written, and its class, counted from 0. */
void intake_add(struct intake *, int label);

/* The labels file of `images`: that name or the other one (NULL: there is none), with or without .gz;
 * mem_free it. */
int packed_find_labels(char **found, const char *images, const char *name, const char *other, struct err *);

int idx_read(struct intake *, char *const *path, int n, struct err *);
int cifar10_read(struct intake *, char *const *path, int n, struct err *);
int cifar100_read(struct intake *, char *const *path, int n, struct err *);
int stl10_read(struct intake *, char *const *path, int n, struct err *);

#endif
