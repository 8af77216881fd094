#include "jpeg.h"
#include <string.h>
#include "data/exif.h"

struct segment {
    int type;
    const uint8_t *body;
    size_t length;
};

/* The next segment that has a length, from *at on; data of scans, padding and lone markers are passed over.
 * 0: there is none. */
static int next_segment(const uint8_t *p, size_t n, size_t *at, struct segment *s)
{
    for (; *at + 4 <= n; ++*at) {
        int type = p[*at] == 0xff ? p[*at + 1] : 0;
        if (type < 0xc0 || type == 0xff || (type >= 0xd0 && type <= 0xd9)) continue;
        size_t length = (size_t)p[*at + 2] << 8 | p[*at + 3];
        if (length < 2 || length > n - *at - 2) return 0;
        *s = (struct segment){ type, p + *at + 4, length - 2 };
        *at += 2 + length;
        return 1;
    }
    return 0;
}

static int is_frame(const struct segment *s)
{
    return s->type >= 0xc0 && s->type <= 0xcf && s->type != 0xc4 && s->type != 0xc8 && s->type != 0xcc &&
           s->length > 5;
}

struct jpeg_header jpeg_inspect(const uint8_t *p, size_t n)
{
    struct jpeg_header h = { .orientation = 1 };
    struct segment s;
    for (size_t at = 2; next_segment(p, n, &at, &s) && s.type != 0xda;) {
        if (is_frame(&s)) h.components = s.body[5];
        if (s.type == 0xee && s.length >= 12 && !memcmp(s.body, "Adobe", 5)) h.adobe = 1;
        if (s.type == 0xe1 && s.length > 6 && !memcmp(s.body, "Exif\0", 6) && h.orientation == 1)
            h.orientation = exif_orientation(s.body + 6, s.length - 6);
    }
    return h;
}

int jpeg_has_all_scans(const uint8_t *p, size_t n)
{
    enum { COMPONENTS = 4, COEFFICIENTS = 64 };
    uint8_t id[COMPONENTS], missing[COMPONENTS][COEFFICIENTS]; /* low bits that no scan has brought yet */
    struct segment s;
    int components = 0;
    memset(missing, 0xff, sizeof missing);
    for (size_t at = 2; next_segment(p, n, &at, &s);) {
        if (is_frame(&s)) {
            components = s.body[5];
            if (components > COMPONENTS || s.length < 6 + 3 * (size_t)components) return 0;
            for (int i = 0; i < components; i++) id[i] = s.body[6 + 3 * i];
        }
        size_t of_scan = s.type == 0xda && s.length ? s.body[0] : 0;
        if (!of_scan || s.length < 4 + 2 * of_scan) continue;
        const uint8_t *band = s.body + 1 + 2 * of_scan; /* first and last coefficient, bits */
        for (int i = 0; i < components; i++)
            for (size_t k = 0; k < of_scan; k++)
                for (int j = band[0]; s.body[1 + 2 * k] == id[i] && j <= band[1] && j < COEFFICIENTS; j++)
                    missing[i][j] = band[2] & 15;
    }
    for (int i = 0; i < components; i++)
        for (int j = 0; j < COEFFICIENTS; j++)
            if (missing[i][j]) return 0;
    return components > 0;
}
