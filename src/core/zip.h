/* A zip file in memory, read: members that are not compressed, also in files of more than 4 GiB. */
#ifndef CORE_ZIP_H
#define CORE_ZIP_H
#include <stddef.h>
#include <stdint.h>
#include "core/err.h"

struct zip {
    const char *path; /* for messages */
    const char *bytes;
    size_t n;
    uint64_t at, left; /* members to come, and where in the directory */
};

struct zip_member {
    const char *name; /* not ended by a 0 */
    size_t length;
    size_t begin, bytes; /* in the file */
};

/* Ready for the first member. Nothing is allocated. */
int zip_open(struct zip *, const char *path, const char *bytes, size_t n, struct err *);
/* The next member, in the order of the directory, while `left` is not 0; it lies in the file. */
int zip_next(struct zip *, struct zip_member *, struct err *);

#endif
