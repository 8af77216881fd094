/* [scale_channels]: the output of an earlier layer, each channel times a value of the previous layer's
 * (squeeze and excitation), or each pixel with scale_wh=1. AlexeyAB's divides the gradient of the factors by
 * the number of pixels; here it is the derivative. */
#include "net/product.h"

static const struct key keys[] = {
    PRODUCT_KEYS,
    INT_KEY(product, scale_wh, 0, 0, 1, "1: a factor for each pixel instead of each channel"),
    { 0 },
};

static const char *const examples[] = {
    "[avgpool]\n[connected]\noutput=8\nactivation=logistic\n[scale_channels]\nfrom=-3\nactivation=leaky",
    "[convolutional]\nfilters=1\nactivation=logistic\n[scale_channels]\nfrom=-2\nscale_wh=1\nactivation="
    "swish",
    NULL,
};

static int shape(struct layer *l, struct shape *out, struct err *e)
{
    const struct product *s = l->self;
    struct shape b = l->in[1]->x.shape;
    *out = l->in[0]->x.shape;
    if (s->scale_wh ? b.c == 1 && b.h == out->h && b.w == out->w : b.c == out->c && b.h == 1 && b.w == 1)
        return OK;
    return layer_fail(l, e, "cannot scale %dx%dx%d by %dx%dx%d: expected factors of %dx%dx%d", out->w, out->h,
                      out->c, b.w, b.h, b.c, s->scale_wh ? out->w : 1, s->scale_wh ? out->h : 1,
                      s->scale_wh ? 1 : out->c);
}

const struct layer_ops layer_scale_channels = {
    .name = "scale_channels",
    .help = "an earlier layer times the previous one's values, one a channel",
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
