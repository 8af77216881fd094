/* The format .safetensors, read: eight bytes with the length of a header, the header, a JSON object that
 * tells name, type, shape and place of each tensor, then their numbers, little-endian, row by row. (Written
 * by named.c.) Files come from anywhere: whatever is not exactly as the format has it is refused. */
#ifndef NET_SAFETENSORS_H
#define NET_SAFETENSORS_H
#include <stdint.h>
#include "net/param.h"

enum { SAFETENSORS_RANK = 8 }; /* dimensions at most */

struct safetensor {
    char *name;
    const struct safetensor_type *type;
    int rank;
    uint64_t dims[SAFETENSORS_RANK];
    uint64_t begin, end; /* of its bytes, counted from the first behind the header */
    size_t count;        /* of its numbers */
    int used;            /* for whoever reads: some parameter has it */
};

struct safetensors {
    const char *path;
    char *header, *data;       /* all of the file; the header holds the names */
    struct safetensor *tensor; /* sorted by name */
    size_t n;
    uint64_t seen; /* images of training, where this program has written the file */
};

/* safetensors_close also after a failure. */
int safetensors_open(struct safetensors *, const char *path, struct err *);
void safetensors_close(struct safetensors *);
struct safetensor *safetensors_find(const struct safetensors *, const char *name); /* or NULL */

/* Its numbers, of type F32, F16 or BF16, as those of the parameter, whose shape it must have: all finite,
 * variances not negative. It is `used` then. */
int safetensors_get(const struct safetensors *, struct safetensor *, const struct param *, real *to,
                    struct err *);
/* An error if some tensor is not used. */
int safetensors_check_used(const struct safetensors *, const char *cfg, struct err *);

/* "64x3x7x7". */
struct safetensors_shape {
    char text[100];
};
struct safetensors_shape safetensors_shape(int rank, const uint64_t *dims);

#endif
