#include "zip.h"
#include <string.h>
#include "core/bytes.h"

/* Bytes of its records, names and such apart. */
enum { LOCAL = 30, CENTRAL = 46, END = 22, END64 = 56, LOCATOR = 20 };

static int damaged(const struct zip *z, const char *what, struct err *e)
{
    return fail_at(e, E_FORMAT, z->path, 0, "is a damaged zip file: %s", what);
}

static uint64_t number(const struct zip *z, size_t at, size_t bytes)
{
    return little_endian(z->bytes + at, bytes);
}

static int is_record(const struct zip *z, uint64_t at, size_t bytes, const char *mark)
{
    return at <= z->n && bytes <= z->n - at && !memcmp(z->bytes + at, mark, 4);
}

static int is_end(const struct zip *z, size_t at)
{
    return is_record(z, at, END, "PK\5\6") && z->n - at - END == number(z, at + 20, 2);
}

/* The record of the end is at the end, before a comment of at most 65,535 bytes; in large files another one
 * has the numbers. */
int zip_open(struct zip *z, const char *path, const char *bytes, size_t n, struct err *e)
{
    const size_t first = n < END + UINT16_MAX ? 0 : n - END - UINT16_MAX;
    size_t end = n < END ? 0 : n - END;
    *z = (struct zip){ .path = path, .bytes = bytes, .n = n };
    while (end > first && !is_end(z, end)) end--;
    if (!is_end(z, end)) return damaged(z, "its end is missing", e);
    z->left = number(z, end + 10, 2);
    z->at = number(z, end + 16, 4);
    if (end < LOCATOR || !is_record(z, end - LOCATOR, LOCATOR, "PK\6\7")) return OK;
    const uint64_t other = number(z, end - LOCATOR + 8, 8);
    if (!is_record(z, other, END64, "PK\6\6")) return damaged(z, "its end is missing", e);
    z->left = number(z, (size_t)other + 32, 8);
    z->at = number(z, (size_t)other + 48, 8);
    return OK;
}

/* Values that do not fit 32 bits are in the extra field of kind 1, in this order. */
static void widen(const struct zip *z, size_t extra, size_t bytes, uint64_t *value[3])
{
    for (size_t end = extra + bytes; end - extra >= 4;) {
        const size_t kind = number(z, extra, 2), length = number(z, extra + 2, 2);
        if (length > end - extra - 4) return;
        size_t at = extra + 4;
        extra = at + length;
        for (int i = 0; i < 3 && kind == 1; i++) {
            if (*value[i] != UINT32_MAX || extra - at < 8) continue;
            *value[i] = number(z, at, 8);
            at += 8;
        }
    }
}

int zip_next(struct zip *z, struct zip_member *m, struct err *e)
{
    *m = (struct zip_member){ 0 };
    if (!is_record(z, z->at, CENTRAL, "PK\1\2")) return damaged(z, "its directory is cut", e);
    const size_t c = (size_t)z->at, name = number(z, c + 28, 2), extra = number(z, c + 30, 2);
    uint64_t packed = number(z, c + 20, 4), bytes = number(z, c + 24, 4), local = number(z, c + 42, 4);
    z->at += CENTRAL + name + extra + number(z, c + 32, 2);
    z->left--;
    if (z->at > z->n) return damaged(z, "its directory is cut", e);
    widen(z, c + CENTRAL + name, extra, (uint64_t *[]){ &bytes, &packed, &local });
    if (number(z, c + 10, 2)) return damaged(z, "a member is compressed", e);
    if (!is_record(z, local, LOCAL, "PK\3\4")) return damaged(z, "a member is missing", e);
    const size_t begin =
        (size_t)local + LOCAL + number(z, (size_t)local + 26, 2) + number(z, (size_t)local + 28, 2);
    if (begin > z->n || bytes > z->n - begin) return damaged(z, "a member is cut", e);
    *m = (struct zip_member){ z->bytes + c + CENTRAL, name, begin, (size_t)bytes };
    return OK;
}
