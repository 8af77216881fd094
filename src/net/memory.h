/* Private to src/net: the memory of a program. */
#ifndef NET_MEMORY_H
#define NET_MEMORY_H
#include "net/compiled.h"

/* Once every layer is planned: decides when tensors and buffers are alive and where they lie, and fills in
 * the sizes. */
int memory_plan(struct program *, struct err *);
/* Allocates and binds. params: bytes that the parameters will take besides. A net that cannot fit is refused
 * before anything is asked for. */
int memory_allocate(struct program *, size_t params, struct err *);
void memory_free(struct program *);

#endif
