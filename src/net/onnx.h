/* ONNX files: a net for inference, with what its images must be like. */
#ifndef NET_ONNX_H
#define NET_ONNX_H
#include "net/program.h"

struct onnx_options {
    int fold;           /* batch normalisation goes into weights and biases, else it stays an operation */
    int features;       /* a second output: what the classifier sees (net_penultimate) */
    char *const *names; /* of the classes, as many as the net has; NULL: none */
};

/* Writes the net of a program for inference as it stands: ONNX opset 17, IR version 8, float32. Input:
 * "images", N x C x H x W (N x inputs without an image), N free. Outputs: "probabilities" (of a net that does
 * not end in [softmax] "scores"), N x classes, and "features", N x numbers. The model's doc_string and
 * metadata say what images must be like; weights are named as in .safetensors. E_CFG: a layer has no form in
 * ONNX; E_ARG: the net is too large for the format. */
int onnx_save(const struct program *, const struct onnx_options *, const char *path, struct err *);

#endif
