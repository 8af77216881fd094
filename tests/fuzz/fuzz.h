/* Fuzz targets, one a file. scripts/fuzz.sh builds each for libFuzzer, which knows its function as
 * LLVMFuzzerTestOneInput; replay.c runs the committed corpus through all of them in ordinary builds. */
#ifndef FUZZ_H
#define FUZZ_H
#define _GNU_SOURCE /* memfd_create, memmem: include this file first */
#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "core/err.h"

/* Takes n bytes of input; returns 0, or -1 for what should not become part of the corpus. */
int fuzz_cfg(const uint8_t *bytes, size_t n);
int fuzz_data(const uint8_t *bytes, size_t n);
int fuzz_image(const uint8_t *bytes, size_t n);
int fuzz_packed(const uint8_t *bytes, size_t n);
int fuzz_state_dict(const uint8_t *bytes, size_t n);
int fuzz_weights(const uint8_t *bytes, size_t n);

/* A file in memory with a path, for what reads files only. */
struct fuzz_file {
    int fd;
    char path[40];
};

static inline int fuzz_file_open(struct fuzz_file *f, const uint8_t *bytes, size_t n)
{
    f->fd = memfd_create("fuzz", MFD_CLOEXEC);
    if (f->fd < 0) return -1;
    snprintf(f->path, sizeof f->path, "/proc/self/fd/%d", f->fd);
    if (write(f->fd, bytes, n) == (ssize_t)n) return 0;
    close(f->fd);
    return -1;
}

/* What holds for every failure: a code, and one line of text. */
static inline void fuzz_check(int rc, const struct err *e)
{
    assert(rc <= 0);
    if (rc) assert(e->code == rc && *e->msg && !strchr(e->msg, '\n') && strlen(e->msg) < sizeof e->msg);
}

#endif
