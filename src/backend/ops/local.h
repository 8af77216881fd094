/* Locally connected map: a convolution whose every output pixel has weights and biases of its own. */
#ifndef BACKEND_OPS_LOCAL_H
#define BACKEND_OPS_LOCAL_H
#include "backend/linear.h"

/* Host weights are in the order of pixels, O, I, H, W; biases in that of the output, O and pixels. dilation
 * and groups are 1; below and to the right of the map there is as much padding as the last windows want. */
struct local_ops {
    struct linear_ops linear;
};

#endif
