/* The engines that timing chose for convolutions, kept in a file from run to run: timing them again costs
 * seconds, and may end otherwise. By card, versions and shape; the file is a cache, which may be deleted. */
#ifndef CUDA_ENGINE_FILE_H
#define CUDA_ENGINE_FILE_H
#include <stddef.h>
#include "core/err.h"
#include "dnn_conv.h"

struct engine_file;

/* Which of the engines that qualify, and by what to know that they are still the same. */
struct stored_engine {
    int candidate;       /* in the order of the heuristics, from 0 */
    long long engine;    /* its number in cuDNN */
    long long workspace; /* bytes */
};

/* The file is DARKNET_ENGINES in the environment (empty: none), else darknet-itra/engines in the user's
 * cache. What it holds of this card with these libraries is found; one that is damaged or something else is
 * told in `note` (else ""), and left alone if it is something else. */
int engine_file_open(struct engine_file **, const char *card, const char *libraries, char *note, size_t size,
                     struct err *);
void engine_file_close(struct engine_file *); /* accepts NULL */

/* Whether there is one. */
int engine_file_find(const struct engine_file *, const struct cudnn_conv *, struct stored_engine *);
/* Puts it into the file at once, whole or not at all, beside what others have put there meanwhile. It is only
 * a cache: what fails is not told. */
void engine_file_put(struct engine_file *, const struct cudnn_conv *, const struct stored_engine *);

#endif
