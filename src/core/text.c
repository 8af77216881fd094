#include "text.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <locale.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "mem.h"

/* ---- reading ---- */

static int grow(char **p, size_t used, size_t *capacity)
{
    size_t wanted;
    if (mem_mul(*capacity, 2, &wanted)) return -1;
    char *q = mem_alloc(wanted, 1);
    if (!q) return -1;
    memcpy(q, *p, used);
    mem_free(*p);
    *p = q;
    *capacity = wanted;
    return 0;
}

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
        if (used + 1 == capacity && grow(&p, used, &capacity)) {
            mem_free(p);
            return fail_at(e, E_MEM, path, 0, "not enough memory for a file of more than %zu bytes", used);
        }
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

/* ---- lines ---- */

static int is_blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

char *text_trim(char *s)
{
    while (is_blank(*s)) s++;
    size_t n = strlen(s);
    while (n && is_blank(s[n - 1])) n--;
    s[n] = 0;
    return s;
}

void lines_open(struct lines *l, char *text)
{
    l->next = strncmp(text, "\xef\xbb\xbf", 3) ? text : text + 3;
    l->number = 0;
}

char *lines_next(struct lines *l)
{
    char *line = l->next;
    if (!*line) return NULL;
    char *end = line + strcspn(line, "\r\n");
    if (*end) {
        char *feed = end + strspn(end, "\r"); /* any number of CR before LF is one ending, as is a CR alone */
        l->next = (*feed == '\n' ? feed : end) + 1;
        *end = 0;
    } else {
        l->next = end;
    }
    l->number++;
    return text_trim(line);
}

/* ---- numbers ---- */

double text_number(const char *s, char **end)
{
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0), before = c ? uselocale(c) : (locale_t)0;
    double v = strtod(s, end);
    if (!c) return v;
    uselocale(before);
    freelocale(c);
    return v;
}

/* ---- did you mean ---- */

enum { WORD = 64 };

/* Edit distance with swaps of neighbours as one edit ("vaild"); a and b shorter than WORD. */
static size_t distance(const char *a, const char *b)
{
    size_t n = strlen(a), m = strlen(b), row[3][WORD];
    for (size_t j = 0; j <= m; j++) row[0][j] = j;
    for (size_t i = 1; i <= n; i++) {
        size_t *now = row[i % 3], *last = row[(i + 2) % 3], *before = row[(i + 1) % 3];
        now[0] = i;
        for (size_t j = 1; j <= m; j++) {
            size_t d = last[j - 1] + (a[i - 1] != b[j - 1]);
            if (last[j] + 1 < d) d = last[j] + 1;
            if (now[j - 1] + 1 < d) d = now[j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && before[j - 2] + 1 < d)
                d = before[j - 2] + 1;
            now[j] = d;
        }
    }
    return row[n % 3][m];
}

const char *text_nearest(const char *word, const void *names, size_t n, size_t stride)
{
    size_t length = strlen(word), best = length / 3 > 1 ? length / 3 : 1;
    const char *nearest = NULL;
    if (length >= WORD) return NULL;
    for (size_t i = 0; i < n; i++) {
        const char *name;
        memcpy(&name, (const char *)names + i * stride, sizeof name);
        if (!name) break;
        if (strlen(name) >= WORD) continue;
        int beginning = length > 2 && !strncmp(word, name, length);
        size_t d = beginning ? 1 : distance(word, name);
        if (d < best || (d == best && !nearest)) {
            best = d;
            nearest = name;
        }
    }
    return nearest;
}

/* ---- writing ---- */

/* Opens a new file beside `path`; *name gets the name made. */
static FILE *open_beside(const char *path, char **name, struct err *e)
{
    enum { TRIES = 100 };
    size_t capacity = strlen(path) + 64;
    if (!(*name = mem_alloc(capacity, 1))) {
        fail(e, E_MEM, "not enough memory");
        return NULL;
    }
    int fd = -1;
    for (int i = 0; fd < 0 && i < TRIES; i++) {
        snprintf(*name, capacity, "%s.tmp-%ld-%d", path, (long)getpid(), i);
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
    size_t n = strlen(path);
    char *inside = mem_alloc(n + 16, 1);
    if (!inside) return fail(e, E_MEM, "not enough memory");
    snprintf(inside, n + 16, "%s/write-test", path);
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
