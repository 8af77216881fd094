#include "array.h"
#include <string.h>
#include "mem.h"

int array_grow(void *array, size_t n, size_t size)
{
    void *old, *more;
    size_t wanted;
    if (n & (n - 1)) return 0;
    memcpy(&old, array, sizeof old);
    if (mem_mul(n ? n : 1, 2, &wanted) || !(more = mem_alloc(wanted, size))) return -1;
    if (n) memcpy(more, old, n * size);
    mem_free(old);
    memcpy(array, &more, sizeof more);
    return 0;
}
