/* A state dict: tensors by name, as other programs keep the weights of a net. Read from .safetensors files
 * and from those that PyTorch's torch.save writes; .safetensors are written by named.c. Files come from
 * anywhere: whatever is not as its format has it is refused. */
#ifndef NET_STATE_DICT_H
#define NET_STATE_DICT_H
#include <stdint.h>
#include "net/param.h"

enum { STATE_RANK = 8 }; /* dimensions at most */

enum state_kind { STATE_OTHER, STATE_F32, STATE_F16, STATE_BF16 }; /* OTHER: nobody reads its numbers */
struct state_type {
    const char *name; /* "F32", as .safetensors has it */
    size_t bytes;     /* of a number */
    enum state_kind kind;
};

struct state_tensor {
    char *name;
    const struct state_type *type;
    int rank;
    uint64_t dims[STATE_RANK], stride[STATE_RANK]; /* stride: in numbers */
    uint64_t begin;                                /* of its first number in data */
    size_t count;                                  /* of its numbers */
    int used;                                      /* for whoever reads: some parameter has it */
};

struct state_dict {
    const char *path;
    char *names, *data;          /* all of the file; names: NULL where they are in data */
    struct state_tensor *tensor; /* sorted by name, and no two of one */
    size_t n;
    uint64_t seen; /* images of training, where this program has written the file */
};

/* What the file is, its first bytes tell. state_dict_close also after a failure. */
int state_dict_open(struct state_dict *, const char *path, struct err *);
void state_dict_close(struct state_dict *);
struct state_tensor *state_dict_find(const struct state_dict *, const char *name); /* or NULL */

/* Its numbers, of type F32, F16 or BF16, as those of the parameter, whose shape it must have: all finite,
 * variances not negative. It is `used` then. */
int state_dict_get(const struct state_dict *, struct state_tensor *, const struct param *, real *to,
                   struct err *);
/* An error if some tensor is not used. */
int state_dict_check_used(const struct state_dict *, const char *cfg, struct err *);

/* ---- for readers of formats ---- */

const struct state_type *state_type(const char *name); /* or NULL */
/* One more. */
int state_dict_add(struct state_dict *, const struct state_tensor *, struct err *);
/* count and stride from the dimensions, row by row. Nonzero: more bytes than there can be. */
int state_tensor_measure(struct state_tensor *, size_t *bytes);

/* "64x3x7x7". */
struct state_shape {
    char text[100];
};
struct state_shape state_shape(int rank, const uint64_t *dims);

/* Fill in names, data, tensors and `seen` from the file, of so many bytes, from its first one on. */
int safetensors_read(struct state_dict *, int fd, uint64_t size, struct err *);
int pth_read(struct state_dict *, int fd, uint64_t size, struct err *);

#endif
