/* Between image_decode and the libraries that know image formats. src/data/decoders has a file for each; the
 * Makefile says which are built in and in which order they are asked. */
#ifndef DATA_DECODER_H
#define DATA_DECODER_H
#include <stddef.h>
#include <stdint.h>
#include "core/bytes.h"
#include "core/err.h"

/* An image file in memory, and its size in pixels as its header says. */
struct encoded {
    const char *path; /* for messages */
    const uint8_t *x;
    size_t n;
    int w, h;
    /* A kind that stb_image does not know; w and h are 0 then. NULL: it knows it. */
    const struct foreign {
        const char *name, *head;
        size_t at, n;       /* where the n bytes of head stand */
        int by_opencv;      /* OpenCV reads it */
        const char *remedy; /* NULL: a conversion */
    } * foreign;
};

/* Interleaved samples as decoded. */
struct raw {
    int w, h, n;      /* n samples a pixel: gray, gray and alpha, RGB, RGBA */
    uint8_t *x;       /* of mem_alloc */
    const char *flaw; /* what is wrong with a file that could be decoded all the same; or NULL */
    int askew;        /* its EXIF data says to turn it */
};

enum { DECODER_PASSES = 1 };

/* Videos; for a path of NULL, camera number `camera`. next leaves r->x NULL behind the last frame; `name` is
 * for its messages. */
struct video_ops {
    int (*open)(void **stream, const char *path, int camera, struct err *);
    int (*next)(void *stream, const char *name, struct raw *r, struct err *);
    long (*count)(void *stream); /* frames, as the file says; 0: it does not. NULL: never known */
    void (*close)(void *stream);
};

/* decode fills *raw, or returns DECODER_PASSES (and leaves *raw alone) for what it does not know or cannot do
 * without a complaint. The last decoder, stb_image, passes on foreign kinds only: whatever is built in, of
 * all others the same files are images and the same ones are damaged, in the same words. `shorter` is
 * image_decode's. Any thread may call. */
struct decoder {
    const char *name;
    const char *(*version)(void); /* of the library, and what it is asked about; for `darknet version` */
    int (*decode)(const struct encoded *, int shorter, struct raw *, struct err *);
    const struct video_ops *video; /* NULL: it knows images only */
};

const struct decoder *decoder_at(int i); /* NULL behind the last */
int decoder_has_opencv(void);

/* Fills w, h and foreign; an error says why these bytes are no image, or that it has too many pixels. */
int encoded_inspect(struct encoded *, struct err *);
/* To c planes: 1 luma, 3 RGB. */
void raw_planes(const struct raw *, int c, uint8_t *to);
struct picture;
/* The same, allocated, with the rest of a picture. */
int raw_picture(const struct raw *, int c, const char *path, struct picture *, struct err *);
int image_check_size(int64_t w, int64_t h, const char *path, struct err *);

static inline int is_jpeg(const uint8_t *p, size_t n) { return n > 2 && p[0] == 0xff && p[1] == 0xd8; }

/* By how much a JPEG may be reduced for `shorter` while it is decoded: 1, 2, 4 or 8, sides rounded up.
 * libjpeg knows every eighth, but has fast code for these only: 6/8 of a 500x375 photograph takes 1.55 ms,
 * all of it 1.33 ms, 4/8 1.17 ms. */
static inline int jpeg_reduction(const struct encoded *f, int shorter)
{
    int side = f->w < f->h ? f->w : f->h, by = shorter > 0 ? 8 : 1;
    while (by > 1 && (side + by - 1) / by < shorter) by /= 2;
    return by;
}

/* A sample of 0..most as a byte, rounded. */
static inline uint8_t byte_of(unsigned v, unsigned most) { return (uint8_t)((v * 255u + most / 2) / most); }

#endif
