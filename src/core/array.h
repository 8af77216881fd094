/* Arrays that grow by one element at a time. */
#ifndef CORE_ARRAY_H
#define CORE_ARRAY_H
#include <stddef.h>

/* Room for one more after n elements of `size` bytes. `array` is the address of the pointer to them (NULL for
 * n 0), which doubles when n is a power of two: no capacity to keep. Nonzero without memory; the elements
 * then stay as they are. */
int array_grow(void *array, size_t n, size_t size);

#endif
