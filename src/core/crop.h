/* How an image that already has the size of the input is shifted and mirrored: the loader chooses, the device
 * does it. */
#ifndef CORE_CROP_H
#define CORE_CROP_H

/* Output (x, y) is (x + left, y + top) of image number `image`, black outside; with mirror, left and right
 * are then exchanged. */
struct crop {
    int image, left, top, mirror;
};

#endif
