/* Files read whole, files that appear whole or not at all, folders to write into. */
#ifndef CORE_FILE_H
#define CORE_FILE_H
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include "err.h"

/* A descriptor to read a regular file from, and its size. Anything else (pipe, device, folder) is refused at
 * once. */
int file_open(const char *path, int *fd, uint64_t *size, struct err *);

/* The next bytes of such a descriptor plus a final 0 in *to (mem_free it). Fewer are an error. */
int file_read(int fd, const char *path, size_t bytes, char **to, struct err *);

/* The whole file plus a final 0 in *bytes (mem_free it), its length in *n. More than `limit` bytes is an
 * error. */
int file_load(const char *path, size_t limit, char **bytes, size_t *n, struct err *);

/* The same for text: a zero byte inside is an error. */
int text_load(const char *path, size_t limit, char **text, size_t *n, struct err *);

/* A file that appears complete or not at all: written under a temporary name in the same folder, renamed by
 * file_commit. file_abort removes what was written; calling it after a commit does nothing. */
struct file {
    FILE *f;
    char *path, *temporary;
};
int file_create(struct file *, const char *path, struct err *);
/* How what is written of one kind begins: bytes that no other file is likely to have there. */
struct file_kind {
    const char *name; /* "a metrics file" */
    const char *bytes;
    size_t at, n;
};
/* An error if something else is there under this name, so that a slip on the command line costs no picture
 * and no weights. An empty file is nothing. */
int file_spare_others(const char *path, const struct file_kind *, struct err *);
/* Whether it could be created; leaves nothing. For what is written after hours. */
int file_probe(const char *path, struct err *);
int file_write(struct file *, const void *, size_t bytes, struct err *);
int file_print(struct file *, struct err *, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* Puts what was written on the disk: afterwards it cannot fail for want of space. For files that only make
 * sense together: flush all of them, then commit each. */
int file_flush(struct file *, struct err *);
int file_commit(struct file *, struct err *);
void file_abort(struct file *);
/* Whether the name still stands for the open file, which somebody may have removed or replaced. */
int file_is_at(int fd, const char *path);
/* Removes what killed processes left of this file under temporary names. */
void file_sweep(const char *path);

/* A binary file in memory, read from front to back; a short read is an error that names the file. */
struct file_reader {
    const char *path;
    char *data;
    size_t n, at;
};
int reader_open(struct file_reader *, const char *path, size_t limit, struct err *);
int reader_take(struct file_reader *, void *to, size_t bytes, struct err *);
void reader_close(struct file_reader *);

/* Creates the folder if it is missing and proves that a file can be written in it. */
int folder_prepare(const char *path, struct err *);

#endif
