/* One run at a time: a record lock, which the system releases however the process ends. */
#ifndef TRAIN_LOCK_H
#define TRAIN_LOCK_H
#include "core/err.h"

/* Keeps other runs, which would overwrite the same files, away until lock_close or the end of the process. */
struct lock {
    int fd; /* 0: none */
    const char *path;
};
int lock_open(struct lock *, const char *path, const struct notes *, struct err *);
/* Makes it again if somebody has removed the file. */
int lock_keep(struct lock *, const struct notes *, struct err *);
void lock_close(struct lock *);

#endif
