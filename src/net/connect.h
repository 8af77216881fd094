/* Private to src/net: the graph of a program, before anything is planned. */
#ifndef NET_CONNECT_H
#define NET_CONNECT_H
#include "net/compiled.h"

/* Shapes and connections only; no plans, no memory. *out is closed by the caller, also after a failure. */
int connect_program(struct program **out, struct net *, const struct program_desc *, struct err *);
/* Frees what connect_program made, and the program. */
void disconnect_program(struct program *);
/* Copies shapes, FLOPs per row and the number of classes into the model. */
void describe_model(const struct program *, struct net *);
int program_output(const struct program *); /* the last layer that is not [cost] */

#endif
