/* Training augmentation, a function of one key: Darknet's rotate-scale-crop, mirror and HSV jitter in its
 * order (darknet-style keys of [net]), and the padded random crop. */
#ifndef DATA_AUGMENT_H
#define DATA_AUGMENT_H
#include <stdint.h>
#include "core/err.h"
#include "core/crop.h"

struct augment {
    int w, h, c;            /* of the network */
    int min_crop, max_crop; /* length of the shorter side after scaling, pixels; 0: w. For w != h "shorter"
                               is measured in the crop's shape: w just covers it */
    double angle, aspect, hue, saturation, exposure;
    int flip;       /* mirror with probability 1/2 */
    int pad_crop;   /* > 0: instead of scaling, pad by so many black pixels, crop at random */
    int letter_box; /* crops are of the whole image, amid as much gray as gives it the input's shape */
    int blur;       /* > 0: the width in pixels of the kernel that blurs a quarter of the images */
    int mix;        /* enum mix: what the loader makes of several images */
    double mean[4], std[4]; /* per channel, on [0, 1]; std 0: no normalisation */
};

/* Makes the network's input (c x h x w) from decoded bytes (c planes of ih x iw), normalised. key decides
 * everything. An image of exactly w x h without any augmentation is passed through unchanged (divided by
 * 255). One channel: of the colours only exposure applies. */
int augment_image(const struct augment *, uint64_t key, const uint8_t *pixels, int iw, int ih, float *x,
                  struct err *);

/* Blurs x, what augment_image made or what was mixed of it, if this key does: by the Gaussian that OpenCV
 * chooses for the width (made odd), sigma = .3 ((width - 1) / 2 - 1) + .8, edges reflected. */
int augment_blur(const struct augment *, uint64_t key, float *x, struct err *);

/* Where augment_image only moves and mirrors images of this size, whatever the key (and normalises): then
 * output (x, y) is source (x + left, y + top), black outside, and with *mirror left and right change places.
 */
int augment_only_moves(const struct augment *, int iw, int ih);
void augment_move(const struct augment *, uint64_t key, struct crop *);

/* How long the shorter side of an image must be for augment_image not to enlarge any of its pixels under this
 * key: a smaller version of the image that keeps to it (image_decode's `shorter`) serves as well. What is
 * cut, turned and mirrored is chosen in proportion to the image's size, so the key shows the same view of
 * either. */
int augment_shorter(const struct augment *, uint64_t key);

/* What it does with the channels: (x - mean) * scale, in float. */
void augment_normaliser(const struct augment *, float mean[4], float scale[4]);
/* (x - mean) / std per channel, in place; what validation and prediction apply too. */
void augment_normalise(const struct augment *, float *x);

#endif
