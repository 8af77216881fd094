/* The user's own images, one folder per class, and the .data file and lists made of them. */
#ifndef DATA_FOLDER_H
#define DATA_FOLDER_H
#include <stdint.h>
#include "core/err.h"

struct folder_image {
    char *path; /* absolute */
    int label;
    int valid; /* 0: for training, 1: for validation */
};

struct folder {
    char *root; /* absolute, links resolved */
    /* Names of the sub-folders that hold the two sets, when they came apart already; else NULL. */
    const char *train, *valid;
    int classes;
    char **name; /* of the class folders, in byte order, as everything here: runs repeat on any machine */
    int n;
    struct folder_image *image; /* ordered by class, then training before validation, then by path */
    int *count[2];              /* images of each class: for training, for validation */
    struct {
        int hidden, other, broken, loops; /* links without a target, and to a folder that they are in */
        int loose;                        /* images beside the class folders, not in one */
        char *first;                      /* an example of other */
    } skipped;
};

/* Looks through DIR: DIR/CLASS/..., or DIR/train/CLASS/... and DIR/valid/CLASS/... (or val, validation,
 * test). Sub-folders of a class belong to it, links are followed, images are told by their extension. Errors:
 * fewer than two classes, a class without images (for training), one that only validation has, an unreadable
 * folder, names that a list cannot hold. Remarks on what is left out of a split DIR go to notes. */
int folder_read(struct folder **, const char *dir, const struct notes *, struct err *);
void folder_free(struct folder *); /* accepts NULL */

/* Chooses the validation images: `fraction` of each class, rounded, but at least one, and one left to train
 * on; a class of a single image keeps it for training. The choice is a function of the seed and of the paths
 * below DIR: it is the same wherever DIR lies, and adding images changes little of it. An error when the sets
 * came apart already. */
int folder_split(struct folder *, double fraction, uint64_t seed, struct err *);

/* Writes PREFIX.train.list, .valid.list, .labels.txt, .names.txt and, last, .data, all of them or, when the
 * disk is full, none; lists hold absolute paths. Files that exist are an error unless `replace`. A label is
 * the name of its class if no path holds another one, else /NAME/ or /PARENT/NAME/: whole folders. Whichever
 * it is, every path is searched before anything is written, and must have its own label and no other: all
 * Darknets agree then. */
int folder_write(const struct folder *, const char *prefix, int replace, struct err *);

#endif
