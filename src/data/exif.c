#include "exif.h"
#include <string.h>
#include "core/bytes.h"

static size_t number(const uint8_t *p, size_t bytes, int little)
{
    return little ? little_endian(p, bytes) : big_endian(p, bytes);
}

/* The value of entry 0x0112 of the first directory. */
size_t exif_find_orientation(const uint8_t *p, size_t n)
{
    if (n < 8) return 0;
    int little = p[0] == 'I';
    size_t at = number(p + 4, 4, little);
    if (at > n || n - at < 2) return 0;
    size_t entries = number(p + at, 2, little);
    for (at += 2; entries && n - at >= 12; entries--, at += 12)
        if (number(p + at, 2, little) == 0x0112) return at + 8;
    return 0;
}

int exif_orientation(const uint8_t *p, size_t n)
{
    size_t at = exif_find_orientation(p, n), v = at ? number(p + at, 2, p[0] == 'I') : 1;
    return v >= 1 && v <= 8 ? (int)v : 1;
}

/* The chunks of PNG are length, type, data, checksum, those of WebP type, length, data up to an even byte. */
static int of_chunks(const uint8_t *p, size_t n, int webp)
{
    enum { HEAD = 8 };
    for (size_t at = webp ? 12 : 8; at < n && n - at >= HEAD;) {
        const uint8_t *x = p + at + HEAD;
        size_t length = number(p + at + (webp ? 4 : 0), 4, webp);
        if (length > n - at - HEAD) return 1;
        if (!memcmp(p + at + (webp ? 0 : 4), webp ? "EXIF" : "eXIf", 4)) {
            size_t skip = length > 6 && !memcmp(x, "Exif\0", 6) ? 6 : 0; /* as in a JPEG */
            return exif_orientation(x + skip, length - skip);
        }
        at += HEAD + length + (webp ? length % 2 : 4);
    }
    return 1;
}

int exif_orientation_of_file(const uint8_t *p, size_t n)
{
    if (n < 16) return 1;
    if (!memcmp(p, "\x89PNG\r\n\x1a\n", 8)) return of_chunks(p, n, 0);
    if (!memcmp(p, "RIFF", 4) && !memcmp(p + 8, "WEBP", 4)) return of_chunks(p, n, 1);
    if (!memcmp(p, "II*\0", 4) || !memcmp(p, "MM\0*", 4)) return exif_orientation(p, n);
    return 1;
}
