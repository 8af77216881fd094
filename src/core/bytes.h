/* Numbers in files: whole ones without sign, of at most 8 bytes, the most significant byte first or last. */
#ifndef CORE_BYTES_H
#define CORE_BYTES_H
#include <stddef.h>
#include <stdint.h>

static inline uint64_t big_endian(const void *from, size_t bytes)
{
    const uint8_t *p = (const uint8_t *)from;
    uint64_t v = 0;
    for (size_t i = 0; i < bytes; i++) v = v << 8 | p[i];
    return v;
}

static inline uint64_t little_endian(const void *from, size_t bytes)
{
    const uint8_t *p = (const uint8_t *)from;
    uint64_t v = 0;
    while (bytes-- > 0) v = v << 8 | p[bytes];
    return v;
}

#endif
