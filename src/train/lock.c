#include "lock.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static struct flock whole(void) { return (struct flock){ .l_type = F_WRLCK, .l_whence = SEEK_SET }; }

/* The name may meanwhile have been removed by the run that had the lock before: then this lock keeps nobody
 * away. */
static int is_there(int fd, const char *path)
{
    struct stat mine, named;
    return !fstat(fd, &mine) && !stat(path, &named) && mine.st_ino == named.st_ino &&
           mine.st_dev == named.st_dev;
}

static int is_taken(int fd, const char *path, struct err *e)
{
    struct flock holder = whole();
    char who[40] = "";
    if (!fcntl(fd, F_GETLK, &holder) && holder.l_type != F_UNLCK && holder.l_pid > 0)
        snprintf(who, sizeof who, " (process %ld)", (long)holder.l_pid);
    return fail_at(e, E_FILE, path, 0,
                   "another run%s is writing these files: let it end, or name another backup= folder", who);
}

static int take(struct lock *l, const struct notes *notes, struct err *e)
{
    struct flock wanted = whole();
    if (!fcntl(l->fd, F_SETLK, &wanted)) return OK;
    if (errno == EACCES || errno == EAGAIN) return is_taken(l->fd, l->path, e);
    note(notes, "%s: cannot be locked (%s): do not start a second run with these files", l->path,
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
        if (!rc && is_there(l->fd, path)) return OK;
        close(l->fd);
        l->fd = 0;
        if (rc) return rc;
    }
}

void lock_close(struct lock *l)
{
    if (!l->fd) return;
    unlink(l->path);
    close(l->fd);
    l->fd = 0;
}
