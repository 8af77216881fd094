/* What a convolution asks of cuDNN. */
#ifndef CUDA_CONV_H
#define CUDA_CONV_H
#include "backend/linear.h"
#include "dnn.h"

int cuda_conv_wants(const struct linear_desc *, enum cudnn_pass); /* does the plan need this pass? */
struct cudnn_conv cuda_conv_pass(const struct linear_desc *, struct shape out, enum cudnn_pass, int bf16,
                                 int tf32);

#endif
