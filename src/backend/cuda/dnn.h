/* Convolutions of cuDNN, by its graph API: N,H,W,C tensors, O,H,W,I/groups weights. dnn.c is cuDNN;
 * tests/shim/dnn.c computes the same on the host. */
#ifndef CUDA_DNN_H
#define CUDA_DNN_H
#include "device.h"

enum dnn_pass {
    DNN_FORWARD, /* y = x * w */
    DNN_DATA,    /* gx = gy * w, transposed */
    DNN_WEIGHTS  /* gw = x * gy */
};

struct dnn_conv {
    enum dnn_pass pass;
    int bf16;              /* elements are bfloat16; else float */
    int tf32;              /* float: factors may be rounded to 10 bits */
    int n, c, h, w;        /* of x */
    int filters, oh, ow;   /* of y */
    int size, stride, pad; /* square window; zero padding on each side */
    int groups;
    int add; /* adds to what is there */
};

struct dnn;
struct dnn_plan;

int dnn_open(struct dnn **, stream_t, struct err *);
void dnn_close(struct dnn *);    /* accepts NULL */
const char *dnn_libraries(void); /* CUDA, cuDNN, cuBLAS and their versions, as built */

/* Chooses an engine: the fastest of some when run on memory of its own, or with `deterministic` the first
 * whose results do not depend on timing. *workspace: bytes that dnn_run wants. E_DEVICE tells which
 * convolution has none. */
int dnn_plan(struct dnn_plan **, struct dnn *, const struct dnn_conv *, int deterministic, size_t *workspace,
             struct err *);
void dnn_plan_drop(struct dnn_plan *); /* accepts NULL */
/* x, w, y, or their gradients in the same places. */
int dnn_run(const struct dnn_plan *, const void *x, const void *w, const void *y, void *workspace);

#endif
