/* The user's own images: those of a folder, those of one folder per class, the .data file and lists of them. */
#ifndef DATA_FOLDER_H
#define DATA_FOLDER_H
#include "data/tree.h"

/* Looks through DIR: DIR/CLASS/..., or DIR/SET/CLASS/... with sets that are told by their names (train,
 * Training_set, ...; val, dev, test, ...). A folder that holds nothing but one folder of folders stands for
 * that one. Images of a folder test or valid that are in no class folders are left out. Sub-folders of a class belong to it, links are followed,
 * images are told by their extension. Unless DIR came apart already, `fraction` of each class (0: a tenth) is
 * chosen to validate on, rounded, but at least one, and one left to train on. The choice is a function of the
 * seed and of the paths below DIR: it is the same wherever DIR lies, and adding images changes little of it.
 * Errors: folders that look like sets whose names do not tell which is which, fewer than two classes, a class
 * without images (for training), one that only validation has, a fraction of what came apart, an unreadable
 * folder, names that a list cannot hold. Remarks go to notes. */
int folder_read(struct folder **, const char *dir, double fraction, uint64_t seed, const struct notes *,
                struct err *);
void folder_free(struct folder *); /* accepts NULL */

/* Where `path` is a folder: the images in it and below, by name, hidden ones left out; folder_images_free
 * them. Else *n is 0. Fails for a folder without images. */
int folder_images(const char *path, char ***image, int *n, struct err *);
void folder_images_free(char **image, int n);

/* Writes PREFIX.train.list, .valid.list, .labels.txt, .names.txt and, last, .data, all of them or, when the
 * disk is full, none; lists hold absolute paths. Files that exist are an error unless `replace`. A label is
 * the name of its class if no path holds another one, else /NAME/ or /PARENT/NAME/: whole folders. Whichever
 * it is, every path is searched before anything is written, and must have its own label and no other: all
 * Darknets agree then. */
int folder_write(const struct folder *, const char *prefix, int replace, struct err *);

#endif
