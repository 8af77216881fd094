/* A convolution as cuDNN is asked for it. */
#ifndef CUDA_DNN_CONV_H
#define CUDA_DNN_CONV_H

enum cudnn_pass {
    CUDNN_PASS_FORWARD, /* y = x * w */
    CUDNN_PASS_DATA,    /* gx = gy * w, transposed */
    CUDNN_PASS_WEIGHTS  /* gw = x * gy */
};

/* All int: compared byte by byte. */
struct cudnn_conv {
    int pass;                    /* enum cudnn_pass */
    int bf16;                    /* elements are bfloat16; else float */
    int tf32;                    /* float: factors may be rounded to 10 bits */
    int n, c, h, w;              /* of x */
    int filters, oh, ow;         /* of y */
    int size, dilation;          /* square window; from one cell of it to the next */
    int stride_y, stride_x, pad; /* from window to window; zeros on each side */
    int groups;
    int add; /* adds to what is there */
};

#endif
