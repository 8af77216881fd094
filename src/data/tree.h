/* All files below a folder, and what `prepare` makes of them. */
#ifndef DATA_TREE_H
#define DATA_TREE_H
#include <stdint.h>
#include "core/err.h"

struct folder_image {
    char *path;       /* absolute */
    int label, valid; /* valid: to validate on, else to train on */
    uint64_t key;     /* decides who is chosen to validate on */
};

/* What is left out: hidden files and what systems and archives leave; images outside class folders; links
 * without a target, and to a folder that they are in; files of other kinds. */
enum skipped {
    SKIPPED_LITTER,
    SKIPPED_LOOSE,
    SKIPPED_BROKEN,
    SKIPPED_LOOPS,
    SKIPPED_EMPTY,
    SKIPPED_SPECIAL, /* pipes, sockets, devices */
    SKIPPED_FOREIGN, /* images that a build with OpenCV reads */
    SKIPPED_OTHER,
    SKIPPED
};

struct folder {
    char *dir;           /* DIR: absolute, links resolved */
    char *root;          /* DIR, or the folder in it that holds the classes or sets */
    char *train, *valid; /* folders in root that hold the two sets, when DIR came apart already; else NULL */
    int classes;
    char **name; /* of the class folders, in byte order, as everything here: runs repeat on any machine */
    int n;
    struct folder_image *image; /* ordered by class, then training before validation, then by path */
    int *count[2];              /* images of each class: for training, for validation */
    int skipped[SKIPPED];
    char *first_other; /* an example of SKIPPED_OTHER */
};

/* Fills image from the files below root, label -1 for those that are no images, and skipped. */
int tree_walk(struct folder *, struct err *);

/* The path of file i from below root on. */
const char *tree_below(const struct folder *, int i);
/* Whether such a path leads into a folder in root. */
int tree_is_in(const char *path, const char *folder);

/* Forgets the files in a folder in root. */
void tree_leave_out(struct folder *, const char *folder);
/* Makes a folder in root the root, and forgets the files elsewhere. */
int tree_narrow(struct folder *, const char *folder, struct err *);

int tree_no_memory(struct err *);
int tree_unreadable(const char *path, int why, struct err *);

#endif
