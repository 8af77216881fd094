/* What the oracle writes and the replay reads: named arrays of floats, one after the other. Each is a text
 * line "count name\n" and then `count` floats as this machine stores them; both programs run on the same one.
 */
#ifndef GOLDEN_TAPE_H
#define GOLDEN_TAPE_H
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TAPE_NAME = 64 };

struct record {
    char name[TAPE_NAME];
    size_t n;
    float *data;
};

/* Returns 0, or -1 when the disk does not take it. */
static inline int tape_put(FILE *f, const char *name, const float *data, size_t n)
{
    return fprintf(f, "%zu %s\n", n, name) > 0 && fwrite(data, sizeof *data, n, f) == n ? 0 : -1;
}

/* Reads the next record into *r, whose data the caller frees. 1: read, 0: end of file, -1: damaged file. */
static inline int tape_get(FILE *f, struct record *r)
{
    char line[TAPE_NAME + 32], *end;
    r->data = NULL;
    if (!fgets(line, sizeof line, f)) return ferror(f) ? -1 : 0;
    r->n = strtoull(line, &end, 10);
    if (*end != ' ' || !strchr(end, '\n') || r->n > ((size_t)1 << 31)) return -1;
    snprintf(r->name, sizeof r->name, "%.*s", (int)strcspn(end + 1, "\n"), end + 1);
    r->data = malloc((r->n ? r->n : 1) * sizeof *r->data);
    if (!r->data) return -1;
    if (fread(r->data, sizeof *r->data, r->n, f) == r->n) return 1;
    free(r->data);
    r->data = NULL;
    return -1;
}

#endif
