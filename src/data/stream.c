#include "stream.h"
#include <string.h>
#include <unistd.h>
#include "core/file.h"
#include "core/mem.h"
#include "core/text.h"

static const uint64_t DEFLATE_RATIO = 1032; /* the most that deflate expands, zlib's technical notes */

int stream_open(struct stream *s, const char *path, struct err *e)
{
    int fd;
    *s = (struct stream){ .path = path };
    TRY(file_open(path, &fd, &s->size, e));
    if (!(s->f = gzdopen(fd, "rb"))) {
        close(fd);
        return fail_at(e, E_MEM, path, 0, "not enough memory to read it");
    }
    gzbuffer(s->f, 1u << 16);
    return OK;
}

/* zlib's word for the last error, without the name it gives the file; NULL: there was none. */
static const char *error_of(const struct stream *s)
{
    int code;
    const char *why = gzerror(s->f, &code), *colon = strstr(why, ": ");
    if (!code) return NULL;
    return colon ? colon + 2 : why;
}

void stream_close(struct stream *s)
{
    if (s->f) gzclose(s->f);
    s->f = NULL;
}

int stream_zipped(struct stream *s) { return !gzdirect(s->f); }

int stream_read(struct stream *s, void *to, uint64_t n, struct err *e)
{
    unsigned char *p = to;
    while (n) {
        int got = gzread(s->f, p, n < (1u << 24) ? (unsigned)n : 1u << 24);
        if (got <= 0) {
            const char *why = error_of(s);
            return fail_at(e, E_FORMAT, s->path, 0, "is truncated or damaged%s%s: %llu more bytes expected",
                           why ? ": " : "", why ? why : "", (unsigned long long)n);
        }
        p += got;
        n -= (uint64_t)got;
    }
    return OK;
}

/* The checksum of a gzipped file is only known to be right, or to be there, at its end. */
static int check_end(struct stream *s, struct err *e)
{
    const char *why = error_of(s);
    return why ? fail_at(e, E_FORMAT, s->path, 0, "is truncated or damaged at its end: %s", why) : OK;
}

int stream_end(struct stream *s, struct err *e)
{
    unsigned char next;
    if (gzread(s->f, &next, 1) > 0)
        return fail_at(e, E_FORMAT, s->path, 0,
                       "has bytes after its data: not the file its header describes");
    return check_end(s, e);
}

int stream_length(struct stream *s, uint64_t *n, struct err *e)
{
    unsigned char part[1 << 14];
    int got;
    *n = s->size;
    if (stream_zipped(s)) {
        for (*n = 0; *n <= STREAM_LIMIT && (got = gzread(s->f, part, sizeof part)) > 0;) *n += (uint64_t)got;
        TRY(check_end(s, e));
    }
    if (*n > STREAM_LIMIT) return fail_at(e, E_FORMAT, s->path, 0, "has more than 2^33 bytes of data");
    if (gzrewind(s->f)) return fail_at(e, E_FILE, s->path, 0, "cannot be read a second time");
    return OK;
}

int stream_check(struct stream *s, uint64_t n, struct err *e)
{
    if (n > STREAM_LIMIT) return fail_at(e, E_FORMAT, s->path, 0, "has more than 2^33 bytes of data");
    if (n <= s->size * (stream_zipped(s) ? DEFLATE_RATIO : 1)) return OK;
    return fail_at(e, E_FORMAT, s->path, 0, "is truncated: its header promises %llu bytes of data",
                   (unsigned long long)n);
}

int stream_find(char **found, const char *path, struct err *e)
{
    size_t n = strlen(path);
    int zipped = n > 3 && !strcmp(path + n - 3, ".gz");
    for (int other = 0; other < 2; other++) {
        *found = other && zipped ? mem_text(path, n - 3) : text_format("%s%s", path, other ? ".gz" : "");
        if (!*found) return fail(e, E_MEM, "not enough memory");
        if (!access(*found, F_OK)) return OK;
        mem_free(*found);
    }
    *found = NULL;
    return OK;
}
