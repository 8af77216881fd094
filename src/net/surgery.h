/* Weights turned into those of another net that computes the same, or of the same net for other images. */
#ifndef NET_SURGERY_H
#define NET_SURGERY_H
#include "net/model.h"

/* Both nets have the same layers, of which one may be batch-normalised where the other is not, and their
 * parameters exist (a program was opened). */
enum surgery {
    SURGERY_COPY,    /* as it is; normalisations that only `to` has change nothing */
    SURGERY_FOLD,    /* normalisations go into weights and biases; where `to` has some, they change nothing */
    SURGERY_RESCALE, /* a net for images of -1..1 becomes one for 0..1: its first convolution sees 2 x - 1 */
    SURGERY_SWAP     /* a net for RGB becomes one for BGR, or back: the channels of its first convolution */
};

/* SURGERY_SWAP and SURGERY_RESCALE need a net that surgery_image_weights accepts, SURGERY_SWAP one with three
 * channels. */
int surgery(struct net *to, const struct net *from, enum surgery, struct err *);

/* The weights of the first convolution, if that is the first layer with weights: filters x channels of the
 * image x size x size. E_ARG if it is not. */
int surgery_image_weights(const struct net *, struct param **, struct err *);

/* What a parameter is: "weights", "bias", "scale", "mean", "variance". */
const char *surgery_param_name(const struct param *);
/* That, behind the layer and its section: "0.convolutional.weights". */
struct surgery_name {
    char text[96];
};
struct surgery_name surgery_full_name(const struct param *);

/* to = a to + b from, each of their parameters; from may be NULL. */
int surgery_blend(struct net *to, const struct net *from, double a, double b, struct err *);

#endif
