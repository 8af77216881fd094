/* Which folders of a tree are sets to train and to validate on. */
#ifndef DATA_SETS_H
#define DATA_SETS_H
#include <stddef.h>
#include "data/tree.h"

/* Finds train and valid, or that there are none, and the root: a folder that is alone, and holds folders
 * only, stands for what is in it. Remarks go to notes. */
int sets_find(struct folder *, const struct notes *, struct err *);

/* Any number that depends on every byte. */
uint64_t sets_hash(uint64_t h, const char *text, size_t n);

#endif
