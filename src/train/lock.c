#define _GNU_SOURCE /* F_OFD_SETLK */
#include "lock.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "core/file.h"

/* A lock of the open file keeps two runs of one process apart, too. Elsewhere it is the process's. */
#ifdef F_OFD_SETLK
enum { SET_LOCK = F_OFD_SETLK };
#else
enum { SET_LOCK = F_SETLK };
#endif

/* The file holds the number of the process, for people: the system may not know whose the lock is. */
enum { NUMBER = 24 };

static void sign(int fd)
{
    char text[NUMBER];
    const size_t n = (size_t)snprintf(text, sizeof text, "%ld\n", (long)getpid());
    if (pwrite(fd, text, n, 0) != (ssize_t)n || ftruncate(fd, (off_t)n)) return; /* no space: unsigned */
}

static int is_taken(int fd, const char *path, struct err *e)
{
    char text[NUMBER] = "", who[40] = "";
    const long holder = pread(fd, text, sizeof text - 1, 0) > 0 ? strtol(text, NULL, 10) : 0;
    if (holder == (long)getpid())
        snprintf(who, sizeof who, " of this process");
    else if (holder > 0)
        snprintf(who, sizeof who, " (process %ld)", holder);
    return fail_at(e, E_FILE, path, 0,
                   "another run%s is writing these files: let it end, or name another backup= folder", who);
}

static int take(struct lock *l, const struct notes *notes, struct err *e)
{
    struct flock wanted = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
    if (!fcntl(l->fd, SET_LOCK, &wanted)) {
        sign(l->fd);
        return OK;
    }
    if (errno == EACCES || errno == EAGAIN) return is_taken(l->fd, l->path, e);
    note(notes, "warning: %s: cannot be locked (%s): do not start a second run with these files", l->path,
         strerror(errno));
    return OK;
}

int lock_open(struct lock *l, const char *path, const struct notes *notes, struct err *e)
{
    for (;;) {
        *l = (struct lock){ open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666), path };
        if (l->fd < 0) {
            l->fd = 0;
            return fail_at(e, E_FILE, path, 0, "cannot be written: %s", strerror(errno));
        }
        int rc = take(l, notes, e);
        /* The run that had the lock before may meanwhile have removed it: then this one keeps nobody away. */
        if (!rc && file_is_at(l->fd, path)) return OK;
        close(l->fd);
        l->fd = 0;
        if (rc) return rc;
    }
}

int lock_keep(struct lock *l, const struct notes *notes, struct err *e)
{
    struct lock again;
    if (!l->fd || file_is_at(l->fd, l->path)) return OK;
    TRY(lock_open(&again, l->path, notes, e));
    close(l->fd);
    *l = again;
    return OK;
}

void lock_close(struct lock *l)
{
    if (!l->fd) return;
    if (file_is_at(l->fd, l->path)) unlink(l->path);
    close(l->fd);
    l->fd = 0;
}
