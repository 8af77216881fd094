/* What can be trained and validated on: the .data file, and the samples and labels it leads to.
 * Everything here is read-only after opening: any number of loaders may use one dataset from any thread. */
#ifndef DATA_DATASET_H
#define DATA_DATASET_H
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include "core/err.h"
#include "data/image.h"

/* A .data file: key = value lines. Inner blanks of values are kept (paths may have them). */
struct data_file {
    char *path;
    int classes, top, train_limit;
    int saveweights, savelast; /* iterations between BASE_N.weights, BASE_last.weights; 0: none; as usual */
    int holdout;               /* so many training samples are the validation set; 0: none */
    int holdout_seed;          /* and by this they are chosen */
    int label_noise;           /* per cent of the training labels that are made wrong, for studies */
    int label_noise_seed;      /* and by this they are chosen */
    int width, height;         /* resize=: what packed images are resized to; 0: not */
    char *train, *valid, *test, *labels, *names, *backup; /* NULL: not given */
    int replacement;                                      /* sampling=replacement: Darknet's draw */
    int orient;  /* orient=1: images are turned upright, as their EXIF data says; -1: not given */
    char **name; /* class names from `names`, else from `labels`; NULL when neither is given */
    int names_n; /* = classes, or 0 */
};
/* Unknown keys are noted with "did you mean", of duplicates the first counts. A # after a blank starts a
 * comment. Defaults: classes 2, top 1 (clamped to classes), backup "backup". A list of names may be longer
 * than `classes`, as Darknet's are, not shorter; of labels there must be exactly `classes`. */
int data_file_read(struct data_file **, const char *path, const struct notes *, struct err *);
void data_file_free(struct data_file *); /* accepts NULL */
/* Key i of a .data file, and its help; NULL behind the last. */
const char *data_file_key(int i, const char **help);
/* The name of class k, or its number in buf. */
const char *class_name(const struct data_file *, int k, char buf[16]);

enum split { SPLIT_TRAIN, SPLIT_VALID };

struct dataset {
    int n, classes;
    const int *label; /* n class indices */
    int *count;       /* samples of each class */
    /* By class: samples of class k are of_class[start[k] .. start[k+1]) */
    int *of_class, *start;
    /* Packed: n images of c x h x w bytes, planar; NULL for lists. */
    const uint8_t *pixels;
    int c, h, w;
    uint64_t choice; /* tells apart what else was held out of the same files: 0 if nothing was */
    /* Lists: n paths; NULL for packed. */
    char *const *path;
    int orient;         /* and whether they are turned upright, as their EXIF data says */
    atomic_flag *askew; /* that some are not is said by whoever sets it first; NULL: by nobody */
    void *self;         /* what dataset_close needs */
};

/* Opens the images that `train` or `valid` of the data file names: a packed collection (see packed_read), or
 * a list of image paths, one a line, classes taken from the path by the rule of label_of. The whole list is
 * checked first and a summary noted; images without a class, or still ambiguous, are an error that names the
 * first of them.
 *
 * With holdout=, SPLIT_VALID is so many of the images of `train`, and `valid` is not read; SPLIT_TRAIN is the
 * others. train_limit then leaves the first so many of SPLIT_TRAIN.
 *
 * With label_noise=P, each label of SPLIT_TRAIN gives way to one of the other classes, all alike, with a
 * probability of P per cent. */
int dataset_open(struct dataset **, const struct data_file *, enum split, const struct notes *, struct err *);
void dataset_close(struct dataset *); /* accepts NULL */

/* Non-empty lines of a text file, trimmed, in order: for lists, labels and names. */
int list_read(char ***line, int *n, const char *path, struct err *);
void list_free(char **line);

/* The line of the file that entry i of its list stands on, for messages; 0 when that cannot be told. */
int list_line(const char *path, int i);

/* The list `labels`, of `classes` entries or more (Darknet's ImageNet cfg names 21842 for 1000 classes);
 * list_free it. */
int labels_read(char ***label, int *n, const struct data_file *, struct err *);

/* Sample i as c planes (1: luma, 3: RGB) of h x w bytes; packed samples of the other kind are converted.
 * `shorter` is image_decode's, for lists. The caller owns the pixels (mem_free). */
int dataset_image(const struct dataset *, int i, int c, int shorter, struct picture *, struct err *);

#endif
