/* Weights by name, as .safetensors files. */
#ifndef NET_NAMED_H
#define NET_NAMED_H
#include "net/model.h"

/* What is in .weights, each parameter as LAYER.KIND.PARAMETER, such as 0.convolutional.weights: the number of
 * the layer, the name of its section, then weights, bias, scale, mean or variance (of [shortcut] scale: its
 * weights). Shapes: of [convolutional] filters x channels / groups x size x size, of [connected] outputs x
 * inputs, of [local] pixels x filters x cells; all others have one dimension. Type F32; the metadata hold
 * `seen`. */
int named_save(const struct net *, const char *path, struct err *);

/* Reads such a file, or the state dict of one of torchvision's classifiers (ResNet, VGG, MobileNetV2: names
 * such as layer1.0.conv1.weight), in F32, F16 or BF16, into a net that has its parameters. torchvision's
 * modules, in their order, are those layers of the cfg that have weights, in theirs: each shape must fit, and
 * nothing may be left on either side. Errors name the first that does not; the net may then be changed in
 * part. */
int named_load(struct net *, const char *path, struct err *);

#endif
