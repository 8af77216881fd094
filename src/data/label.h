/* Which class an image belongs to, by the labels that occur in its path. */
#ifndef DATA_LABEL_H
#define DATA_LABEL_H
#include <stddef.h>
#include "core/err.h"

/* The class of a path: the one label that occurs in it (case-sensitive, anywhere: Darknet's rule). When
 * several do, in this order: those in the file name over those in folders; then those that are a whole token
 * (bounded by _ - . / or an end); then the longest. Returns the class, -1 when none occurs, or -2 - c when
 * class c is one of several left. */
int label_of(const char *path, char *const *labels, int n);

/* Finds the labels that occur in a path, among thousands, for a million paths: label_of(path, hit, nhit) then
 * has few to compare. One finder serves one thread. */
struct label_entry {
    char *text;
    int k;
};
struct label_finder {
    struct label_entry *sorted;
    int n;
    int first[257]; /* by the first byte: sorted[first[b] .. first[b + 1]) */
    size_t *seen;   /* by class: the search that hit it last, so that no hit counts twice */
    size_t searches;
    char **hit; /* what label_search found: labels and their classes, each once */
    int *hit_class;
    int nhit;
};
/* Of a path without a label: which line of the labels would fit if it were written as labels are, and what is
 * wrong with it. NULL: none would. */
const char *label_dialect(const struct label_finder *, const char *path, const char **label);
/* Two classes of one label, by number; 0: there are none. */
int label_find_twice(const struct label_finder *, int *first, int *second);
/* The labels (none empty) stay the caller's and must outlive the finder. */
int label_finder_open(struct label_finder *, char *const *label, int n, struct err *);
void label_finder_close(struct label_finder *);
void label_search(struct label_finder *, const char *path);

#endif
