/* [sam]: the output of an earlier layer times the previous layer's, element by element (spatial attention).
 */
#include "net/product.h"

static const struct key keys[] = { PRODUCT_KEYS, { 0 } };

static const char *const examples[] = {
    "[convolutional]\nfilters=8\nactivation=logistic\n[sam]\nfrom=-2",
    "[convolutional]\nfilters=8\nactivation=logistic\n[sam]\nfrom=-3\nactivation=mish",
    "[convolutional]\nfilters=8\nactivation=logistic\n[sam]\nfrom=-1\nactivation=tanh",
    NULL,
};

static int shape(struct layer *l, struct shape *out, struct err *e)
{
    struct shape b = l->in[1]->x.shape;
    *out = l->in[0]->x.shape;
    if (b.c == out->c && b.h == out->h && b.w == out->w) return OK;
    return layer_fail(l, e, "cannot multiply %dx%dx%d by %dx%dx%d: expected the same shape", out->w, out->h,
                      out->c, b.w, b.h, b.c);
}

const struct layer_ops layer_sam = {
    .name = "sam",
    .help = "an earlier layer times the previous one, element by element",
    .size = sizeof(struct product),
    .keys = keys,
    .examples = examples,
    .inputs = product_inputs,
    .shape = shape,
    .build = product_build,
    .forward = product_forward,
    .backward = product_backward,
    .export = product_export,
};
