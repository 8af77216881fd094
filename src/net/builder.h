/* Private to src/net: what layers declare while they build (the functions of struct builder in layer.h). */
#ifndef NET_BUILDER_H
#define NET_BUILDER_H
#include "net/compiled.h"

/* Builds the layers that take part, in order. creates: this is the first program of the net, and parameters
 * are declared instead of looked up. */
int builder_run(struct program *, int creates, struct err *);

#endif
