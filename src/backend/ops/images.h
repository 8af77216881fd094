/* A data set whose images stay on the device. Where a backend has no such operation the loader makes the
 * images. */
#ifndef BACKEND_OPS_IMAGES_H
#define BACKEND_OPS_IMAGES_H
#include "backend/backend.h"
#include "core/crop.h"

struct images_desc {
    const uint8_t *pixels; /* host: n x c x h x w; copied */
    int n, c, h, w;
    const float *mean, *scale; /* c of each: what the net gets is (pixel / 255 - mean) * scale */
};
struct images_ops {
    int (*plan)(struct backend *, const struct images_desc *, struct op_plan *, struct err *);
    /* The first rows of a tensor of the image's kind (see backend_ops.image): one crop a row, in backend
     * memory. */
    int (*show)(const struct op_plan *, const struct crop *, int rows, struct tensor *);
};

#endif
