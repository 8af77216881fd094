/* Images as bytes and as floats: decoding, and the one set of resize and crop routines that training,
 * validation and prediction share. Float images are planar c x h x w in [0, 1]. */
#ifndef DATA_IMAGE_H
#define DATA_IMAGE_H
#include <stddef.h>
#include <stdint.h>
#include "core/file.h"

/* A decoded image: c planes of h x w bytes (mem_free). */
struct picture {
    uint8_t *pixels;
    int w, h;
    const char *flaw; /* what is wrong with its file although it could be decoded; NULL: nothing */
    int askew;        /* its EXIF data says to turn it, which was not asked for */
};

/* What users are told once of a path whose image is askew, unless `orient=` decides that. */
#define IMAGE_ASKEW                                                                                          \
    "%s: has an EXIF orientation, which is ignored: orient=1 in the .data file turns such images"

struct decoding {
    int c; /* planes: 1 is luma (.299 .587 .114), 3 RGB (gray is replicated) */
    /* How long the shorter side must at least be for what is to be done with it; 0: the whole image. Where
     * TurboJPEG or OpenCV is built in, a JPEG may then come at 1/2, 1/4 or 1/8 of its size (sides rounded
     * up) if that is no shorter: the same view, cheaper, and a little smoother than if it were sampled down
     * later. */
    int shorter;
    int orient; /* turn it upright, as the EXIF data of a JPEG, PNG, WebP or TIFF says */
};

/* Decodes a file: JPEG, PNG, BMP, TGA, GIF, PSD, PNM of kinds P5 and P6, and where OpenCV is built in WebP
 * and TIFF; 8 or 16 bit, gray, palette, four inks (inverted, as everybody writes them), alpha dropped. Images
 * of more than 2^28 pixels are refused before they are decoded. A JPEG that lacks nothing but its end marker
 * is decoded and has a flaw; what lacks more, or fails the checksums of PNG, is refused (E_FORMAT). */
int image_decode(const char *path, const struct decoding *, struct picture *, struct err *);
/* The same of n bytes in memory; `name` is for messages. */
int image_decode_bytes(const char *name, const void *, size_t n, const struct decoding *, struct picture *,
                       struct err *);

/* Writes w x h pixels of interleaved red, green, blue. Replaces pictures of its own only: a comment in them
 * tells. */
extern const struct file_kind image_png_kind;
int image_write_png(const char *path, const uint8_t *rgb, int w, int h, struct err *);

/* Luma of n pixels, whose red, green and blue are `step` bytes apart from one pixel to the next. */
void image_luma(const uint8_t *r, const uint8_t *g, const uint8_t *b, size_t step, size_t n, uint8_t *y);

/* A rectangle of w x h pixels in planes that may be larger. */
struct area {
    int w, h;
    size_t row, plane; /* elements from one row to the next, from one plane to the next */
};
static inline struct area area_whole(int w, int h)
{
    return (struct area){ w, h, (size_t)w, (size_t)w * (size_t)h };
}

/* A rectangle of c planes, each byte divided by `unit`, resized to another one: bilinear, corner-aligned, no
 * antialiasing, as Darknet, first horizontally, then vertically. */
int image_resize(const uint8_t *from, struct area in, int c, float unit, float *to, struct area out,
                 struct err *);

/* c planes of ih x iw bytes to h x w by area: each output is the mean of what it covers, inputs on its edge
 * counted by their share, and rounded to nearest (.5 up) once: exact whatever the sizes. When it enlarges it
 * repeats pixels. */
void image_resize_area(const uint8_t *from, int c, int iw, int ih, uint8_t *to, int w, int h);

/* What the network sees of an image where nothing is left to chance. */
enum view {
    VIEW_CENTER,    /* validation: the central square; for w != h the central rectangle of this aspect */
    VIEW_LETTERBOX, /* prediction: all of it, fitted inside, the rest gray .5 */
    VIEW_WHOLE,     /* all of it, stretched */
    VIEW_CROPS,     /* and the nine after it: stretched to VIEW_MARGIN pixels more each way, of that the four
                       corners and the middle, as they are and mirrored */
    VIEWS = VIEW_CROPS + 10
};
enum { VIEW_MARGIN = 32 };
/* c planes of ih x iw bytes to c x h x w. */
int image_view(enum view, const uint8_t *pixels, int c, int iw, int ih, int w, int h, float *x, struct err *);

#endif
