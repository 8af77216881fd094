/* Fully connected: every output from every input. */
#ifndef BACKEND_OPS_DENSE_H
#define BACKEND_OPS_DENSE_H
#include "backend/linear.h"

struct dense_ops {
    struct linear_ops linear;
};

#endif
