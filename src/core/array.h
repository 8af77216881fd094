/* Arrays that grow by one element at a time. */
#ifndef CORE_ARRAY_H
#define CORE_ARRAY_H
#include <stddef.h>

/* Makes room for one more after n elements of `size` bytes. `array` is the address of the pointer to them
 * (NULL for n 0). The memory doubles whenever n is a power of two, so there is no capacity to keep. Nonzero
 * when memory is short; the elements then stay as they are. */
int array_grow(void *array, size_t n, size_t size);

#endif
