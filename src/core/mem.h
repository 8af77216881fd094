/* The one place host memory comes from. */
#ifndef CORE_MEM_H
#define CORE_MEM_H
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* `count` zeroed elements of `size` bytes, aligned to 64 bytes; NULL when memory is short or the product
 * overflows. A count of 0 gives a valid pointer. Release with mem_free. */
void *mem_alloc(size_t count, size_t size);

/* Accepts NULL. */
void mem_free(void *);

/* A copy of n bytes of text plus a final 0, or NULL. */
char *mem_text(const char *text, size_t n);

/* Bytes of memory the machine could still give, roughly (SIZE_MAX: unknown). */
size_t mem_free_bytes(void);

/* *out = a * b (mem_mul) or a + b (mem_add); 0 on success, nonzero when the result does not fit. */
int mem_mul(size_t a, size_t b, size_t *out);
int mem_add(size_t a, size_t b, size_t *out);

#ifdef __cplusplus
}
#endif
#endif
