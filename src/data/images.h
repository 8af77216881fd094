/* Images as files: which names they have, and whether those of a list are there. */
#ifndef DATA_IMAGES_H
#define DATA_IMAGES_H
#include "core/err.h"

/* Whether a file is named like one of a kind that image_decode reads. */
int image_named(const char *name);
/* Whether it is named like one of a kind that only builds with OpenCV read, and this is none. */
int image_needs_opencv(const char *name);

/* Whether a file or folder is hidden, or what systems and archives leave (__MACOSX, Thumbs.db, ...). */
int image_litter(const char *name);

/* Fails if a list of images is in a dialect of its own ("path label", CSV, quotes, backslashes), or none of
 * its first images is there: `list`, whose lines are path[0..n-1], is named with what to do about it. */
int images_check(const char *list, char *const *path, int n, struct err *);

#endif
