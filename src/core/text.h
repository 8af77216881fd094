/* Text files as users write them: any line ending, a byte-order mark, blanks at the ends of lines. */
#ifndef CORE_TEXT_H
#define CORE_TEXT_H
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include "err.h"

/* A descriptor to read a regular file from, and its size. Anything else (pipe, device, folder) is refused at
 * once. */
int file_open(const char *path, int *fd, uint64_t *size, struct err *);

/* The whole file plus a final 0 in *bytes (mem_free it), its length in *n. More than `limit` bytes is an
 * error. */
int file_load(const char *path, size_t limit, char **bytes, size_t *n, struct err *);

/* The same for text: a zero byte inside is an error. */
int text_load(const char *path, size_t limit, char **text, size_t *n, struct err *);

/* Walks the lines of a text in place. Each line comes without its ending and without blanks at both ends;
 * a byte-order mark is skipped. NULL at the end. Lines that are empty are returned too: callers skip them. */
struct lines {
    char *next;
    int number; /* of the line returned last, from 1 */
};
void lines_open(struct lines *, char *text);
char *lines_next(struct lines *);

/* Cuts blanks off both ends, in place. */
char *text_trim(char *);

/* strtod of the C locale: a program that uses this as a library may have another, where 0.1 is 0,1. */
double text_number(const char *s, char **end);

/* The name nearest to `word` among up to n names (an array of structs whose first such member is at `names`,
 * `stride` bytes apart; a NULL name ends it early), or NULL if none is near enough to be meant (edit distance
 * above a third of its length, at least 1). */
const char *text_nearest(const char *word, const void *names, size_t n, size_t stride);

/* A file that appears complete or not at all: written under a temporary name in the same folder, renamed by
 * file_commit. file_abort removes what was written; calling it after a commit does nothing. */
struct file {
    FILE *f;
    char *path, *temporary;
};
int file_create(struct file *, const char *path, struct err *);
int file_write(struct file *, const void *, size_t bytes, struct err *);
/* Puts what was written on the disk: afterwards there is capacity for it. For files that only make sense
 * together: flush all of them, then commit each. */
int file_flush(struct file *, struct err *);
int file_commit(struct file *, struct err *);
void file_abort(struct file *);
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
