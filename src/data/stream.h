/* Binary files read from front to back, gzipped or not. Nothing about them is taken on trust: what is short,
 * damaged or too long is an error that names the file. */
#ifndef DATA_STREAM_H
#define DATA_STREAM_H
#include <stdint.h>
#include <zlib.h>
#include "core/err.h"

struct stream {
    gzFile f;
    const char *path;
    uint64_t size; /* of the file as it lies there */
};
int stream_open(struct stream *, const char *path, struct err *);
void stream_close(struct stream *); /* accepts one that is zeroed, closed or failed to open */

int stream_zipped(struct stream *);

/* The next n bytes. */
int stream_read(struct stream *, void *to, uint64_t n, struct err *);

/* Nothing may follow. Only here a gzipped file is known to be whole. */
int stream_end(struct stream *, struct err *);

/* Bytes of data, counted by reading a gzipped file through; for formats whose header does not tell. Call it
 * before the first stream_read. */
int stream_length(struct stream *, uint64_t *n, struct err *);

/* Whether the file can hold the n bytes of data that its header promises: to be asked before memory is. */
int stream_check(struct stream *, uint64_t n, struct err *);

/* No file has more data than this. */
#define STREAM_LIMIT ((uint64_t)1 << 33)

/* Looks for a file with or without .gz: the name that exists, `path` itself first, or NULL in *found
 * (mem_free). */
int stream_find(char **found, const char *path, struct err *);

#endif
