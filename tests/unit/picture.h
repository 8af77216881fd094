/* Image files for the tests, made on the spot. */
#ifndef TESTS_PICTURE_H
#define TESTS_PICTURE_H
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

static inline int put_bytes(const char *path, const void *bytes, size_t n)
{
    FILE *f = fopen(path, "wb");
    if (!f) return -1;
    int bad = fwrite(bytes, 1, n, f) != n;
    return fclose(f) || bad ? -1 : 0;
}

static inline int put_text(const char *path, const char *text) { return put_bytes(path, text, strlen(text)); }

static inline void put_big_endian(uint8_t *to, uint32_t v)
{
    for (int i = 0; i < 4; i++) to[i] = (uint8_t)(v >> (24 - 8 * i));
}

static inline uint8_t *png_chunk(uint8_t *to, const char *type, const uint8_t *data, size_t n)
{
    put_big_endian(to, (uint32_t)n);
    memcpy(to + 4, type, 4);
    if (n) memcpy(to + 8, data, n);
    put_big_endian(to + 8 + n, (uint32_t)crc32(0, to + 4, (uInt)n + 4));
    return to + 12 + n;
}

/* rows: h rows of `row` bytes as PNG stores them (16 bit big-endian). color: 0 gray, 2 RGB, 3 palette, 4 gray
 * and alpha, 6 RGBA. palette: colours x 3 bytes or NULL. */
static inline int put_png(const char *path, int w, int h, int depth, int color, const uint8_t *rows,
                          size_t row, const uint8_t *palette, int colors)
{
    size_t n = (row + 1) * (size_t)h;
    uLongf packed = compressBound((uLong)n);
    uint8_t *raw = calloc(n + 1, 1), *z = calloc(packed + 1, 1), *png = calloc(packed + 2048, 1), *p = png;
    uint8_t head[13] = { 0 };
    if (!raw || !z || !png) return -1;
    for (int y = 0; y < h; y++) memcpy(raw + (size_t)y * (row + 1) + 1, rows + (size_t)y * row, row);
    if (compress2(z, &packed, raw, (uLong)n, 6) != Z_OK) return -1;
    put_big_endian(head, (uint32_t)w);
    put_big_endian(head + 4, (uint32_t)h);
    head[8] = (uint8_t)depth;
    head[9] = (uint8_t)color;
    memcpy(p, "\x89PNG\r\n\x1a\n", 8);
    p = png_chunk(p + 8, "IHDR", head, 13);
    if (palette) p = png_chunk(p, "PLTE", palette, (size_t)colors * 3);
    p = png_chunk(p, "IDAT", z, packed);
    p = png_chunk(p, "IEND", NULL, 0);
    int rc = put_bytes(path, png, (size_t)(p - png));
    free(raw);
    free(z);
    free(png);
    return rc;
}

/* One part of a file after the other; zipped when the path ends in .gz. */
static inline int put_packed(const char *path, const void *head, size_t m, const void *data, size_t n)
{
    size_t length = strlen(path);
    gzFile f = gzopen(path, length > 3 && !strcmp(path + length - 3, ".gz") ? "wb" : "wbT");
    if (!f) return -1;
    int bad = m && gzwrite(f, head, (unsigned)m) <= 0;
    if (n) bad |= gzwrite(f, data, (unsigned)n) <= 0;
    return gzclose(f) != Z_OK || bad ? -1 : 0;
}

/* An IDX file of bytes. */
static inline int put_idx(const char *path, int ndims, const uint32_t *dim, const uint8_t *data, size_t n)
{
    uint8_t head[20] = { 0, 0, 8, (uint8_t)ndims };
    for (int i = 0; i < ndims; i++) put_big_endian(head + 4 + 4 * i, dim[i]);
    return put_packed(path, head, 4 + 4 * (size_t)ndims, data, n);
}

/* A folder of its own for each test. */
static inline int make_folder(char *path, size_t size)
{
    snprintf(path, size, "/tmp/data-XXXXXX");
    return mkdtemp(path) ? 0 : -1;
}

static inline int remove_folder(const char *path)
{
    char command[200];
    snprintf(command, sizeof command, "rm -rf '%s'", path);
    return system(command);
}

#endif
