/* What [scale_channels] and [sam] have in common: the output of an earlier layer times that of the previous
 * one, then an activation. */
#ifndef NET_PRODUCT_H
#define NET_PRODUCT_H
#include "net/activate.h"

struct product {
    struct list from;
    int activation;
    int scale_wh; /* of [scale_channels] */
    struct activate activate;
};
#define PRODUCT_KEYS                                                                                         \
    REFS_KEY(product, from, "layer to multiply: -1 is the one before this, 4 the fifth of the net"),         \
        WORD_KEY(product, activation, ACT_LINEAR, act_names, "activation of the product")

/* As in struct layer_ops. in[0] is the layer that `from` names, whose shape the output has; in[1] the
 * previous one, the factors. */
int product_inputs(const struct layer *, int *at, int capacity, struct err *);
int product_build(struct layer *, struct builder *, struct err *);
int product_export(const struct layer *, struct graph *, struct err *);
int product_forward(struct layer *, const struct pass *);
int product_backward(struct layer *, const struct pass *);

#endif
