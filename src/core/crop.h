/* What loaders say and devices do: an image of the input's size that is only moved. */
#ifndef CORE_CROP_H
#define CORE_CROP_H

/* Output (x, y) is (x + left, y + top) of image number `image`, black outside; then, with mirror, left and
 * right change places. */
struct crop {
    int image, left, top, mirror;
};

#endif
