/* How a picture is to be turned to be upright, as its camera has noted in the file. */
#ifndef DATA_EXIF_H
#define DATA_EXIF_H
#include <stddef.h>
#include <stdint.h>

/* Where the two bytes of the orientation stand in EXIF data, which is a TIFF file; 0: nowhere. */
size_t exif_find_orientation(const uint8_t *, size_t n);
/* 1..8 as in EXIF; 1 (upright) where there is none, or none that is sound. */
int exif_orientation(const uint8_t *, size_t n);
/* Of a whole PNG, WebP or TIFF file. */
int exif_orientation_of_file(const uint8_t *, size_t n);

#endif
