/* Convolutions of cuDNN: N,H,W,C tensors, O,H,W,I/groups weights. tests/shim/dnn.c computes the same on the
 * host. */
#ifndef CUDA_DNN_H
#define CUDA_DNN_H
#include "backend/linear.h"
#include "device.h"
#include "dnn_conv.h"
#include "engine_file.h"

/* conv.c: does the plan of a convolution need this pass, and what does that ask of cuDNN? */
int cuda_conv_wants(const struct linear_desc *, enum cudnn_pass);
struct cudnn_conv cuda_conv_pass(const struct linear_desc *, struct shape out, enum cudnn_pass, int bf16,
                                 int tf32);

enum { CUDNN_WORKSPACE = 256 << 20 }; /* bytes that a convolution may want at most */

struct dnn;
struct cudnn_plan;

/* E_DEVICE: another cuDNN than the one this was built for, or none that works here. */
int cudnn_open(struct dnn **, stream_t, struct engine_file *, struct err *);
void cudnn_close(struct dnn *);    /* accepts NULL; after its plans are dropped */
const char *cudnn_libraries(void); /* CUDA, cuDNN, cuBLAS and their versions, as built */

/* Chooses an engine: the fastest of some when run on memory of its own, as the file of engines has it or now,
 * or with `deterministic` the first whose results do not depend on timing. Equal convolutions get the same
 * engine. *workspace: bytes that cudnn_run wants. E_DEVICE tells which convolution has none. */
int cudnn_plan(struct cudnn_plan **, struct dnn *, const struct cudnn_conv *, int deterministic,
               size_t *workspace, struct err *);
void cudnn_plan_drop(struct cudnn_plan *); /* accepts NULL */
/* In this stream. x, w, y, or their gradients in the same places; multiples of 16 bytes. */
int cudnn_run(struct cudnn_plan *, stream_t, const void *x, const void *w, const void *y, void *workspace);

#endif
