/* What the headers of a JPEG say beyond its size. */
#ifndef DATA_JPEG_H
#define DATA_JPEG_H
#include <stddef.h>
#include <stdint.h>

struct jpeg_header {
    int components;  /* 1 gray, 3 colour, 4 inks; 0: there is no frame header */
    int orientation; /* of EXIF, 1..8: how the rows are to be turned to be upright; 1 (as they are) without */
    int adobe;       /* there is an Adobe marker, which says what the components mean */
};

/* Reads the segments before the first scan; what is damaged there is left out. */
struct jpeg_header jpeg_inspect(const uint8_t *, size_t n);

/* Whether the scans that begin in this file are all that the image has: each coefficient of each component to
 * its last bit. */
int jpeg_has_all_scans(const uint8_t *, size_t n);

#endif
