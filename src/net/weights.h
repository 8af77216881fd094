/* Files of parameters: .weights, which is Darknet's format, and the net's part of a training state. */
#ifndef NET_WEIGHTS_H
#define NET_WEIGHTS_H
#include "core/file.h"
#include "net/model.h"

#define STATE_MAGIC "DNSTATE" /* what a training state begins with */

/* How much of a net a file must hold. */
enum weights_part {
    WEIGHTS_WHOLE,
    WEIGHTS_BEGINNING, /* it may end between two layers */
    WEIGHTS_BACKBONE,  /* the same; the last layer with weights is left out, whatever its number of outputs */
    WEIGHTS_FIRST      /* layers 0..*layers-1, whatever follows them */
};

/* Reads a .weights file. *layers gets the number of layers that were loaded, from the first on. A file that
 * ends inside a layer or has bytes left is an error, except in the last layer of a BACKBONE. What is left out
 * is noted. On failure the net is unchanged. */
int weights_load(struct net *, const char *path, enum weights_part, int *layers, struct err *);
/* Layers 0..upto-1 (n: all), written under a temporary name and renamed. */
int weights_save(const struct net *, const char *path, int upto, uint64_t seen, struct err *);
/* All of it; with ema_alpha= the averages, once they have begun. */
int weights_save_averages(struct net *, const char *path, struct err *);
uint64_t weights_floats(const struct net *); /* numbers in the file of the whole net */

/* Everything a training run needs to go on bit for bit: all parameters (also those that .weights leaves out),
 * momenta, seen, ce_average. Reading checks every size against the net and leaves it unchanged on failure. */
int net_state_write(const struct net *, struct file *, struct err *);
int net_state_read(struct net *, struct file_reader *, struct err *);

#endif
