/* bfloat16: the upper half of a float. To be inlined into code for one instruction set. */
#ifndef BACKEND_CPU_BF16_H
#define BACKEND_CPU_BF16_H
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

typedef uint16_t bfloat16;

INLINE float bf16_value(bfloat16 x)
{
    uint32_t bits = (uint32_t)x << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* To the nearest, ties to even; a NaN stays one. */
INLINE bfloat16 bf16_of(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    uint32_t nan = (bits & 0x7fffffffu) > 0x7f800000u;
    return (bfloat16)((nan ? bits | 0x400000u : bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}

/* Element i of memory of either type. */
INLINE float element(const void *p, size_t i, int is_bf16)
{
    return is_bf16 ? bf16_value(((const bfloat16 *)p)[i]) : ((const float *)p)[i];
}

INLINE void put_element(void *p, size_t i, int is_bf16, float f)
{
    if (is_bf16)
        ((bfloat16 *)p)[i] = bf16_of(f);
    else
        ((float *)p)[i] = f;
}

#endif
