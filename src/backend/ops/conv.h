/* Convolution. */
#ifndef BACKEND_OPS_CONV_H
#define BACKEND_OPS_CONV_H
#include "backend/linear.h"

struct conv_ops {
    struct linear_ops linear;
};

#endif
