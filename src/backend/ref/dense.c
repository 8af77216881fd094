/* y = W x + b, W of O x I numbers, I = c*h*w: the convolution of a map of one pixel that has I channels. */
#include "backend/ops/dense.h"
#include "ref.h"

static int plan(struct backend *be, const struct linear_desc *d, struct tensor *out, struct op_plan *p,
                struct err *e)
{
    struct tensor pixel = { .shape = { d->in->shape.n, (int)shape_row(d->in->shape), 1, 1 } };
    struct linear_desc conv = *d;
    conv.in = &pixel;
    conv.size = conv.dilation = conv.stride_y = conv.stride_x = conv.groups = 1;
    conv.pad = 0;
    return ref_conv_plan(be, &conv, out, p, e);
}

const struct dense_ops ref_dense = { { plan, ref_pack, ref_unpack, ref_unpack, ref_conv_forward,
                                       ref_conv_backward, NULL } };
