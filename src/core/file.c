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

static int load_stream(FILE *f, const char *path, size_t limit, size_t capacity, char **bytes, size_t *n,
                       struct err *e)
{
    char *p = mem_alloc(capacity, 1);
    if (!p) return fail_at(e, E_MEM, path, 0, "not enough memory for %zu bytes", capacity);
    size_t used = 0, got;
    /* One byte stays free for the final 0. The size is not trusted: the file may grow. */
    while ((got = fread(p + used, 1, capacity - used - 1, f)) > 0) {
        used += got;
        if (used > limit) break;
        if (used + 1 < capacity) continue;
        char *more = capacity > SIZE_MAX / 2 ? NULL : mem_alloc(2 * capacity, 1);
        if (more) memcpy(more, p, used);
        mem_free(p);
        if (!(p = more))
            return fail_at(e, E_MEM, path, 0, "not enough memory for a file of more than %zu bytes", used);
        capacity *= 2;
    }
    int bad = ferror(f);
    if (bad || used > limit) {
        mem_free(p);
        if (bad) return fail_at(e, E_FILE, path, 0, "cannot be read: %s", strerror(errno));
        return fail_at(e, E_FORMAT, path, 0, "is larger than %zu bytes: not a file of the expected kind",
                       limit);
    }
    p[used] = 0;
    *bytes = p;
    *n = used;
    return OK;
}

int file_open(const char *path, int *fd, uint64_t *size, struct err *e)
{
    struct stat st;
    /* Non-blocking: a pipe that nobody writes to must be refused, not waited for. */
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    *size = 0;
    if (*fd < 0 && errno == ENOENT) return fail_at(e, E_FILE, path, 0, "no such file");
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

int file_load(const char *path, size_t limit, char **bytes, size_t *n, struct err *e)
{
    int fd;
    uint64_t size;
    *bytes = NULL;
    *n = 0;
    TRY(file_open(path, &fd, &size, e));
    FILE *f = fdopen(fd, "rb");
    int rc = OK;
    if (!f)
        rc = fail_at(e, E_FILE, path, 0, "cannot be opened: %s", strerror(errno));
    else if (size > limit)
        rc = fail_at(e, E_FORMAT, path, 0,
                     "has %" PRIu64 " bytes, expected at most %zu: not a file of the expected kind", size,
                     limit);
    else
        rc = load_stream(f, path, limit, (size_t)size + 2, bytes, n, e);
    if (f)
        fclose(f);
    else
        close(fd);
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

/* Opens a new file beside `path`; *name, NULL before, gets the name made. */
static FILE *open_beside(const char *path, char **name, struct err *e)
{
    enum { TRIES = 100 };
    int fd = -1;
    for (int i = 0; fd < 0 && i < TRIES; i++) {
        mem_free(*name);
        if (!(*name = text_format("%s.tmp-%ld-%d", path, (long)getpid(), i))) {
            fail(e, E_MEM, "not enough memory");
            return NULL;
        }
        fd = open(*name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd < 0 && errno != EEXIST) break;
    }
    FILE *f = fd < 0 ? NULL : fdopen(fd, "wb");
    if (f) return f;
    fail_at(e, E_FILE, path, 0, "cannot be written: %s", strerror(errno));
    if (fd >= 0) {
        close(fd);
        unlink(*name);
    }
    mem_free(*name);
    *name = NULL;
    return NULL;
}

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

int file_create(struct file *f, const char *path, struct err *e)
{
    memset(f, 0, sizeof *f);
    struct stat st;
    /* A rename over a device or a folder would not do what the user means. */
    if (!stat(path, &st) && !S_ISREG(st.st_mode))
        return fail_at(e, E_FILE, path, 0, "exists and is not an ordinary file: choose another name");
    if (!(f->path = mem_text(path, strlen(path)))) return fail(e, E_MEM, "not enough memory");
    f->f = open_beside(path, &f->temporary, e);
    if (f->f) return OK;
    mem_free(f->path);
    f->path = NULL;
    return e ? e->code : E_FILE;
}

static int give_up(struct file *f, const char *what, struct err *e)
{
    int cause = errno; /* before the clean-up changes it */
    int rc = fail_at(e, E_FILE, f->path, 0, "%s: %s", what, strerror(cause));
    file_abort(f);
    return rc;
}

int file_write(struct file *f, const void *bytes, size_t n, struct err *e)
{
    if (!f->f) return fail(e, E_ARG, "write to a file that is not open");
    if (fwrite(bytes, 1, n, f->f) != n) return give_up(f, "cannot be written", e);
    return OK;
}

int file_print(struct file *f, struct err *e, const char *fmt, ...)
{
    if (!f->f) return fail(e, E_ARG, "write to a file that is not open");
    va_list ap;
    va_start(ap, fmt);
    int n = vfprintf(f->f, fmt, ap);
    va_end(ap);
    return n < 0 ? give_up(f, "cannot be written", e) : OK;
}

int file_flush(struct file *f, struct err *e)
{
    if (!f->f) return fail(e, E_ARG, "commit of a file that is not open");
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

/* Creates the folder and those above it that are missing. */
static int make_folders(char *path)
{
    for (char *p = path + 1; *p; p++) {
        if (*p != '/') continue;
        *p = 0;
        int bad = mkdir(path, 0777) && errno != EEXIST && errno != EROFS && errno != EACCES;
        *p = '/';
        if (bad) return -1;
    }
    return mkdir(path, 0777) && errno != EEXIST ? -1 : 0;
}

int folder_prepare(const char *path, struct err *e)
{
    if (!*path) path = ".";
    char *copy = mem_text(path, strlen(path)), *trial = NULL;
    if (!copy) return fail(e, E_MEM, "not enough memory");
    struct stat st;
    if (stat(path, &st) && make_folders(copy)) {
        mem_free(copy);
        return fail_at(e, E_FILE, path, 0, "the folder cannot be created: %s", strerror(errno));
    }
    mem_free(copy);
    if (stat(path, &st) || !S_ISDIR(st.st_mode)) return fail_at(e, E_FILE, path, 0, "is not a folder");
    char *inside = text_format("%s/write-test", path);
    if (!inside) return fail(e, E_MEM, "not enough memory");
    file_sweep(inside);
    struct err why = { 0 };
    FILE *f = open_beside(inside, &trial, &why);
    int rc = OK, bad = 0;
    if (f) {
        bad = fputc('x', f) == EOF; /* a byte: a full disk still creates empty files */
        bad |= fclose(f) != 0;
        unlink(trial);
    }
    if (why.code == E_MEM)
        rc = fail(e, E_MEM, "%s", why.msg);
    else if (!f || bad)
        rc = fail_at(e, E_FILE, path, 0, "no file can be written in this folder: %s", strerror(errno));
    mem_free(trial);
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
