#include "file.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "mem.h"
#include "text.h"

/* ---- reading ---- */

int file_open(const char *path, int *fd, uint64_t *size, struct err *e)
{
    struct stat st;
    /* Non-blocking: a pipe that nobody writes to must be refused, not waited for. */
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    *size = 0;
    if (*fd < 0 && errno == ENOENT) return fail_at(e, E_FILE, path, 0, "no such file");
    if (*fd < 0 && (errno == EMFILE || errno == ENFILE)) /* nothing is wrong with this file */
        return fail_at(e, E_MEM, path, 0, "cannot be opened: %s: raise the limit (ulimit -n)",
                       strerror(errno));
    if (*fd < 0) return fail_at(e, E_FILE, path, 0, "cannot be opened: %s", strerror(errno));
    int rc = OK;
    if (fstat(*fd, &st))
        rc = fail_at(e, E_FILE, path, 0, "cannot be examined: %s", strerror(errno));
    else if (S_ISDIR(st.st_mode))
        rc = fail_at(e, E_FILE, path, 0, "is a folder, expected a file");
    else if (!S_ISREG(st.st_mode))
        rc = fail_at(e, E_FILE, path, 0, "is not a regular file: pipes and devices cannot be read");
    if (rc) {
        close(*fd);
        *fd = -1;
    } else {
        *size = (uint64_t)st.st_size;
    }
    return rc;
}

int file_read(int fd, const char *path, size_t bytes, char **to, struct err *e)
{
    size_t used = 0;
    ssize_t got = 0;
    int rc = OK;
    char *p = *to = mem_alloc(bytes + 1, 1);
    if (!p) return fail_at(e, E_MEM, path, 0, "not enough memory for %zu bytes", bytes);
    while (used < bytes && (got = read(fd, p + used, bytes - used)) > 0) used += (size_t)got;
    if (got < 0)
        rc = fail_at(e, E_FILE, path, 0, "cannot be read: %s", strerror(errno));
    else if (used < bytes)
        rc = fail_at(e, E_FILE, path, 0, "became shorter while it was read");
    if (!rc) return OK;
    mem_free(p);
    *to = NULL;
    return rc;
}

int file_load(const char *path, size_t limit, char **bytes, size_t *n, struct err *e)
{
    int fd;
    uint64_t size;
    *bytes = NULL;
    *n = 0;
    TRY(file_open(path, &fd, &size, e));
    int rc = size > limit
                 ? fail_at(e, E_FORMAT, path, 0,
                           "has %" PRIu64 " bytes, expected at most %zu: not a file of the expected kind",
                           size, limit)
                 : file_read(fd, path, (size_t)size, bytes, e);
    close(fd);
    if (!rc) *n = (size_t)size;
    return rc;
}

int text_load(const char *path, size_t limit, char **text, size_t *n, struct err *e)
{
    TRY(file_load(path, limit, text, n, e));
    const char *zero = memchr(*text, 0, *n);
    if (!zero) return OK;
    size_t at = (size_t)(zero - *text);
    mem_free(*text);
    *text = NULL;
    *n = 0;
    return fail_at(e, E_FORMAT, path, 0,
                   "has a zero byte at offset %zu: not a text file (or UTF-16: save it as UTF-8)", at);
}

/* ---- writing ---- */

/* Whether `name` is a temporary file for `base` whose process is gone. */
static int is_stale(const char *name, const char *base)
{
    static const char mark[] = ".tmp-";
    size_t n = strlen(base);
    char *end;
    if (strncmp(name, base, n) || strncmp(name + n, mark, sizeof mark - 1)) return 0;
    const char *number = name + n + sizeof mark - 1;
    long pid = strtol(number, &end, 10);
    return end != number && *end == '-' && pid > 0 && (long)(pid_t)pid == pid && kill((pid_t)pid, 0) &&
           errno == ESRCH;
}

void file_sweep(const char *path)
{
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    char *folder = slash ? mem_text(path, (size_t)(base - path)) : mem_text(".", 1);
    DIR *d = folder ? opendir(folder) : NULL;
    for (const struct dirent *x; d && (x = readdir(d));)
        if (is_stale(x->d_name, base)) unlinkat(dirfd(d), x->d_name, 0);
    if (d) closedir(d);
    mem_free(folder);
}

/* Leaves errno as it was: the cause. */
static int give_up(struct file *f, const char *what, struct err *e)
{
    int cause = errno, rc = fail_at(e, E_FILE, f->path, 0, "%s: %s", what, strerror(cause));
    file_abort(f);
    errno = cause;
    return rc;
}

static int is_stream(const struct stat *st)
{
    struct stat x;
    for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO; fd++)
        if (!fstat(fd, &x) && x.st_dev == st->st_dev && x.st_ino == st->st_ino) return 1;
    return 0;
}

int file_create(struct file *f, const char *path, struct err *e)
{
    enum { TRIES = 100 };
    struct stat st;
    int fd = -1;
    memset(f, 0, sizeof *f);
    /* A rename over a device or a folder would not do what the user means. */
    const int there = !stat(path, &st);
    if (there && !S_ISREG(st.st_mode))
        return fail_at(e, E_FILE, path, 0, "exists and is not an ordinary file: choose another name");
    /* /dev/stdout, say: the rename would put a file in the place of the link. */
    if (there && is_stream(&st))
        return fail_at(e, E_FILE, path, 0,
                       "is where standard output or standard error goes: choose another name");
    f->path = mem_text(path, strlen(path));
    for (int i = 0; f->path && fd < 0 && i < TRIES; i++) {
        mem_free(f->temporary);
        if (!(f->temporary = text_format("%s.tmp-%ld-%d", path, (long)getpid(), i))) break;
        fd = open(f->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd < 0 && errno != EEXIST) break;
    }
    if (fd >= 0 && (f->f = fdopen(fd, "wb"))) return OK;
    if (!f->path || !f->temporary) {
        file_abort(f);
        return fail(e, E_MEM, "not enough memory");
    }
    int cause = errno;
    if (fd >= 0) {
        close(fd);
    } else {
        mem_free(f->temporary); /* another process's file */
        f->temporary = NULL;
    }
    errno = cause;
    return give_up(f, "cannot be written", e);
}

int file_is_at(int fd, const char *path)
{
    struct stat open, named;
    return !fstat(fd, &open) && !stat(path, &named) && open.st_ino == named.st_ino &&
           open.st_dev == named.st_dev;
}

int file_spare_others(const char *path, const struct file_kind *k, struct err *e)
{
    char found[128];
    uint64_t size;
    int fd;
    if (file_open(path, &fd, &size, NULL)) return OK; /* not there, or creating it says what is wrong */
    ssize_t n = size ? pread(fd, found, k->n < sizeof found ? k->n : sizeof found, (off_t)k->at) : 0;
    close(fd);
    if (!size || (n == (ssize_t)k->n && !memcmp(found, k->bytes, k->n))) return OK;
    return fail_at(e, E_FILE, path, 0, "exists and is not %s: remove it, or choose another name", k->name);
}

int file_probe(const char *path, struct err *e)
{
    struct file f;
    int rc = file_create(&f, path, e);
    file_abort(&f);
    return rc;
}

static int not_open(struct err *e) { return fail(e, E_ARG, "write to a file that is not open"); }

int file_write(struct file *f, const void *bytes, size_t n, struct err *e)
{
    if (!f->f) return not_open(e);
    return fwrite(bytes, 1, n, f->f) == n ? OK : give_up(f, "cannot be written", e);
}

int file_print(struct file *f, struct err *e, const char *fmt, ...)
{
    if (!f->f) return not_open(e);
    va_list ap;
    va_start(ap, fmt);
    int n = vfprintf(f->f, fmt, ap);
    va_end(ap);
    return n < 0 ? give_up(f, "cannot be written", e) : OK;
}

int file_flush(struct file *f, struct err *e)
{
    if (!f->f) return not_open(e);
    if (fflush(f->f) || ferror(f->f) || fsync(fileno(f->f))) return give_up(f, "cannot be written", e);
    return OK;
}

int file_commit(struct file *f, struct err *e)
{
    TRY(file_flush(f, e));
    FILE *stream = f->f;
    f->f = NULL;
    if (fclose(stream)) return give_up(f, "cannot be written", e);
    if (rename(f->temporary, f->path)) return give_up(f, "cannot be replaced", e);
    mem_free(f->temporary);
    f->temporary = NULL; /* nothing is left to remove */
    file_abort(f);
    return OK;
}

void file_abort(struct file *f)
{
    if (f->f) fclose(f->f);
    if (f->temporary) unlink(f->temporary);
    mem_free(f->temporary);
    mem_free(f->path);
    memset(f, 0, sizeof *f);
}

int folder_prepare(const char *path, struct err *e)
{
    if (!*path) path = ".";
    char *inside = text_format("%s/write-test", path);
    if (!inside) return fail(e, E_MEM, "not enough memory");
    int cause = 0, rc = OK;
    for (char *p = inside + 1; (p = strchr(p, '/')); *p++ = '/') {
        *p = 0;
        if (mkdir(inside, 0777) && errno != EEXIST && (!cause || errno != ENOENT)) cause = errno;
    }
    struct stat st;
    struct file trial = { 0 };
    struct err why;
    int there = !stat(path, &st);
    file_sweep(inside);
    if (!there && cause)
        rc = fail_at(e, E_FILE, path, 0, "the folder cannot be created: %s", strerror(cause));
    else if (!there || !S_ISDIR(st.st_mode))
        rc = fail_at(e, E_FILE, path, 0, "is not a folder");
    else if (file_create(&trial, inside, &why) || file_write(&trial, "x", 1, &why) ||
             file_flush(&trial, &why)) /* a byte: a full disk still creates empty files */
        rc = why.code == E_MEM
                 ? fail(e, E_MEM, "%s", why.msg)
                 : fail_at(e, E_FILE, path, 0, "no file can be written in this folder: %s", strerror(errno));
    file_abort(&trial);
    mem_free(inside);
    return rc;
}

/* ---- binary files ---- */

int reader_open(struct file_reader *r, const char *path, size_t limit, struct err *e)
{
    *r = (struct file_reader){ .path = path };
    return file_load(path, limit, &r->data, &r->n, e);
}

int reader_take(struct file_reader *r, void *to, size_t bytes, struct err *e)
{
    if (bytes > r->n - r->at)
        return fail_at(e, E_FORMAT, r->path, 0, "the file is too short: %zu bytes are missing at byte %zu",
                       bytes - (r->n - r->at), r->at);
    memcpy(to, r->data + r->at, bytes);
    r->at += bytes;
    return OK;
}

void reader_close(struct file_reader *r)
{
    mem_free(r->data);
    r->data = NULL;
}
