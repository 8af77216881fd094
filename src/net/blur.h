/* The key antialiasing=: a layer steps by one pixel, and a blur behind it takes its strides (Zhang 2019,
 * Making convolutional networks shift-invariant again). The blur is AlexeyAB's: of 3x3 pixels with zeros
 * outside the map, or of 2x2 inside it. */
#ifndef NET_BLUR_H
#define NET_BLUR_H
#include "net/layer.h"

struct blur {
    int antialiasing; /* 0: no blur; 1: 3x3; 2: 2x2 */
    /* The rest is blur.c's. */
    int stride_y, stride_x;
    struct value sharp;   /* what the layer itself makes */
    struct buffer *x, *g; /* memory of sharp */
};

/* For a struct with a member `blur`. */
#define BLUR_KEY(T)                                                                                          \
    {                                                                                                        \
        "antialiasing", KEY_INT, offsetof(struct T, blur.antialiasing), 0, 0, 2, NULL,                       \
            "strides are taken by a blur of 3x3 (1) or 2x2 (2) pixels behind the layer (0: no blur)"         \
    }

/* *out: the shape with strides of 1, which becomes that of the blurred output. */
int blur_shape(struct blur *, struct layer *, int stride_y, int stride_x, struct shape *out, struct err *);
/* The same as `inner`, which is the layer's without a blur, and with it where there is one. */
int blur_build(struct blur *, struct layer *, struct builder *,
               int (*inner)(struct layer *, struct builder *, struct err *), struct err *);
/* The map, blurred if it is to be. */
struct graph;
int blur_export(const struct blur *, const struct layer *, struct graph *, int map);
int blur_forward(struct blur *, struct layer *, const struct pass *,
                 int (*inner)(struct layer *, const struct pass *));
int blur_backward(struct blur *, struct layer *, const struct pass *,
                  int (*inner)(struct layer *, const struct pass *));

#endif
