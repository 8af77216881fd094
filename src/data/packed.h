/* Collections of small images in few files, read as they are distributed, and kept in memory as bytes. */
#ifndef DATA_PACKED_H
#define DATA_PACKED_H
#include <stdint.h>
#include "core/err.h"
#include "data/pick.h"
#include "data/stream.h"

struct packed {
    int n, c, h, w;
    uint8_t *pixels; /* n x c x h x w */
    int *label;      /* n */
};

struct packed_options {
    int test;          /* of a folder, read the files of the test set instead of those of the training set */
    int classes;       /* every label must be below */
    int width, height; /* resized to these, by area; 0: as they are */
    struct pick pick;  /* which of the images are kept; the others are read and checked all the same */
};

/* Whether a path that exists is for packed_read: a folder, a file named like one of a collection, or an IDX
 * file by its first bytes. Anything else can only be a list. */
int packed_recognise(const char *path);

/* Reads one of
 * - an IDX images file (n x h x w or n x c x h x w bytes) with the labels file beside it, found by its name:
 *   images -> labels and idx3 or idx4 -> idx1; or idx3-ubyte -> idx2-int, whose rows start with the class
 *   (QMNIST)
 * - the folder of the binary version of CIFAR-10, CIFAR-100 or STL-10, or one file of it (STL-10: train_X.bin
 *   or test_X.bin; the labels are beside it)
 * each with or without .gz. */
int packed_read(struct packed *, const char *path, const struct packed_options *, struct err *);
void packed_free(struct packed *);

/* ---- for the formats ---- */

/* Images from one file, and where their labels are. */
struct part {
    char *path, *labels_path; /* owned; labels_path NULL: each image's labels stand before its pixels */
    struct stream images, labels;
    int classes; /* as the data file says */
    int n, c, h, w;
    int by_column; /* the bytes of a plane, which is square, go down its columns, not along its rows */
    int columns;   /* numbers that each image has in place of one label, at most MOST_COLUMNS */
    int width;     /* bytes of each of these, big-endian, at most 4 */
    int which;     /* the index of the class among them */
    int first;     /* what the first class is called in the file */
};
enum { MOST_COLUMNS = 64 };

/* Each opens the files of a part, whose path and classes are set and all else is 0, and describes them.
 * Whoever calls closes the streams and frees the paths, after an error too. */
int idx_open(struct part *, struct err *);
int cifar10_open(struct part *, struct err *);
int cifar100_open(struct part *, struct err *);
int stl10_open(struct part *, struct err *);

/* Opens the labels file of this name or, if it is missing, of the other one (unless NULL), with or without
 * .gz. */
int part_open_labels(struct part *, const char *name, const char *other, struct err *);

#endif
