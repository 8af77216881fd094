/* A look inside a program, for tests and tools. */
#ifndef NET_PROGRAM_H
#define NET_PROGRAM_H
#include "net/net.h"

/* Layer i with its tensors: out->x, out->g (data NULL where there is no gradient). Contents are kept to the
 * end of the step only with program_desc.keep. */
const struct layer *program_layer(const struct program *, int i);
const struct value *program_input(const struct program *);

#endif
